//! What bounds a translation in time and memory: depth, look-ups, and work of any kind.

use crate::outcome::Failure;
use crate::walk::Walk;

/// How deeply tables may nest.
const MAX_DEPTH: u32 = 64;
/// How many look-ups there may be.
const MAX_RESUBMITS: u32 = 64 * 64;
/// How much work a translation may be, about in actions: every resubmit of the most that there may be can do 64. Depth and
/// look-ups alone bound neither time nor memory: a rule has up to 8,000 actions, and groups that name groups grow as a power.
const MAX_WORK: usize = 64 * MAX_RESUBMITS as usize;
/// A frozen state takes as much memory (some 2 kB with what refers to it) as so many other actions.
pub(crate) const FREEZE_WORK: usize = 16;
/// A learned flow takes as much time and memory (some 2 kB) as so many other actions.
pub(crate) const LEARN_WORK: usize = 16;

impl Walk<'_> {
    /// Counts work of about `n` actions against the limit of the translation. False, after a report, if that is reached:
    /// then the translation has failed.
    pub(crate) fn spend(&mut self, n: usize) -> bool {
        if self.out.error.is_some() {
            return false;
        }
        self.work += n;
        if self.work > MAX_WORK {
            self.error(format_args!("over {MAX_WORK} actions"));
            self.out.error = Some(Failure::TooManyResubmits);
        }
        self.work <= MAX_WORK
    }

    /// False, after a report, if the walk must not go deeper.
    pub(crate) fn within_limits(&mut self) -> bool {
        if self.depth >= MAX_DEPTH {
            self.error(format_args!("over max translation depth {MAX_DEPTH}"));
            self.out.error = Some(Failure::RecursionTooDeep);
        } else if self.resubmits >= MAX_RESUBMITS {
            self.error(format_args!("over {MAX_RESUBMITS} resubmit actions"));
            self.out.error = Some(Failure::TooManyResubmits);
        } else if self.out.actions.len() > 0xffff / 8 {
            // 8 bytes is what an output takes in Netlink, whose limit this is.
            self.error(format_args!("resubmits yielded over 64 kB of actions"));
            self.exit = true;
        } else if self.stack.len() >= 65536 / 8 {
            self.error(format_args!("resubmits yielded over 64 kB of stack"));
            self.out.error = Some(Failure::StackTooDeep);
        } else {
            return true;
        }
        false
    }
}
