//! IGMP and MLD: a message has no more records than fit into its frame. The table of groups keeps its limit, and reports each change
//! of a group.

use bridge::snooping::SnoopingChange;
use bridge::snooping::message::{Message, Record};
use bridge::{BundleId, GroupRead, GroupTable};
use packet::checksum::{add, finish, pseudo_v6};
use std::collections::HashMap;
use std::net::Ipv6Addr;
use units::Millis;

const LIMIT: usize = 10;
const PORTS: u8 = 4;

pub fn run(data: &[u8]) {
    let mut table = GroupTable::default();
    table.set_size(LIMIT);
    table.set_port(BundleId(0), true, false);
    table.set_port(BundleId(1), false, true);
    let mut now = Millis(0);
    // The bytes of a step: kind of frame and port, seconds, length, message.
    let mut rest = data;
    while let Some((&[kind, seconds, len], after)) = rest.split_first_chunk() {
        let (message, after) = after.split_at(usize::from(len).min(after.len()));
        rest = after;
        now = now + Millis::from_secs(seconds.into());
        let frame = match kind & 3 {
            0 => message.to_vec(),
            1 => over_v4(message),
            _ => over_v6(message),
        };
        let Ok(message) = Message::parse(&frame) else { continue };
        if let Message::Report { records, .. } = &message {
            assert!(records.len() * 8 <= frame.len());
        }
        learn(&mut table, BundleId((kind >> 2 & (PORTS - 1)).into()), &message, now);
    }
}

fn learn(table: &mut GroupTable, port: BundleId, message: &Message, now: Millis) {
    let vlan = 0;
    let groups: Vec<Ipv6Addr> = match message {
        Message::Report { records, .. } => records.iter().map(|Record { group, .. }| *group).collect(),
        _ => Vec::new(),
    };
    let members = |table: &GroupTable| -> HashMap<_, _> {
        groups.iter().map(|group| (*group, table.members(vlan, *group))).collect()
    };
    let (before, n_changes) = (members(table), table.count_changes(vlan, port, message));
    assert!(n_changes <= groups.len().max(1));
    table.take_changes();
    table.learn(vlan, port, message, now);
    assert!(table.len() <= LIMIT);
    let changes = table.take_changes();
    for (group, after) in members(table) {
        let is_reported = changes.contains(&SnoopingChange::Group(group));
        assert!(before.get(&group) == Some(&after) || is_reported, "{group} changed");
    }
    let shown: Vec<_> = table.iter(now).collect();
    assert!(shown.len() <= (LIMIT + 1) * usize::from(PORTS));
    assert!(shown.iter().all(|m| m.port != BundleId(0)), "a port that gets everything joins nothing");
}

/// Returns the message with a correct checksum.
fn with_checksum(message: &[u8], pseudo: u32) -> Vec<u8> {
    let mut message = message.to_vec();
    if let Some(field) = message.get_mut(2..4) {
        field.fill(0);
        let sum = finish(add(pseudo, &message));
        message[2..4].copy_from_slice(&sum.to_be_bytes());
    }
    message
}

fn over_v4(message: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x01, 0, 0x5e, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x08, 0, 0x45, 0];
    frame.extend((20 + message.len() as u16).to_be_bytes());
    frame.extend([0, 0, 0, 0, 1, 2, 0, 0, 10, 0, 0, 1, 224, 0, 0, 1]);
    frame.extend(with_checksum(message, 0));
    frame
}

fn over_v6(message: &[u8]) -> Vec<u8> {
    let [src, dst] = [0xfe80, 0xff02].map(|net| Ipv6Addr::new(net, 0, 0, 0, 0, 0, 0, 1).octets());
    let mut frame = vec![0x33, 0x33, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0];
    frame.extend((message.len() as u16).to_be_bytes());
    frame.extend([58, 1]);
    frame.extend(src);
    frame.extend(dst);
    frame.extend(with_checksum(message, pseudo_v6(&src, &dst, 58, message.len() as u32)));
    frame
}
