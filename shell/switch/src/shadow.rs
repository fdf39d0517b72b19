//! The control half's side of `other_config:shadow-check`: is what a megaflow did what the tables say?
//!
//! A worker shows a packet and the megaflow that answered it. That the megaflow matches the packet is checked field by
//! field; then the packet is translated again. Where the two differ the tables may just have changed, or a station may
//! have moved: the packet goes to the main loop, which alone knows whether all changes have been published and swept. What
//! still differs then is a fault of the switch: it is counted and logged, with the packet.
//!
//! **Threads**: [`Handler::look_again`] on workers, [`confirm`] on the main loop.

use crate::backer::Backer;
use crate::control::{Deed, Published};
use crate::handler::{Again, Handler, UNASSOCIATED};
use dpif::text::NoNames;
use dpif::{DpAction, DpFlow};
use flow::Flow;
use runtime::{Module, RateLimit};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use units::{Millis, Ufid};

static LOG: Module = Module::new("dpif_shadow");
static LIMIT: RateLimit = RateLimit::new(1, 5);

/// What came of the packets that were shown.
#[derive(Debug, Default)]
pub struct Verdicts {
    /// Translated again.
    pub checked: AtomicU64,
    /// The control half was changing: nothing can be said.
    pub unsettled: AtomicU64,
    /// The megaflow was not what the tables say, or did not match the packet.
    pub wrong: AtomicU64,
}

/// A packet that seems to have been answered wrongly.
pub struct Suspect {
    /// The snapshot that it was translated with.
    version: u64,
    packet: Vec<u8>,
    flow: Flow,
    ufid: Ufid,
    actions: Arc<[DpAction]>,
}

/// Every field that the megaflow matches has the packet's value.
fn matches(flow: &Flow, megaflow: &DpFlow) -> bool {
    let keys = flow.words().iter().zip(megaflow.key.words());
    keys.zip(megaflow.mask.words()).all(|((f, k), m)| (f ^ k) & m == 0)
}

/// What the tables say the packet's actions are, unless the megaflow says so, too.
///
/// That they look at more fields is no fault: a rule that came since may stand in the way of the search and have no part in
/// the answer, and then the megaflow was rightly left alone. A mask that is too wide shows in packets that it answers wrongly.
fn difference(handler: &Handler, published: &Published, flow: &Flow, actions: &[DpAction]) -> Option<String> {
    match handler.retranslate(published, flow) {
        Again::Megaflow(t) if *t.actions == *actions => None,
        Again::Megaflow(t) => Some(dpif::text::actions_text(&t.actions, &NoNames)),
        Again::Unassociated if *actions == [UNASSOCIATED] => None,
        Again::OneByOne | Again::Unassociated => Some("not to be cached".to_owned()),
    }
}

impl Handler {
    /// See the module.
    pub(crate) fn look_again(&self, packet: &[u8], flow: &Flow, megaflow: &DpFlow) {
        self.verdicts.checked.fetch_add(1, Ordering::Relaxed);
        let published = self.control.published();
        if !matches(flow, megaflow) {
            report(self, packet, megaflow, "another megaflow's: this one does not match it");
        } else if difference(self, &published, flow, &megaflow.actions).is_some() {
            self.control.enqueue(Deed::Suspect(Box::new(Suspect {
                version: published.version,
                packet: packet.to_vec(),
                flow: *flow,
                ufid: megaflow.ufid,
                actions: Arc::clone(&megaflow.actions),
            })));
        }
    }
}

/// Whether it was the switch's fault.
pub(crate) fn confirm(backer: &Backer, suspect: &Suspect, now: Millis) {
    let handler = &backer.handler;
    let published = backer.control.published();
    let settled = !backer.is_unsettled() && published.version == suspect.version;
    let megaflow = backer.datapath.flow_get(suspect.ufid, now).filter(|m| m.actions == suspect.actions);
    let Some(megaflow) = megaflow.filter(|_| settled) else {
        handler.verdicts.unsettled.fetch_add(1, Ordering::Relaxed);
        return;
    };
    if let Some(wanted) = difference(handler, &published, &suspect.flow, &megaflow.actions) {
        report(handler, &suspect.packet, &megaflow, &wanted);
    }
}

fn report(handler: &Handler, packet: &[u8], megaflow: &DpFlow, wanted: &str) {
    handler.verdicts.wrong.fetch_add(1, Ordering::Relaxed);
    let did = dpif::text::actions_text(&megaflow.actions, &NoNames);
    let hex: String = packet.iter().map(|b| format!("{b:02x}")).collect();
    runtime::warn_rl!(
        LOG,
        LIMIT,
        "{}: megaflow {} did {did} with a packet whose actions are {wanted}: {hex}",
        handler.name,
        dpif::text::ufid_text(megaflow.ufid)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpif::{FlowStats, NoOwner};

    #[test]
    fn only_what_the_mask_says_counts() {
        let key = Flow { in_port: 1, nw_src: 0x0a00_0001, nw_dst: 7, ..Flow::ZERO };
        let megaflow = DpFlow {
            key,
            mask: Flow { in_port: u32::MAX, nw_src: 0xff00_0000, ..Flow::ZERO },
            actions: Arc::new([]),
            stats: FlowStats::default(),
            ufid: Ufid::default(),
            worker: None,
            owner: Arc::new(NoOwner),
            created: None,
        };
        assert!(matches(&Flow { nw_src: 0x0a00_0002, nw_dst: 8, ..key }, &megaflow));
        assert!(!matches(&Flow { nw_src: 0x0b00_0001, ..key }, &megaflow));
        assert!(!matches(&Flow { in_port: 2, ..key }, &megaflow));
    }
}
