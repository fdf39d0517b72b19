//! Classic BPF programs for packet sockets that several devices share. Source: linux/filter.h.
//!
//! The filter is a search tree over the sorted interface indices, so a packet costs some 30 instructions with 1,000 devices. Only the
//! leaves compare for equality. A program has at most 4,096 instructions, which is enough for 3,200 devices.

use libc::sock_filter;

const LOAD_WORD: u16 = 0x20;
const LOAD_BYTE: u16 = 0x30;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;
const RETURN_A: u16 = 0x16;
/// `SKF_AD_OFF + SKF_AD_PKTTYPE`.
const PACKET_TYPE: u32 = (-0x1000_i32 + 4) as u32;
/// `SKF_AD_OFF + SKF_AD_IFINDEX`.
const IFINDEX: u32 = (-0x1000_i32 + 8) as u32;
const OUTGOING: u32 = libc::PACKET_OUTGOING as u32;

/// Maximum number of indices that a leaf compares one by one.
const LEAF_MAX: usize = 32;

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// A filter that accepts only packets which these interfaces received. The indices are sorted.
pub fn accept(ifindices: &[u32]) -> Vec<sock_filter> {
    let mut program = vec![
        instruction(LOAD_BYTE, 0, 0, PACKET_TYPE),
        instruction(JUMP_IF_EQUAL, 0, 1, OUTGOING),
        instruction(RETURN, 0, 0, 0),
        instruction(LOAD_WORD, 0, 0, IFINDEX),
    ];
    push_tree(ifindices, &mut program);
    program
}

/// Appends the search tree for these sorted indices to the program.
fn push_tree(ifindices: &[u32], program: &mut Vec<sock_filter>) {
    let (low, high) = ifindices.split_at(ifindices.len() / 2);
    if let (true, Some(first)) = (ifindices.len() > LEAF_MAX, high.first()) {
        program.push(instruction(JUMP_IF_AT_LEAST, 0, 1, *first));
        let jump_over_low = program.len();
        program.push(instruction(JUMP, 0, 0, 0));
        push_tree(low, program);
        // The jump distance counts from the next instruction.
        program[jump_over_low].k = (program.len() - jump_over_low - 1) as u32;
        return push_tree(high, program);
    }
    for (i, ifindex) in ifindices.iter().enumerate() {
        // Jumps to the last instruction of the leaf, which accepts the packet.
        program.push(instruction(JUMP_IF_EQUAL, (ifindices.len() - i) as u8, 0, *ifindex));
    }
    program.extend([instruction(RETURN, 0, 0, 0), instruction(RETURN, 0, 0, u32::MAX)]);
}

/// A program that selects a socket by the interface: the kernel uses the result modulo the number of sockets.
pub fn by_interface() -> Vec<sock_filter> {
    vec![instruction(LOAD_WORD, 0, 0, IFINDEX), instruction(RETURN_A, 0, 0, 0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Runs a program; fails if it does not end within its own length, as the kernel requires.
    fn run(program: &[sock_filter], packet_type: u32, ifindex: u32) -> u32 {
        let (mut at, mut a) = (0, 0);
        for _ in 0..program.len() {
            let sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            let mut branch = |holds: bool| at += usize::from(if holds { jt } else { jf });
            match code {
                LOAD_BYTE if k == PACKET_TYPE => a = packet_type,
                LOAD_WORD if k == IFINDEX => a = ifindex,
                JUMP => at += k as usize,
                JUMP_IF_EQUAL => branch(a == k),
                JUMP_IF_AT_LEAST => branch(a >= k),
                RETURN => return k,
                RETURN_A => return a,
                other => panic!("instruction {other:#x}"),
            }
        }
        panic!("the program does not end")
    }

    proptest! {
        #[test]
        fn members_pass_and_no_other_packet(members in proptest::collection::btree_set(1u32..4000, 0..600), other in 1u32..4100) {
            let list: Vec<u32> = members.iter().copied().collect();
            let program = accept(&list);
            for ifindex in &list {
                prop_assert!(run(&program, 0, *ifindex) > 0);
                prop_assert_eq!(run(&program, OUTGOING, *ifindex), 0);
            }
            prop_assert_eq!(run(&program, 3, other) > 0, members.contains(&other));
        }
    }

    #[test]
    fn the_program_fits_for_thousands_of_devices() {
        let list: Vec<u32> = (1..=3200).map(|i| 3 * i).collect();
        assert!(accept(&list).len() <= 4096, "{}", accept(&list).len());
        assert_eq!(run(&by_interface(), 0, 77), 77);
    }
}
