//! Flow monitors of one connection: they select the flow changes that are reported to the connection.
//!
//! Existing flows are reported at once; changes are reported when they are made. Monitoring is paused for a connection whose controller reads
//! too slowly: until the controller has read everything, only removals of flows that existed before the pause are reported.
//! Afterwards all flows that were added or changed during the pause are reported. Rules are numbered in the order of changes, so a rule
//! was changed during the pause if its number is greater than the last number before the pause.
//! Sources: OpenFlow 1.4.1 §7.3.5.18; Nicira's extension for 1.0 to 1.3, which has the same meaning.

use crate::criteria::Criteria;
use crate::ofproto::Ofproto;
use crate::rule::Rule;
use crate::table_changes::{FlowChange, TableChanges};
use crate::table_numbers::{N_TABLES, TABLE_ALL};
use openflow::Xid;
use openflow::error::OfError;
use openflow::monitor::{FlowEvent, FlowMonitorRequest, FlowUpdate, MonitorCommand, MonitorFlags};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of monitors of one connection. Each new monitor is compared with each flow before the next message is handled: 64
/// monitors and 100,000 flows are 6.4 million comparisons. Controllers need few: each argument `watch:` of `ovs-ofctl monitor` is one.
const MONITORS_MAX: usize = 64;

#[derive(Clone, Debug)]
struct Monitor {
    flags: MonitorFlags,
    criteria: Criteria,
}

/// The flow monitors of one connection; see the module documentation.
#[derive(Clone, Debug, Default)]
pub struct FlowMonitors {
    monitors: BTreeMap<u32, Monitor>,
    /// During a pause: the last rule number before the pause.
    paused_since: Option<u64>,
}

impl FlowMonitors {
    /// Whether there are no monitors.
    pub fn is_empty(&self) -> bool {
        self.monitors.is_empty()
    }

    /// Whether monitoring is paused.
    pub fn is_paused(&self) -> bool {
        self.paused_since.is_some()
    }

    /// Executes all requests, or none if one fails. Returns the existing flows that the new monitors report.
    pub fn request(
        &mut self,
        requests: &[FlowMonitorRequest],
        ofproto: &Ofproto,
    ) -> Result<Vec<ReportedFlow>, OfError> {
        let mut wanted = self.clone();
        let mut new = BTreeMap::new();
        for request in requests {
            if request.table != TABLE_ALL && usize::from(request.table) >= N_TABLES {
                return Err(OfError::BrcBadTableId);
            }
            if request.command != MonitorCommand::Add {
                wanted.cancel(request.id)?;
                new.remove(&request.id);
            }
            if request.command != MonitorCommand::Delete {
                new.insert(request.id, wanted.add(request)?);
            }
        }
        *self = wanted;
        let initial = new.values().filter(|m| m.flags.initial);
        let found = collect(initial, ofproto, |_, _| true).into_iter();
        let initial = |(rule, actions)| ReportedFlow { rule, actions, kind: FlowUpdate::Initial };
        Ok(found.map(initial).collect())
    }

    fn add(&mut self, request: &FlowMonitorRequest) -> Result<Monitor, OfError> {
        if self.monitors.contains_key(&request.id) {
            return Err(OfError::MofcMonitorExists);
        }
        if self.monitors.len() >= MONITORS_MAX {
            return Err(OfError::MofcUnknown);
        }
        let criteria = Criteria {
            out_port: request.out_port,
            out_group: request.out_group,
            ..Criteria::within(request.table, &request.matching)
        };
        let monitor = Monitor { flags: request.flags, criteria };
        self.monitors.insert(request.id, monitor.clone());
        Ok(monitor)
    }

    /// Cancels a monitor.
    pub fn cancel(&mut self, id: u32) -> Result<(), OfError> {
        self.monitors.remove(&id).map(drop).ok_or(OfError::MofcUnknownMonitor)
    }

    /// The updates to send for these changes. `own`: the transaction id of the request if this connection caused the changes.
    pub fn report(&self, changes: &TableChanges, own: Option<Xid>) -> Vec<FlowUpdate> {
        let mut updates = Vec::new();
        let mut abbreviated = false;
        for change in &changes.flows {
            let Some(flags) = self.flags_for(change) else { continue };
            match own {
                Some(xid) if !flags.only_own && !flags.no_abbrev && self.paused_since.is_none() => {
                    if !abbreviated {
                        updates.push(FlowUpdate::Abbreviated(xid));
                    }
                    abbreviated = true;
                }
                _ => updates.push(update(change, flags.instructions)),
            }
        }
        updates
    }

