//! Parameters of the extraction: which part of each packet is read.

use classifier::megaflow::{Depth, Words};
use cpu::Level;

/// Parameters that are the same for all packets of a batch.
#[derive(Clone, Copy)]
pub(super) struct Params<L> {
    pub(super) depth: Depth,
    /// The maximum number of tags to parse.
    pub(super) tags: usize,
    /// The words after the line to fill.
    pub(super) words: Words,
    /// The CPU instructions that may be used.
    pub(super) level: L,
}

/// [`Depth::L2`] as a compile-time parameter. The callers of the loops have this parameter too: otherwise the
/// compiler merges the calls for different depths into one call, with slower loops that serve all depths.
pub(super) const L2: u8 = Depth::L2 as u8;
/// [`Depth::L3`] as a compile-time parameter.
pub(super) const L3: u8 = Depth::L3 as u8;
/// [`Depth::L4`] as a compile-time parameter.
pub(super) const L4: u8 = Depth::L4 as u8;
/// [`Depth::Wide`] as a compile-time parameter.
pub(super) const WIDE: u8 = Depth::Wide as u8;
/// The depth is not a compile-time parameter.
pub(super) const ANY: u8 = u8::MAX;

impl<L: Level> Params<L> {
    /// Returns the same parameters, with the depth as a compile-time constant.
    #[inline(always)]
    pub(super) fn at<const DEPTH: u8>(self) -> Params<L> {
        match DEPTH {
            L2 => Params { depth: Depth::L2, words: 0, ..self },
            L3 => Params { depth: Depth::L3, words: 0, ..self },
            L4 => Params { depth: Depth::L4, words: 0, ..self },
            WIDE => Params { depth: Depth::Wide, ..self },
            _ => self,
        }
    }
}
