//! Programs of the classic BPF for packet sockets that several devices share. Source: linux/filter.h.
//!
//! The filter is a tree over the sorted interface indices, so a packet costs some 30 steps with 1,000 devices. Only the
//! leaves compare for equality; a program has at most 4,096 instructions, which is enough for 3,200 devices.

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

/// Indices that a leaf compares one by one.
const LEAF: usize = 32;

fn step(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

/// Accepts what these interfaces receive, and nothing else. The indices are sorted.
pub fn accept(ifindices: &[u32]) -> Vec<sock_filter> {
    let mut program = vec![
        step(LOAD_BYTE, 0, 0, PACKET_TYPE),
        step(JUMP_IF_EQUAL, 0, 1, OUTGOING),
        step(RETURN, 0, 0, 0),
        step(LOAD_WORD, 0, 0, IFINDEX),
    ];
    tree(ifindices, &mut program);
    program
}

fn tree(ifindices: &[u32], program: &mut Vec<sock_filter>) {
    let (low, high) = ifindices.split_at(ifindices.len() / 2);
    if let (true, Some(first)) = (ifindices.len() > LEAF, high.first()) {
        program.push(step(JUMP_IF_AT_LEAST, 0, 1, *first));
        let over_low = program.len();
        program.push(step(JUMP, 0, 0, 0));
        tree(low, program);
        // The distance counts from the next instruction.
        program[over_low].k = (program.len() - over_low - 1) as u32;
        return tree(high, program);
    }
    for (i, ifindex) in ifindices.iter().enumerate() {
        // To the last instruction of the leaf, which accepts.
        program.push(step(JUMP_IF_EQUAL, (ifindices.len() - i) as u8, 0, *ifindex));
    }
    program.extend([step(RETURN, 0, 0, 0), step(RETURN, 0, 0, u32::MAX)]);
}

/// Selects a socket by the interface: the kernel takes the result modulo the number of sockets.
pub fn by_interface() -> Vec<sock_filter> {
    vec![step(LOAD_WORD, 0, 0, IFINDEX), step(RETURN_A, 0, 0, 0)]
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
