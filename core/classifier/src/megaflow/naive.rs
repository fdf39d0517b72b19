//! The look-up once more, as simple as can be: all megaflows of the port one after the other, word by word, of a key that has
//! every field. The fast way (depths, hashes, vector instructions) is compared with it where somebody asks for that.

use super::{Context, Key, Megaflow};
use sync::Guard;

impl<P> Megaflow<P> {
    /// A packet of this key, which has every field, belongs to the megaflow.
    pub fn holds(&self, key: &Key) -> bool {
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

impl Context {
    /// Some megaflow of the port holds a packet of this key, which has every field.
    pub fn find_naively<P>(&self, guard: &Guard<'_, Megaflow<P>>, key: &Key) -> Option<u32> {
        let all = self.subtables().iter().flat_map(|table| table.indices());
        all.into_iter().find(|&index| guard.get(index).is_some_and(|m| m.holds(key)))
    }
}
