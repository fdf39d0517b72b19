//! Table look-ups: finds the rule of a packet and executes its actions.
//!
//! A look-up always returns a rule. If no flow of the table matches, the rule is one of the switch's internal rules, which
//! sends the packet to the controller or drops it. Limits of nesting depth and of the number of look-ups end resubmit loops.

use crate::limits::SEARCHES_PER_ACTION;
use crate::messages::report;
use crate::outcome::StatsTarget;
use crate::snapshot::{Fragments, PortFlags};
use crate::trace::{LineKind, Trace};
use crate::walk::Walk;
use classifier::of::ClassifierRule;
use flow::FieldId;
use flow::flow::frag;
use ofproto::{Rule, TABLE_INTERNAL};
use openflow::table::TableMiss;
use std::sync::{Arc, LazyLock};
use units::OfPort;

/// The words of the flow that [`Walk::find_rule`] changes for a look-up: the ingress port and the transport ports.
static PORT_WORDS: LazyLock<u128> = LazyLock::new(|| {
    let fields = [FieldId::InPort, FieldId::TcpSrc, FieldId::TcpDst];
    fields.iter().filter_map(|field| field.words()).fold(0, |all, words| all | words)
});

/// Parameters of a look-up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LookupParams {
    /// The ingress port that this look-up matches: `resubmit` may name a port other than the packet's in port.
    pub port: u32,
    /// The table.
    pub table: u8,
    /// If no rule matches, the packet may be sent to the controller.
    pub may_packet_in: bool,
    /// If no rule matches, the miss configuration of the table applies.
    pub honor_miss: bool,
    /// Match the addresses and ports of the connection's original direction.
    pub with_ct: bool,
    /// No action follows, so the rule's actions need not be executed on a copy.
    pub last: bool,
    /// Later actions do not see the changes that the rule's actions make.
    pub isolated: bool,
}

impl LookupParams {
    /// The parameters for a packet that enters a bridge.
    pub(crate) fn first(port: u32, table: u8) -> LookupParams {
        LookupParams {
            port,
            table,
            may_packet_in: true,
            honor_miss: true,
            with_ct: false,
            last: true,
            isolated: false,
        }
    }
}

impl<'a> Walk<'a> {
    /// Does the first look-up of a packet, and executes the rule if the ingress port accepts the packet.
    pub(crate) fn first_table(&mut self) {
        let table = self.current.table_id;
        let rule = self.find_rule(&LookupParams::first(self.out.flow.in_port, table));
        let shown = self.current.table_id;
        self.report_rule(rule, shown);
        if self.ingress_accepts() {
            (self.current.rule, self.current.rule_cookie) = (Some(rule), rule.cookie);
            self.begin(&rule.actions);
        }
    }

    /// Looks up a rule and executes it.
    pub(crate) fn resubmit(&mut self, search: LookupParams) {
        if self.packet_state.was_mpls {
            self.freeze();
            return;
        }
        if !self.check_limits() {
            return;
        }
        let before = self.current;
        self.current.table_id = search.table;
        if search.with_ct {
            if self.out.flow.ct_nw_proto == 0 || !self.out.flow.is_ip() {
                self.error(format_args!("resubmit(ct) with non-tracked or non-IP packet!"));
                self.current = before;
                return;
            }
            self.swap_tuples();
        }
        let rule = self.find_rule(&search);
        if search.with_ct {
            self.swap_tuples();
        }
        let back = self.out.trace.as_ref().map(|t| t.cursor());
        self.report_rule(rule, search.table);
        self.execute_rule(rule, search.table <= before.table_id, &search);
        self.unnest(back);
        self.current = before;
    }

    /// Executes the rule's actions. The caller restores `current`. `deepens`: the table's number is not higher than
    /// the current one, so the look-up may be part of a loop and counts towards the nesting depth.
    fn execute_rule(&mut self, rule: &'a Arc<Rule>, deepens: bool, search: &LookupParams) {
        self.effort.resubmits += 1;
        self.effort.depth += u32::from(deepens);
        (self.current.rule, self.current.rule_cookie) = (Some(rule), rule.cookie);
        if search.isolated {
            self.isolated(&rule.actions, search.last);
        } else {
            self.actions(&rule.actions, search.last, false);
        }
        self.effort.depth -= u32::from(deepens);
    }