    /// The combined flags of all monitors that report this change; `None` if no monitor does.
    fn flags_for(&self, change: &FlowChange) -> Option<MonitorFlags> {
        let rule = change.rule();
        if let Some(since) = self.paused_since
            && !matches!(change, FlowChange::Removed { rule, .. } if rule.added <= since)
        {
            return None;
        }
        let mut found: Option<MonitorFlags> = None;
        for m in self.monitors.values().filter(|m| wants_change(m, change, rule)) {
            let f = found.get_or_insert_default();
            f.instructions |= m.flags.instructions;
            f.only_own |= m.flags.only_own;
            f.no_abbrev |= m.flags.no_abbrev;
        }
        found
    }

    /// Begins a pause.
    pub fn pause(&mut self, ofproto: &Ofproto) {
        self.paused_since = Some(ofproto.rule_numbers.last());
    }

    /// Ends a pause; returns the flows that were added or changed during it.
    pub fn resume(&mut self, ofproto: &Ofproto) -> Vec<ReportedFlow> {
        let Some(since) = self.paused_since.take() else { return Vec::new() };
        let wanted = |m: &Monitor, rule: &Rule| match rule.added > since {
            true => m.flags.add || m.flags.modify,
            false => m.flags.modify && rule.id > since,
        };
        let missed = collect(self.monitors.values(), ofproto, wanted).into_iter();
        let report = |(rule, actions): (Arc<Rule>, bool)| {
            let kind = if rule.added > since { FlowUpdate::Added } else { FlowUpdate::Modified };
            ReportedFlow { rule, actions, kind }
        };
        missed.map(report).collect()
    }
}

/// A flow that monitors report from the tables: because a monitor was added, or because a pause has ended. The update, which copies the
/// match and the actions, is made when it is sent.
#[derive(Clone, Debug)]
pub struct ReportedFlow {
    rule: Arc<Rule>,
    /// Include the actions.
    actions: bool,
    kind: fn(Box<FlowEvent>) -> FlowUpdate,
}

impl ReportedFlow {
    /// The flow.
    pub fn rule(&self) -> &Rule {
        &self.rule
    }

    /// The update to send.
    pub fn update(&self) -> FlowUpdate {
        (self.kind)(event(&self.rule, self.actions))
    }
}

/// The rules that at least one of the monitors selects and for which `wanted` is true. Each rule is returned once, with a flag that tells
/// whether to include its actions. The rules of the first monitor come first, then the further rules of the second monitor, and so on; the
/// rules of one monitor are sorted by table, then by the order in which they were added. Each rule is visited once.
fn collect<'a>(
    monitors: impl Iterator<Item = &'a Monitor>,
    ofproto: &Ofproto,
    wanted: impl Fn(&Monitor, &Rule) -> bool,
) -> Vec<(Arc<Rule>, bool)> {
    let monitors: Vec<&Monitor> = monitors.collect();
    let mut found: Vec<(usize, &Arc<Rule>, bool)> = Vec::new();
    for (number, table) in ofproto.state.tables.iter().enumerate() {
        // Few monitors select from all tables, and a table may have 100,000 rules.
        let of_table: Vec<(usize, &Monitor)> = monitors
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, m)| m.criteria.reads_table(number as u8))
            .collect();
        if of_table.is_empty() {
            continue;
        }
        for rule in table.classifier.iter() {
            let selects = |m: &Monitor| wanted(m, rule) && m.criteria.selects_now_or_before(rule, &[]);
            let mut selecting = of_table.iter().filter(|(_, m)| selects(m));
            if let Some((first, m)) = selecting.next() {
                let instructions = m.flags.instructions || selecting.any(|(_, m)| m.flags.instructions);
                found.push((*first, rule, instructions));
            }
        }
    }
    // The key is computed once for each rule, because each access to a rule may be a cache miss.
    found.sort_by_cached_key(|(monitor, rule, _)| (*monitor, rule.table, rule.added));
    found.into_iter().map(|(_, rule, instructions)| (Arc::clone(rule), instructions)).collect()
}

/// Whether the monitor reports this change of this rule.
fn wants_change(m: &Monitor, change: &FlowChange, rule: &Rule) -> bool {
    let (wanted, old) = match change {
        FlowChange::Added(_) => (m.flags.add, None),
        FlowChange::Removed { .. } => (m.flags.removed, None),
        FlowChange::Replaced { old, new, added } => {
            let acts_otherwise = old.actions != new.actions;
            let before = acts_otherwise.then_some(old);
            match added {
                true => (m.flags.add, before),
                // A modification that changes neither actions nor cookie is not reported.
                false => (m.flags.modify && (acts_otherwise || old.cookie != new.cookie), before),
            }
        }
    };
    wanted && m.criteria.selects_now_or_before(rule, old.map(|o| &*o.actions).unwrap_or_default())
}

