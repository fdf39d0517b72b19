//! Carries out the side effects of translations in the main loop: learned flows, shorter timeouts of rules, packet-ins,
//! requests for next hops and the packets that waited for them, and checks of suspect megaflows.

use crate::switch::Switch;
use ofconn::PacketInEvent;
use openflow_service::{Bridge, announce};
use runtime::{Module, RateLimit};
use translation::upcall::shadow_check::confirm_suspect;
use translation::{PacketInParts, SIDE_EFFECTS_MAX, SideEffect};
use units::Millis;
use xlate::{BridgeId, LearnedFlow};

static LOG: Module = Module::new("ofproto_dpif");
static LIMIT: RateLimit = RateLimit::new(1, 5);

/// Queues a side effect until the commit of a bundle ends, because the tables cannot be changed meanwhile. If the queue
/// is full, the side effect is dropped, as handlers do: later packets cause it again.
fn defer(bridge: &mut Bridge, effect: SideEffect) {
    if bridge.unfinished.deferred.len() < SIDE_EFFECTS_MAX {
        bridge.unfinished.deferred.push(effect);
    } else {
        runtime::warn_rl!(
            LOG,
            LIMIT,
            "{}: learned flows lost: too many during the commit of a bundle",
            bridge.name
        );
    }
}

impl Switch {
    /// Carries out the side effects that were queued since the last call. Returns whether there were any.
    pub(crate) fn run_side_effects(&mut self) -> bool {
        let mut all = Vec::new();
        for backer in self.datapaths.with_bridges_mut() {
            backer.take_live_changes();
            let lost = backer.shared.take_dropped_side_effects();
            if lost > 0 {
                runtime::warn_rl!(LOG, LIMIT, "{lost} packet-ins or learned flows lost: too many at once");
            }
            let side_effects = backer.shared.take_side_effects();
            if !side_effects.is_empty() {
                all.push((backer.datapath_type.clone(), side_effects));
            }
        }
        let any = !all.is_empty();
        for (kind, side_effects) in all {
            side_effects.into_iter().for_each(|effect| self.side_effect(&kind, effect));
        }
        any
    }

    fn side_effect(&mut self, kind: &str, effect: SideEffect) {
        let now = self.clock.now();
        match effect {
            SideEffect::Learn(flow, used) => match self.bridge_by_id(flow.bridge) {
                Some(bridge) if bridge.unfinished.commit.is_some() => {
                    defer(bridge, SideEffect::Learn(flow, used))
                }
                _ => self.learn(&flow, used, now),
            },
            SideEffect::FinTimeout(fin) => {
                // Only the bridge that has the rule changes its timeouts.
                for bridge in self.bridges.values_mut() {
                    if bridge.unfinished.commit.is_some() {
                        defer(bridge, SideEffect::FinTimeout(fin.clone()));
                    } else {
                        bridge.ofproto.reduce_timeouts(&fin.rule, fin.idle, fin.hard);
                    }
                }
            }
            SideEffect::PacketIn(parts) => self.packet_in(*parts),
            SideEffect::Solicit(solicitation) => self.solicit(kind, &solicitation),
            SideEffect::Release(packets) => self.send_held_packets(kind, &packets),
            SideEffect::Suspect(suspect) => {
                if let Some(backer) = self.datapaths.of(kind) {
                    confirm_suspect(
                        &backer.upcall_translator,
                        &backer.datapath,
                        backer.has_pending_changes(),
                        &suspect,
                        now,
                    );
                }
            }
        }
    }

    /// Carries out the side effects that were queued for a bridge during the commit of a bundle.
    pub(crate) fn run_deferred_side_effects(&mut self, name: &str) {
        let Some(bridge) = self.bridges.get_mut(name).filter(|b| b.unfinished.commit.is_none()) else {
            return;
        };
        let (kind, deferred) =
            (bridge.config.datapath_type.clone(), std::mem::take(&mut bridge.unfinished.deferred));
        deferred.into_iter().for_each(|effect| self.side_effect(&kind, effect));
    }

    fn bridge_by_id(&mut self, id: BridgeId) -> Option<&mut Bridge> {
        self.bridges.values_mut().find(|b| b.id == id)
    }

    fn learn(&mut self, flow: &LearnedFlow, used: Millis, now: Millis) {
        let Some(bridge) = self.bridge_by_id(flow.bridge) else { return };
        let changes = match bridge.ofproto.learn(&flow.flow_mod, flow.limit, used, now) {
            Ok(changes) => changes,
            Err(e) => {
                runtime::warn_rl!(
                    LOG,
                    LIMIT,
                    "{}: learn action failed to modify flow table ({e})",
                    bridge.name
                );
                return;
            }
        };
        announce(bridge, &changes, None, now);
        let (id, kind) = (bridge.id, bridge.config.datapath_type.clone());
        if let Some(backer) = self.datapaths.of_mut(&kind) {
            backer.changes.push_table_changes(id, &changes);
        }
    }

    fn packet_in(&mut self, parts: PacketInParts) {
        if let Some(bridge) = self.bridge_by_id(parts.bridge) {
            let event = PacketInEvent {
                controller_id: parts.controller_id,
                message: parts.message,
                continuation: parts.continuation,
            };
            bridge.conns.send_packet_in(&event);
        }
    }
}
