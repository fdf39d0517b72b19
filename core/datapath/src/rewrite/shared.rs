//! Rewrites that several megaflows have.
//!
//! A rule that rewrites has a megaflow for every address that it matches, and all of them do the same. One rewrite for all
//! stays in the processor's cache where a hundred thousand equal ones do not.

use super::{Rewrite, Word};
use std::sync::Arc;

/// The rewrite that was made last of each of so many fingerprints.
const PLACES: usize = 256;

/// See the module.
#[derive(Default)]
pub(crate) struct Shared(Vec<Option<Arc<Rewrite>>>);

impl Shared {
    /// Replaces a rewrite by an equal one that is there, if there is one, or else keeps it for those that follow.
    pub(crate) fn share(&mut self, rewrite: &mut Arc<Rewrite>) {
        self.0.resize(PLACES, None);
        let place = &mut self.0[rewrite.fingerprint() as usize % PLACES];
        match place {
            Some(other) if other == rewrite => *rewrite = Arc::clone(other),
            _ => *place = Some(Arc::clone(rewrite)),
        }
    }
}

impl Rewrite {
    /// Equal rewrites have the same.
    fn fingerprint(&self) -> u32 {
        let word = |hash: u32, word: &Word| {
            let hash = cpu::mix32(hash, word.value as u32);
            cpu::mix32(hash, (word.value >> 32) as u32 ^ u32::from(word.at))
        };
        let hash = self.written.iter().chain(&self.compared).fold(0, word);
        self.sums.iter().fold(hash, |hash, sum| cpu::mix32(hash, sum.constant.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Program;
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
    fn equal_rewrites_are_one() {
        let mut shared = Shared::default();
        let mut programs = [program(2, 1), program(2, 9), program(4, 1)];
        programs.iter_mut().for_each(|program| program.share(&mut shared));
        let [a, b, c] = programs.each_ref().map(|program| program.rewrite().unwrap());
        assert!(std::ptr::eq(a, b) && !std::ptr::eq(a, c));
        assert_eq!(a, b);
        assert_ne!(a, c);
    }
}
