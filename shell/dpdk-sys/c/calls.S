/* One function for each of DPDK's that Rust calls: it jumps to the address in the function's slot of a table.
 * src/library.rs fills the table from the shared object; until then every slot leads to `sluice_dpdk_absent`.
 * `names.h`, which build.rs writes from the bindings, has CALL(number, name) for each function. */
#if defined(__x86_64__)
#define JUMP(NUMBER) jmp *(sluice_dpdk_slots + 8 * NUMBER)(%rip)
#elif defined(__aarch64__)
/* x16 is free between a call and its function (AAPCS64). */
#define JUMP(NUMBER) adrp x16, sluice_dpdk_slots + 8 * NUMBER; ldr x16, [x16, :lo12:sluice_dpdk_slots + 8 * NUMBER]; br x16
#else
#error "this processor has no jump through a table here"
#endif

    .text
#define CALL(NUMBER, NAME) .globl NAME; .hidden NAME; .type NAME, %function; .balign 16; NAME: JUMP(NUMBER); .size NAME, . - NAME;
#include "names.h"
#undef CALL

    .data
    .balign 8
    .globl sluice_dpdk_slots
    .hidden sluice_dpdk_slots
    .type sluice_dpdk_slots, %object
sluice_dpdk_slots:
#define CALL(NUMBER, NAME) .quad sluice_dpdk_absent;
#include "names.h"
    .size sluice_dpdk_slots, . - sluice_dpdk_slots

    .section .note.GNU-stack, "", %progbits
