//! The control half's side of `other_config:shadow-check`: is what a megaflow did what the tables say?
//!
//! A worker shows a packet and the megaflow that answered it. That the megaflow matches the packet is checked field by
//! field; then the packet is translated again. Where the two differ the tables may just have changed, or a station may
//! have moved: the packet goes to the main loop, which alone knows whether all changes have been published and swept. What
//! still differs then is a fault of the switch: it is counted and logged, with the packet.
//!
//! **Threads**: [`Handler::look_again`] on workers, [`confirm`] on the main loop.

use crate::published::Published;
use crate::side_effect::SideEffect;
use crate::upcall::handler::{Handler, Retranslation, UNASSOCIATED};
use crate::upcall::suspect::Suspect;
use datapath::Datapath;
use dpif::text::NoNames;
use dpif::{DpAction, DpFlow};
use flow::Flow;
use runtime::{Module, RateLimit};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use units::Millis;

static LOG: Module = Module::new("dpif_shadow");
static LIMIT: RateLimit = RateLimit::new(1, 5);

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
        Retranslation::Megaflow(t) if *t.actions == *actions => None,
        Retranslation::Megaflow(t) => Some(dpif::text::actions_text(&t.actions, &NoNames)),
        Retranslation::Unassociated if *actions == [UNASSOCIATED] => None,
        Retranslation::OneByOne | Retranslation::Unassociated => Some("not to be cached".to_owned()),
    }
}

impl Handler {
    /// See the module.
    pub fn look_again(&self, packet: &[u8], flow: &Flow, megaflow: &DpFlow) {
        self.verdicts.checked.fetch_add(1, Ordering::Relaxed);
        let published = self.shared.published();
        if !matches(flow, megaflow) {
            report(self, packet, megaflow, "another megaflow's: this one does not match it");
        } else if difference(self, &published, flow, &megaflow.actions).is_some() {
            self.shared.enqueue(SideEffect::Suspect(Box::new(Suspect {
                version: published.version,
                packet: packet.to_vec(),
                flow: *flow,
                ufid: megaflow.ufid,
                actions: Arc::clone(&megaflow.actions),
            })));
        }
    }
}

/// Whether it was the switch's fault. `unsettled`: some change has not got to all megaflows.
pub fn confirm(handler: &Handler, datapath: &Datapath, unsettled: bool, suspect: &Suspect, now: Millis) {
    let published = handler.shared.published();
    let settled = !unsettled && published.version == suspect.version;
    let megaflow = datapath.flow_get(suspect.ufid, now).filter(|m| m.actions == suspect.actions);
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
    use units::Ufid;

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
