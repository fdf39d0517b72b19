#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include "shim.h"

/* rte_mbuf as src/lib.rs has it. */
#define AT(FIELD, OFFSET) _Static_assert(offsetof(struct rte_mbuf, FIELD) == (OFFSET), #FIELD)
AT(buf_addr, 0);
AT(data_off, 16);
AT(refcnt, 18);
AT(nb_segs, 20);
AT(ol_flags, 24);
AT(pkt_len, 36);
AT(data_len, 40);
AT(buf_len, 54);
AT(pool, 56);
AT(next, 64);
AT(tx_offload, 72);
AT(shinfo, 80);
_Static_assert(sizeof(struct rte_mbuf) == 128, "rte_mbuf");
_Static_assert(RTE_MBUF_L3_LEN_OFS == 7 && RTE_MBUF_L4_LEN_OFS == 16 && RTE_MBUF_TSO_SEGSZ_OFS == 24 &&
               RTE_MBUF_TSO_SEGSZ_BITS == 16, "tx_offload");

uint16_t sluice_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
    return rte_eth_rx_burst(port, queue, mbufs, n);
}

uint16_t sluice_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
    return rte_eth_tx_burst(port, queue, mbufs, n);
}

uint16_t sluice_tx_prepare(uint16_t port, uint16_t queue, struct rte_mbuf **mbufs, uint16_t n)
{
    return rte_eth_tx_prepare(port, queue, mbufs, n);
}

int sluice_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **mbufs, unsigned n)
{
    return rte_pktmbuf_alloc_bulk(pool, mbufs, n);
}

struct rte_mbuf *sluice_alloc(struct rte_mempool *pool)
{
    return rte_pktmbuf_alloc(pool);
}

void sluice_free_bulk(struct rte_mbuf **mbufs, unsigned n)
{
    rte_pktmbuf_free_bulk(mbufs, n);
}

int sluice_link(uint16_t port, struct sluice_link *link)
{
    struct rte_eth_link raw = {0};
    int error = rte_eth_link_get_nowait(port, &raw);

    link->speed = raw.link_speed;
    link->up = raw.link_status;
    link->full_duplex = raw.link_duplex;
    link->autoneg = raw.link_autoneg;
    return error;
}

int sluice_errno(void)
{
    return rte_errno;
}

uint64_t sluice_tsc(void)
{
    return rte_rdtsc();
}

unsigned sluice_lcore_id(void)
{
    return rte_lcore_id();
}

bool sluice_heap_has(size_t bytes, int node)
{
    void *piece = rte_malloc_socket(NULL, bytes, RTE_CACHE_LINE_SIZE, node);

    rte_free(piece);
    return piece != NULL;
}

/* Compared with the program's own when it loads this object. */
const char *sluice_dpdk_build(void)
{
    return SLUICE_DPDK_BUILD;
}
