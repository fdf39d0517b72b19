//! One megaflow: translated again, compared, mended.

use crate::control::Published;
use crate::handler::Handler;
use classifier::megaflow::KeyMask;
use datapath::Datapath;
use dpif::DpFlow;
use flow::Flow;
use units::Millis;

/// What a megaflow turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// As it should.
    Right,
    /// Right for the packet that made it; the tables look at more bits now, so it was removed.
    TooWide,
    /// It did something else, or should not be there. It is mended.
    Wrong,
}

/// Translates a megaflow again and mends what is no longer right.
pub(super) fn check(
    datapath: &Datapath,
    handler: &Handler,
    name: &str,
    published: &Published,
    flow: &DpFlow,
    now: Millis,
) -> Verdict {
    match handler.retranslate(published, &flow.key) {
        None => {
            datapath.flow_del(flow.ufid, now);
            Verdict::Wrong
        }
        // It matches packets that this translation says nothing about.
        Some(t) if !covers(&flow.mask, &t.mask) => {
            datapath.flow_del(flow.ufid, now);
            if *t.actions == *flow.actions { Verdict::TooWide } else { Verdict::Wrong }
        }
        Some(t) if *t.actions != *flow.actions => {
            crate::flow_log::modified(name, flow, &t.actions);
            // The flow may be gone by now; then there is nothing to mend.
            let _ = datapath.flow_modify(flow.ufid, t.actions, Some((t.owner, t.trail)), now);
            Verdict::Wrong
        }
        // Same actions, but perhaps by other rules: those are to be credited from now on.
        Some(t) => {
            let _ = datapath.flow_set_owner(flow.ufid, (t.owner, t.trail), now);
            Verdict::Right
        }
    }
}

/// Every bit that `wanted` matches, of those that a megaflow can match, is matched by `installed`, which may match more:
/// the datapath narrows megaflows when there are too many masks.
fn covers(installed: &Flow, wanted: &Flow) -> bool {
    let wanted = KeyMask::from_flow(wanted).to_flow();
    wanted.words().iter().zip(installed.words()).all(|(w, i)| w & !i == 0)
}
