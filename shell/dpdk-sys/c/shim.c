#include <rte_cycles.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include "shim.h"

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
