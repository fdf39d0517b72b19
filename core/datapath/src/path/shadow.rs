//! Shadow check: samples packets that hit a megaflow and passes them to the control half, which translates
//! them again and compares (`other_config:shadow-check`).
//!
//! It detects faults of parsing, caches, masks and revalidation under real traffic. It costs a batch one
//! subtraction.

use crate::batch::NONE;
use crate::engine::Engine;
use crate::shared::Shared;

/// Counts down to the next sampled packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shadow {
    /// The sampling interval in packets; 0: none.
    every: u32,
    left: u32,
}

impl Shadow {
    /// Sets the sampling interval in packets; 0: none.
    pub(crate) fn set(&mut self, every: u32) {
        if self.every != every {
            *self = Shadow { every, left: every };
        }
    }

    /// Returns whether one of these `n` packets is to be sampled.
    #[inline]
    fn due(&mut self, n: usize) -> bool {
        self.left = self.left.saturating_sub(n as u32);
        self.every != 0 && self.left == 0
    }
}

/// Runs before the batch is executed, so that packets are unchanged.
#[inline]
pub(crate) fn stage(shared: &Shared, engine: &mut Engine) {
    if engine.shadow.due(engine.batch.len()) {
        show(shared, engine);
    }
}

#[cold]
fn show(shared: &Shared, engine: &mut Engine) {
    engine.batch.spread();
    let (which, batch) = (engine.random.usize(..engine.batch.len().max(1)), &engine.batch);
    let index = batch.found[if batch.alike { 0 } else { which }];
    let (Some(frame), Some(handler)) = (batch.frames.get(which), &*engine.handler) else { return };
    if index == NONE {
        return;
    }
    engine.shadow.left = engine.shadow.every;
    let flow = batch.meta(which).flow_of(frame.bytes());
    if let Some(megaflow) = shared.flows().translated(index) {
        handler.shadow(frame.bytes(), &flow, &megaflow);
    }
}

#[cfg(test)]
mod tests {
    use super::Shadow;

    #[test]
    fn one_of_so_many() {
        let mut shadow = Shadow::default();
        assert!((0..100).all(|_| !shadow.due(64)));
        shadow.set(100);
        let mut shown = 0;
        for _ in 0..1000 {
            if shadow.due(50) {
                shown += 1;
                shadow.left = shadow.every;
            }
            shadow.set(100);
        }
        assert_eq!(shown, 500);
    }
}
