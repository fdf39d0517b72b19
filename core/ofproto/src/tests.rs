//! OpenFlow behaviour visible to controllers: examples from the standards, and behaviour on which users of Open
//! vSwitch rely.

use crate::*;
use flow::{Flow, Match};
use openflow::action::Action;
use openflow::error::OfError;
use openflow::flow_mod::{FlowCommand, FlowFlags, FlowMod, RemovedReason};
use openflow::group::{BUCKET_LAST, Bucket, GROUP_ALL, GroupCommand, GroupMod, GroupType};
use openflow::session::{TlvMap, TlvTableMod};
use openflow::stats::FlowStatsRequest;
use std::sync::Arc;
use units::{Millis, OfPort};

const T0: Millis = Millis(1000);

fn out(port: u16) -> Vec<Action> {
    vec![Action::output(OfPort(port))]
}

fn in_port(port: u32) -> Match {
    Match::new(&Flow { in_port: port, ..Flow::ZERO }, &Flow { in_port: u32::MAX, ..Flow::ZERO })
}

fn ip_dst(addr: u32, bits: u32) -> Match {
    let mask = Flow { dl_type: 0xffff, nw_dst: u32::MAX.checked_shl(32 - bits).unwrap_or(0), ..Flow::ZERO };
    Match::new(&Flow { dl_type: 0x800, nw_dst: addr, ..Flow::ZERO }, &mask)
}

fn fm(command: FlowCommand, matching: Match, port: u16) -> FlowMod {
    FlowMod { command, matching, actions: out(port), ..FlowMod::default() }
}

fn add(matching: Match, port: u16) -> FlowMod {
    fm(FlowCommand::Add, matching, port)
}

/// An `Ofproto` that has executed these flow mods.
fn with(mods: &[FlowMod]) -> Ofproto {
    let mut o = Ofproto::new(T0, 0);
    for m in mods {
        o.handle_flow_mod(m, T0).unwrap();
    }
    o
}

/// Table, in_port, cookie and output of every flow, sorted.
fn dump(o: &Ofproto) -> Vec<(u8, u32, u64, Vec<Action>)> {
    let mut flows: Vec<_> = o
        .rules(&Criteria::all())
        .unwrap()
        .iter()
        .map(|r| (r.table, r.full_match().flow.in_port, r.cookie, r.actions.to_vec()))
        .collect();
    flows.sort_by_key(|f| (f.0, f.1, f.2));
    flows
}

#[test]
fn a_new_switch_shows_no_flows_but_its_own() {
    let o = Ofproto::new(T0, 0);
    assert!(dump(&o).is_empty());
    assert_eq!(o.all_rules().count(), 4);
    let of_254 = Criteria::within(TABLE_INTERNAL, &Match::CATCHALL);
    assert_eq!(o.flow_stats(&of_254, T0).unwrap().len(), 4);
    assert_eq!(o.table_stats().len(), N_TABLES - 1);
}

#[test]
fn additions_lookups_and_deletions() {
    let mut o = with(&[add(in_port(1), 2), add(in_port(2), 1), FlowMod { table: 1, ..add(in_port(4), 3) }]);
    assert_eq!(o.aggregate(&Criteria::within(0, &Match::CATCHALL)).unwrap().flows, 2);
    let tables = o.publish();
    let found = tables.lookup(0, &Flow { in_port: 2, ..Flow::ZERO }, None).unwrap();
    assert_eq!(*found.actions, *out(1));
    assert!(tables.lookup(0, &Flow { in_port: 4, ..Flow::ZERO }, None).is_none());
    assert!(tables.lookup(TABLE_ALL, &Flow::ZERO, None).is_none());

    let changes = o.handle_flow_mod(&fm(FlowCommand::Delete, Match::CATCHALL, 0), T0).unwrap();
    assert_eq!(changes.flows.len(), 3);
    assert!(dump(&o).is_empty());
    assert!(tables.lookup(0, &Flow { in_port: 2, ..Flow::ZERO }, None).is_some(), "an old version stays");
    assert!(o.publish().version() > tables.version());
}

#[test]
fn publishing_without_changes_gives_the_same_version() {
    let mut o = with(&[add(in_port(1), 2)]);
    let a = o.publish();
    o.handle_flow_mod(&fm(FlowCommand::Delete, in_port(9), 0), T0).unwrap();
    assert!(Arc::ptr_eq(&a, &o.publish()));
}

