//! What packets and flow changes cause in the main loop: learned flows, packet-ins, messages about flows that went.

use crate::bridge::Bridge;
use crate::control::{DEEDS_MAX, Deed};
use crate::packet_in::PacketInParts;
use crate::switch::Switch;
use ofconn::{ConnId, PacketInEvent};
use ofproto::Effects;
use openflow::Xid;
use runtime::{Module, RateLimit};
use units::Millis;
use xlate::{BridgeId, LearnedFlow};

static LOG: Module = Module::new("ofproto_dpif");
static LIMIT: RateLimit = RateLimit::new(1, 5);

/// Tells controllers what they watch and what went. `own`: whose request did it, in which transaction.
pub(crate) fn announce(bridge: &mut Bridge, effects: &Effects, own: Option<(ConnId, Xid)>, now: Millis) {
    crate::openflow::report_to_monitors(bridge, effects, own);
    crate::openflow::report_vacancy(bridge, effects);
    for removed in effects.flows_removed(now) {
        bridge.conns.send_flow_removed(&removed);
    }
}

/// Keeps what a packet asked for until the tables can be changed. What is beyond the bound is lost, as it is where handlers
/// ask for too much at once: the packets that follow ask again.
fn defer(bridge: &mut Bridge, deed: Deed) {
    if bridge.deferred.len() < DEEDS_MAX {
        bridge.deferred.push(deed);
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
    /// Does what packets asked for since the last call. True if there was anything.
    pub(crate) fn do_deeds(&mut self) -> bool {
        let kinds: Vec<String> = self.backers.keys().cloned().collect();
        let mut any = false;
        for kind in kinds {
            let Some(backer) = self.backers.get_mut(&kind) else { continue };
            backer.take_live_changes();
            let lost = backer.control.take_lost();
            if lost > 0 {
                runtime::warn_rl!(LOG, LIMIT, "{lost} packet-ins or learned flows lost: too many at once");
            }
            for deed in backer.control.take_deeds() {
                any = true;
                self.do_deed(&kind, deed);
            }
        }
        any
    }

    fn do_deed(&mut self, kind: &str, deed: Deed) {
        let now = self.clock.now();
        match deed {
            Deed::Learn(flow, used) => match self.bridge_by_id(flow.bridge) {
                Some(bridge) if bridge.commit.is_some() => defer(bridge, Deed::Learn(flow, used)),
                _ => self.learn(&flow, used, now),
            },
            Deed::FinTimeout(fin) => {
                // The rule knows its timeouts; only the bridge that has it takes note.
                for bridge in self.bridges.values_mut() {
                    if bridge.commit.is_some() {
                        defer(bridge, Deed::FinTimeout(fin.clone()));
                    } else {
                        bridge.ofproto.reduce_timeouts(&fin.rule, fin.idle, fin.hard);
                    }
                }
            }
            Deed::PacketIn(parts) => self.packet_in(*parts),
            Deed::Suspect(suspect) => {
                if let Some(backer) = self.backers.get(kind) {
                    crate::shadow::confirm(backer, &suspect, now);
                }
            }
        }
    }

    /// Does what packets asked a bridge for while its tables could not be changed.
    pub(crate) fn do_deferred(&mut self, name: &str) {
        let Some(bridge) = self.bridges.get_mut(name).filter(|b| b.commit.is_none()) else { return };
        let (kind, deferred) = (bridge.config.datapath_type.clone(), std::mem::take(&mut bridge.deferred));
        deferred.into_iter().for_each(|deed| self.do_deed(&kind, deed));
    }

    fn bridge_by_id(&mut self, id: BridgeId) -> Option<&mut Bridge> {
        self.bridges.values_mut().find(|b| b.id == id)
    }

    fn learn(&mut self, flow: &LearnedFlow, used: Millis, now: Millis) {
        let Some(bridge) = self.bridge_by_id(flow.bridge) else { return };
        let learned = match bridge.ofproto.learn(&flow.flow_mod, flow.limit, used, now) {
            Ok(learned) => learned,
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
        announce(bridge, &learned.effects, None, now);
        let (id, kind) = (bridge.id, bridge.config.datapath_type.clone());
        if let Some(backer) = self.backers.get_mut(&kind) {
            backer.changes.push_effects(id, &learned.effects);
        }
    }

    fn packet_in(&mut self, parts: PacketInParts) {
        let now = self.clock.now();
        if let Some(bridge) = self.bridge_by_id(parts.bridge) {
            let event = PacketInEvent {
                controller_id: parts.controller_id,
                message: parts.message,
                continuation: parts.continuation,
            };
            bridge.conns.send_packet_in(&event, now);
        }
    }
}
