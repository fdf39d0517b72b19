//! The owner of a megaflow in the control half: the statistics targets that count the megaflow's packets (OpenFlow rules,
//! ports and others), and the megaflow's references to frozen states.

use crate::patch_and_tunnel_counters::PatchAndTunnelCounters;
use crate::published::PublishedState;
use crate::shared_state::SharedState;
use crate::side_effect::SideEffect;
use dpif::{FlowOwner, FlowStats};
use exporter::netflow::Delta;
use ofproto::Table;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::Millis;
use xlate::{BridgeId, BridgeView, StatsTarget};

/// The owner of a megaflow. Made from a translation, and dropped with its megaflow.
pub struct Owner {
    shared: Arc<SharedState>,
    patch_tunnel_counters: Arc<PatchAndTunnelCounters>,
    stats_targets: Box<[StatsTarget]>,
    recircs: Box<[u32]>,
    /// The side effects of the packet that caused the megaflow were carried out. So if the first update of statistics
    /// counts only this packet, its learning is not repeated.
    side_effects_done: AtomicBool,
}

impl Owner {
    /// Creates the owner for the result of a translation. `side_effects_done`: the side effects of a packet were carried out.
    pub fn new(
        shared: &Arc<SharedState>,
        patch_tunnel_counters: &Arc<PatchAndTunnelCounters>,
        stats_targets: Vec<StatsTarget>,
        recircs: Vec<u32>,
        side_effects_done: bool,
    ) -> Owner {
        Owner {
            shared: Arc::clone(shared),
            patch_tunnel_counters: Arc::clone(patch_tunnel_counters),
            stats_targets: stats_targets.into(),
            recircs: recircs.into(),
            side_effects_done: AtomicBool::new(side_effects_done),
        }
    }

    /// The statistics targets that count the packets.
    pub fn stats_targets(&self) -> &[StatsTarget] {
        &self.stats_targets
    }

    /// Renews, learns or requests the next hop of a tunnel.
    fn update_next_hop(&self, target: &StatsTarget, used: Millis) {
        match target {
            StatsTarget::Neighbour { bridge, ip } => self.shared.neighbours.lock().renew(bridge, *ip, used),
            StatsTarget::NeighbourLearned { bridge, ip, mac } => {
                self.shared.note_neighbour(bridge, *ip, *mac, used)
            }
            StatsTarget::Solicit(solicitation) => {
                self.shared.enqueue(SideEffect::Solicit(Arc::clone(solicitation)));
            }
            _ => {}
        }
    }

    fn credit_target(
        &self,
        target: &StatsTarget,
        tables: &mut CreditedTables<'_>,
        delta: &FlowStats,
        used: Millis,
        side_effects_done: bool,
    ) {
        match target {
            StatsTarget::Match { bridge, rule } => {
                if let Some(table) = tables.table(*bridge, rule.table) {
                    table.credit_matched(delta.packets);
                }
                rule.credit(delta.packets, delta.bytes, used);
            }
            StatsTarget::Miss { bridge, table } => {
                if let Some(table) = tables.table(*bridge, *table) {
                    table.credit_missed(delta.packets);
                }
            }
            StatsTarget::InternalRule(rule) => rule.credit(delta.packets, delta.bytes, used),
            StatsTarget::Group { group, bucket } => {
                group.credit(bucket.map(|i| i as usize), delta.packets, delta.bytes)
            }
            StatsTarget::Patch { tx, rx } => self.patch_tunnel_counters.credit(*tx, *rx, delta),
            StatsTarget::Tunnel { at, out } => self.patch_tunnel_counters.credit_tunnel(*at, *out, delta),
            StatsTarget::Bond { tally, bucket } => tally.credit(*bucket, delta.packets, delta.bytes),
            StatsTarget::Mirror(tally) => tally.credit(delta.packets, delta.bytes),
            // The side effects of the first packet have done this already.
            StatsTarget::Mac { .. } | StatsTarget::Learn(_) if side_effects_done => {}
            StatsTarget::Mac { bridge, observation } => {
                if let Some(macs) = tables.published.macs.get(bridge) {
                    macs.learn(&self.shared.live, *bridge, observation, used);
                }
            }
            StatsTarget::Learn(flow) => self.shared.enqueue(SideEffect::Learn(Arc::clone(flow), used)),
            StatsTarget::FinTimeout(fin) if delta.tcp_flags & (FIN | RST) != 0 => {
                self.shared.enqueue(SideEffect::FinTimeout(fin.clone()));
            }
            StatsTarget::NetFlow { bridge, key, output } => {
                let FlowStats { packets, bytes, tcp_flags, .. } = *delta;
                let delta = Delta { packets, bytes, tcp_flags, used };
                self.shared.exporters.netflow(bridge.0, (*key, *output), delta);
            }
            StatsTarget::NeighbourLearned { .. } | StatsTarget::Solicit(_) if side_effects_done => {}
            StatsTarget::NeighbourLearned { .. }
            | StatsTarget::Solicit(_)
            | StatsTarget::Neighbour { .. } => {
                self.update_next_hop(target, used);
            }
            StatsTarget::FinTimeout(_) | StatsTarget::LengthChange { .. } => {}
        }
    }
}

/// Finds the tables whose statistics are updated. A megaflow has a statistics target for each table that was looked up.
struct CreditedTables<'p> {
    published: &'p PublishedState,
    /// The bridge of the previous look-up, which is nearly always the bridge of the next look-up, too.
    last: Option<(BridgeId, &'p BridgeView)>,
}

impl<'p> CreditedTables<'p> {
    fn table(&mut self, bridge: BridgeId, id: u8) -> Option<&'p Table> {
        self.bridge(bridge)?.tables.table(id).map(|table| &**table)
    }

    fn bridge(&mut self, id: BridgeId) -> Option<&'p BridgeView> {
        if let Some((_, bridge)) = self.last.filter(|(last, _)| *last == id) {
            return Some(bridge);
        }
        let bridge = self.published.snapshot.bridge(id)?;
        self.last = Some((id, bridge));
        Some(bridge)
    }
}

/// FIN flag of a TCP header (RFC 9293 §3.1).
const FIN: u16 = 0x01;
/// RST flag of a TCP header.
const RST: u16 = 0x04;

impl FlowOwner for Owner {
    fn credit(&self, delta: &FlowStats) {
        if delta.packets == 0 {
            return;
        }
        let side_effects_done = self.side_effects_done.swap(false, Ordering::Relaxed) && delta.packets == 1;
        let used = delta.used.unwrap_or_default();
        let published = self.shared.published_for_packet();
        let mut tables = CreditedTables { published: &published, last: None };
        // For targets in the underlay the packets are longer, by the length of the tunnel header.
        let mut longer = 0;
        for target in &self.stats_targets {
            if let StatsTarget::LengthChange { by } = target {
                longer += by;
            }
            let bytes = delta.bytes.saturating_add_signed(longer.saturating_mul(delta.packets as i64));
            self.credit_target(target, &mut tables, &FlowStats { bytes, ..*delta }, used, side_effects_done);
        }
    }

    fn footprint(&self) -> usize {
        size_of_val(self) + size_of_val(&*self.stats_targets) + size_of_val(&*self.recircs)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.release(&self.recircs);
        for target in &self.stats_targets {
            if let StatsTarget::NetFlow { bridge, key, .. } = target {
                self.shared.exporters.end_netflow(bridge.0, *key);
            }
        }
    }
}