/// OpenFlow 1.3.5 §6.4: an identical flow is replaced, the counters stay unless RESET_COUNTS is set, and no flow-removed is sent.
#[test]
fn adding_an_identical_flow() {
    let send = FlowFlags { send_flow_rem: true, ..FlowFlags::default() };
    let mut o = with(&[FlowMod { flags: send, new_cookie: 1, ..add(in_port(1), 2) }]);
    o.rules(&Criteria::all()).unwrap()[0].credit(3, 180, Millis(1500));
    let now = Millis(2000);
    let changes = o.handle_flow_mod(&FlowMod { new_cookie: 2, ..add(in_port(1), 3) }, now).unwrap();
    assert_eq!(changes.flows_removed(now).count(), 0);
    let r = Arc::clone(&o.rules(&Criteria::all()).unwrap()[0]);
    assert_eq!((r.cookie, r.packets(), r.bytes(), r.created), (2, 3, 180, now));
    assert_eq!(*r.actions, *out(3));

    let reset = FlowFlags { reset_counts: true, ..FlowFlags::default() };
    o.handle_flow_mod(&FlowMod { flags: reset, ..add(in_port(1), 3) }, now).unwrap();
    let r = Arc::clone(&o.rules(&Criteria::all()).unwrap()[0]);
    assert_eq!((r.packets(), r.bytes(), r.used()), (0, 0, Millis(1500)));
}

/// OpenFlow 1.0.2 §4.6: flows overlap if a packet may match both and they have the same priority.
#[test]
fn check_overlap() {
    let mut o = with(&[add(in_port(1), 2), add(ip_dst(0x0a00_0000, 8), 3)]);
    let check = FlowFlags { check_overlap: true, ..FlowFlags::default() };
    let overlapping = FlowMod { flags: check, ..add(ip_dst(0x0a01_0000, 16), 4) };
    assert_eq!(o.handle_flow_mod(&overlapping, T0).unwrap_err(), OfError::FmfcOverlap);
    assert!(o.handle_flow_mod(&FlowMod { priority: 5, ..overlapping }, T0).is_ok());
    // An identical flow is replaced and does not count as overlapping.
    assert!(o.handle_flow_mod(&FlowMod { flags: check, ..add(in_port(1), 4) }, T0).is_ok());
    assert!(o.handle_flow_mod(&FlowMod { flags: check, ..add(in_port(2), 4) }, T0).is_err());
}

#[test]
fn modify_keeps_everything_but_the_actions() {
    let mut o = with(&[
        FlowMod { idle_timeout: 9, hard_timeout: 99, importance: 7, new_cookie: 1, ..add(in_port(1), 2) },
        FlowMod { table: 3, ..add(in_port(1), 2) },
    ]);
    let r = Arc::clone(&o.rules(&Criteria::within(0, &Match::CATCHALL)).unwrap()[0]);
    let now = Millis(5000);
    let m = FlowMod { new_cookie: 0x55, idle_timeout: 1, ..fm(FlowCommand::Modify, Match::CATCHALL, 7) };
    let changes = o.handle_flow_mod(&m, now).unwrap();
    assert_eq!(changes.flows.len(), 2, "all tables");
    r.credit(5, 500, Millis(6000));
    let r = Arc::clone(&o.rules(&Criteria::within(0, &Match::CATCHALL)).unwrap()[0]);
    assert_eq!((r.idle_timeout(), r.hard_timeout(), r.importance, r.cookie), (9, 99, 7, 1));
    assert_eq!((r.created, r.modified(), *r.actions == *out(7)), (T0, now, true));
    assert_eq!(r.packets(), 5, "counters follow a modification");
    let m = FlowMod { modify_cookie: true, ..m };
    o.handle_flow_mod(&m, now).unwrap();
    assert!(dump(&o).iter().all(|f| f.2 == 0x55));
}

#[test]
fn modify_strict_needs_match_and_priority() {
    let mut o = with(&[add(in_port(1), 2), FlowMod { priority: 5, ..add(in_port(1), 3) }]);
    let keep = FlowMod { new_cookie: u64::MAX, ..fm(FlowCommand::ModifyStrict, in_port(1), 9) };
    o.handle_flow_mod(&FlowMod { priority: 5, ..keep.clone() }, T0).unwrap();
    o.handle_flow_mod(&FlowMod { priority: 6, ..keep }, T0).unwrap();
    let mut outs: Vec<_> = dump(&o).into_iter().map(|f| f.3).collect();
    outs.sort_by_key(|a| format!("{a:?}"));
    assert_eq!(outs, [out(2), out(9)]);
}

/// OpenFlow 1.0.2 §4.6: a modification that finds no flow adds one. It adds none in 1.2 and later (the codec then sets a new cookie of
/// all ones), or if the request filters by cookie.
#[test]
fn modify_that_finds_nothing() {
    let modify = fm(FlowCommand::Modify, in_port(1), 1);
    assert_eq!(with(std::slice::from_ref(&modify)).rules(&Criteria::all()).unwrap().len(), 1);
    let newer = FlowMod { new_cookie: u64::MAX, ..modify.clone() };
    assert!(dump(&with(&[newer])).is_empty());
    let by_cookie = FlowMod { cookie: 1, cookie_mask: 1, ..modify };
    assert!(dump(&with(&[by_cookie])).is_empty());
}

