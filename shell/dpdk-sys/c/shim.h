/* Calls to what DPDK has only as inline functions: one call per burst, never one per packet. */
#ifndef SLUICE_SHIM_H
#define SLUICE_SHIM_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
struct rte_mbuf;
struct rte_mempool;

uint16_t sluice_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
uint16_t sluice_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
/* How many of the first the driver can send as they are left undone; their checksums are as it wants them. */
uint16_t sluice_tx_prepare(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n);
/* 0, or a negative error number: all or none. */
int sluice_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned n);
/* NULL where there is none. */
struct rte_mbuf *sluice_alloc(struct rte_mempool *pool);
void sluice_free_bulk(struct rte_mbuf **mbufs, unsigned n);
/* State of a port's link; speed in Mbps. */
struct sluice_link {
    uint32_t speed;
    bool up;
    bool full_duplex;
    bool autoneg;
};
/* 0, or a negative error number. */
int sluice_link(uint16_t port, struct sluice_link *link);
/* rte_errno of this thread. */
int sluice_errno(void);
uint64_t sluice_tsc(void);
/* rte_lcore_id of this thread; UINT32_MAX for a thread that is not registered. */
unsigned sluice_lcore_id(void);
/* Whether the allocator's heap of a node (-1: any) would give so much in one piece. */
bool sluice_heap_has(size_t bytes, int node);

#endif
