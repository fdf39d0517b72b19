//! Keeping megaflows right: after each change of the control half every one is translated again and compared.
//!
//! This is the whole-table sweep. It holds no lock while it translates; a megaflow published meanwhile was made from
//! the snapshot that the sweep uses or from a newer one (`UpcallHandler::is_current`), so nothing escapes it.

use crate::backer::Backer;
use classifier::megaflow::KeyMask;
use dpif::DpFlow;
use flow::Flow;
use flowcache::Choice;
use units::Millis;

/// What is known of the limits of megaflows (`upcall/show`).
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// A megaflow unused for this long goes.
    pub idle: Millis,
    /// There may be this many megaflows.
    pub flows: usize,
    /// This many VLAN tags of a packet are looked at.
    pub vlans: u8,
    /// The cache that workers use.
    pub cache: Choice,
    /// Of so many packets one is translated again and compared; 0: none.
    pub shadow_check: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { idle: Millis(10_000), flows: 200_000, vlans: 1, cache: Choice::default(), shadow_check: 0 }
    }
}

/// Translates every megaflow again and mends what is no longer right.
pub fn sweep(backer: &mut Backer, now: Millis) {
    let published = backer.control.published();
    for flow in backer.datapath.flow_dump(now) {
        check(backer, &published, &flow, now);
    }
    backer.datapath.maintain(now);
}

fn check(backer: &Backer, published: &crate::control::Published, flow: &DpFlow, now: Millis) {
    match backer.handler.retranslate(published, &flow.key) {
        None => {
            backer.datapath.flow_del(flow.ufid, now);
        }
        // It matches packets that this translation says nothing about.
        Some(t) if !covers(&flow.mask, &t.mask) => {
            backer.datapath.flow_del(flow.ufid, now);
        }
        Some(t) if *t.actions != *flow.actions => {
            crate::flow_log::modified(&backer.name(), flow, &t.actions);
            // The flow may be gone by now; then there is nothing to mend.
            let _ = backer.datapath.flow_modify(flow.ufid, t.actions, Some(t.owner));
        }
        // Same actions, but perhaps by other rules: those are to be credited from now on.
        Some(t) => {
            let _ = backer.datapath.flow_set_owner(flow.ufid, t.owner, now);
        }
    }
}

/// Every bit that `wanted` matches, of those that a megaflow can match, is matched by `installed`, which may match more:
/// the datapath narrows megaflows when there are too many masks.
pub(crate) fn covers(installed: &Flow, wanted: &Flow) -> bool {
    let wanted = KeyMask::from_flow(wanted).to_flow();
    wanted.words().iter().zip(installed.words()).all(|(w, i)| w & !i == 0)
}

/// Removes megaflows that no packet has used for a while.
pub fn expire(backer: &mut Backer, limits: &Limits, now: Millis) {
    let flows = backer.datapath.flow_dump(now);
    crate::flow_log::dumped(&backer.name(), &flows, now);
    backer.flows_max = backer.flows_max.max(flows.len() as u64);
    for flow in flows {
        // A flow put by hand that no packet has used is its maker's.
        if flow.stats.used.or(flow.created).is_some_and(|used| now.since(used) > limits.idle) {
            backer.datapath.flow_del(flow.ufid, now);
        }
    }
    backer.datapath.maintain(now);
}