#[test]
fn cookies_as_filters() {
    let flows: Vec<FlowMod> =
        (1..=3).map(|i| FlowMod { new_cookie: (i as u64).div_ceil(2), ..add(in_port(i), 1) }).collect();
    let mut o = with(&flows);
    let modify = FlowMod {
        cookie: 1,
        cookie_mask: 0xff,
        new_cookie: 4,
        modify_cookie: true,
        ..fm(FlowCommand::Modify, Match::CATCHALL, 4)
    };
    o.handle_flow_mod(&modify, T0).unwrap();
    assert_eq!(dump(&o).iter().map(|f| f.2).collect::<Vec<_>>(), [4, 4, 2]);
    let delete = FlowMod { cookie: 4, cookie_mask: u64::MAX, ..fm(FlowCommand::Delete, Match::CATCHALL, 0) };
    o.handle_flow_mod(&delete, T0).unwrap();
    assert_eq!(dump(&o).len(), 1);
    let asked = FlowStatsRequest { cookie: 2, cookie_mask: 2, ..FlowStatsRequest::default() };
    assert_eq!(o.flow_stats(&Criteria::from(&asked), T0).unwrap().len(), 1);
}

#[test]
fn deletions_by_output() {
    let group = vec![Action::WriteActions(vec![Action::Group(1234)])];
    let mut o = Ofproto::new(T0, 0);
    o.handle_group_mod(&GroupMod { group: 1234, ..GroupMod::default() }, T0).unwrap();
    for m in [add(in_port(1), 2), add(in_port(2), 3), FlowMod { actions: group, ..add(in_port(3), 0) }] {
        o.handle_flow_mod(&m, T0).unwrap();
    }
    let delete = fm(FlowCommand::Delete, Match::CATCHALL, 0);
    o.handle_flow_mod(&FlowMod { out_port: OfPort(2), ..delete.clone() }, T0).unwrap();
    assert_eq!(dump(&o).len(), 2);
    o.handle_flow_mod(&FlowMod { out_group: 1234, ..delete }, T0).unwrap();
    assert_eq!(dump(&o).len(), 1);
}

#[test]
fn strict_deletion() {
    let mut o = with(&[add(ip_dst(0x0a00_0000, 8), 1), add(ip_dst(0x0a01_0000, 16), 1)]);
    let strict = fm(FlowCommand::DeleteStrict, ip_dst(0x0a00_0000, 8), 0);
    o.handle_flow_mod(&FlowMod { priority: 1, ..strict.clone() }, T0).unwrap();
    assert_eq!(dump(&o).len(), 2);
    o.handle_flow_mod(&strict, T0).unwrap();
    assert_eq!(dump(&o).len(), 1);
    o.handle_flow_mod(&fm(FlowCommand::Delete, ip_dst(0x0a00_0000, 8), 0), T0).unwrap();
    assert!(dump(&o).is_empty());
}

#[test]
fn requests_reserved_for_the_switch() {
    let mut o = Ofproto::new(T0, 0);
    let refused = |o: &mut Ofproto, m: FlowMod| o.handle_flow_mod(&m, T0).unwrap_err();
    let internal = FlowMod { table: TABLE_INTERNAL, ..add(in_port(1), 2) };
    assert_eq!(refused(&mut o, internal.clone()), OfError::BrcEperm);
    assert_eq!(
        refused(&mut o, FlowMod { command: FlowCommand::Delete, matching: Match::CATCHALL, ..internal }),
        OfError::BrcEperm
    );
    let mut hash = in_port(1);
    hash.mask.dp_hash = 1;
    assert_eq!(refused(&mut o, add(hash, 2)), OfError::BrcEperm);
    assert_eq!(refused(&mut o, FlowMod { buffer_id: 3, ..add(in_port(1), 2) }), OfError::BrcBufferUnknown);
    assert_eq!(
        refused(&mut o, FlowMod { actions: vec![Action::Group(7)], ..add(in_port(1), 2) }),
        OfError::BacBadOutGroup
    );
    assert_eq!(o.all_rules().count(), 4);

    o.handle_own_flow(&add(in_port(1), 2), 180_000, true, T0).unwrap();
    assert!(dump(&o).is_empty());
    assert_eq!(o.table_stats()[0].active, 0);
    o.handle_flow_mod(&fm(FlowCommand::Delete, Match::CATCHALL, 0), T0).unwrap();
    assert_eq!(o.all_rules().count(), 5);
    o.handle_own_flow(&add(in_port(1), 2), 180_000, false, T0).unwrap();
    assert_eq!(o.all_rules().count(), 4);
}

