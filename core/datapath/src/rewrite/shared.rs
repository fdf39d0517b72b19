//! Rewrites that several megaflows share, and numbers that equal programs share.
//!
//! A rule that rewrites has a megaflow for every address that it matches, and all these megaflows have equal
//! rewrites. One shared rewrite stays in the CPU cache; a hundred thousand equal copies would not. Packets whose
//! programs have the same number are executed together.

use super::apply::Rewrite;
use crate::program::{Op, Program, Summary};
use crate::recirculation::Recirculation;
use std::sync::Arc;

/// Number of slots. The fingerprint modulo this number selects a slot, which keeps the latest rewrite (or program).
const SLOTS: usize = 256;

/// Slots with rewrites that megaflows share, and with programs and their numbers.
#[derive(Default)]
pub(crate) struct SharedPrograms {
    rewrites: Vec<Option<Arc<Rewrite>>>,
    programs: Vec<Option<NumberedProgram>>,
    /// The program number that was assigned last.
    last: u64,
}

/// The operations of a program and the number of all programs with these operations.
#[derive(Clone)]
struct NumberedProgram {
    ops: Box<[Op]>,
    number: u64,
}

impl SharedPrograms {
    /// Replaces a rewrite by an equal one that is kept here; if there is none, keeps this one for later megaflows.
    pub(crate) fn share(&mut self, rewrite: &mut Arc<Rewrite>) {
        self.rewrites.resize(SLOTS, None);
        let slot = &mut self.rewrites[rewrite.fingerprint() as usize % SLOTS];
        match slot {
            Some(other) if other == rewrite => *rewrite = Arc::clone(other),
            _ => *slot = Some(Arc::clone(rewrite)),
        }
    }

    /// Returns the number that programs with these operations share: that of an equal program that is kept here, or a
    /// new number.
    pub(crate) fn number(&mut self, ops: &[Op]) -> u64 {
        self.programs.resize(SLOTS, None);
        let slot = &mut self.programs[fingerprint(ops) as usize % SLOTS];
        match slot {
            Some(numbered) if *numbered.ops == *ops => numbered.number,
            _ => {
                self.last += 1;
                *slot = Some(NumberedProgram { ops: ops.into(), number: self.last });
                self.last
            }
        }
    }
}

/// Returns a hash of operations. Equal operations have equal hashes.
fn fingerprint(ops: &[Op]) -> u32 {
    ops.iter().fold(0, |hash, op| match op {
        &Op::Output(port) => cpu::mix32(hash, port),
        &Op::Enqueue(port, queue) => cpu::mix32(cpu::mix32(hash, port), queue),
        &Op::Meter(id) => cpu::mix32(!hash, id),
        &Op::Recirc(id) => cpu::mix32(hash.rotate_left(1), id),
        Op::Ct(track) => cpu::mix32(hash.rotate_left(2), track.zone.into()),
        Op::Rewrite(rewrite) => cpu::mix32(hash, rewrite.fingerprint()),
        _ => hash,
    })
}

impl Program {
    /// Replaces the rewrites by equal ones of other programs, and assigns the number that equal programs share. A number
    /// tells that all packets of a batch have equal operations. Programs that only send or only recirculate, and programs with
    /// another summary than `Send` or `Recirculate`, need no number and keep 0.
    pub(crate) fn share(&mut self, shared: &mut SharedPrograms) {
        if let [Op::CheckLen(_, longer, rest)] = &mut self.ops[..] {
            longer.share(shared);
            rest.share(shared);
        }
        for op in &mut self.ops {
            if let Op::Rewrite(rewrite) = op {
                shared.share(rewrite);
            }
        }
        self.find_rewrite();
        let has_number = match self.summary {
            Summary::Send { op_flags, .. } | Summary::Recirculate(Recirculation { op_flags, .. }) => {
                op_flags != 0
            }
            _ => false,
        };
        if has_number {
            self.number = shared.number(&self.ops);
        }
    }
}

impl Rewrite {
    /// Returns a hash of the rewrite. Equal rewrites have equal hashes.
    fn fingerprint(&self) -> u32 {
        let word = |hash: u32, word: &u64| cpu::mix32(cpu::mix32(hash, *word as u32), (word >> 32) as u32);
        let hash = self.low.value.iter().chain(&self.high.value).fold(0, word);
        self.sums.iter().fold(hash, |hash, sum| cpu::mix32(hash, sum.constant.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpif::{DpAction, EthKey, Masked, SetField};
    use flow::{Flow, Mac};
    use units::PortNo;

    fn program(dst: u8, nw_dst: u32) -> Program {
        let key = |dst| EthKey { src: Mac::default(), dst };
        let set = SetField::Eth(Masked::new(key(Mac([dst; 6])), key(Mac([255; 6]))));
        let flow = Flow { dl_type: 0x0800, nw_dst, ..Flow::ZERO };
        let mask = Flow { dl_type: 0xffff, nw_dst: u32::MAX, ..Flow::ZERO };
        Program::compile_for(&[DpAction::Set(set), DpAction::Output(PortNo(1))], &flow, &mask)
    }

    #[test]
    fn equal_programs_have_one_number() {
        let mut shared = SharedPrograms::default();
        let mut number = |ports: &[u32]| {
            let list: Vec<DpAction> = ports.iter().map(|port| DpAction::Output(PortNo(*port))).collect();
            let mut program = Program::compile(&list);
            program.share(&mut shared);
            program.number()
        };
        assert_eq!(number(&[1]), 0, "what only sends needs none");
        let (two, other) = (number(&[1, 2]), number(&[2, 1]));
        assert!(two != 0 && other != 0 && two != other);
        assert_eq!([number(&[1, 2]), number(&[2, 1])], [two, other]);
        // Other programs may replace them, and a number is never assigned twice.
        let many: Vec<u64> = (0..2000).map(|port| number(&[port, 9])).collect();
        assert!(many.iter().all(|number| *number > other));
        assert!(many.windows(2).all(|pair| pair[0] != pair[1]));
    }

    #[test]
    fn equal_rewrites_are_one() {
        let mut shared = SharedPrograms::default();
        let mut programs = [program(2, 1), program(2, 9), program(4, 1)];
        programs.iter_mut().for_each(|program| program.share(&mut shared));
        let [a, b, c] = programs.each_ref().map(|program| program.rewrite().unwrap());
        assert!(std::ptr::eq(a, b) && !std::ptr::eq(a, c));
        assert_eq!(a, b);
        assert_ne!(a, c);
    }
}
