//! The control half's side of a megaflow: whom to credit for its packets, which frozen states it needs.

use crate::control::{Control, Deed, Published};
use crate::patch::PatchCounters;
use dpif::{FlowOwner, FlowStats};
use ofproto::Table;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::Millis;
use xlate::{Bridge, BridgeId, Credit};

/// Made by a translation, dropped with its megaflow.
pub struct Owner {
    control: Arc<Control>,
    patches: Arc<PatchCounters>,
    credits: Box<[Credit]>,
    recircs: Box<[u32]>,
    /// The packet that made the megaflow has learned already what a credit would teach.
    fresh: AtomicBool,
}

impl Owner {
    /// Of a translation. `fresh`: a packet asked for it, and its effects were carried out.
    pub fn new(
        control: &Arc<Control>,
        patches: &Arc<PatchCounters>,
        credits: Vec<Credit>,
        recircs: Vec<u32>,
        fresh: bool,
    ) -> Owner {
        Owner {
            control: Arc::clone(control),
            patches: Arc::clone(patches),
            credits: credits.into(),
            recircs: recircs.into(),
            fresh: AtomicBool::new(fresh),
        }
    }

    /// Whom it credits.
    pub fn credits(&self) -> &[Credit] {
        &self.credits
    }

    fn credit_one(
        &self,
        credit: &Credit,
        books: &mut Books<'_>,
        delta: &FlowStats,
        used: Millis,
        fresh: bool,
    ) {
        match credit {
            Credit::Match { bridge, rule } => {
                if let Some(table) = books.table(*bridge, rule.table) {
                    table.credit_matched(delta.packets);
                }
                rule.credit(delta.packets, delta.bytes, used);
            }
            Credit::Miss { bridge, table } => {
                if let Some(table) = books.table(*bridge, *table) {
                    table.credit_missed(delta.packets);
                }
            }
            Credit::Rule(rule) => rule.credit(delta.packets, delta.bytes, used),
            Credit::Group { group, bucket } => {
                group.credit(bucket.map(|i| i as usize), delta.packets, delta.bytes)
            }
            Credit::Patch { tx, rx } => self.patches.credit(*tx, *rx, delta),
            Credit::Tunnel { at, out } => self.patches.credit_one(*at, *out, delta),
            Credit::Mirror(tally) => tally.credit(delta.packets, delta.bytes),
            // The first packet's own effects did it.
            Credit::Mac { .. } | Credit::Learn(_) if fresh => {}
            Credit::Mac { bridge, need } => {
                if let Some(macs) = books.published.macs.get(bridge) {
                    macs.learn(&self.control, *bridge, need, used);
                }
            }
            Credit::Learn(flow) => self.control.enqueue(Deed::Learn(Arc::clone(flow), used)),
            Credit::FinTimeout(fin) if delta.tcp_flags & (FIN | RST) != 0 => {
                self.control.enqueue(Deed::FinTimeout(fin.clone()));
            }
            Credit::FinTimeout(_) => {}
        }
    }
}

/// Where the tables to be credited are. A megaflow has a credit for each table that its packets went through.
struct Books<'p> {
    published: &'p Published,
    /// The bridge asked for last, which is nearly always the next one, too.
    last: Option<(BridgeId, &'p Bridge)>,
}

impl<'p> Books<'p> {
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
        let published = self.control.published();
        let mut books = Books { published: &published, last: None };
        for credit in &self.credits {
            self.credit_one(credit, &mut books, delta, used, fresh);
        }
    }

    fn footprint(&self) -> usize {
        size_of_val(self) + size_of_val(&*self.credits) + size_of_val(&*self.recircs)
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.control.release(&self.recircs);
    }
}