#[test]
fn timeouts() {
    let send = FlowFlags { send_flow_rem: true, ..FlowFlags::default() };
    let mut o = with(&[
        FlowMod { idle_timeout: 10, flags: send, ..add(in_port(1), 2) },
        FlowMod { hard_timeout: 15, ..add(in_port(2), 2) },
        add(in_port(3), 2),
    ]);
    assert_eq!(o.next_deadline(), Millis(11_001));
    assert!(o.expire(Millis(11_000)).is_empty());
    let idle = o.rules(&Criteria::within(0, &in_port(1))).unwrap()[0].clone();
    idle.credit(1, 60, Millis(9000));
    assert!(o.expire(Millis(12_000)).is_empty());
    let gone = o.expire(Millis(17_000));
    assert!(matches!(&gone.flows[..], [FlowChange::Removed { reason: RemovedReason::HardTimeout, .. }]));
    assert_eq!(gone.flows_removed(Millis(17_000)).count(), 0);
    let gone = o.expire(Millis(19_500));
    let told: Vec<_> = gone.flows_removed(Millis(19_500)).collect();
    assert_eq!(
        (told[0].reason, told[0].duration.sec, told[0].duration.nsec),
        (RemovedReason::IdleTimeout, 18, 500_000_000)
    );
    assert_eq!((told[0].packets, told[0].bytes), (1, 60));
    assert_eq!((dump(&o).len(), o.next_deadline()), (1, Millis::NEVER));
}

#[test]
fn a_modification_restarts_the_hard_timeout() {
    let mut o = with(&[FlowMod { hard_timeout: 10, ..add(in_port(1), 2) }]);
    o.handle_flow_mod(&fm(FlowCommand::Modify, in_port(1), 3), Millis(9000)).unwrap();
    assert!(o.expire(Millis(19_000)).is_empty());
    assert_eq!(o.expire(Millis(19_001)).flows.len(), 1);
}

#[test]
fn shorter_timeouts() {
    let mut o = with(&[FlowMod { idle_timeout: 60, ..add(in_port(1), 2) }, add(in_port(2), 2)]);
    for rule in o.rules(&Criteria::all()).unwrap() {
        o.reduce_timeouts(&rule, 5, 0);
        assert_eq!((rule.idle_timeout(), rule.hard_timeout()), (5, 0));
        o.reduce_timeouts(&rule, 10, 20);
        assert_eq!((rule.idle_timeout(), rule.hard_timeout()), (5, 20));
    }
    assert_eq!(o.expire(Millis(6001)).flows.len(), 2);
}

#[test]
fn learned_flows_are_refreshed() {
    let mut o = Ofproto::new(T0, 0);
    let learn = FlowMod {
        table: 1,
        hard_timeout: 10,
        modify_cookie: true,
        ..fm(FlowCommand::ModifyStrict, in_port(1), 2)
    };
    assert_eq!(o.learn(&learn, 0, T0, T0).unwrap().flows.len(), 1);
    assert!(o.learn(&learn, 0, Millis(8000), Millis(8000)).unwrap().is_empty());
    assert!(o.expire(Millis(12_000)).is_empty());
    let moved = FlowMod { actions: out(3), ..learn.clone() };
    let late = Millis(8000);
    assert!(o.learn(&moved, 0, T0, late).unwrap().is_empty(), "a packet from before the last one");
    assert!(matches!(&o.learn(&moved, 0, late, late).unwrap().flows[..], [FlowChange::Replaced { .. }]));
    assert!(o.learn(&FlowMod { command: FlowCommand::Add, ..learn }, 0, T0, T0).is_err());
}

/// Learned flows are deleted when the last flow that learns them is deleted. They stay if a modified flow still learns
/// them.
#[test]
fn learned_flows_are_deleted_with_the_last_learning_flow() {
    let learn =
        openflow::action::Learn { cookie: 0x55, table: 1, delete_learned: true, ..Default::default() };
    let learn_flow = FlowMod { actions: vec![Action::Learn(Box::new(learn))], ..add(in_port(1), 0) };
    let mut o = with(std::slice::from_ref(&learn_flow));
    let learned_flow =
        |port| FlowMod { table: 1, new_cookie: 0x55, ..fm(FlowCommand::ModifyStrict, in_port(port), 2) };
    assert!(!o.learn(&learned_flow(5), 1, T0, T0).unwrap().is_empty());
    assert!(o.learn(&learned_flow(6), 1, T0, T0).unwrap().is_empty(), "the limit is reached");
    o.handle_flow_mod(&FlowMod { table: 1, ..add(in_port(7), 2) }, T0).unwrap();
    o.handle_flow_mod(&FlowMod { command: FlowCommand::Modify, ..learn_flow.clone() }, T0).unwrap();
    assert_eq!(dump(&o).len(), 3);
    let delete = FlowMod { command: FlowCommand::DeleteStrict, ..learn_flow };
    assert_eq!(o.handle_flow_mod(&delete, T0).unwrap().flows.len(), 2);
    assert_eq!(dump(&o).iter().map(|f| f.1).collect::<Vec<_>>(), [7]);
}

