use super::message::{Message, Protocol, Record};
use super::*;
use proptest::prelude::*;
use std::net::Ipv4Addr;

const fn at(s: u64) -> Millis {
    Millis::from_secs(s)
}

fn group(n: u32) -> Ipv6Addr {
    Ipv4Addr::from_bits(0xef00_0000 | n).to_ipv6_mapped()
}

fn report(n: u32, joins: bool) -> Message {
    let records = vec![Record { group: group(n), joins }];
    Message::Report { protocol: Protocol::IgmpV2, records }
}

const P: [BundleId; 4] = [BundleId(0), BundleId(1), BundleId(2), BundleId(3)];

fn join(t: &mut GroupTable, n: u32, port: BundleId, now: u64) {
    t.learn(0, port, &report(n, true), at(now));
}

fn leave(t: &mut GroupTable, n: u32, port: BundleId, now: u64) {
    t.learn(0, port, &report(n, false), at(now));
}

#[test]
fn ports_join_renew_leave_and_age_out() {
    let mut t = GroupTable::default();
    join(&mut t, 1, P[1], 10);
    join(&mut t, 1, P[2], 20);
    assert_eq!(t.take_changes().len(), 3, "a group, and two members");
    assert_eq!(t.members(0, group(1)), Some(vec![P[1], P[2]]));
    assert_eq!((t.members(1, group(1)), t.members(0, group(2))), (None, None));
    join(&mut t, 1, P[1], 30);
    assert_eq!(t.take_changes(), []);
    assert_eq!(t.members(0, group(1)), Some(vec![P[1], P[2]]));
    assert_eq!(t.iter(at(31)).map(|m| m.age).collect::<Vec<_>>(), [11, 1]);
    t.run(at(319));
    assert_eq!(t.take_changes(), []);
    t.run(at(320));
    assert_eq!(t.members(0, group(1)), Some(vec![P[1]]));
    leave(&mut t, 1, P[1], 321);
    assert_eq!((t.members(0, group(1)), t.len()), (None, 0));
    assert_eq!(t.stats().learned, 1);
}

#[test]
fn a_group_without_members_stays_until_its_turn_comes() {
    let mut t = GroupTable::default();
    join(&mut t, 1, P[1], 0);
    join(&mut t, 2, P[2], 1);
    leave(&mut t, 2, P[2], 2);
    assert_eq!(t.members(0, group(2)), Some(Vec::new()));
    join(&mut t, 1, P[1], 3);
    assert_eq!(t.members(0, group(2)), None);
}

#[test]
fn routers_age_out_and_join_no_groups() {
    let mut t = GroupTable::default();
    t.learn(5, P[1], &Message::AnonymousQuery, at(0));
    assert_eq!(t.routers(), []);
    t.learn(5, P[1], &Message::Query, at(0));
    t.learn(6, P[1], &Message::Query, at(1));
    t.learn(5, P[2], &Message::Query, at(2));
    t.learn(5, P[1], &Message::Query, at(3));
    assert_eq!(t.routers(), [(5, P[1]), (6, P[1]), (5, P[2])]);
    assert_eq!(t.routers_of(5), [P[1], P[2]]);
    assert_eq!(t.iter(at(4)).map(|m| m.age).collect::<Vec<_>>(), [3, 2, 1]);
    t.learn(5, P[1], &report(1, true), at(4));
    assert!(t.is_empty());
    t.learn(7, P[1], &report(1, true), at(4));
    assert_eq!(t.len(), 1);
    t.run(at(182));
    assert_eq!(t.routers(), [(5, P[1])]);
    assert_eq!(t.take_changes().len(), 3 + 2 + 2, "three routers, a group and its member, two routers");
}

#[test]
fn flood_ports_join_nothing_and_report_ports_leave_nothing() {
    let mut t = GroupTable::default();
    t.set_port(P[1], true, false);
    t.set_port(P[2], false, true);
    join(&mut t, 1, P[1], 0);
    t.learn(0, P[1], &Message::Query, at(0));
    assert!(t.is_empty() && t.routers().is_empty());
    join(&mut t, 1, P[2], 0);
    leave(&mut t, 1, P[2], 1);
    assert_eq!(t.members(0, group(1)), Some(vec![P[2]]));
    // A port keeps its position in the list, and gets a new position after it was removed and set again.
    t.set_port(P[3], true, false);
    t.set_port(P[1], true, true);
    assert_eq!((t.flood_ports(), t.report_ports()), (&[P[1], P[3]][..], &[P[2], P[1]][..]));
    t.flush_port(P[1]);
    t.set_port(P[1], true, false);
    assert_eq!((t.flood_ports(), t.report_ports()), (&[P[3], P[1]][..], &[P[2]][..]));
}

