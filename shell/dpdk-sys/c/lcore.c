/* Two thread-local variables of DPDK, for libsluice-lcore.so: the thread's number ("lcore") and the error of its last call.
 *
 * DPDK's memory pools read the number for every buffer that a driver frees. As a variable of the shared object that holds DPDK
 * it costs a call of the C library each time, because the thread-local data of DPDK (4.5 KB) does not fit into the space that
 * the C library keeps for objects loaded later. The 8 bytes of this object fit. It is mapped first, and for later objects to
 * see (RTLD_GLOBAL), so its definitions are taken instead of DPDK's, and a read is one load at a fixed distance from the
 * thread pointer (the model "initial exec"; build.rs asks the linker for it). */
#include <rte_errno.h>
#include <rte_lcore.h>

RTE_DEFINE_PER_LCORE(unsigned, _lcore_id) = LCORE_ID_ANY;
RTE_DEFINE_PER_LCORE(int, _rte_errno);