#[test]
fn full_tables() {
    let mut o = Ofproto::new(T0, 0);
    let settings =
        TableSettings { name: Some("main".into()), max_flows: Some(2), ..TableSettings::default() };
    o.configure_table(0, &settings, T0);
    for i in 1..3 {
        o.handle_flow_mod(&FlowMod { idle_timeout: 10 * i as u16, ..add(in_port(i), 1) }, T0).unwrap();
    }
    assert_eq!(o.handle_flow_mod(&add(in_port(3), 1), T0).unwrap_err(), OfError::FmfcTableFull);
    assert!(o.handle_flow_mod(&add(in_port(2), 5), T0).is_ok(), "a replacement needs no room");
    let features = &o.table_stats()[0].features;
    assert_eq!((features.name.as_str(), features.max_entries), ("main", 2));

    o.configure_table(0, &TableSettings { evict: true, ..settings.clone() }, T0);
    let changes = o.handle_flow_mod(&add(in_port(3), 1), T0).unwrap();
    assert!(matches!(
        &changes.flows[..],
        [FlowChange::Removed { reason: RemovedReason::Eviction, .. }, FlowChange::Added(_)]
    ));
    assert_eq!(dump(&o).iter().map(|f| f.1).collect::<Vec<_>>(), [2, 3]);
    // The remaining flows never expire, so none may be evicted.
    assert_eq!(o.handle_flow_mod(&add(in_port(4), 1), T0).unwrap_err(), OfError::FmfcTableFull);
}

#[test]
fn importance_and_fairness_decide_what_is_evicted() {
    let mut o = Ofproto::new(T0, 0);
    let flow = |i: u32, importance| FlowMod { importance, idle_timeout: 90 - i as u16, ..add(in_port(i), 1) };
    for (i, importance) in [(1, 5), (2, 1), (3, 1), (4, 9)] {
        o.handle_flow_mod(&flow(i, importance), T0).unwrap();
    }
    let mut settings = TableSettings { max_flows: Some(2), evict: true, ..TableSettings::default() };
    let changes = o.configure_table(0, &settings, T0);
    let evicted: Vec<u32> = changes.flows.iter().map(|c| c.rule().full_match().flow.in_port).collect();
    assert_eq!(evicted, [3, 2]);

    settings.max_flows = Some(4);
    settings.eviction_fields = vec![flow::Subfield::whole(flow::FieldId::from_name("in_port").unwrap())];
    o.configure_table(0, &settings, T0);
    for priority in [1, 2] {
        o.handle_flow_mod(&FlowMod { priority, ..flow(1, 9) }, T0).unwrap();
    }
    let changes = o.handle_flow_mod(&flow(6, 0), T0).unwrap();
    let first = changes.flows[0].rule();
    assert_eq!((first.full_match().flow.in_port, first.importance), (1, 5), "port 1 has most flows");
}

#[test]
fn a_bundle_is_all_or_nothing() {
    let mut o = with(&[add(in_port(1), 2)]);
    let before = o.publish();
    let mut b = o.begin();
    b.flow_mod(o.request(&fm(FlowCommand::Delete, Match::CATCHALL, 0)), T0).unwrap();
    b.flow_mod(o.request(&add(in_port(5), 6)), T0).unwrap();
    assert_eq!(
        b.flow_mod(o.request(&FlowMod { table: TABLE_INTERNAL, ..add(in_port(1), 2) }), T0),
        Err(OfError::BrcEperm)
    );
    drop(b);
    assert!(Arc::ptr_eq(&before, &o.publish()));
    assert_eq!(dump(&o), [(0, 1, 0, out(2))]);

    let mut b = o.begin();
    b.flow_mod(o.request(&fm(FlowCommand::Delete, Match::CATCHALL, 0)), T0).unwrap();
    b.group_mod(&GroupMod { group: 9, ..GroupMod::default() }, T0).unwrap();
    b.flow_mod(o.request(&FlowMod { actions: vec![Action::Group(9)], ..add(in_port(5), 0) }), T0).unwrap();
    let changes = o.commit(b, T0).unwrap();
    assert_eq!((changes.flows.len(), &changes.groups[..]), (2, &[9][..]));
    assert_eq!(dump(&o), [(0, 5, 0, vec![Action::Group(9)])]);
    assert!(before.lookup(0, &Flow { in_port: 1, ..Flow::ZERO }, None).is_some());
}

