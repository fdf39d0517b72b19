//! What is asked for of the packets of a batch.

use classifier::megaflow::{Depth, Words};
use cpu::Level;

/// Parameters that are the same for all packets.
#[derive(Clone, Copy)]
pub(super) struct Ask<L> {
    pub(super) depth: Depth,
    /// The maximum number of tags to parse.
    pub(super) tags: usize,
    /// The words after the line to fill.
    pub(super) words: Words,
    /// The instructions that may be used.
    pub(super) level: L,
}

/// Depths as parameters at compile time. The functions that call the loops have it, too: calls of one function with different values
/// would become one call, and its loops slower ones, for all depths.
pub(super) const L2: u8 = Depth::L2 as u8;
pub(super) const L3: u8 = Depth::L3 as u8;
pub(super) const L4: u8 = Depth::L4 as u8;
pub(super) const WIDE: u8 = Depth::Wide as u8;
/// The depth is known at run time only.
pub(super) const ANY: u8 = u8::MAX;

impl<L: Level> Ask<L> {
    /// The same, with what the compiler knows.
    #[inline(always)]
    pub(super) fn at<const DEPTH: u8>(self) -> Ask<L> {
        match DEPTH {
            L2 => Ask { depth: Depth::L2, words: 0, ..self },
            L3 => Ask { depth: Depth::L3, words: 0, ..self },
            L4 => Ask { depth: Depth::L4, words: 0, ..self },
            WIDE => Ask { depth: Depth::Wide, ..self },
            _ => self,
        }
    }
}
