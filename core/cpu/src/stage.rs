//! Stages of a batch that are compiled a second time for newer CPUs.

#[cfg(target_arch = "x86_64")]
use std::sync::atomic::{AtomicU8, Ordering};

/// A stage of a batch. It is not a closure, because only a function can be marked for inlining.
pub trait Stage {
    /// The result of the stage.
    type Out;

    /// Runs the stage. The implementation must be `#[inline(always)]`, as must be the functions that it calls for
    /// each packet.
    fn run<L: Level>(self, level: L) -> Self::Out;
}

/// The CPU instructions for which a stage is compiled. A value of this type proves that the CPU has them, so that
/// functions that use optional instructions need no check per packet.
pub trait Level: Copy {
    /// Whether the instructions are those of x86-64-v3.
    const IS_V3: bool;
}

/// The instructions that every CPU of the architecture has.
#[derive(Clone, Copy, Debug)]
pub struct Baseline;

impl Level for Baseline {
    const IS_V3: bool = false;
}

/// The instructions of x86-64-v3. Only [`stage`] creates a value, after it has checked that the CPU has them.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
pub struct V3(());

#[cfg(target_arch = "x86_64")]
impl Level for V3 {
    const IS_V3: bool = true;
}

/// Runs `stage` with the instructions of x86-64-v3 (AVX2, BMI, MOVBE) if the CPU has them. All code that is inlined
/// into the stage is compiled for them.
#[inline(always)]
pub fn stage<S: Stage>(stage: S) -> S::Out {
    #[cfg(target_arch = "x86_64")]
    {
        if has_v3() {
            // SAFETY: the CPU has the features for which `with_v3` is compiled, as was checked in the line above.
            return unsafe { with_v3(stage) };
        }
    }
    without_v3(stage)
}

/// Not inlined, so that callers contain the stage's code only once.
#[inline(never)]
fn without_v3<S: Stage>(stage: S) -> S::Out {
    stage.run(Baseline)
}

/// Returns whether the CPU has x86-64-v3. The result is stored, because stages of small batches are short, and
/// checking each feature every time would take thirty instructions.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn has_v3() -> bool {
    match HAS_V3.load(Ordering::Relaxed) {
        UNKNOWN => find_v3(),
        found => found == YES,
    }
}

#[cfg(target_arch = "x86_64")]
static HAS_V3: AtomicU8 = AtomicU8::new(UNKNOWN);
#[cfg(target_arch = "x86_64")]
const UNKNOWN: u8 = 0;
#[cfg(target_arch = "x86_64")]
const YES: u8 = 1;
#[cfg(target_arch = "x86_64")]
const NO: u8 = 2;

#[cfg(target_arch = "x86_64")]
#[cold]
fn find_v3() -> bool {
    use std::arch::is_x86_feature_detected as has;
    let found =
        has!("avx2") && has!("bmi1") && has!("bmi2") && has!("movbe") && has!("lzcnt") && has!("popcnt");
    HAS_V3.store(if found { YES } else { NO }, Ordering::Relaxed);
    found
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,movbe,lzcnt,popcnt,sse4.2")]
fn with_v3<S: Stage>(stage: S) -> S::Out {
    stage.run(V3(()))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'a>(&'a [u64], &'a mut u64);

    impl Stage for Sum<'_> {
        type Out = usize;

        #[inline(always)]
        fn run<L: Level>(self, _: L) -> usize {
            *self.1 = self.0.iter().sum();
            self.0.len()
        }
    }

    #[test]
    fn a_stage_gives_what_it_gives() {
        let mut sum = 0;
        assert_eq!(stage(Sum(&[1, 2, 3, 4, 5, 6, 7, 8], &mut sum)), 8);
        assert_eq!(sum, 36);
    }
}
