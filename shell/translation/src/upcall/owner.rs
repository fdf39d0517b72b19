//! The owner of a megaflow in the control half: the rules and ports to credit for its packets, and the frozen states
//! it refers to.

use crate::patch_counters::PatchCounters;
use crate::published::Published;
use crate::shared_state::SharedState;
use crate::side_effect::SideEffect;
use dpif::{FlowOwner, FlowStats};
use exporter::netflow::Delta;
use ofproto::Table;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::Millis;
use xlate::{Bridge, BridgeId, Credit};

/// Made by a translation, dropped with its megaflow.
pub struct Owner {
    shared: Arc<SharedState>,
    patches: Arc<PatchCounters>,
    credits: Box<[Credit]>,
    recircs: Box<[u32]>,
    /// The packet that made the megaflow had its side effects carried out: its learning need not be repeated by the
    /// first credit.
    fresh: AtomicBool,
}

impl Owner {
    /// From a translation. `fresh`: a packet caused it, and its side effects were carried out.
    pub fn new(
        shared: &Arc<SharedState>,
        patches: &Arc<PatchCounters>,
        credits: Vec<Credit>,
        recircs: Vec<u32>,
        fresh: bool,
    ) -> Owner {
        Owner {
            shared: Arc::clone(shared),
            patches: Arc::clone(patches),
            credits: credits.into(),
            recircs: recircs.into(),
            fresh: AtomicBool::new(fresh),
        }
    }

    /// The credits: what its packets are counted for.
    pub fn credits(&self) -> &[Credit] {
        &self.credits
    }

    /// Marks the next hop of a tunnel as used.
    fn credit_next_hop(&self, credit: &Credit, used: Millis) {
        match credit {
            Credit::Neighbour { bridge, ip } => self.shared.neighbours.lock().renew(bridge, *ip, used),
            Credit::Heard { bridge, ip, mac } => self.shared.note_neighbour(bridge, *ip, *mac, used),
            Credit::Solicit(solicitation) => {
                self.shared.enqueue(SideEffect::Solicit(Arc::clone(solicitation)));
            }
            _ => {}
        }
    }

    fn credit_one(
        &self,
        credit: &Credit,
        tables: &mut CreditedTables<'_>,
        delta: &FlowStats,
        used: Millis,
        fresh: bool,
    ) {
        match credit {
            Credit::Match { bridge, rule } => {
                if let Some(table) = tables.table(*bridge, rule.table) {
                    table.credit_matched(delta.packets);
                }
                rule.credit(delta.packets, delta.bytes, used);
            }
            Credit::Miss { bridge, table } => {
                if let Some(table) = tables.table(*bridge, *table) {
                    table.credit_missed(delta.packets);
                }
            }
            Credit::Rule(rule) => rule.credit(delta.packets, delta.bytes, used),
            Credit::Group { group, bucket } => {
                group.credit(bucket.map(|i| i as usize), delta.packets, delta.bytes)
            }
            Credit::Patch { tx, rx } => self.patches.credit(*tx, *rx, delta),
            Credit::Tunnel { at, out } => self.patches.credit_one(*at, *out, delta),
            Credit::Bond { tally, bucket } => tally.credit(*bucket, delta.packets, delta.bytes),
            Credit::Mirror(tally) => tally.credit(delta.packets, delta.bytes),
            // Already done by the side effects of the first packet.
            Credit::Mac { .. } | Credit::Learn(_) if fresh => {}
            Credit::Mac { bridge, need } => {
                if let Some(macs) = tables.published.macs.get(bridge) {
                    macs.learn(&self.shared.live, *bridge, need, used);
                }
            }
            Credit::Learn(flow) => self.shared.enqueue(SideEffect::Learn(Arc::clone(flow), used)),
            Credit::FinTimeout(fin) if delta.tcp_flags & (FIN | RST) != 0 => {
                self.shared.enqueue(SideEffect::FinTimeout(fin.clone()));
            }
            Credit::NetFlow { bridge, key, output } => {
                let FlowStats { packets, bytes, tcp_flags, .. } = *delta;
                let delta = Delta { packets, bytes, tcp_flags, used };
                self.shared.exporters.netflow(bridge.0, (*key, *output), delta);
            }
            Credit::Heard { .. } | Credit::Solicit(_) if fresh => {}
            Credit::Heard { .. } | Credit::Solicit(_) | Credit::Neighbour { .. } => {
                self.credit_next_hop(credit, used);
            }
            Credit::FinTimeout(_) | Credit::Header { .. } => {}
        }
    }
}

/// Finds the tables to credit. A megaflow has a credit for each table that its packets passed.
struct CreditedTables<'p> {
    published: &'p Published,
    /// The bridge of the previous look-up, which is nearly always the next one as well.
    last: Option<(BridgeId, &'p Bridge)>,
}

impl<'p> CreditedTables<'p> {
    fn table(&mut self, bridge: BridgeId, id: u8) -> Option<&'p Table> {
        self.bridge(bridge)?.tables.table(id).map(|table| &**table)
    }

    fn bridge(&mut self, id: BridgeId) -> Option<&'p Bridge> {
        if let Some((_, bridge)) = self.last.filter(|(last, _)| *last == id) {
            return Some(bridge);
        }
        let bridge = self.published.snapshot.bridge(id)?;
        self.last = Some((id, bridge));
        Some(bridge)
    }
}

/// Flags of a TCP header (RFC 9293 §3.1).
const FIN: u16 = 0x01;
const RST: u16 = 0x04;

impl FlowOwner for Owner {
    fn credit(&self, delta: &FlowStats) {
        if delta.packets == 0 {
            return;
        }
        let fresh = self.fresh.swap(false, Ordering::Relaxed) && delta.packets == 1;
        let used = delta.used.unwrap_or_default();
        let published = self.shared.published();
        let mut tables = CreditedTables { published: &published, last: None };
        // Behind a tunnel packets are longer by the tunnel's header.
        let mut longer = 0;
        for credit in &self.credits {
            if let Credit::Header { longer_by } = credit {
                longer += longer_by;
            }
            let bytes = delta.bytes.saturating_add_signed(longer.saturating_mul(delta.packets as i64));
            self.credit_one(credit, &mut tables, &FlowStats { bytes, ..*delta }, used, fresh);
        }
    }

    fn footprint(&self) -> usize {
        size_of_val(self) + size_of_val(&*self.credits) + size_of_val(&*self.recircs)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.release(&self.recircs);
        for credit in &self.credits {
            if let Credit::NetFlow { bridge, key, .. } = credit {
                self.shared.exporters.end_netflow(bridge.0, *key);
            }
        }
    }
}
