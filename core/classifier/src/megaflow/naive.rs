//! Reference implementation of the look-up: compares a completely parsed key with all megaflows of the port, word by word.
//! On request, the datapath compares the results of the optimised look-up (depths, hashes, vector instructions) with it
//! (`core/datapath/src/path/autovalidator.rs`).

use super::{Key, Megaflow, PortMegaflows};
use sync::Guard;

impl<P> Megaflow<P> {
    /// Returns whether a packet with this completely parsed key matches the megaflow.
    pub fn matches_naively(&self, key: &Key) -> bool {
        for at in 0..self.line.len() {
            if key.line[at] & self.mask[at] != self.line[at] & self.mask[at] {
                return false;
            }
        }
        for word in &self.ext {
            if key.rest().word(word.at) & word.mask != word.value & word.mask {
                return false;
            }
        }
        true
    }
}

impl PortMegaflows {
    /// Finds a megaflow of the port that matches a packet with this completely parsed key.
    pub fn find_naively<P>(&self, guard: &Guard<'_, Megaflow<P>>, key: &Key) -> Option<u32> {
        let all = self.subtables().iter().flat_map(|table| table.indices());
        all.into_iter().find(|&index| guard.get(index).is_some_and(|m| m.matches_naively(key)))
    }
}
