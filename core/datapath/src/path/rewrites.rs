//! Rewrites: frames of a batch with the same rewrite are rewritten together.

use crate::batch::BATCH;
use crate::port::FrameBatch;
use crate::rewrite::Rewrite;
use cpu::{Level, Stage};

/// Applies one rewrite to all frames. The stage returns a bit for each frame that the rewrite does not fit.
pub(super) struct RewriteAll<'a, 'g> {
    pub(super) rewrite: &'g Rewrite,
    pub(super) frames: &'a mut FrameBatch,
}

impl Stage for RewriteAll<'_, '_> {
    type Out = u64;

    #[inline(always)]
    fn run<L: Level>(self, _: L) -> u64 {
        self.rewrite.apply_all(self.frames)
    }
}

/// Applies to each frame the rewrite of its program. Consecutive frames with the same rewrite are rewritten
/// together. `of`: returns the rewrite of frame `i`.
pub(super) struct RewriteRuns<'a, F> {
    pub(super) of: F,
    pub(super) frames: &'a mut FrameBatch,
}

impl<'g, F: Fn(usize) -> Option<&'g Rewrite>> Stage for RewriteRuns<'_, F> {
    type Out = u64;

    #[inline(always)]
    fn run<L: Level>(self, _: L) -> u64 {
        let RewriteRuns { of, frames } = self;
        let (mut unfit, mut start, n) = (0, 0, frames.len().min(BATCH));
        let mut next = (n > 0).then(|| of(0)).flatten();
        while start < n {
            let (rewrite, mut end) = (next, start + 1);
            while end < n {
                next = of(end);
                if next.map(std::ptr::from_ref) != rewrite.map(std::ptr::from_ref) {
                    break;
                }
                end += 1;
            }
            if let Some(rewrite) = rewrite {
                unfit |= rewrite.apply_all(&mut frames[start..end]) << start;
            }
            start = end;
        }
        unfit
    }
}
