//! The text of ovs-ofctl(8): flows, groups, packet-outs. A parsed value is equal after it was printed and parsed
//! again.

use super::same::assert_same;
use flow::tlv::Layout;
use flow::{FieldId, Flow, Match, VLAN_CFI};
use openflow::flow_mod::{FlowCommand, FlowMod};
use openflow::text::{
    NoNames, Protocols, actions_text, match_text, parse_actions, parse_flow, parse_flow_line, parse_flow_mod,
    parse_group_line, parse_packet_out,
};
use openflow::{Body, Dialect, Message, Xid, decode, encode};
use std::str::from_utf8;

/// Longer than lines that people and scripts write.
const LEN_MAX: usize = 2048;

/// A line of a file of flows, a filter, or a flow mod.
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

/// Groups and packet-outs have no text from which they could be parsed again; only their messages are checked.
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
    assert_same(&printed(&m.matching), &printed(&back.matching), || text.clone());
    if !matches!(m.command, FlowCommand::Delete | FlowCommand::DeleteStrict) {
        assert_same(&m.actions, &back.actions, || text);
    }
}

/// Flags of a learned flow are printed with all bits of their field, including those without a name, as in Open
/// vSwitch, which cannot parse this text either; the same holds for a later fragment of a packet that is not a
/// fragment.
fn is_readable(text: &str) -> bool {
    !text.contains("[Unknown]") && !text.contains("<error>")
}

/// What the text of a match contains: that of GTP-U fields has no mask, as in Open vSwitch.
fn printed(m: &Match) -> Match {
    let mut mask = m.mask;
    for byte in [&mut mask.tunnel.gtpu_flags, &mut mask.tunnel.gtpu_msgtype] {
        *byte = if *byte == 0 { 0 } else { 0xff };
    }
    shown_of(m, mask)
}

/// What a message with a match contains: the Ethernet packet type is implied, and so is the length of an option of which
/// all bits are matched.
fn shown(m: &Match) -> Match {
    shown_of(m, m.mask)
}

fn shown_of(m: &Match, mut mask: Flow) -> Match {
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

/// The match is unchanged after each format that should support it.
fn on_wire(m: &FlowMod, usable: Protocols) {
    for message in written(&Body::FlowMod(Box::new(m.clone())), usable) {
        let Body::FlowMod(back) = message.body else { panic!("no flow mod") };
        assert_same(&sent(&m.matching), &sent(&back.matching), || format!("{:?}", message.version));
    }
}

/// The form in which a match is received: without the CFI bit there is no tag, whatever else is matched of it.
/// OpenFlow 1.0 and 1.1 have only one word for it, and Open vSwitch does the same for all versions.
fn sent(m: &Match) -> Match {
    let mut m = shown(m);
    if m.mask.vlans[0].tci & VLAN_CFI != 0 && m.flow.vlans[0].tci & VLAN_CFI == 0 {
        m.set(FieldId::VlanTci, 0);
    }
    m
}

/// The message, written in every format that should support it and parsed again.
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
