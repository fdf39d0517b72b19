//! Parts of long replies about flows, limited by their number of flows and actions.

use ofproto::Rule;

/// Maximum number of flows in one part.
pub(crate) const FLOWS_MAX: usize = 256;
/// A part with this many actions gets no more flows. A flow may have thousands of actions, so 256 flows could take 16 MiB.
const ACTIONS_MAX: usize = 4096;

/// Takes the flows of the next part from the end of `rest`, the last one first.
pub(crate) fn take_part<T>(rest: &mut Vec<T>, rule: fn(&T) -> &Rule) -> impl Iterator<Item = T> + use<T> {
    let (mut flows, mut actions) = (0, 0);
    for item in rest.iter().rev() {
        if flows == FLOWS_MAX || actions >= ACTIONS_MAX {
            break;
        }
        flows += 1;
        actions += rule(item).actions.len();
    }
    rest.split_off(rest.len() - flows).into_iter().rev()
}
