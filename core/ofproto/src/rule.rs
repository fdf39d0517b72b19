//! One flow of an OpenFlow table.
//!
//! What a rule matches and does never changes: a modification makes a new rule that shares the old one's counters, so that
//! translators may hold rules of an old snapshot. What may change under a reader are numbers: counters, the time of the last change
//! and timeouts, all atomic.

use classifier::of::{Classified, Conjunction, SparseMatch};
use flow::Match;
use flow::flow::PLAIN_WORDS;
use flow::tlv::Layout;
use openflow::action::Action;
use openflow::flow_mod::FlowFlags;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use units::Millis;

/// Priorities above this cannot be asked for by OpenFlow: such rules are hidden from it.
pub const PRIORITY_MAX: u32 = 0xffff;

/// What passed a rule, shared by all rules that followed each other by modification.
#[derive(Debug, Default)]
pub struct RuleStats {
    packets: AtomicU64,
    bytes: AtomicU64,
    used: AtomicU64,
}

impl RuleStats {
    pub(crate) fn new(used: Millis) -> RuleStats {
        RuleStats { used: AtomicU64::new(used.0), ..RuleStats::default() }
    }
}

/// One flow. See the module.
#[derive(Debug)]
pub struct Rule {
    pub(crate) id: u64,
    /// Its number when it was added; modifications keep it.
    pub(crate) added: u64,
    pub(crate) matching: SparseMatch,
    pub(crate) priority: u32,
    pub(crate) conjunctions: Box<[Conjunction]>,
    pub(crate) idle_timeout: AtomicU16,
    pub(crate) hard_timeout: AtomicU16,
    pub(crate) modified: AtomicU64,
    pub(crate) stats: Arc<RuleStats>,
    /// Where the fields of tunnel options lie that it matches; `None`: it matches none.
    pub(crate) layout: Option<Arc<Layout>>,
    /// The table that it is in.
    pub table: u8,
    /// The controller's name for it.
    pub cookie: u64,
    /// Less important rules are evicted first.
    pub importance: u16,
    /// Flags that it was made with.
    pub flags: FlowFlags,
    /// What it does.
    pub actions: Arc<[Action]>,
    /// When it was added.
    pub created: Millis,
}

impl Classified for Rule {
    fn matching(&self) -> &SparseMatch {
        &self.matching
    }
    fn priority(&self) -> u32 {
        self.priority
    }
    fn conjunctions(&self) -> &[Conjunction] {
        &self.conjunctions
    }
}

impl Rule {
    /// A number that no other rule of this switch has had; modification gives a new one.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// What it matches, in full.
    pub fn full_match(&self) -> Match {
        let mut m = Match { flow: self.matching.expand_flow(), mask: self.matching.mask().expand() };
        if let Some(layout) = &self.layout {
            m.set_layout(**layout);
        }
        m
    }

    /// The fields of tunnel options that it matches or names, a bit each: none of them may be unmapped.
    pub(crate) fn tlv_fields(&self) -> u64 {
        self.matching.mask().word(PLAIN_WORDS) | openflow::tlv::named_by(&self.actions)
    }

    /// Seconds without a packet after which it goes; 0: never.
    pub fn idle_timeout(&self) -> u16 {
        self.idle_timeout.load(Relaxed)
    }

    /// Seconds after its last change when it goes; 0: never.
    pub fn hard_timeout(&self) -> u16 {
        self.hard_timeout.load(Relaxed)
    }

    /// When it was added, modified, or learned again.
    pub fn modified(&self) -> Millis {
        Millis(self.modified.load(Relaxed))
    }

    /// When a packet last matched it; when it was made, if none has.
    pub fn used(&self) -> Millis {
        Millis(self.stats.used.load(Relaxed))
    }

    /// Packets that matched it.
    pub fn packets(&self) -> u64 {
        self.stats.packets.load(Relaxed)
    }

    /// Bytes of those packets.
    pub fn bytes(&self) -> u64 {
        self.stats.bytes.load(Relaxed)
    }

    /// Counts packets, the last of which came at `used`. Any thread may call it.
    pub fn credit(&self, packets: u64, bytes: u64, used: Millis) {
        self.stats.packets.fetch_add(packets, Relaxed);
        self.stats.bytes.fetch_add(bytes, Relaxed);
        // Of many megaflows through one rule most were used in the same millisecond.
        if self.stats.used.load(Relaxed) < used.0 {
            self.stats.used.fetch_max(used.0, Relaxed);
        }
    }

    /// OpenFlow requests neither see nor change it.
    pub fn is_hidden(&self) -> bool {
        self.priority > PRIORITY_MAX
    }

    pub(crate) fn has_timeout(&self) -> bool {
        self.idle_timeout() != 0 || self.hard_timeout() != 0
    }

    /// When it goes if no packet comes; `Millis::NEVER` without timeouts.
    pub(crate) fn deadline(&self) -> Millis {
        let after = |t: u16, since: Millis| match t {
            0 => Millis::NEVER,
            t => since + Millis::from_secs(t.into()),
        };
        after(self.hard_timeout(), self.modified()).min(after(self.idle_timeout(), self.used()))
    }

    /// What a modification makes of it.
    pub(crate) fn changed(
        &self,
        id: u64,
        cookie: u64,
        actions: Arc<[Action]>,
        stats: Arc<RuleStats>,
        now: Millis,
    ) -> Rule {
        Rule {
            id,
            added: self.added,
            matching: self.matching.clone(),
            priority: self.priority,
            conjunctions: conjunctions(&actions),
            idle_timeout: AtomicU16::new(self.idle_timeout()),
            hard_timeout: AtomicU16::new(self.hard_timeout()),
            modified: AtomicU64::new(now.0),
            stats,
            layout: self.layout.clone(),
            table: self.table,
            cookie,
            importance: self.importance,
            flags: self.flags,
            actions,
            created: self.created,
        }
    }

    /// Counters for its successor: the same, or new ones that remember only when it was used.
    pub(crate) fn stats_for_successor(&self, keep_counts: bool) -> Arc<RuleStats> {
        if keep_counts { Arc::clone(&self.stats) } else { Arc::new(RuleStats::new(self.used())) }
    }
}

/// The conjunctions among actions.
pub(crate) fn conjunctions(actions: &[Action]) -> Box<[Conjunction]> {
    let part = |a: &Action| match *a {
        Action::Conjunction { id, clause, n_clauses } => Some(Conjunction { id, clause, n_clauses }),
        _ => None,
    };
    actions.iter().filter_map(part).collect()
}

/// Calls `f` for every action, also for those inside others.
pub(crate) fn for_each_action(actions: &[Action], f: &mut impl FnMut(&Action)) {
    for a in actions {
        f(a);
        for_each_action(a.nested(), f);
    }
}