fn update(change: &FlowChange, actions: bool) -> FlowUpdate {
    let event = event(change.rule(), actions);
    match change {
        FlowChange::Added(_) | FlowChange::Replaced { added: true, .. } => FlowUpdate::Added(event),
        FlowChange::Replaced { .. } => FlowUpdate::Modified(event),
        FlowChange::Removed { reason, .. } => FlowUpdate::Deleted(event, *reason),
    }
}

fn event(rule: &Rule, actions: bool) -> Box<FlowEvent> {
    Box::new(FlowEvent {
        table: rule.table,
        priority: rule.priority as u16,
        idle_timeout: rule.idle_timeout(),
        hard_timeout: rule.hard_timeout(),
        cookie: rule.cookie,
        matching: rule.full_match(),
        actions: if actions { rule.actions.to_vec() } else { Vec::new() },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use openflow::Action;
    use openflow::flow_mod::{FlowCommand, FlowMod};
    use units::{Millis, OfPort};

    const ALL: MonitorFlags = MonitorFlags {
        initial: true,
        add: true,
        removed: true,
        modify: true,
        instructions: true,
        no_abbrev: false,
        only_own: false,
    };

    fn flow(command: FlowCommand, port: u16) -> FlowMod {
        FlowMod { command, actions: vec![Action::output(OfPort(port))], ..FlowMod::default() }
    }

    fn updates(flows: Vec<ReportedFlow>) -> Vec<FlowUpdate> {
        flows.iter().map(ReportedFlow::update).collect()
    }

    fn watcher(o: &Ofproto, out_port: OfPort) -> FlowMonitors {
        let mut m = FlowMonitors::default();
        let request = FlowMonitorRequest { flags: ALL, out_port, ..FlowMonitorRequest::default() };
        m.request(&[request], o).unwrap();
        m
    }

    #[test]
    fn changes_are_reported_in_full_to_others_and_in_short_to_their_author() {
        let mut o = Ofproto::new(Millis(0), 0);
        let m = watcher(&o, OfPort::NONE);
        let changes = o.handle_flow_mod(&flow(FlowCommand::Add, 1), Millis(1)).unwrap();
        assert!(matches!(&m.report(&changes, None)[..], [FlowUpdate::Added(e)] if e.actions.len() == 1));
        assert_eq!(m.report(&changes, Some(Xid(7))), [FlowUpdate::Abbreviated(Xid(7))]);
        let changes = o.handle_flow_mod(&flow(FlowCommand::Modify, 1), Millis(1)).unwrap();
        assert_eq!(m.report(&changes, None), [], "nothing but its times changed");
    }

    #[test]
    fn a_flow_that_no_longer_sends_to_the_port_is_reported_once_more() {
        let mut o = Ofproto::new(Millis(0), 0);
        o.handle_flow_mod(&flow(FlowCommand::Add, 1), Millis(1)).unwrap();
        let m = watcher(&o, OfPort(1));
        for reports in [1, 0] {
            let changes = o.handle_flow_mod(&flow(FlowCommand::Modify, 3 - reports), Millis(1)).unwrap();
            assert_eq!(m.report(&changes, None).len(), usize::from(reports));
        }
    }

    #[test]
    fn after_a_pause_comes_what_was_missed() {
        let mut o = Ofproto::new(Millis(0), 0);
        let mut m = watcher(&o, OfPort::NONE);
        m.pause(&o);
        let added = o.handle_flow_mod(&flow(FlowCommand::Add, 1), Millis(1)).unwrap();
        assert_eq!(m.report(&added, None), []);
        assert!(matches!(&updates(m.resume(&o))[..], [FlowUpdate::Added(_)]));
        m.pause(&o);
        let gone = o.handle_flow_mod(&flow(FlowCommand::Delete, 1), Millis(2)).unwrap();
        assert!(matches!(&m.report(&gone, None)[..], [FlowUpdate::Deleted(..)]), "it was known");
        assert_eq!(updates(m.resume(&o)), []);
    }

    #[test]
    fn a_request_is_executed_whole_or_not_at_all() {
        let o = Ofproto::new(Millis(0), 0);
        let mut m = watcher(&o, OfPort::NONE);
        let new = FlowMonitorRequest { id: 5, flags: ALL, ..FlowMonitorRequest::default() };
        assert_eq!(m.request(&[new.clone(), new], &o).map(updates), Err(OfError::MofcMonitorExists));
        assert_eq!(m.cancel(5), Err(OfError::MofcUnknownMonitor));
        assert_eq!(m.cancel(0), Ok(()));
        assert!(m.is_empty());
    }

    /// Reference implementation of `collect`: selects the rules of each monitor separately.
    fn collected_one_by_one(monitors: &[Monitor], o: &Ofproto) -> Vec<(u64, bool)> {
        let mut found: Vec<(u64, bool)> = Vec::new();
        for m in monitors {
            for rule in o.rules(&m.criteria).unwrap() {
                match found.iter_mut().find(|(id, _)| *id == rule.id) {
                    Some((_, instructions)) => *instructions |= m.flags.instructions,
                    None => found.push((rule.id, m.flags.instructions)),
                }
            }
        }
        found
    }

    fn in_port(port: u32) -> flow::Match {
        let flow = |in_port| flow::Flow { in_port, ..flow::Flow::ZERO };
        flow::Match::new(&flow(port), &flow(u32::MAX))
    }

    fn within(table: u8, matching: &flow::Match, out_port: OfPort, flags: MonitorFlags) -> Monitor {
        Monitor { flags, criteria: Criteria { out_port, ..Criteria::within(table, matching) } }
    }

    #[test]
    fn each_rule_comes_once_in_the_order_of_the_monitors() {
        let mut o = Ofproto::new(Millis(0), 0);
        for i in 0..300u32 {
            let fm = FlowMod {
                table: (i * 7 % 3) as u8,
                priority: i as u16,
                matching: if i % 4 == 0 { flow::Match::CATCHALL } else { in_port(i % 5) },
                ..flow(FlowCommand::Add, (i % 6) as u16)
            };
            o.handle_flow_mod(&fm, Millis(1)).unwrap();
        }
        let short = MonitorFlags { instructions: false, ..ALL };
        let any = flow::Match::CATCHALL;
        let mut monitors = vec![
            within(1, &in_port(3), OfPort::NONE, short),
            within(TABLE_ALL, &any, OfPort(2), short),
            within(2, &any, OfPort::NONE, ALL),
            within(254, &any, OfPort::NONE, short),
            within(TABLE_ALL, &in_port(3), OfPort::NONE, ALL),
            within(TABLE_ALL, &any, OfPort::NONE, short),
        ];
        for _ in 0..monitors.len() {
            monitors.rotate_left(1);
            let found: Vec<(u64, bool)> =
                collect(monitors.iter(), &o, |_, _| true).iter().map(|(rule, i)| (rule.id, *i)).collect();
            assert_eq!(found, collected_one_by_one(&monitors, &o));
        }
    }

    #[test]
    fn the_steps_of_a_request_do_not_grow_with_monitors_of_the_same_flows() {
        let mut o = Ofproto::new(Millis(0), 0);
        for priority in 0..100 {
            o.handle_flow_mod(&FlowMod { priority, ..flow(FlowCommand::Add, 1) }, Millis(1)).unwrap();
        }
        let monitors = vec![within(0, &flow::Match::CATCHALL, OfPort::NONE, ALL); MONITORS_MAX];
        let steps = std::cell::Cell::new(0);
        let counted = |_: &Monitor, _: &Rule| {
            steps.set(steps.get() + 1);
            true
        };
        assert_eq!(collect(monitors.iter(), &o, counted).len(), 100);
        assert_eq!(steps.get(), 100);
    }

    #[test]
    fn a_connection_has_at_most_64_monitors() {
        let o = Ofproto::new(Millis(0), 0);
        let mut m = FlowMonitors::default();
        let request = |id| FlowMonitorRequest { id, flags: ALL, ..FlowMonitorRequest::default() };
        let too_many: Vec<_> = (0..65).map(request).collect();
        assert_eq!(m.request(&too_many, &o).map(updates), Err(OfError::MofcUnknown));
        assert!(m.is_empty());
        assert_eq!(m.request(&too_many[..64], &o).map(updates), Ok(vec![]));
        assert_eq!(m.request(&too_many[64..], &o).map(updates), Err(OfError::MofcUnknown));
        m.cancel(3).unwrap();
        assert_eq!(m.request(&too_many[64..], &o).map(updates), Ok(vec![]));
    }
}
