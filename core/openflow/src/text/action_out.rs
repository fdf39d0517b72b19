//! Prints actions.

use super::learn_out::learn_text;
use crate::action::{
    Action, Bundle, BundleAlgorithm, Controller, Ct, Encap, EncapProperty, HashFields, Multipath,
    MultipathAlgorithm, Nat, NatRange, NumberOrField, PACKET_TYPE_NEXT, Sample, SampleDirection, SetTlv,
};
use flow::FieldId;
use flow::text::{NameMap, bytes_text, hex, port_text, table_text};
use units::OfPort;

/// Prints a list of actions; the empty list is `drop`.
pub fn actions_text(actions: &[Action], names: &dyn NameMap) -> String {
    if actions.is_empty() { "drop".to_owned() } else { joined(actions, names) }
}

fn joined(actions: &[Action], names: &dyn NameMap) -> String {
    let parts: Vec<String> = actions.iter().map(|a| action_text(a, names)).collect();
    parts.join(",")
}

/// Prints one action.
pub fn action_text(action: &Action, names: &dyn NameMap) -> String {
    match action {
        Action::Output { port, max_len } => output_text(*port, *max_len, names),
        Action::OutputReg { src, .. } => format!("output:{src}"),
        Action::OutputTrunc { port, max_len } => {
            format!("output(port={},max_len={max_len})", port_text(*port, names))
        }
        Action::Controller(c) => controller_text(c),
        Action::Group(id) => format!("group:{id}"),
        Action::Enqueue { port, queue } => format!("enqueue:{}:{queue}", port_text(*port, names)),
        Action::Bundle(b) => bundle_text(b, names),
        Action::Resubmit { port, table, with_ct } => resubmit_text(*port, *table, *with_ct, names),
        Action::Learn(l) => learn_text(l, names),
        Action::Conjunction { id, clause, n_clauses } => {
            format!("conjunction({id},{}/{n_clauses})", u16::from(*clause) + 1)
        }
        Action::Multipath(m) => multipath_text(m),
        Action::Note(bytes) => format!("note:{}", dotted_hex(bytes)),
        Action::Exit => "exit".to_owned(),
        Action::Sample(s) => sample_text(s, names),
        Action::Ct(c) => ct_text(c, names),
        Action::Nat(n) => nat_text(n),
        Action::CtClear => "ct_clear".to_owned(),
        Action::Clone(list) => format!("clone({})", joined(list, names)),
        Action::CheckPktLarger { len, dst } => format!("check_pkt_larger({len})->{dst}"),
        Action::Meter(id) => format!("meter:{id}"),
        Action::ClearActions => "clear_actions".to_owned(),
        Action::WriteActions(list) => format!("write_actions({})", actions_text(list, names)),
        Action::WriteMetadata { value, mask } => match mask {
            &u64::MAX => format!("write_metadata:{}", hex((*value).into())),
            mask => format!("write_metadata:{}/{mask:#x}", hex((*value).into())),
        },
        Action::GotoTable(table) => format!("goto_table:{}", table_text(*table, names)),
        _ => header_text(action, names),
    }
}

