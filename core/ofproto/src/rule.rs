//! One flow of an OpenFlow table.
//!
//! The match and the actions of a rule never change. A modification creates a new rule that shares the counters of the old rule, so
//! translations may keep rules of an old snapshot. Only atomic numbers change while readers use a rule: counters, the time of the last
//! change and timeouts.

use classifier::of::{ClassifierRule, Conjunction, SparseMatch};
use flow::Match;
use flow::flow::PLAIN_WORDS;
use flow::tlv::Layout;
use openflow::action::Action;
use openflow::flow_mod::FlowFlags;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};
use units::Millis;

/// Largest priority in OpenFlow. Rules with a higher priority are hidden from OpenFlow.
pub const PRIORITY_MAX: u32 = 0xffff;

/// Counters of a rule. When a modification replaces a rule, the new rule shares the counters of the old rule, unless they are reset.
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

/// One flow; see the module documentation.
#[derive(Debug)]
pub struct Rule {
    pub(crate) id: u64,
    /// The rule number that the flow got when it was added; modifications keep it.
    pub(crate) added: u64,
    pub(crate) matching: SparseMatch,
    pub(crate) priority: u32,
    pub(crate) conjunctions: Box<[Conjunction]>,
    pub(crate) idle_timeout: AtomicU16,
    pub(crate) hard_timeout: AtomicU16,
    pub(crate) modified: AtomicU64,
    pub(crate) stats: Arc<RuleStats>,
    /// Layout of the tunnel option fields that the rule matches; `None` if it matches none.
    pub(crate) layout: Option<Arc<Layout>>,
    /// The table of the flow.
    pub table: u8,
    /// The cookie, set by the controller.
    pub cookie: u64,
    /// Importance for eviction: flows of lower importance are evicted first.
    pub importance: u16,
    /// The flags of the flow mod.
    pub flags: FlowFlags,
    /// The actions.
    pub actions: Arc<[Action]>,
    /// When the flow was added.
    pub created: Millis,
}

impl ClassifierRule for Rule {
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
    /// The rule number, unique in the bridge. A modified flow gets a new number.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// The match in full form.
    pub fn full_match(&self) -> Match {
        let mut m = Match { flow: self.matching.expand_flow(), mask: self.matching.mask().expand() };
        if let Some(layout) = &self.layout {
            m.set_layout(**layout);
        }
        m
    }

    /// Bit mask of the tunnel option fields that the rule matches or its actions use. These fields must stay mapped.
    pub(crate) fn tlv_fields(&self) -> u64 {
        self.matching.mask().word(PLAIN_WORDS) | openflow::tlv::option_fields_in(&self.actions)
    }

    /// Seconds without a packet until the flow expires; 0: never.
    pub fn idle_timeout(&self) -> u16 {
        self.idle_timeout.load(Relaxed)
    }

    /// Seconds after its last modification until the flow expires; 0: never.
    pub fn hard_timeout(&self) -> u16 {
        self.hard_timeout.load(Relaxed)
    }

    /// When the flow was added, modified, or learned again.
    pub fn modified(&self) -> Millis {
        Millis(self.modified.load(Relaxed))
    }

    /// When a packet last matched the flow; if none has, when the flow was added.
    pub fn used(&self) -> Millis {
        Millis(self.stats.used.load(Relaxed))
    }

    /// Number of packets that matched the flow.
    pub fn packets(&self) -> u64 {
        self.stats.packets.load(Relaxed)
    }

    /// Number of bytes of the packets that matched the flow.
    pub fn bytes(&self) -> u64 {
        self.stats.bytes.load(Relaxed)
    }

    /// Adds packets and bytes to the counters; the last packet arrived at `used`. Any thread may call this.
    pub fn credit(&self, packets: u64, bytes: u64, used: Millis) {
        self.stats.packets.fetch_add(packets, Relaxed);
        self.stats.bytes.fetch_add(bytes, Relaxed);
        // Many megaflows use the same rule, and most of them were used in the same millisecond, so this write is mostly skipped.
        if self.stats.used.load(Relaxed) < used.0 {
            self.stats.used.fetch_max(used.0, Relaxed);
        }
    }

    /// Whether the flow is hidden: OpenFlow requests neither see nor change it.
    pub fn is_hidden(&self) -> bool {
        self.priority > PRIORITY_MAX
    }

    pub(crate) fn has_timeout(&self) -> bool {
        self.idle_timeout() != 0 || self.hard_timeout() != 0
    }

    /// When the flow expires if no more packets arrive; `Millis::NEVER` without timeouts.
    pub(crate) fn deadline(&self) -> Millis {
        let after = |t: u16, since: Millis| match t {
            0 => Millis::NEVER,
            t => since + Millis::from_secs(t.into()),
        };
        after(self.hard_timeout(), self.modified()).min(after(self.idle_timeout(), self.used()))
    }

    /// Creates the rule that replaces this rule after a modification.
    pub(crate) fn successor(
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

    /// Counters for the rule that replaces this rule: the same counters, or zeroed ones that keep only the time of last use.
    pub(crate) fn stats_for_successor(&self, keep_counts: bool) -> Arc<RuleStats> {
        if keep_counts { Arc::clone(&self.stats) } else { Arc::new(RuleStats::new(self.used())) }
    }
}

/// The conjunctions that the `conjunction` actions name.
pub(crate) fn conjunctions(actions: &[Action]) -> Box<[Conjunction]> {
    let part = |a: &Action| match *a {
        Action::Conjunction { id, clause, n_clauses } => Some(Conjunction { id, clause, n_clauses }),
        _ => None,
    };
    actions.iter().filter_map(part).collect()
}

/// Calls `f` for every action, including nested ones.
pub(crate) fn for_each_action(actions: &[Action], f: &mut impl FnMut(&Action)) {
    for a in actions {
        f(a);
        for_each_action(a.nested(), f);
    }
}
