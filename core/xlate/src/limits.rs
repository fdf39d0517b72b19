//! Limits of the time and memory of a translation: depth, look-ups, and work of any kind.

use crate::outcome::Failure;
use crate::walk::Walk;

/// Maximum nesting depth of tables.
const MAX_DEPTH: u32 = 64;
/// Maximum number of look-ups.
const MAX_RESUBMITS: u32 = 64 * 64;
/// Maximum work of a translation, in actions: 64 for each of the maximum number of resubmits. Depth and look-ups
/// alone bound neither time nor memory: a rule has up to 8,000 actions, and nested groups grow exponentially.
const MAX_WORK: usize = 64 * MAX_RESUBMITS as usize;
/// A frozen state takes as much memory as this many other actions (some 2 kB with what refers to it).
pub(crate) const FREEZE_WORK: usize = 16;
/// A learned flow takes as much time and memory as this many other actions (some 2 kB).
pub(crate) const LEARN_WORK: usize = 16;

impl Walk<'_> {
    /// Adds work of about `n` actions. Returns false, after a report, if the limit of the translation is reached: the
    /// translation has then failed.
    pub(crate) fn spend(&mut self, n: usize) -> bool {
        if self.out.error.is_some() {
            return false;
        }
        self.effort.work += n;
        if self.effort.work > MAX_WORK {
            self.error(format_args!("over {MAX_WORK} actions"));
            self.out.error = Some(Failure::TooManyResubmits);
        }
        self.effort.work <= MAX_WORK
    }

    /// Returns false, after a report, if the walk must not go deeper.
    pub(crate) fn within_limits(&mut self) -> bool {
        if self.effort.depth >= MAX_DEPTH {
            self.error(format_args!("over max translation depth {MAX_DEPTH}"));
            self.out.error = Some(Failure::RecursionTooDeep);
        } else if self.effort.resubmits >= MAX_RESUBMITS {
            self.error(format_args!("over {MAX_RESUBMITS} resubmit actions"));
            self.out.error = Some(Failure::TooManyResubmits);
        } else if self.out.actions.len() > 0xffff / 8 {
            // An output takes 8 bytes in Netlink, from which this limit comes.
            self.error(format_args!("resubmits yielded over 64 kB of actions"));
            self.progress.exit = true;
        } else if self.pipeline.stack.len() >= 65536 / 8 {
            self.error(format_args!("resubmits yielded over 64 kB of stack"));
            self.out.error = Some(Failure::StackTooDeep);
        } else {
            return true;
        }
        false
    }
}
