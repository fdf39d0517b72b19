//! Limits of the time and memory of a translation: nesting depth, number of look-ups, and work.

use crate::outcome::Failure;
use crate::walk::Walk;

/// Maximum nesting depth of resubmits and groups.
const MAX_DEPTH: u32 = 64;
/// Maximum number of look-ups.
const MAX_RESUBMITS: u32 = 64 * 64;
/// Maximum work of a translation, in actions: 64 actions for each of the maximum number of look-ups. The limits of depth and
/// look-ups alone bound neither time nor memory: a rule has up to 8,000 actions, and the work of nested groups grows
/// exponentially with their depth.
const MAX_WORK: usize = 64 * MAX_RESUBMITS as usize;
/// Work of storing a frozen state: the state needs as much memory as this many actions (about 2 kB, with the references
/// to it).
pub(crate) const FREEZE_WORK: usize = 16;
/// Work of learning a flow without specifications: it needs as much time and memory as this many actions (about 2 kB). Each specification
/// becomes an action of the flow, so it counts as one.
pub(crate) const LEARN_WORK: usize = 16;
/// Number of subtables that a look-up searches, or of conjunctions that it examines, in the time of an action.
pub(crate) const SEARCHES_PER_ACTION: usize = 8;

impl Walk<'_> {
    /// Adds the work of about `n` actions. Returns false if the translation has failed; it fails here, with an error message,
    /// if the work exceeds the limit.
    pub(crate) fn add_work(&mut self, n: usize) -> bool {
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

    /// Returns whether the walk may do another look-up or execute another group. If not, reports why and ends the walk.
    pub(crate) fn check_limits(&mut self) -> bool {
        if self.effort.depth >= MAX_DEPTH {
            self.error(format_args!("over max translation depth {MAX_DEPTH}"));
            self.out.error = Some(Failure::RecursionTooDeep);
        } else if self.effort.resubmits >= MAX_RESUBMITS {
            self.error(format_args!("over {MAX_RESUBMITS} resubmit actions"));
            self.out.error = Some(Failure::TooManyResubmits);
        } else if self.out.actions.len() > 0xffff / 8 {
            // Open vSwitch limits the encoded actions to 64 kB; an output has 8 bytes in Netlink.
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