#[test]
fn a_bundle_fails_if_the_state_changed_meanwhile() {
    let mut o = Ofproto::new(T0, 0);
    let b = o.begin();
    o.handle_flow_mod(&add(in_port(1), 2), T0).unwrap();
    assert_eq!(o.commit(b, T0).unwrap_err(), OfError::BfcMsgConflict);
    assert_eq!(dump(&o).len(), 1);
}

fn bucket(id: u32) -> Bucket {
    Bucket { id, weight: 1, actions: out(id as u16), ..Bucket::default() }
}

#[test]
fn group_errors() {
    let mut o = Ofproto::new(T0, 0);
    let mut refused = |gm: GroupMod| o.handle_group_mod(&gm, T0).unwrap_err();
    let gm = GroupMod { group: 1, kind: GroupType::Select, ..GroupMod::default() };
    let with_command = |command| GroupMod { command, ..gm.clone() };
    assert_eq!(refused(with_command(GroupCommand::Modify)), OfError::GmfcUnknownGroup);
    assert_eq!(refused(with_command(GroupCommand::InsertBucket)), OfError::GmfcUnknownGroup);
    assert_eq!(refused(GroupMod { kind: GroupType::Indirect, ..gm.clone() }), OfError::GmfcInvalidGroup);
    assert_eq!(
        refused(GroupMod { kind: GroupType::All, buckets: vec![bucket(0)], ..gm.clone() }),
        OfError::GmfcInvalidGroup
    );
    assert_eq!(refused(GroupMod { group: GROUP_ALL, ..gm.clone() }), OfError::GmfcInvalidGroup);
    o.handle_group_mod(&gm, T0).unwrap();
    assert_eq!(o.handle_group_mod(&gm, T0).unwrap_err(), OfError::GmfcGroupExists);
    assert!(o.handle_group_mod(&GroupMod { command: GroupCommand::AddOrModify, ..gm }, T0).is_ok());
}

#[test]
fn single_buckets() {
    let mut o = Ofproto::new(T0, 0);
    let gm = GroupMod {
        group: 1,
        kind: GroupType::Select,
        buckets: vec![bucket(0), bucket(1)],
        ..GroupMod::default()
    };
    o.handle_group_mod(&gm, T0).unwrap();
    let mut change = |command, command_bucket, buckets| {
        o.handle_group_mod(
            &GroupMod { command, command_bucket, buckets, kind: GroupType::All, ..gm.clone() },
            T0,
        )?;
        let desc = o.groups(1).remove(0);
        assert_eq!(desc.kind, GroupType::Select);
        Ok::<_, OfError>(desc.buckets.iter().map(|b| b.id).collect::<Vec<_>>())
    };
    use GroupCommand::{InsertBucket, RemoveBucket};
    assert_eq!(change(InsertBucket, 0, vec![bucket(7), bucket(8)]).unwrap(), [0, 7, 8, 1]);
    assert_eq!(change(InsertBucket, BUCKET_LAST, vec![bucket(9)]).unwrap(), [0, 7, 8, 1, 9]);
    assert_eq!(change(InsertBucket, 55, vec![bucket(10)]), Err(OfError::GmfcUnknownBucket));
    assert_eq!(change(InsertBucket, 0, vec![bucket(9)]), Err(OfError::GmfcBucketExists));
    assert_eq!(change(RemoveBucket, 7, vec![]).unwrap(), [0, 8, 1, 9]);
    assert_eq!(change(RemoveBucket, BUCKET_LAST, vec![]).unwrap(), [0, 8, 1]);
    assert_eq!(change(RemoveBucket, 7, vec![]), Err(OfError::GmfcUnknownBucket));
}

#[test]
fn buckets_that_stay_keep_their_counters() {
    let mut o = Ofproto::new(T0, 0);
    let buckets = vec![bucket(1), bucket(2)];
    let gm = GroupMod { group: 1, kind: GroupType::Select, buckets, ..GroupMod::default() };
    o.handle_group_mod(&gm, T0).unwrap();
    let mut counters = |command, command_bucket, buckets| {
        o.state.groups.get(&1).unwrap().credit(Some(0), 5, 300);
        o.handle_group_mod(&GroupMod { command, command_bucket, buckets, ..gm.clone() }, T0).unwrap();
        let stats = o.groups(1).remove(0).stats(0, T0);
        (stats.packets, stats.buckets.iter().map(|(packets, _)| *packets).collect::<Vec<_>>())
    };
    assert_eq!(counters(GroupCommand::InsertBucket, 1, vec![bucket(3)]), (0, vec![5, 0, 0]));
    assert_eq!(counters(GroupCommand::RemoveBucket, 2, vec![]), (0, vec![10, 0]));
    let both = vec![bucket(1), bucket(3)];
    assert_eq!(counters(GroupCommand::Modify, 0, both), (0, vec![0, 0]), "a modification begins again");
}

