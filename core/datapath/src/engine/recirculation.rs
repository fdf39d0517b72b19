//! Recirculation of packets that stay in their batch: what happens to them between two passes.

use crate::action::hash;
use crate::batch::Batch;
use crate::port::Frame;
use crate::program::Summary;

/// How a key changes on the way to its next pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Recirculation {
    /// The recirculation id.
    pub(crate) id: u32,
    /// What the program does first.
    pub(crate) first: First,
}

/// What a program does before it recirculates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum First {
    Nothing,
    Hash { symmetric: bool, basis: u32 },
    Track,
}

impl Recirculation {
    /// The recirculation of a program with this summary; `None`: the program does something else.
    #[inline]
    pub(crate) fn of(summary: Summary) -> Option<Recirculation> {
        match summary {
            Summary::Recirculate(id) => Some(Recirculation { id, first: First::Nothing }),
            Summary::HashAndRecirculate { symmetric, basis, id } => {
                Some(Recirculation { id, first: First::Hash { symmetric, basis } })
            }
            Summary::TrackAndRecirculate(id) => Some(Recirculation { id, first: First::Track }),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn hashes(self) -> bool {
        matches!(self.first, First::Hash { .. })
    }

    /// Returns whether packets are tracked first.
    #[inline]
    pub(crate) fn tracks(self) -> bool {
        self.first == First::Track
    }

    /// Recirculates packet `i` of the batch. Tracking is not included: it is done for all packets together.
    #[inline]
    pub(crate) fn apply(self, batch: &mut Batch, i: usize, frame: &Frame) {
        let hashed = match self.first {
            First::Hash { symmetric, basis } => {
                let key = batch.key_to_ports(Some(i as u8));
                Some(hash::of_frame(frame, &batch.common, key, symmetric, basis))
            }
            First::Nothing | First::Track => None,
        };
        batch.again(i, self.id, hashed);
    }
}