/// Prints an action that changes the packet or its metadata.
fn header_text(action: &Action, names: &dyn NameMap) -> String {
    match action {
        Action::SetField { field, value, mask } => set_field_text(*field, *value, *mask, names),
        Action::SetTlv(t) => set_tlv_text(t),
        Action::RegLoad { dst, value } => format!("load:{}->{dst}", hex(*value)),
        Action::RegMove { src, dst } => format!("move:{src}->{dst}"),
        Action::StackPush(field) => format!("push:{field}"),
        Action::StackPop(field) => format!("pop:{field}"),
        Action::SetVlanVid { vid, push: true } => format!("mod_vlan_vid:{vid}"),
        Action::SetVlanVid { vid, push: false } => format!("set_vlan_vid:{vid}"),
        Action::SetVlanPcp { pcp, push: true } => format!("mod_vlan_pcp:{pcp}"),
        Action::SetVlanPcp { pcp, push: false } => format!("set_vlan_pcp:{pcp}"),
        Action::StripVlan { pop } => if *pop { "pop_vlan" } else { "strip_vlan" }.to_owned(),
        Action::PushVlan(ethertype) => format!("push_vlan:{ethertype:#06x}"),
        Action::SetEthSrc(mac) => format!("mod_dl_src:{mac}"),
        Action::SetEthDst(mac) => format!("mod_dl_dst:{mac}"),
        Action::SetIpv4Src(ip) => format!("mod_nw_src:{ip}"),
        Action::SetIpv4Dst(ip) => format!("mod_nw_dst:{ip}"),
        Action::SetIpDscp(tos) => format!("mod_nw_tos:{tos}"),
        Action::SetIpEcn(ecn) => format!("mod_nw_ecn:{ecn}"),
        Action::SetIpTtl(ttl) => format!("mod_nw_ttl:{ttl}"),
        Action::SetL4Src(port) => format!("mod_tp_src:{port}"),
        Action::SetL4Dst(port) => format!("mod_tp_dst:{port}"),
        Action::DecTtl { ids, nicira: true } => {
            let ids: Vec<String> = ids.iter().map(u16::to_string).collect();
            format!("dec_ttl({})", ids.join(","))
        }
        Action::DecTtl { .. } => "dec_ttl".to_owned(),
        Action::SetMplsLabel(label) => format!("set_mpls_label({label})"),
        Action::SetMplsTc(tc) => format!("set_mpls_tc({tc})"),
        Action::SetMplsTtl(ttl) => format!("set_mpls_ttl({ttl})"),
        Action::DecMplsTtl => "dec_mpls_ttl".to_owned(),
        Action::PushMpls(ethertype) => format!("push_mpls:{ethertype:#06x}"),
        Action::PopMpls(ethertype) => format!("pop_mpls:{ethertype:#06x}"),
        Action::DeleteField(sf) => format!("delete_field:{}", sf.field.info().name),
        Action::Encap(e) => encap_text(e),
        Action::Decap { packet_type } if *packet_type == PACKET_TYPE_NEXT => "decap()".to_owned(),
        Action::Decap { packet_type } => {
            format!("decap(packet_type(ns={},type={:#x}))", packet_type >> 16, packet_type & 0xffff)
        }
        Action::DecNshTtl => "dec_nsh_ttl".to_owned(),
        Action::SetTunnel { id, wide } => format!("set_tunnel{}:{id:#x}", if *wide { "64" } else { "" }),
        Action::SetQueue(queue) => format!("set_queue:{queue}"),
        Action::PopQueue => "pop_queue".to_owned(),
        Action::FinTimeout { idle, hard } => {
            let mut parts = Vec::new();
            if *idle != 0 {
                parts.push(format!("idle_timeout={idle}"));
            }
            if *hard != 0 {
                parts.push(format!("hard_timeout={hard}"));
            }
            format!("fin_timeout({})", parts.join(","))
        }
        Action::DebugRecirc => "debug_recirc".to_owned(),
        Action::DebugSlow => "debug_slow".to_owned(),
        _ => String::new(),
    }
}

fn output_text(port: OfPort, max_len: u16, names: &dyn NameMap) -> String {
    match port {
        OfPort::CONTROLLER => format!("CONTROLLER:{max_len}"),
        port if port < OfPort::MAX => format!("output:{}", port_text(port, names)),
        port => port_text(port, names),
    }
}

/// Bytes as `00.11.ff`.
pub(super) fn dotted_hex(bytes: &[u8]) -> String {
    let parts: Vec<String> = bytes.iter().map(|b| format!("{b:02x}")).collect();
    parts.join(".")
}

/// Name of an `OFPR_*` reason. The last two reasons are internal and have no name.
fn reason_name(reason: u8) -> String {
    const NAMES: [&str; 8] =
        ["no_match", "action", "invalid_ttl", "action_set", "group", "packet_out", "", ""];
    NAMES.get(usize::from(reason)).map_or_else(|| reason.to_string(), |&n| n.to_owned())
}