#[test]
fn deleting_a_group_deletes_its_flows() {
    let mut o = Ofproto::new(T0, 0);
    for group in [1, 2] {
        o.handle_group_mod(&GroupMod { group, ..GroupMod::default() }, T0).unwrap();
        let uses = FlowMod { actions: vec![Action::Group(group)], ..add(in_port(group), 0) };
        o.handle_flow_mod(&uses, T0).unwrap();
    }
    assert_eq!(o.groups_with_users(1)[0].1, 1);
    let delete = |group| GroupMod { command: GroupCommand::Delete, group, ..GroupMod::default() };
    let changes = o.handle_group_mod(&delete(1), T0).unwrap();
    assert!(matches!(&changes.flows[..], [FlowChange::Removed { reason: RemovedReason::GroupDelete, .. }]));
    assert!(o.handle_group_mod(&delete(1), T0).unwrap().is_empty());
    o.handle_group_mod(&delete(GROUP_ALL), T0).unwrap();
    assert!(dump(&o).is_empty());
    assert!(o.groups(GROUP_ALL).is_empty());
}

#[test]
fn ages() {
    let o = with(&[add(in_port(1), 2)]);
    let s = &o.flow_stats(&Criteria::all(), Millis(100_000_000)).unwrap()[0];
    assert_eq!((s.duration.sec, s.idle_age, s.hard_age), (99_999, Some(65_535), Some(65_535)));
}

#[test]
fn names_of_tables() {
    let mut o = Ofproto::new(T0, 0);
    o.name_table(0, "by-controller");
    o.configure_table(0, &TableSettings { name: Some("by-database".into()), ..TableSettings::default() }, T0);
    o.name_table(0, "again");
    assert_eq!(o.table(0).unwrap().config().name, "by-database");
    o.configure_table(0, &TableSettings::default(), T0);
    assert_eq!(o.table(0).unwrap().config().name, "");
}

/// A bundle of many flows, and a single change after it, take time proportional to the size of the change.
#[test]
fn many_flows() {
    let mut o = Ofproto::new(T0, 0);
    let mut b = o.begin();
    for i in 0..20_000 {
        b.flow_mod(o.request(&add(ip_dst(i, 32), 1)), T0).unwrap();
    }
    o.commit(b, T0).unwrap();
    let tables = o.publish();
    for i in 0..1000 {
        o.handle_flow_mod(&fm(FlowCommand::DeleteStrict, ip_dst(i, 32), 0), T0).unwrap();
        o.publish();
    }
    assert_eq!(o.table(0).unwrap().classifier().len(), 19_000);
    assert_eq!(tables.table(0).unwrap().classifier().len(), 20_000);
}

#[test]
fn no_meters() {
    use openflow::meter::{MeterCommand, MeterMod};
    let mut o = Ofproto::new(T0, 0);
    assert_eq!(o.meter_features().max_meters, 0);
    assert_eq!(o.handle_meter_mod(&MeterMod::default(), T0).unwrap_err(), OfError::MmfcInvalidMeter);
    let delete = MeterMod { command: MeterCommand::Delete, ..MeterMod::default() };
    assert!(o.handle_meter_mod(&delete, T0).unwrap().is_empty());
    let metered = FlowMod { actions: vec![Action::Meter(1)], ..add(in_port(1), 0) };
    assert_eq!(o.handle_flow_mod(&metered, T0).unwrap_err(), OfError::MmfcInvalidMeter);
}

#[test]
fn table_mods() {
    use openflow::table::{TableConfig, TableMiss};
    let mut o = Ofproto::new(T0, 0);
    let all = TableConfig {
        table: TABLE_ALL,
        miss: TableMiss::Continue,
        eviction: Some(true),
        ..TableConfig::default()
    };
    o.table_mod(&all).unwrap();
    let config =
        |t: u8, o: &Ofproto| (o.table(t).unwrap().config().miss, o.table(t).unwrap().config().evicts());
    assert_eq!(config(7, &o), (TableMiss::Continue, true));
    assert_eq!(config(TABLE_INTERNAL, &o), (TableMiss::Default, false));
    o.table_mod(&TableConfig { table: 7, eviction: Some(false), ..TableConfig::default() }).unwrap();
    assert_eq!(config(7, &o), (TableMiss::Continue, false));
}

