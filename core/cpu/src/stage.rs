//! A whole stage of a batch, compiled a second time for what newer processors have.

/// Work on a batch. (A closure would not do: only a function can be told to be inlined.)
pub trait Stage {
    /// What it gives.
    type Out;

    /// Does it. To be `#[inline(always)]`, as what it calls for each packet.
    fn run(self) -> Self::Out;
}

/// Runs `stage`, with the instructions of x86-64-v3 (AVX2, BMI, MOVBE) where the processor has them: what is inlined into
/// it is compiled for them, without a word of its own about it.
#[inline(always)]
pub fn stage<S: Stage>(stage: S) -> S::Out {
    #[cfg(target_arch = "x86_64")]
    {
        if has_v3() {
            // SAFETY: the processor has what the function is compiled for, as was just found.
            return unsafe { with_v3(stage) };
        }
    }
    stage.run()
}

/// What was found at the first call is remembered by the standard library: this is a load.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn has_v3() -> bool {
    use std::arch::is_x86_feature_detected as has;
    has!("avx2") && has!("bmi1") && has!("bmi2") && has!("movbe") && has!("lzcnt") && has!("popcnt")
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,movbe,lzcnt,popcnt,sse4.2")]
fn with_v3<S: Stage>(stage: S) -> S::Out {
    stage.run()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sum<'a>(&'a [u64], &'a mut u64);

    impl Stage for Sum<'_> {
        type Out = usize;

        #[inline(always)]
        fn run(self) -> usize {
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