fn controller_text(c: &Controller) -> String {
    let plain = Controller { max_len: c.max_len, ..Controller::default() };
    if *c == plain {
        return format!("CONTROLLER:{}", c.max_len);
    }
    let mut parts = Vec::new();
    if c.reason != plain.reason {
        parts.push(format!("reason={}", reason_name(c.reason)));
    }
    if c.max_len != Action::NO_BUFFER {
        parts.push(format!("max_len={}", c.max_len));
    }
    if c.controller_id != 0 {
        parts.push(format!("id={}", c.controller_id));
    }
    if !c.userdata.is_empty() {
        parts.push(format!("userdata={}", dotted_hex(&c.userdata)));
    }
    if c.pause {
        parts.push("pause".to_owned());
    }
    if c.meter != 0 {
        parts.push(format!("meter_id={}", c.meter));
    }
    format!("controller({})", parts.join(","))
}

fn set_field_text(field: FieldId, value: u128, mask: u128, names: &dyn NameMap) -> String {
    let mask = (mask & field.ones() != field.ones()).then_some(mask);
    format!("set_field:{}->{}", field.format(value, mask, names), field.info().name)
}

fn set_tlv_text(t: &SetTlv) -> String {
    let mask = t.mask.as_ref().map(|m| format!("/{}", bytes_text(m))).unwrap_or_default();
    format!("set_field:{}{mask}->{}", bytes_text(&t.value), t.field.field.info().name)
}

fn resubmit_text(port: Option<OfPort>, table: Option<u8>, with_ct: bool, names: &dyn NameMap) -> String {
    match (port, table) {
        (Some(port), None) if !with_ct => format!("resubmit:{}", port_text(port, names)),
        (port, table) => {
            let port = port.map(|p| port_text(p, names)).unwrap_or_default();
            let table = table.map(|t| table_text(t, names)).unwrap_or_default();
            format!("resubmit({port},{table}{})", if with_ct { ",ct" } else { "" })
        }
    }
}

/// The name of a set of hashed fields.
pub(super) fn hash_fields_name(fields: HashFields) -> &'static str {
    match fields {
        HashFields::EthSrc => "eth_src",
        HashFields::SymmetricL4 => "symmetric_l4",
        HashFields::SymmetricL3L4 => "symmetric_l3l4",
        HashFields::SymmetricL3L4Udp => "symmetric_l3l4+udp",
        HashFields::NwSrc => "nw_src",
        HashFields::NwDst => "nw_dst",
        HashFields::SymmetricL3 => "symmetric_l3",
    }
}

fn bundle_text(b: &Bundle, names: &dyn NameMap) -> String {
    let algorithm = match b.algorithm {
        BundleAlgorithm::Hrw => "hrw",
        BundleAlgorithm::ActiveBackup => "active_backup",
    };
    let (action, dst) = match b.dst {
        Some(dst) => ("bundle_load", format!("{dst},")),
        None => ("bundle", String::new()),
    };
    let members: Vec<String> = b.members.iter().map(|&p| port_text(p, names)).collect();
    format!(
        "{action}({},{},{algorithm},ofport,{dst}members:{})",
        hash_fields_name(b.fields),
        b.basis,
        members.join(",")
    )
}

fn multipath_text(m: &Multipath) -> String {
    let algorithm = match m.algorithm {
        MultipathAlgorithm::ModuloN => "modulo_n",
        MultipathAlgorithm::HashThreshold => "hash_threshold",
        MultipathAlgorithm::Hrw => "hrw",
        MultipathAlgorithm::IterHash => "iter_hash",
    };
    format!(
        "multipath({},{},{algorithm},{},{},{})",
        hash_fields_name(m.fields),
        m.basis,
        u32::from(m.max_link) + 1,
        m.arg,
        m.dst
    )
}