#[test]
fn what_a_message_would_change_is_told_before() {
    let mut t = GroupTable::default();
    join(&mut t, 1, P[1], 0);
    let record = |n, joins| Record { group: group(n), joins };
    let records = vec![record(1, true), record(2, true), record(2, true), record(2, false), record(2, true)];
    let message = Message::Report { protocol: Protocol::IgmpV3, records };
    // One change for the new group, and one for leaving it again.
    assert_eq!(t.count_changes(0, P[1], &message), 2);
    assert_eq!(
        (t.count_changes(0, P[1], &report(1, true)), t.count_changes(0, P[1], &report(1, false))),
        (0, 1)
    );
    assert_eq!(t.count_changes(0, P[2], &report(1, false)), 0);
    assert_eq!(t.count_changes(0, P[2], &Message::Query), 1);
    t.learn(0, P[2], &Message::Query, at(0));
    assert_eq!(t.count_changes(0, P[2], &Message::Query), 0);
}

#[test]
fn a_new_ageing_time_keeps_the_age() {
    let mut t = GroupTable::default();
    join(&mut t, 1, P[1], 100);
    t.set_aging(60);
    assert_eq!(t.iter(at(110)).next().map(|m| m.age), Some(10));
    t.run(at(160));
    assert!(t.is_empty());
}

#[test]
fn a_port_that_floods_joins_evicts_its_own_groups() {
    let mut t = GroupTable::default();
    t.set_size(20);
    for n in 0..5 {
        join(&mut t, n, P[1], 0);
    }
    for n in 100..1000 {
        join(&mut t, n, P[2], 1);
    }
    assert_eq!(t.len(), 20);
    assert!((0..5).all(|n| t.members(0, group(n)) == Some(vec![P[1]])));
    assert!(t.members(0, group(999)).is_some() && t.members(0, group(984)).is_none());
}

#[test]
fn joining_the_groups_of_others_first_does_not_help_to_evict_them() {
    let mut t = GroupTable::default();
    t.set_size(20);
    for n in 0..5 {
        join(&mut t, n, P[2], 0);
        join(&mut t, n, P[1], 0);
    }
    for n in 100..1000 {
        join(&mut t, n, P[2], 1);
    }
    assert!((0..5).all(|n| t.members(0, group(n)).is_some_and(|m| m.contains(&P[1]))));
}

#[test]
fn a_smaller_table_loses_the_groups_that_were_renewed_longest_ago() {
    let mut t = GroupTable::default();
    (0..30).for_each(|n| join(&mut t, n, P[1], 0));
    t.set_size(1);
    t.run(at(1));
    assert_eq!(t.len(), 10);
    assert!(t.members(0, group(20)).is_some() && t.members(0, group(19)).is_none());
}

#[derive(Clone, Debug)]
enum Op {
    Report(u16, u32, usize, bool),
    Query(u16, usize),
    FlushPort(usize),
    Flush,
    Set(usize, bool, bool),
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => (0u16..2, 0u32..12, 0usize..4, prop::bool::weighted(0.8))
            .prop_map(|(vlan, n, port, joins)| Op::Report(vlan, n, port, joins)),
        2 => (0u16..2, 0usize..4).prop_map(|(vlan, port)| Op::Query(vlan, port)),
        1 => (0usize..4).prop_map(Op::FlushPort),
        1 => Just(Op::Flush),
        1 => (0usize..4, any::<bool>(), any::<bool>()).prop_map(|(p, f, r)| Op::Set(p, f, r)),
        4 => (0u64..150).prop_map(Op::Wait),
    ]
}

fn apply(t: &mut GroupTable, op: &Op, now: &mut u64) {
    match *op {
        Op::Report(vlan, n, port, joins) => t.learn(vlan, P[port], &report(n, joins), at(*now)),
        Op::Query(vlan, port) => t.learn(vlan, P[port], &Message::Query, at(*now)),
        Op::FlushPort(port) => t.flush_port(P[port]),
        Op::Flush => t.flush(),
        Op::Set(port, floods, reports) => t.set_port(P[port], floods, reports),
        Op::Wait(secs) => {
            *now += secs;
            t.run(at(*now));
        }
    }
}

/// A group of the reference implementation.
struct NaiveGroup {
    key: Key,
    members: Vec<(BundleId, u64)>,
}

/// The reference implementation: lists in the order of renewal, searched from the front.
#[derive(Default)]
struct Naive {
    groups: Vec<NaiveGroup>,
    routers: Vec<(u16, BundleId, u64)>,
    floods: BTreeSet<BundleId>,
    reports: BTreeSet<BundleId>,
}

impl Naive {
    fn report(&mut self, key: Key, port: BundleId, joins: bool, now: u64) {
        if !joins {
            if let Some(g) = self.groups.iter_mut().find(|g| g.key == key && !self.reports.contains(&port)) {
                g.members.retain(|m| m.0 != port);
            }
            return;
        }
        if self.floods.contains(&port) || self.routers.iter().any(|r| (r.0, r.1) == (key.0, port)) {
            return;
        }
        let at = self.groups.iter().position(|g| g.key == key);
        let mut g = at.map_or(NaiveGroup { key, members: Vec::new() }, |at| self.groups.remove(at));
        g.members.retain(|m| m.0 != port);
        g.members.push((port, now + u64::from(DEFAULT_AGING)));
        self.groups.push(g);
    }