#[test]
fn snapshots_go_to_other_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Tables>();
    shared::<TableChanges>();
}

/// Maps `tun_metadata<index>` to the option of this type.
fn map(index: u16, kind: u8, len: u8) -> TlvMap {
    TlvMap { class: 0xffff, kind, len, index }
}

fn with_tlv(index: usize, value: &[u8], actions: Vec<Action>) -> FlowMod {
    let mut matching = Match::CATCHALL;
    matching.allocate_tlv(index, value, None).unwrap();
    FlowMod { command: FlowCommand::Add, matching, actions, ..FlowMod::default() }
}

/// Adds a flow as a controller does.
fn put(o: &mut Ofproto, fm: &FlowMod) -> Result<(), OfError> {
    let fm = o.with_tlv_layout(fm)?;
    o.handle_flow_mod(&fm, T0).map(drop)
}

#[test]
fn options_in_use_stay_mapped() {
    let mut o = Ofproto::new(T0, 0);
    let flow = with_tlv(0, &[1], out(2));
    assert_eq!(put(&mut o, &flow), Err(OfError::NxfmfcInvalidTlvField));
    o.change_tlv(&TlvTableMod::Add(vec![map(0, 0, 4), map(1, 1, 8)]), 0).unwrap();
    put(&mut o, &flow).unwrap();
    assert_eq!(o.change_tlv(&TlvTableMod::Delete(vec![map(0, 0, 4)]), 0), Err(OfError::NxttmfcInvalidTlvDel));
    assert_eq!(o.change_tlv(&TlvTableMod::Clear, 0), Err(OfError::NxttmfcInvalidTlvDel));
    // The other field may be unmapped and mapped again without affecting the flow.
    o.change_tlv(&TlvTableMod::Delete(vec![map(1, 1, 8), map(5, 0, 0)]), 0).unwrap();
    o.change_tlv(&TlvTableMod::Add(vec![map(3, 3, 124), map(1, 9, 12)]), 0).unwrap();
    let rules = o.rules(&Criteria::all()).unwrap();
    assert_eq!(rules[0].full_match().to_string(), "tun_metadata0=0x1");
    o.handle_flow_mod(&fm(FlowCommand::Delete, Match::CATCHALL, 0), T0).unwrap();
    o.change_tlv(&TlvTableMod::Clear, 0).unwrap();
    assert_eq!(o.tlv().iter().count(), 0);
}

#[test]
fn actions_keep_fields_mapped_too() {
    let mut o = Ofproto::new(T0, 0);
    o.change_tlv(&TlvTableMod::Add(vec![map(0, 0, 4), map(1, 1, 4)]), 0).unwrap();
    let field = |n| flow::Subfield::new(flow::FieldId::tun_metadata(n).unwrap(), 0, 32).unwrap();
    let push = |n| FlowMod {
        command: FlowCommand::Add,
        actions: vec![Action::StackPush(field(n))],
        ..FlowMod::default()
    };
    put(&mut o, &push(0)).unwrap();
    // The same flow with other actions.
    put(&mut o, &push(1)).unwrap();
    o.change_tlv(&TlvTableMod::Delete(vec![map(0, 0, 4)]), 0).unwrap();
    assert_eq!(o.change_tlv(&TlvTableMod::Delete(vec![map(1, 1, 4)]), 0), Err(OfError::NxttmfcInvalidTlvDel));
    // A learned flow that uses a field which is no longer mapped is not added.
    let late = FlowMod { command: FlowCommand::ModifyStrict, table: 1, ..push(0) };
    assert_eq!(o.learn(&late, 0, T0, T0).map(drop), Err(OfError::NxfmfcInvalidTlvField));
}

#[test]
fn a_table_mod_is_applied_whole_or_not_at_all() {
    let mut o = Ofproto::new(T0, 0);
    o.change_tlv(&TlvTableMod::Add(vec![map(0, 0, 4)]), 0).unwrap();
    for (add, error) in [
        (vec![map(1, 1, 4), map(0, 2, 4)], OfError::NxttmfcAlreadyMapped),
        (vec![map(1, 1, 4), map(2, 1, 4)], OfError::NxttmfcDupEntry),
        (vec![map(1, 1, 124), map(2, 2, 124), map(3, 3, 8)], OfError::NxttmfcTableFull),
    ] {
        assert_eq!(o.change_tlv(&TlvTableMod::Add(add), 0), Err(error));
        assert_eq!(o.tlv().iter().map(|(i, _)| i).collect::<Vec<_>>(), [0]);
    }
}
