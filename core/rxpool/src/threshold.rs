//! The dynamic threshold: a queue may hold `alpha` times as many shared buffers as are free.
//!
//! A queue that holds `x` buffers stops acquiring more when `x = alpha · free`. Each buffer that it acquires is one less that is free, so
//! it stops at `alpha / (1 + alpha)` of the buffers that other queues do not hold. With `k` queues that acquire all they may, each ends at
//! `alpha / (1 + k·alpha)` of the shared buffers, and `1 / (1 + k·alpha)` stay free for a queue that becomes busy (Choudhury and Hahne,
//! 1998).

/// The factor `alpha`, in units of 1/256.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alpha(u32);

impl Default for Alpha {
    fn default() -> Alpha {
        Alpha::ONE
    }
}

impl Alpha {
    const UNIT: u32 = 256;
    /// 1: a single busy queue gets half of the shared buffers.
    pub const ONE: Alpha = Alpha(Alpha::UNIT);
    /// The smallest factor, 1/64.
    pub const MIN: Alpha = Alpha(Alpha::UNIT / 64);
    /// The largest factor, 64: practically no threshold.
    pub const MAX: Alpha = Alpha(Alpha::UNIT * 64);

    /// The factor `alpha`, rounded down to a multiple of 1/256 and clamped to the permitted range.
    pub fn new(alpha: f64) -> Alpha {
        // The cast saturates, and converts NaN to 0.
        Alpha((alpha * f64::from(Alpha::UNIT)) as u32).clamped()
    }

    /// Reads a decimal number between the smallest and the largest factor.
    pub fn parse(text: &str) -> Option<Alpha> {
        let number: f64 = text.parse().ok()?;
        (Alpha::MIN.value()..=Alpha::MAX.value()).contains(&number).then(|| Alpha::new(number))
    }

    fn clamped(self) -> Alpha {
        Alpha(self.0.clamp(Alpha::MIN.0, Alpha::MAX.0))
    }

    /// The factor as a number.
    pub fn value(self) -> f64 {
        f64::from(self.0) / f64::from(Alpha::UNIT)
    }

    /// The factor multiplied by `weight`, which is in units of 1/256, and clamped to the permitted range.
    pub fn weighted(self, weight: u32) -> Alpha {
        let product = u64::from(self.0) * u64::from(weight) / u64::from(Alpha::UNIT);
        Alpha(u32::try_from(product).unwrap_or(u32::MAX)).clamped()
    }

    /// Number of shared buffers that a queue may hold. `available`: the shared buffers that the queue holds, plus the free ones.
    pub fn share(self, available: u32) -> u32 {
        let product = u64::from(self.0) * u64::from(available) / u64::from(Alpha::UNIT + self.0);
        u32::try_from(product).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors() {
        assert_eq!([1.0, 0.5, 4.0].map(|a| Alpha::new(a).share(300)), [150, 100, 240]);
        assert_eq!(
            (Alpha::new(0.0), Alpha::new(1e9), Alpha::new(f64::NAN)),
            (Alpha::MIN, Alpha::MAX, Alpha::MIN)
        );
        assert_eq!(Alpha::ONE.weighted(64).value(), 0.25);
        assert_eq!(Alpha::parse("0.5"), Some(Alpha::new(0.5)));
        assert_eq!(["", "x", "-1", "0", "65", "NaN", "inf"].map(Alpha::parse), [None; 7]);
        assert!(Alpha::MAX.share(u32::MAX) < u32::MAX);
    }
}
