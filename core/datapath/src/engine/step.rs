//! A step: what happens to a packet between two passes.

use crate::action::hash;
use crate::batch::Batch;
use crate::port::Frame;
use crate::program::Sum;

/// How a key changes on the way to its next pass.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// The recirculation id.
    pub(crate) id: u32,
    pub(crate) does: Does,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Does {
    Nothing,
    Hash { symmetric: bool, basis: u32 },
    Track,
}

impl Step {
    /// The step of a program, if it does nothing else.
    #[inline]
    pub(crate) fn of(sum: Sum) -> Option<Step> {
        match sum {
            Sum::Recirculate(id) => Some(Step { id, does: Does::Nothing }),
            Sum::HashAndRecirculate { symmetric, basis, id } => {
                Some(Step { id, does: Does::Hash { symmetric, basis } })
            }
            Sum::TrackAndRecirculate(id) => Some(Step { id, does: Does::Track }),
            _ => None,
        }
    }

    #[inline]
    pub(crate) fn hashes(self) -> bool {
        matches!(self.does, Does::Hash { .. })
    }

    /// Returns whether packets are tracked in this step.
    #[inline]
    pub(crate) fn tracks(self) -> bool {
        self.does == Does::Track
    }

    /// Applies the step to packet `i` of the batch, except tracking, which is done for all packets together.
    #[inline]
    pub(crate) fn take(self, batch: &mut Batch, i: usize, frame: &Frame) {
        let hashed = match self.does {
            Does::Hash { symmetric, basis } => {
                let key = batch.key_to_ports(Some(i as u8));
                Some(hash::of_frame(frame, &batch.common, key, symmetric, basis))
            }
            Does::Nothing | Does::Track => None,
        };
        batch.again(i, self.id, hashed);
    }
}
