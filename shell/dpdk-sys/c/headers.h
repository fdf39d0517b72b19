/* What of DPDK's interface the bindings cover. */
#include <stdio.h>
#include <rte_config.h>
#include <rte_bus.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_memory.h>
#include <rte_mempool.h>
#include <rte_memzone.h>
#include <rte_thread.h>
#include <rte_version.h>
#include <rte_vhost.h>
#include "shim.h"

/* Constants that are casts in DPDK's headers, which bindings leave out. */
#define CONSTANT(NAME) static const uint64_t SLUICE_##NAME = NAME
CONSTANT(RTE_ETH_RX_OFFLOAD_CHECKSUM);
CONSTANT(RTE_ETH_RX_OFFLOAD_SCATTER);
CONSTANT(RTE_ETH_TX_OFFLOAD_IPV4_CKSUM);
CONSTANT(RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE);
CONSTANT(RTE_ETH_TX_OFFLOAD_MULTI_SEGS);
CONSTANT(RTE_ETH_TX_OFFLOAD_TCP_CKSUM);
CONSTANT(RTE_ETH_TX_OFFLOAD_TCP_TSO);
CONSTANT(RTE_ETH_TX_OFFLOAD_UDP_CKSUM);
CONSTANT(RTE_MBUF_F_TX_IPV4);
CONSTANT(RTE_MBUF_F_TX_IPV6);
CONSTANT(RTE_MBUF_F_TX_L4_MASK);
CONSTANT(RTE_MBUF_F_TX_TCP_CKSUM);
CONSTANT(RTE_MBUF_F_TX_TCP_SEG);
CONSTANT(RTE_MBUF_F_TX_UDP_CKSUM);
CONSTANT(RTE_MBUF_F_RX_L4_CKSUM_NONE);
CONSTANT(RTE_MBUF_F_RX_LRO);
CONSTANT(RTE_MBUF_F_EXTERNAL);
CONSTANT(RTE_MBUF_F_INDIRECT);
CONSTANT(RTE_VHOST_USER_ASYNC_COPY);
CONSTANT(RTE_VHOST_USER_CLIENT);
CONSTANT(RTE_VHOST_USER_EXTBUF_SUPPORT);
CONSTANT(RTE_VHOST_USER_IOMMU_SUPPORT);
CONSTANT(RTE_VHOST_USER_LINEARBUF_SUPPORT);
CONSTANT(RTE_VHOST_USER_NET_COMPLIANT_OL_FLAGS);
CONSTANT(RTE_VHOST_USER_NET_STATS_ENABLE);
CONSTANT(RTE_VHOST_USER_NO_RECONNECT);
CONSTANT(RTE_VHOST_USER_POSTCOPY_SUPPORT);
