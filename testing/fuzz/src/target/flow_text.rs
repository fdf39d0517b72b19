//! The text of ovs-ofctl(8): flows, groups, packets to be sent; what was parsed is the same when its text is parsed.

use super::same::assert_same;
use flow::tlv::Layout;
use flow::{FieldId, Match, VLAN_CFI};
use openflow::flow_mod::{FlowCommand, FlowMod};
use openflow::text::{
    NoNames, Protocols, actions_text, match_text, parse_actions, parse_flow, parse_flow_line, parse_flow_mod,
    parse_group_line, parse_packet_out,
};
use openflow::{Body, Dialect, Message, Xid, decode, encode};
use std::str::from_utf8;

/// Lines that people and scripts write are shorter.
const LEN_MAX: usize = 2048;

/// A line of a file of flows, a filter, an exact flow.
pub fn flow(data: &[u8]) {
    let Some(text) = from_utf8(data).ok().filter(|t| t.len() <= LEN_MAX) else { return };
    if let Ok(parsed) = parse_flow_line(text, &NoNames) {
        again(&parsed.flow);
        on_wire(&parsed.flow, parsed.usable);
    }
    if let Ok(actions) = parse_actions(text, &NoNames) {
        let out = actions_text(&actions, &NoNames);
        if is_readable(&out) {
            let back = parse_actions(&out, &NoNames);
            assert_same(&Ok(actions), &back, || out);
        }
    }
    let _ = parse_flow(text, &NoNames);
    if let Ok((flow, _)) = flow::text::parse_exact_flow(text, &NoNames, &flow::tlv::Layout::EMPTY) {
        flow::text::flow_text(&flow, &NoNames);
    }
}

/// Groups and packet-outs have no text of the same form to come back from; that they are carried is all.
pub fn group(data: &[u8]) {
    let Some(text) = from_utf8(data).ok().filter(|t| t.len() <= LEN_MAX) else { return };
    if let Ok((group, usable)) = parse_group_line(text, &NoNames) {
        written(&Body::GroupMod(group), usable);
    }
    if let Ok((packet, usable)) = parse_packet_out(text, &NoNames) {
        written(&Body::PacketOut(Box::new(packet)), usable);
    }
}

fn again(m: &FlowMod) {
    let head = match_text(&m.matching, m.priority, &NoNames);
    let text = format!("{head} actions={}", actions_text(&m.actions, &NoNames));
    if !is_readable(&text) {
        return;
    }
    let back =
        parse_flow_mod(&text, FlowCommand::Add, &NoNames).unwrap_or_else(|e| panic!("{text}: {e}")).flow;
    assert_same(&shown(&m.matching), &shown(&back.matching), || text.clone());
    if !matches!(m.command, FlowCommand::Delete | FlowCommand::DeleteStrict) {
        assert_same(&m.actions, &back.actions, || text);
    }
}

/// Flags that a learned flow is to have are shown with all bits of their field, those without a name as well. That is the
/// text of Open vSwitch, which does not read it either; so is that of a later fragment of what is no fragment.
fn is_readable(text: &str) -> bool {
    !text.contains("[Unknown]") && !text.contains("<error>")
}

/// What the text of a match shows: that a packet is one of Ethernet goes without saying, and so does how long the option is
/// of which all bits count.
fn shown(m: &Match) -> Match {
    let mut mask = m.mask;
    if m.flow.packet_type == 0 {
        mask.packet_type = 0;
    }
    let mut shown = Match::new(&m.flow, &mask).laid_out(&Layout::EMPTY);
    for t in m.tlvs() {
        let value: Vec<u8> = t.value.iter().copied().skip_while(|b| *b == 0).collect();
        let (value, mask) = if t.is_exact() { (&value[..], None) } else { (&t.value[..], Some(&t.mask[..])) };
        shown.place_tlv(t.index, value, mask).expect("shorter than it was");
        if !t.present {
            shown.flow.delete_tlv(t.index);
        }
    }
    shown
}

/// The match survives every format that is said to carry it.
fn on_wire(m: &FlowMod, usable: Protocols) {
    for message in written(&Body::FlowMod(Box::new(m.clone())), usable) {
        let Body::FlowMod(back) = message.body else { panic!("no flow mod") };
        assert_same(&sent(&m.matching), &sent(&back.matching), || format!("{:?}", message.version));
    }
}

/// What arrives of a match: without the bit that says so there is no tag, whatever else is said of it. OpenFlow 1.0 and 1.1
/// have that one word for it, and Open vSwitch uses it for all.
fn sent(m: &Match) -> Match {
    let mut m = shown(m);
    if m.mask.vlans[0].tci & VLAN_CFI != 0 && m.flow.vlans[0].tci & VLAN_CFI == 0 {
        m.set(FieldId::VlanTci, 0);
    }
    m
}

/// Written in every format that is said to carry it, and read again.
fn written(body: &Body, usable: Protocols) -> Vec<Message> {
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