    fn run(&mut self, now: u64) {
        while let Some(g) = self.groups.first_mut() {
            let before = g.members.len();
            g.members.retain(|m| m.1 > now);
            if g.members.is_empty() {
                self.groups.remove(0);
            } else if g.members.len() == before {
                break;
            }
        }
        self.routers.retain(|r| r.2 > now);
    }

    fn apply(&mut self, op: &Op, now: u64) {
        match *op {
            Op::Report(vlan, n, port, joins) => self.report((vlan, group(n)), P[port], joins, now),
            Op::Query(vlan, port) if !self.floods.contains(&P[port]) => {
                self.routers.retain(|r| (r.0, r.1) != (vlan, P[port]));
                self.routers.push((vlan, P[port], now + ROUTER_AGING));
            }
            Op::FlushPort(port) => {
                self.groups.retain_mut(|g| {
                    let before = g.members.len();
                    g.members.retain(|m| m.0 != P[port]);
                    !g.members.is_empty() || before == 0
                });
                self.routers.retain(|r| r.1 != P[port]);
                self.floods.remove(&P[port]);
                self.reports.remove(&P[port]);
            }
            Op::Flush => {
                self.groups.clear();
                self.routers.clear();
            }
            Op::Set(port, floods, reports) => {
                for (set, on) in [(&mut self.floods, floods), (&mut self.reports, reports)] {
                    set.remove(&P[port]);
                    set.extend(Some(P[port]).filter(|_| on));
                }
            }
            Op::Query(..) | Op::Wait(_) => {}
        }
        if !matches!(op, Op::FlushPort(_) | Op::Flush | Op::Set(..)) {
            self.run(now);
        }
    }

    fn shown(&self) -> Vec<(BundleId, u16, Option<Ipv6Addr>)> {
        let groups = self.groups.iter();
        let members = groups.flat_map(|g| g.members.iter().map(|m| (m.0, g.key.0, Some(g.key.1))));
        members.chain(self.routers.iter().map(|r| (r.1, r.0, None))).collect()
    }
}

fn shown(t: &GroupTable) -> Vec<(BundleId, u16, Option<Ipv6Addr>)> {
    t.iter(at(0)).map(|m| (m.port, m.vlan, m.group.map(|(group, _)| group))).collect()
}

proptest! {
    #[test]
    fn the_table_does_what_lists_do(ops in prop::collection::vec(op(), 0..200)) {
        let (mut t, mut naive, mut now) = (GroupTable::default(), Naive::default(), 0);
        for op in &ops {
            apply(&mut t, op, &mut now);
            naive.apply(op, now);
            prop_assert_eq!(shown(&t), naive.shown(), "after {:?}", op);
        }
    }

    #[test]
    fn the_indices_agree(ops in prop::collection::vec(op(), 0..200)) {
        let (mut t, mut now) = (GroupTable::default(), 0);
        t.set_size(10);
        for op in &ops {
            apply(&mut t, op, &mut now);
            prop_assert!(t.len() <= 10);
            prop_assert_eq!(t.by_renewal.len(), t.groups.len());
            prop_assert!(t.groups.iter().all(|(key, g)| t.by_renewal.get(&g.renewed) == Some(key)));
            let queued = |port| t.by_port.get(port).into_iter().flatten();
            let all = t.groups.iter().all(|(key, g)| queued(&g.port).any(|(_, k)| k == key));
            prop_assert!(all && t.by_port.values().map(BTreeMap::len).sum::<usize>() == t.len());
            let loads: BTreeSet<_> = t.by_port.iter().map(|(port, q)| (q.len(), *port)).collect();
            prop_assert_eq!(&loads, &t.by_load);
            prop_assert_eq!(t.routers.len(), t.routers_by_renewal.len());
        }
    }

    /// The results of look-ups change only together with a reported change.
    #[test]
    fn every_change_is_reported(ops in prop::collection::vec(op(), 0..100)) {
        let (mut t, mut now) = (GroupTable::default(), 0);
        t.set_size(10);
        for op in ops {
            let before = t.clone();
            t.take_changes();
            apply(&mut t, &op, &mut now);
            let changes = t.take_changes();
            for vlan in 0..2 {
                for g in (0..12).map(group) {
                    let told = changes.contains(&SnoopingChange::Group(g));
                    prop_assert!(before.members(vlan, g) == t.members(vlan, g) || told, "{:?} changed {:?}", op, g);
                }
                let told = changes.contains(&SnoopingChange::Routers);
                prop_assert!(before.routers_of(vlan) == t.routers_of(vlan) || told);
            }
        }
    }
}