    /// Looks up the packet's rule, which always exists, and makes it a statistics target. Sets `table_id` to the table in
    /// which the rule was found.
    fn find_rule(&mut self, search: &LookupParams) -> &'a Arc<Rule> {
        let own = (self.out.flow.in_port, self.out.flow.tp_src, self.out.flow.tp_dst);
        let is_fragment = self.out.flow.nw_frag & frag::ANY != 0;
        let changed = if is_fragment || search.port != own.0 { *PORT_WORDS } else { 0 };
        self.mark_words_changed(changed);
        self.out.flow.in_port = search.port;
        if is_fragment && self.bridge.fragments == Fragments::Normal {
            (self.out.flow.tp_src, self.out.flow.tp_dst) = (0, 0);
        }
        let dropped = is_fragment && self.bridge.fragments == Fragments::Drop;
        let found = if dropped { None } else { Some(self.find_in_tables(search)) };
        (self.out.flow.in_port, self.out.flow.tp_src, self.out.flow.tp_dst) = own;
        self.mark_words_changed(changed);
        let internal = self.bridge.tables.internal();
        let (bridge, rule) = match found {
            Some(Ok(rule)) => (Some(self.bridge.id), rule),
            Some(Err(miss)) if self.wants_packet_in(search, miss) => (None, &internal.miss),
            Some(Err(_)) => (None, &internal.no_packet_in),
            None => (None, &internal.drop_frags),
        };
        let credited = Arc::clone(rule);
        self.out.stats_targets.push(match bridge {
            Some(bridge) => StatsTarget::Match { bridge, rule: credited },
            None => StatsTarget::InternalRule(credited),
        });
        rule
    }

    /// The matching rule of the table, or of a later table if misses continue there; otherwise how to handle the miss.
    fn find_in_tables(&mut self, search: &LookupParams) -> Result<&'a Arc<Rule>, TableMiss> {
        let mut miss = TableMiss::Continue;
        for id in
            (search.table..TABLE_INTERNAL).chain((search.table == TABLE_INTERNAL).then_some(TABLE_INTERNAL))
        {
            self.current.table_id = id;
            self.add_work(1);
            self.depends_on_table(id, search.with_ct);
            if let Some(rule) = self.best_rule(id) {
                return Ok(rule);
            }
            self.out.stats_targets.push(StatsTarget::Miss { bridge: self.bridge.id, table: id });
            if search.honor_miss {
                miss = self.bridge.tables.table(id).map_or(TableMiss::Default, |t| t.config().miss);
                if miss == TableMiss::Continue {
                    continue;
                }
            }
            break;
        }
        Err(miss)
    }

    /// The matching rule of a table with the highest priority. For a trace, the flows of a matching conjunction are stored.
    fn best_rule(&mut self, table: u8) -> Option<&'a Arc<Rule>> {
        let classifier = self.bridge.tables.table(table)?.classifier();
        let mut work = 0;
        let found = if self.out.trace.is_none() {
            classifier.lookup_with_work(&self.out.flow, &mut self.out.mask, &mut work)
        } else {
            let mut conjunctive_rules = Vec::new();
            let (mask, rules) = (&mut self.out.mask, &mut conjunctive_rules);
            let found = classifier.lookup_with_conjunctive_rules(&self.out.flow, mask, rules, &mut work);
            self.conjunction = conjunctive_rules;
            found
        };
        self.add_work(work / SEARCHES_PER_ACTION);
        found
    }

    fn wants_packet_in(&self, search: &LookupParams, miss: TableMiss) -> bool {
        if !search.may_packet_in {
            return false;
        }
        match miss {
            TableMiss::Drop => false,
            TableMiss::Default => self.bridge.packet_in_on_miss,
            TableMiss::Controller | TableMiss::Continue => self
                .bridge
                .port(OfPort(self.out.flow.in_port as u16))
                .is_some_and(|p| !p.flags.contains(PortFlags::NO_PACKET_IN)),
        }
    }

    /// Reports a look-up in the trace; later lines are nested below it.
    fn report_rule(&mut self, rule: &Arc<Rule>, table: u8) {
        let full = self.out.trace.as_ref().is_some_and(Trace::is_full);
        let Some(text) = self.input.trace_format.filter(|_| !full) else { return };
        let (bridge, internal) = (self.bridge, self.bridge.tables.internal());
        let line = if Arc::ptr_eq(rule, &internal.miss) {
            "No match, and a \"packet-in\" is called for.".to_owned()
        } else if Arc::ptr_eq(rule, &internal.no_packet_in) {
            "No match.".to_owned()
        } else if Arc::ptr_eq(rule, &internal.drop_frags) {
            "Packets are IP fragments and the fragment handling mode is \"drop\".".to_owned()
        } else {
            let mut line = text.matching(bridge, &rule.full_match());
            if !line.is_empty() {
                line.push_str(", ");
            }
            line.push_str(&format!("priority {}", rule.priority()));
            if rule.cookie != 0 {
                line.push_str(&format!(", cookie {:#x}", rule.cookie));
            }
            line
        };
        self.nest(LineKind::Table, || format!("{table:2}. {line}"));
        for part in std::mem::take(&mut self.conjunction) {
            let matching = text.matching(bridge, &part.full_match());
            let line = match part.priority() {
                0x8000 => matching,
                p if matching.is_empty() => format!("priority={p}"),
                p => format!("priority={p},{matching}"),
            };
            report!(self, Detail, "conj. {line}");
        }
    }

    /// Swaps the packet's addresses and ports with those of the connection's original direction, in the flow and the mask.
    fn swap_tuples(&mut self) {
        self.mark_all_words_changed();
        let ipv4 = self.out.flow.dl_type == 0x0800;
        for f in [&mut self.out.flow, &mut self.out.mask] {
            std::mem::swap(&mut f.nw_proto, &mut f.ct_nw_proto);
            if ipv4 {
                std::mem::swap(&mut f.nw_src, &mut f.ct_nw_src);
                std::mem::swap(&mut f.nw_dst, &mut f.ct_nw_dst);
            } else {
                std::mem::swap(&mut f.ipv6_src, &mut f.ct_ipv6_src);
                std::mem::swap(&mut f.ipv6_dst, &mut f.ct_ipv6_dst);
            }
            std::mem::swap(&mut f.tp_src, &mut f.ct_tp_src);
            std::mem::swap(&mut f.tp_dst, &mut f.ct_tp_dst);
        }
    }
}
