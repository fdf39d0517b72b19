//! `other_config:shadow-check`: checks that a megaflow has the actions that the OpenFlow tables give the packet.
//!
//! A worker passes a sampled packet and the megaflow that it matched. First the check compares field by field whether the
//! megaflow matches the packet, then it translates the packet again. If the actions differ, the tables may just have
//! changed, or a station may have moved. So the packet is passed to the main thread, which alone knows whether all changes
//! have been published and revalidated. If the actions still differ then, the switch has a bug: it is counted and logged
//! with the packet. One such report is not a bug: if two rules of equal priority match the packet, the actions of either
//! rule are right (OpenFlow 1.5.1, section 5.3).
//!
//! **Threads**: [`UpcallTranslator::shadow_check`] on workers, [`confirm_suspect`] on the main thread.

use crate::published::PublishedState;
use crate::side_effect::SideEffect;
use crate::upcall::suspect_megaflow::SuspectMegaflow;
use crate::upcall::translator::{Retranslation, UNASSOCIATED, UpcallTranslator};
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

/// Whether the packet has the megaflow's value in every field that the megaflow matches.
fn matches(flow: &Flow, megaflow: &DpFlow) -> bool {
    let keys = flow.words().iter().zip(megaflow.key.words());
    keys.zip(megaflow.mask.words()).all(|((f, k), m)| (f ^ k) & m == 0)
}

/// Text of the actions that the tables give the packet; `None` if the megaflow has the same actions.
///
/// Masks are not compared. It is not a bug if the new translation consults more fields: it may have compared the packet
/// with a rule that was added since and does not match; such a rule does not make the megaflow wrong. A mask with too few
/// bits shows in other packets, which get wrong actions.
fn difference(
    translator: &UpcallTranslator,
    published: &PublishedState,
    flow: &Flow,
    actions: &[DpAction],
) -> Option<String> {
    match translator.retranslate(published, flow) {
        Retranslation::Megaflow(t) if **t.megaflow_actions() == *actions => None,
        Retranslation::Megaflow(t) => Some(dpif::text::actions_text(t.megaflow_actions(), &NoNames)),
        Retranslation::Unassociated(_) if *actions == [UNASSOCIATED] => None,
        Retranslation::Uncached | Retranslation::Unassociated(_) => Some("not to be cached".to_owned()),
    }
}

impl UpcallTranslator {
    /// Checks a packet on a worker; passes the packet to the main thread if the actions differ.
    pub fn shadow_check(&self, packet: &[u8], flow: &Flow, megaflow: &DpFlow) {
        self.shadow_checks.checked.fetch_add(1, Ordering::Relaxed);
        let published = self.shared.published();
        if !matches(flow, megaflow) {
            report(self, packet, megaflow, "that it does not match");
        } else if difference(self, &published, flow, &megaflow.actions).is_some() {
            self.shared.enqueue(SideEffect::Suspect(Box::new(SuspectMegaflow {
                version: published.version,
                packet: packet.to_vec(),
                flow: *flow,
                ufid: megaflow.ufid,
                actions: Arc::clone(&megaflow.actions),
            })));
        }
    }
}

/// Checks a packet again on the main thread, and logs a bug if the actions still differ. `unsettled`: revalidation is not
/// complete, so the check has no result.
pub fn confirm_suspect(
    translator: &UpcallTranslator,
    datapath: &Datapath,
    unsettled: bool,
    suspect: &SuspectMegaflow,
    now: Millis,
) {
    let published = translator.shared.published();
    let settled = !unsettled && published.version == suspect.version;
    let megaflow = datapath.flow_get(suspect.ufid, now).filter(|m| m.actions == suspect.actions);
    let Some(megaflow) = megaflow.filter(|_| settled) else {
        translator.shadow_checks.unsettled.fetch_add(1, Ordering::Relaxed);
        return;
    };
    if let Some(wanted) = difference(translator, &published, &suspect.flow, &megaflow.actions) {
        report(translator, &suspect.packet, &megaflow, &format!("whose actions should be {wanted}"));
    }
}

/// Counts and logs a packet that was forwarded by the wrong megaflow or with wrong actions. `which`: the relative clause about the packet.
fn report(translator: &UpcallTranslator, packet: &[u8], megaflow: &DpFlow, which: &str) {
    translator.shadow_checks.wrong.fetch_add(1, Ordering::Relaxed);
    let actions = dpif::text::actions_text(&megaflow.actions, &NoNames);
    let hex: String = packet.iter().map(|b| format!("{b:02x}")).collect();
    runtime::warn_rl!(
        LOG,
        LIMIT,
        "{}: megaflow {} (actions {actions}) was used for a packet {which}: {hex}",
        translator.name,
        dpif::text::ufid_text(megaflow.ufid)
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use dpif::{FlowStats, NoOwner};
    use units::Ufid;

    #[test]
    fn only_masked_bits_count() {
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
