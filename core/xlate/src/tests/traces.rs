//! Traces, as Open vSwitch 3.7 prints them for the same flows.

use super::*;
use openflow::group::{Bucket, GroupType};

#[test]
fn a_looping_table_leaves_a_bounded_trace_with_its_error() {
    let mut b = TestBridge::with_ports(BR0, 2, 0);
    let port = |n: u16| Action::Resubmit { port: Some(OfPort(n)), table: None, with_ct: false };
    for i in 1..=64 {
        let mut list = vec![port(i + 1), port(i + 1)];
        list.extend(vec![set(FieldId::Metadata, 7); 1000]);
        b.flow(0, 1, &[(FieldId::InPort, i.into())], list);
    }
    let s = switch(&mut [b]);
    let text = trace(&s, &tcp(1));
    assert!(text.len() < (1 << 20) + 1000, "{}", text.len());
    assert!(text.contains("the trace is truncated after 1024 KiB\n") && text.ends_with(" <<<<\n"));
}

#[test]
fn buckets_after_a_failure_are_named() {
    let mut b = TestBridge::with_ports(BR0, 2, 0);
    let again = Action::Resubmit { port: None, table: Some(1), with_ct: false };
    let bucket = |id, action| Bucket { id, actions: vec![action], ..Bucket::default() };
    let buckets = vec![bucket(0, again.clone()), bucket(1, out(2))];
    b.group(&GroupMod { group: 1, kind: GroupType::All, buckets, ..GroupMod::default() });
    b.flow(0, 1, &[], vec![Action::Group(1)]);
    b.flow(1, 1, &[], vec![again]);
    let text = trace(&switch(&mut [b]), &tcp(1));
    assert!(text.contains("over max translation depth 64") && text.ends_with("\n    bucket 1\n"), "{text}");
}

#[test]
fn tables_and_action_sets() {
    let mut b = TestBridge::with_ports(BR0, 3, 0);
    b.flow(0, 32768, &[(FieldId::InPort, 2)], vec![Action::WriteActions(vec![out(3)]), Action::GotoTable(2)]);
    b.flow(2, 32768, &[(FieldId::EthType, 0x0800)], vec![out(1)]);
    b.flow(2, 0, &[], vec![Action::ClearActions]);
    let s = switch(&mut [b]);
    let ip = "
bridge(\"br0\")
-------------
 0. in_port=2, priority 32768
    write_actions(output:3)
     -> action set is: output:3
    goto_table:2
     2. ip, priority 32768
            output:1
--. Executing action set:
    output:3
";
    assert_eq!(trace(&s, &tcp(2)), ip);
    let arp = "
bridge(\"br0\")
-------------
 0. in_port=2, priority 32768
    write_actions(output:3)
     -> action set is: output:3
    goto_table:2
 2. priority 0
    clear_actions
     -> action set was: output:3
";
    assert_eq!(trace(&s, &Flow { dl_type: 0x0806, ..tcp(2) }), arp);
    assert_eq!(trace(&s, &tcp(1)), "\nbridge(\"br0\")\n-------------\n 0. No match.\n    drop\n");
}

#[test]
fn bridges_within_bridges() {
    let mut b0 = TestBridge::with_ports(BR0, 3, 0);
    b0.port(10, Attachment::Patch(BR1, OfPort(11)), VlanConfig::trunk());
    let mac1 = Mac([0, 0, 0, 0, 0, 1]);
    b0.flow(0, 32768, &[(FieldId::InPort, 3)], vec![out(10), Action::SetEthDst(mac1), out(1)]);
    let mut b1 = TestBridge::with_ports(BR1, 1, 3);
    b1.port(11, Attachment::Patch(BR0, OfPort(10)), VlanConfig::trunk());
    b1.flow(0, 32768, &[], vec![normal()]);
    let expected = "
bridge(\"br0\")
-------------
 0. in_port=3, priority 32768
    output:10

    bridge(\"br1\")
    -------------
         0. priority 32768
            NORMAL
             -> no learned MAC for destination, flooding
    set_field:00:00:00:00:00:01->eth_dst
    output:1
";
    assert_eq!(trace(&switch(&mut [b0, b1]), &tcp(3)), expected);
}

#[test]
fn what_has_no_effect_is_said() {
    let mut b = TestBridge::with_ports(BR0, 2, 0);
    b.flow(0, 32768, &[], vec![out(1), out(5), Action::DecTtl { ids: vec![], nicira: false }, out(2)]);
    let expected = "
bridge(\"br0\")
-------------
 0. priority 32768
    output:1
     >> skipping output to input port
    output:5
     >> Nonexistent output port
    dec_ttl
     >> IPv4 decrement TTL exception
";
    assert_eq!(trace(&switch(&mut [b]), &Flow { nw_ttl: 1, ..tcp(1) }), expected);
}