fn number_or_field(v: NumberOrField) -> String {
    match v {
        NumberOrField::Number(n) => n.to_string(),
        NumberOrField::Field(field) => field.to_string(),
    }
}

fn sample_text(s: &Sample, names: &dyn NameMap) -> String {
    let mut text = format!(
        "sample(probability={},collector_set_id={},obs_domain_id={},obs_point_id={}",
        s.probability,
        s.collector_set_id,
        number_or_field(s.obs_domain),
        number_or_field(s.obs_point)
    );
    if s.sampling_port != OfPort::NONE {
        text += &format!(",sampling_port={}", port_text(s.sampling_port, names));
    }
    text += match s.direction {
        SampleDirection::Default => "",
        SampleDirection::Ingress => ",ingress",
        SampleDirection::Egress => ",egress",
    };
    text + ")"
}

fn ct_text(c: &Ct, names: &dyn NameMap) -> String {
    let mut parts = Vec::new();
    if c.commit {
        parts.push("commit".to_owned());
    }
    if c.force {
        parts.push("force".to_owned());
    }
    if let Some(table) = c.recirc_table {
        parts.push(format!("table={}", table_text(table, names)));
    }
    if c.zone != NumberOrField::Number(0) {
        parts.push(format!("zone={}", number_or_field(c.zone)));
    }
    // `nat` is printed outside of `exec`, whatever its position in the list.
    let (nats, exec): (Vec<&Action>, Vec<&Action>) =
        c.actions.iter().partition(|a| matches!(a, Action::Nat(_)));
    parts.extend(nats.iter().map(|a| action_text(a, names)));
    if !exec.is_empty() {
        let list: Vec<String> = exec.iter().map(|a| action_text(a, names)).collect();
        parts.push(format!("exec({})", list.join(",")));
    }
    match c.alg {
        0 => {}
        21 => parts.push("alg=ftp".to_owned()),
        69 => parts.push("alg=tftp".to_owned()),
        other => parts.push(format!("alg={other}")),
    }
    format!("ct({})", parts.join(","))
}

fn nat_text(n: &Nat) -> String {
    if !n.src && !n.dst {
        return "nat".to_owned();
    }
    let mut text = format!("nat({}", if n.src { "src" } else { "dst" });
    let v6_ports = n.ports.0 != 0;
    match n.range {
        NatRange::None => {}
        NatRange::V4(first, last) => {
            text += &format!("={first}");
            if !last.is_unspecified() && last != first {
                text += &format!("-{last}");
            }
        }
        NatRange::V6(first, last) => {
            // Brackets separate ports from the address.
            text += &if v6_ports { format!("=[{first}]") } else { format!("={first}") };
            if !last.is_unspecified() && last != first {
                text += &if v6_ports { format!("-[{last}]") } else { format!("-{last}") };
            }
        }
    }
    if n.ports.0 != 0 {
        text += &format!(":{}", n.ports.0);
        if n.ports.1 != 0 && n.ports.1 != n.ports.0 {
            text += &format!("-{}", n.ports.1);
        }
    }
    for (flag, name) in [(n.persistent, "persistent"), (n.hash, "hash"), (n.random, "random")] {
        if flag {
            text += &format!(",{name}");
        }
    }
    text + ")"
}

fn encap_text(e: &Encap) -> String {
    let header = match e.packet_type {
        0 => "ethernet".to_owned(),
        0x0001_894f => "nsh".to_owned(),
        0x0001_8847 => "mpls".to_owned(),
        0x0001_8848 => "mpls_mc".to_owned(),
        other => format!("{other:#x}"),
    };
    let properties: Vec<String> = e
        .properties
        .iter()
        .map(|p| match p {
            EncapProperty::NshMdType(kind) => format!("md_type={kind}"),
            EncapProperty::NshTlv { class, kind, data } => {
                format!("tlv({class:#06x},{kind},{})", packet::hex::number(data))
            }
        })
        .collect();
    if properties.is_empty() {
        format!("encap({header})")
    } else {
        format!("encap({header}({}))", properties.join(","))
    }
}
