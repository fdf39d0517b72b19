//! The texts of ovs-ofctl(8): flows, groups, packet-outs. A parsed value is equal after it was printed and parsed again.

use super::same::assert_same;
use flow::tlv::Layout;
use flow::{FieldId, Flow, Match, VLAN_CFI};
use openflow::flow_mod::{FlowCommand, FlowMod};
use openflow::text::{
    NoNames, Protocols, actions_text, match_text, parse_actions, parse_flow_filter, parse_flow_line,
    parse_flow_mod, parse_group_line, parse_packet_out,
};
use openflow::{Body, Dialect, Message, Xid, decode, encode};
use std::str::from_utf8;

/// Maximum length of a text. Lines that people and scripts write are shorter.
const LEN_MAX: usize = 2048;

/// Checks a line of a file of flows, a filter, or a flow mod.
pub fn flow(data: &[u8]) {
    let Some(text) = from_utf8(data).ok().filter(|t| t.len() <= LEN_MAX) else { return };
    if let Ok(parsed) = parse_flow_line(text, &NoNames) {
        check_text(&parsed.flow);
        check_wire(&parsed.flow, parsed.usable);
    }
    if let Ok(actions) = parse_actions(text, &NoNames) {
        let out = actions_text(&actions, &NoNames);
        if is_readable(&out) {
            let back = parse_actions(&out, &NoNames);
            assert_same(&Ok(actions), &back, || out);
        }
    }
    let _ = parse_flow_filter(text, &NoNames);
    if let Ok((flow, _)) = flow::text::parse_exact_flow(text, &NoNames, &flow::tlv::Layout::EMPTY) {
        flow::text::flow_text(&flow, &NoNames);
    }
}

/// Checks a group or a packet-out. No text is printed from which these could be parsed again, so only their messages are checked.
pub fn group(data: &[u8]) {
    let Some(text) = from_utf8(data).ok().filter(|t| t.len() <= LEN_MAX) else { return };
    if let Ok((group, usable)) = parse_group_line(text, &NoNames) {
        write_all_formats(&Body::GroupMod(group), usable);
    }
    if let Ok((packet, usable)) = parse_packet_out(text, &NoNames) {
        write_all_formats(&Body::PacketOut(Box::new(packet)), usable);
    }
}

fn check_text(m: &FlowMod) {
    let head = match_text(&m.matching, m.priority, &NoNames);
    let text = format!("{head} actions={}", actions_text(&m.actions, &NoNames));
    if !is_readable(&text) {
        return;
    }
    let back =
        parse_flow_mod(&text, FlowCommand::Add, &NoNames).unwrap_or_else(|e| panic!("{text}: {e}")).flow;
    assert_same(&as_text(&m.matching), &as_text(&back.matching), || text.clone());
    if !matches!(m.command, FlowCommand::Delete | FlowCommand::DeleteStrict) {
        assert_same(&m.actions, &back.actions, || text);
    }
}

/// Returns whether a printed text can be parsed. Flags of a learned flow are printed with all bits of their field, including those
/// without a name. Open vSwitch prints the same and cannot parse it either. This also applies to a match on later fragments of
/// packets that are no fragments.
fn is_readable(text: &str) -> bool {
    !text.contains("[Unknown]") && !text.contains("<error>")
}

/// Returns the match that the text of `m` contains. GTP-U fields are printed without a mask, as in Open vSwitch.
fn as_text(m: &Match) -> Match {
    let mut mask = m.mask;
    for byte in [&mut mask.tunnel.gtpu_flags, &mut mask.tunnel.gtpu_msgtype] {
        *byte = if *byte == 0 { 0 } else { 0xff };
    }
    normalized_with(m, mask)
}

/// Returns the match that a message with `m` contains. The packet type Ethernet is implied, and so is the length of an option
/// whose bits are all matched.
fn shown(m: &Match) -> Match {
    normalized_with(m, m.mask)
}

fn normalized_with(m: &Match, mut mask: Flow) -> Match {
    if m.flow.packet_type == 0 {
        mask.packet_type = 0;
    }
    let mut shown = Match::new(&m.flow, &mask).with_tlv_layout(&Layout::EMPTY);
    for t in m.tlvs() {
        let value: Vec<u8> = t.value.iter().copied().skip_while(|b| *b == 0).collect();
        let (value, mask) = if t.is_exact() { (&value[..], None) } else { (&t.value[..], Some(&t.mask[..])) };
        shown.allocate_tlv(t.index, value, mask).expect("shorter than it was");
        if !t.present {
            shown.flow.delete_tlv(t.index);
        }
    }
    shown
}

/// Checks that the match is unchanged after it was written in each format that should support it.
fn check_wire(m: &FlowMod, usable: Protocols) {
    for message in write_all_formats(&Body::FlowMod(Box::new(m.clone())), usable) {
        let Body::FlowMod(back) = message.body else { panic!("no flow mod") };
        assert_same(&as_received(&m.matching), &as_received(&back.matching), || {
            format!("{:?}", message.version)
        });
    }
}

/// Returns the match in the form in which it is received: if the CFI bit must be 0, there is no tag, whatever other bits of the tag are matched.
/// OpenFlow 1.0 and 1.1 have only one value for this, and Open vSwitch treats all versions in the same way.
fn as_received(m: &Match) -> Match {
    let mut m = shown(m);
    if m.mask.vlans[0].tci & VLAN_CFI != 0 && m.flow.vlans[0].tci & VLAN_CFI == 0 {
        m.set(FieldId::VlanTci, 0);
    }
    m
}

/// Writes the message in every format that should support it, and returns the parsed results.
fn write_all_formats(body: &Body, usable: Protocols) -> Vec<Message> {
    let mut messages = Vec::new();
    for format in usable.each() {
        let Some(version) = format.versions().newest() else { continue };
        let dialect = Dialect { flow_mod_table_id: format.has_table_id(), debug_actions: true };
        let message = Message { extended: format.is_nxm(), ..Message::new(version, Xid(1), body.clone()) };
        let Ok(frames) = encode(&message, dialect) else { continue };
        for frame in frames {
            messages.extend(decode(&frame, dialect));
        }
    }
    messages
}
