//! The sampling interval of the shadow check.

/// Counts down to the next sampled packet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Shadow {
    /// The sampling interval in packets; 0: none.
    pub(crate) every: u32,
    pub(crate) left: u32,
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
    pub(crate) fn due(&mut self, n: usize) -> bool {
        self.left = self.left.saturating_sub(n as u32);
        self.every != 0 && self.left == 0
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
