//! Parses actions.

use super::arguments::{
    arrow, dotted_hex, error, field, subfield, table_value, u8_value, u16_value, u32_value, u64_value,
};
use super::{ct_in, encap_in, learn_in};
use crate::action::{
    Action, Bundle, BundleAlgorithm, Controller, HashFields, Multipath, MultipathAlgorithm, NumberOrField,
    Sample, SampleDirection,
};
use flow::Subfield;
use flow::text::{
    NameMap, TextError, address, next_key_value, parse_bytes, parse_integer, port_from_text, table_from_text,
};
use units::OfPort;

/// Maximum nesting depth of actions in actions (`clone(clone(…))`).
pub const DEPTH_MAX: usize = 16;

/// Parses a list of actions. `drop` must be the only word and stands for the empty list.
pub fn parse_actions(text: &str, names: &dyn NameMap) -> Result<Vec<Action>, TextError> {
    actions_at(text, names, 0)
}

pub(super) fn actions_at(text: &str, names: &dyn NameMap, depth: usize) -> Result<Vec<Action>, TextError> {
    if depth > DEPTH_MAX {
        return error("Action nested too deeply");
    }
    let mut rest = text;
    let mut actions = Vec::new();
    let mut drop = false;
    while let Some((key, value)) = next_key_value(&mut rest) {
        if key.eq_ignore_ascii_case("drop") {
            drop = true;
        } else {
            actions.push(action(key, value, names, depth)?);
        }
    }
    if drop && !actions.is_empty() {
        return error("\"drop\" must not be accompanied by any other action or instruction");
    }
    in_order(&actions)?;
    Ok(actions)
}

/// The instruction to which an action belongs: its rank in the order of execution, and its name.
fn instruction(a: &Action) -> (u8, &'static str) {
    match a {
        Action::Meter(_) => (0, "meter"),
        Action::ClearActions => (2, "clear_actions"),
        Action::WriteActions(_) => (3, "write_actions"),
        Action::WriteMetadata { .. } => (4, "write_metadata"),
        Action::GotoTable(_) => (5, "goto_table"),
        _ => (1, "apply_actions"),
    }
}

/// Checks that instructions are in order of execution and occur at most once.
fn in_order(actions: &[Action]) -> Result<(), TextError> {
    for pair in actions.windows(2) {
        let [(before, first), (now, second)] = [instruction(&pair[0]), instruction(&pair[1])];
        if now == before && now != 1 {
            return error(format!(
                "duplicate {second} instruction not allowed, for OpenFlow 1.1+ compatibility"
            ));
        }
        if now < before {
            return error(format!(
                "invalid instruction ordering: {second} must appear before {first}, for OpenFlow 1.1+ compatibility"
            ));
        }
    }
    match actions {
        [.., Action::Nat(_)] => error("Cannot have NAT action outside of \"ct\" action"),
        _ => Ok(()),
    }
}

fn port(text: &str, names: &dyn NameMap) -> Result<OfPort, TextError> {
    port_from_text(text, names).map_or_else(|| error(format!("{text}: unknown port")), Ok)
}

fn action(key: &str, value: &str, names: &dyn NameMap, depth: usize) -> Result<Action, TextError> {
    let lower = key.to_ascii_lowercase();
    let nested = |text: &str| actions_at(text, names, depth + 1);
    Ok(match lower.as_str() {
        "output" => output(value, names)?,
        "controller" => controller(value)?,
        "group" => Action::Group(group(value)?),
        "enqueue" => enqueue(value, names)?,
        "bundle" => Action::Bundle(Box::new(bundle(value, false, names)?)),
        "bundle_load" => Action::Bundle(Box::new(bundle(value, true, names)?)),
        "resubmit" => resubmit(value, names)?,
        "learn" => Action::Learn(Box::new(learn_in::learn(value, names)?)),
        "conjunction" => conjunction(value)?,
        "multipath" => Action::Multipath(Box::new(multipath(value)?)),
        "note" => Action::Note(note(value)?),
        "exit" => Action::Exit,
        "sample" => Action::Sample(Box::new(sample(value, names)?)),
        "ct" => Action::Ct(Box::new(ct_in::ct(value, names, &nested)?)),
        "nat" => Action::Nat(Box::new(ct_in::nat(value)?)),
        "ct_clear" => Action::CtClear,
        "clone" => Action::Clone(nested(value)?),
        "check_pkt_larger" => {
            let (len, dst) = value.split_once(")->").map_or_else(|| arrow(value, value), Ok)?;
            Action::CheckPktLarger { len: u16_value(len, "check_pkt_larger")?, dst: subfield(dst)? }
        }
        "meter" => Action::Meter(u32_value(value)?),
        "clear_actions" => Action::ClearActions,
        "write_actions" => Action::WriteActions(nested(value)?),
        "write_metadata" => write_metadata(value)?,
        "goto_table" => Action::GotoTable(table_value(value, names)?),
        "encap" => Action::Encap(encap_in::encap(value)?),
        "decap" => Action::Decap { packet_type: encap_in::decap(value)? },
        "apply_actions" => return error("apply_actions is the default instruction"),
        _ => match header_action(&lower, value, names)? {
            Some(action) => action,
            None => bare_port(key, value, names)?,
        },
    })
}

/// Parses an action that changes the packet or its metadata.
fn header_action(key: &str, value: &str, names: &dyn NameMap) -> Result<Option<Action>, TextError> {
    let mac = || address::parse_mac(value).map_or_else(|| error(format!("invalid mac address {value}")), Ok);
    let ip = || value.parse().or_else(|_| error(format!("{value}: could not convert to IP address")));
    let ethertype = || u16_value(value, "ethertype");
    Ok(Some(match key {
        "set_field" => set_field(value, names)?,
        "load" | "reg_load" => load(value)?,
        "move" => {
            let (src, dst) = arrow(value, value)?;
            let (src, dst) = (subfield(src)?, subfield(dst)?);
            if src.n_bits != dst.n_bits {
                return error(format!(
                    "{value}: source field is {} bits wide but destination is {} bits wide",
                    src.n_bits, dst.n_bits
                ));
            }
            Action::RegMove { src, dst }
        }
        "push" => Action::StackPush(subfield(value)?),
        "pop" => Action::StackPop(subfield(value)?),
        "mod_vlan_vid" | "set_vlan_vid" => {
            let vid = u16_value(value, "VLAN VID")?;
            if vid & !0xfff != 0 {
                return error(format!("{value}: not a valid VLAN VID"));
            }
            Action::SetVlanVid { vid, push: key == "mod_vlan_vid" }
        }
        "mod_vlan_pcp" | "set_vlan_pcp" => {
            let pcp = u8_value(value, "VLAN PCP")?;
            if pcp & !7 != 0 {
                return error(format!("{value}: not a valid VLAN PCP"));
            }
            Action::SetVlanPcp { pcp, push: key == "mod_vlan_pcp" }
        }
        "strip_vlan" | "pop_vlan" => Action::StripVlan { pop: key == "pop_vlan" },
        "push_vlan" => match ethertype()? {
            tpid @ (0x8100 | 0x88a8) => Action::PushVlan(tpid),
            _ => return error(format!("{value}: not a valid VLAN ethertype")),
        },
        "mod_dl_src" | "set_dl_src" => Action::SetEthSrc(mac()?),
        "mod_dl_dst" | "set_dl_dst" => Action::SetEthDst(mac()?),
        "mod_nw_src" | "set_nw_src" => Action::SetIpv4Src(ip()?),
        "mod_nw_dst" | "set_nw_dst" => Action::SetIpv4Dst(ip()?),
        "mod_nw_tos" => match u8_value(value, "TOS")? {
            tos if tos & 3 == 0 => Action::SetIpDscp(tos),
            _ => return error(format!("{value}: not a valid TOS")),
        },
        "mod_nw_ecn" => match u8_value(value, "ECN")? {
            ecn @ 0..=3 => Action::SetIpEcn(ecn),
            _ => return error(format!("{value}: not a valid ECN")),
        },
        "mod_nw_ttl" | "set_nw_ttl" => Action::SetIpTtl(u8_value(value, "TTL")?),
        "mod_tp_src" => Action::SetL4Src(u16_value(value, "source port")?),
        "mod_tp_dst" => Action::SetL4Dst(u16_value(value, "destination port")?),
        "dec_ttl" => dec_ttl(value)?,
        "set_mpls_label" => Action::SetMplsLabel(u32_value(value)?),
        "set_mpls_tc" => match u8_value(value, "MPLS TC")? {
            tc @ 0..=7 => Action::SetMplsTc(tc),
            _ => return error(format!("{value}: not a valid MPLS TC")),
        },
        "set_mpls_ttl" => Action::SetMplsTtl(u8_value(value, "MPLS TTL")?),
        "dec_mpls_ttl" => Action::DecMplsTtl,
        "push_mpls" => Action::PushMpls(ethertype()?),
        "pop_mpls" => Action::PopMpls(ethertype()?),
        "delete_field" => match field(value) {
            Some(f) => Action::DeleteField(Subfield::whole(f)),
            None => return error(format!("{value} is not valid oxm field name")),
        },
        "dec_nsh_ttl" => Action::DecNshTtl,
        "set_tunnel" | "set_tunnel64" => {
            let id = u64_value(value)?;
            Action::SetTunnel { id, wide: key == "set_tunnel64" || id > u64::from(u32::MAX) }
        }
        "set_queue" => Action::SetQueue(u32_value(value)?),
        "pop_queue" => Action::PopQueue,
        "fin_timeout" => fin_timeout(value)?,
        "debug_recirc" => Action::DebugRecirc,
        "debug_slow" => Action::DebugSlow,
        _ => return Ok(None),
    }))
}

/// Parses a port without `output:`.
fn bare_port(key: &str, value: &str, names: &dyn NameMap) -> Result<Action, TextError> {
    match port_from_text(key, names) {
        Some(port) if value.is_empty() => Ok(Action::output(port)),
        _ => error(format!("unknown action {key}")),
    }
}

fn output(value: &str, names: &dyn NameMap) -> Result<Action, TextError> {
    let mut rest = value;
    if value.starts_with("port") && value.contains('=') {
        let (mut to, mut max_len) = (OfPort::NONE, None);
        while let Some((key, value)) = next_key_value(&mut rest) {
            match key {
                "port" => {
                    to = port(value, names)
                        .or_else(|_| error(format!("output to unknown truncate port: {value}")))?
                }
                "max_len" => max_len = Some(u32_value(value)?),
                _ => return error(format!("invalid key '{key}' in output_trunc argument")),
            }
        }
        let max_len = max_len.unwrap_or(0);
        if max_len < 14 {
            return error(format!("max_len {max_len} is less than the minimum value 14"));
        }
        return Ok(Action::OutputTrunc { port: to, max_len });
    }
    if let Some(port) = port_from_text(value, names) {
        return Ok(Action::output(port));
    }
    match subfield(value) {
        Ok(src) => Ok(Action::OutputReg { src, max_len: u16::MAX }),
        Err(_) if value.is_empty() => error("output to unknown port"),
        Err(_) => error(format!("{value}: output to unknown port")),
    }
}

fn controller(value: &str) -> Result<Action, TextError> {
    let to_controller = |max_len| Action::Output { port: OfPort::CONTROLLER, max_len };
    if value.is_empty() {
        return Ok(to_controller(u16::MAX));
    }
    if value.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(to_controller(u16_value(value, "max_len")?));
    }
    let mut c = Controller::default();
    let mut rest = value;
    while let Some((key, value)) = next_key_value(&mut rest) {
        match key {
            "reason" => {
                const NAMES: [&str; 6] =
                    ["no_match", "action", "invalid_ttl", "action_set", "group", "packet_out"];
                let found = NAMES.iter().position(|n| *n == value);
                c.reason =
                    found.map_or_else(|| error(format!("unknown reason \"{value}\"")), |r| Ok(r as u8))?;
            }
            "max_len" => c.max_len = u16_value(value, "max_len")?,
            "id" => c.controller_id = u16_value(value, "id")?,
            "userdata" => c.userdata = dotted_hex(value)?,
            "pause" => c.pause = true,
            "meter_id" => c.meter = u32_value(value)?,
            _ => return error(format!("unknown key \"{key}\" parsing controller action")),
        }
    }
    let plain = Controller { max_len: c.max_len, ..Controller::default() };
    Ok(if c == plain { to_controller(c.max_len) } else { Action::Controller(Box::new(c)) })
}

fn group(value: &str) -> Result<u32, TextError> {
    match value {
        "all" => Ok(0xffff_fffc),
        "any" => Ok(u32::MAX),
        _ => u32_value(value),
    }
}

fn enqueue(value: &str, names: &dyn NameMap) -> Result<Action, TextError> {
    let parts: Vec<&str> = value.split([':', ',', '(', ')']).filter(|p| !p.is_empty()).collect();
    let (Some(to), Some(queue)) = (parts.first(), parts.get(1)) else {
        return error("\"enqueue\" syntax is \"enqueue:PORT:QUEUE\" or \"enqueue(PORT,QUEUE)\"");
    };
    let port =
        port_from_text(to, names).map_or_else(|| error(format!("{to}: enqueue to unknown port")), Ok)?;
    Ok(Action::Enqueue { port, queue: u32_value(queue)? })
}

fn resubmit(value: &str, names: &dyn NameMap) -> Result<Action, TextError> {
    let mut parts = value.split(',').map(str::trim);
    let in_port = match parts.next().unwrap_or("") {
        "" => None,
        text => Some(
            port_from_text(text, names)
                .map_or_else(|| error(format!("{text}: resubmit to unknown port")), Ok)?,
        ),
    };
    let table = match parts.next().unwrap_or("") {
        "" => None,
        text => {
            let table = table_from_text(text, names);
            Some(table.map_or_else(|| error(format!("{text}: resubmit to unknown table")), Ok)?)
        }
    };
    let with_ct = match parts.next() {
        None => false,
        Some("ct") => true,
        Some(other) => return error(format!("{other}: unknown parameter")),
    };
    // An explicit `in_port` has the same meaning as no port.
    let in_port = in_port.filter(|&p| p != OfPort::IN_PORT);
    if in_port.is_none() && table.is_none() {
        return error("at least one \"in_port\" or \"table\" must be specified on resubmit");
    }
    Ok(Action::Resubmit { port: in_port, table, with_ct })
}

fn conjunction(value: &str) -> Result<Action, TextError> {
    let parsed = || {
        let (id, clauses) = value.split_once(',')?;
        let (clause, n) = clauses.trim().split_once('/')?;
        Some((
            super::arguments::integer(id.trim())?,
            clause.trim().parse::<u8>().ok()?,
            n.trim().parse::<u8>().ok()?,
        ))
    };
    let Some((id, clause, n_clauses)) = parsed() else {
        return error(format!("{value}: syntax for conjunction is conjunction(id,k/n)"));
    };
    let id = u32::try_from(id).or_else(|_| error(format!("{value}: conjunction id must be 32 bits")))?;
    if n_clauses < 2 {
        return error("conjunction must have at least 2 clauses");
    }
    if n_clauses > 64 {
        return error("conjunction must have at most 64 clauses");
    }
    if clause < 1 {
        return error("clause index must be positive");
    }
    if clause > n_clauses {
        return error("clause index must be less than or equal to number of clauses");
    }
    Ok(Action::Conjunction { id, clause: clause - 1, n_clauses })
}

/// Parses the name of a set of hashed fields.
fn hash_fields(name: &str, whole: &str) -> Result<HashFields, TextError> {
    const ALL: [HashFields; 7] = [
        HashFields::EthSrc,
        HashFields::SymmetricL4,
        HashFields::SymmetricL3L4,
        HashFields::SymmetricL3L4Udp,
        HashFields::NwSrc,
        HashFields::NwDst,
        HashFields::SymmetricL3,
    ];
    let found = ALL.into_iter().find(|f| super::action_out::hash_fields_name(*f).eq_ignore_ascii_case(name));
    found.map_or_else(|| error(format!("{whole}: unknown fields `{name}'")), Ok)
}

fn bundle(value: &str, load: bool, names: &dyn NameMap) -> Result<Bundle, TextError> {
    let (head, members) = match value.split_once("members:").or_else(|| value.split_once("slaves:")) {
        Some(parts) => parts,
        None => return error(format!("{value}: not enough arguments to bundle action")),
    };
    let parts: Vec<&str> = head.split([',', ' ']).filter(|p| !p.is_empty()).collect();
    let [fields, basis, algorithm, member_type, rest @ ..] = parts.as_slice() else {
        return error(format!("{value}: not enough arguments to bundle action"));
    };
    if !member_type.eq_ignore_ascii_case("ofport") {
        return error(format!("{value}: unknown member_type `{member_type}'"));
    }
    let algorithm = match algorithm.to_ascii_lowercase().as_str() {
        "hrw" => BundleAlgorithm::Hrw,
        "active_backup" => BundleAlgorithm::ActiveBackup,
        _ => return error(format!("{value}: unknown algorithm `{algorithm}'")),
    };
    let dst = match (load, rest.first()) {
        (true, Some(dst)) => Some(subfield(dst)?),
        (true, None) => return error(format!("{value}: experimenter OXM field '' not supported")),
        (false, _) => None,
    };
    let members = members
        .split([',', ' ', '[', ']'])
        .filter(|p| !p.is_empty())
        .map(|p| port_from_text(p, names).map_or_else(|| error(format!("{p}: bad port number")), Ok))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Bundle {
        algorithm,
        fields: hash_fields(fields, value)?,
        basis: u16_value(basis, "basis")?,
        dst,
        members,
    })
}

fn multipath(value: &str) -> Result<Multipath, TextError> {
    let parts: Vec<&str> = value.split(',').map(str::trim).collect();
    let [fields, basis, algorithm, n_links, arg, dst] = parts.as_slice() else {
        return error(format!("{value}: not enough arguments to multipath action"));
    };
    let algorithm = match algorithm.to_ascii_lowercase().as_str() {
        "modulo_n" => MultipathAlgorithm::ModuloN,
        "hash_threshold" => MultipathAlgorithm::HashThreshold,
        "hrw" => MultipathAlgorithm::Hrw,
        "iter_hash" => MultipathAlgorithm::IterHash,
        _ => return error(format!("{value}: unknown algorithm `{algorithm}'")),
    };
    let links = u32_value(n_links)?;
    if !(1..=65536).contains(&links) {
        return error(format!("{value}: n_links {links} is not in valid range 1 to 65536"));
    }
    let dst = subfield(dst)?;
    if dst.n_bits < 16 && links > 1 << dst.n_bits {
        return error(format!(
            "{value}: {}-bit destination field has {} possible values, less than specified n_links {links}",
            dst.n_bits,
            1u32 << dst.n_bits
        ));
    }
    Ok(Multipath {
        fields: hash_fields(fields, value)?,
        basis: u16_value(basis, "basis")?,
        algorithm,
        max_link: (links - 1) as u16,
        arg: u32_value(arg)?,
        dst,
    })
}

fn note(value: &str) -> Result<Vec<u8>, TextError> {
    if value.is_empty() {
        Ok(Vec::new())
    } else {
        dotted_hex(value).or_else(|_| error("bad hex digit in `note' argument"))
    }
}

fn number_or_field(text: &str) -> Result<NumberOrField, TextError> {
    match super::arguments::integer(text).and_then(|v| u32::try_from(v).ok()) {
        Some(n) => Ok(NumberOrField::Number(n)),
        None => Ok(NumberOrField::Field(subfield(text)?)),
    }
}

fn sample(value: &str, names: &dyn NameMap) -> Result<Sample, TextError> {
    let mut s = Sample {
        probability: 0,
        collector_set_id: 0,
        obs_domain: NumberOrField::Number(0),
        obs_point: NumberOrField::Number(0),
        sampling_port: OfPort::NONE,
        direction: SampleDirection::Default,
    };
    let mut rest = value;
    while let Some((key, value)) = next_key_value(&mut rest) {
        match key {
            "probability" => match u16_value(value, "probability")? {
                0 => return error(format!("invalid probability value \"{value}\"")),
                p => s.probability = p,
            },
            "collector_set_id" => s.collector_set_id = u32_value(value)?,
            "obs_domain_id" => s.obs_domain = number_or_field(value)?,
            "obs_point_id" => s.obs_point = number_or_field(value)?,
            "sampling_port" => s.sampling_port = port(value, names)?,
            "ingress" => s.direction = SampleDirection::Ingress,
            "egress" => s.direction = SampleDirection::Egress,
            _ => return error(format!("invalid key \"{key}\" in \"sample\" argument")),
        }
    }
    if s.probability == 0 {
        return error("non-zero \"probability\" must be specified on sample");
    }
    Ok(s)
}

fn set_field(value: &str, names: &dyn NameMap) -> Result<Action, TextError> {
    let (text, name) = arrow(value, value)?;
    let Some(id) = field(name) else { return error(format!("{name} is not a valid OXM field name")) };
    if !id.info().writable {
        return error(format!("{name} is read-only"));
    }
    if id.tlv_index().is_some() {
        let (value, mask) = id.parse_tlv(text)?;
        return Ok(Action::SetTlv(Box::new(crate::tlv::set_field(id, value, mask))));
    }
    let (v, mask) = id.parse_masked(text, names)?;
    if !id.is_value_valid(v) {
        return error(format!("{value}: value is not valid"));
    }
    Ok(Action::SetField { field: id, value: v, mask })
}

fn load(value: &str) -> Result<Action, TextError> {
    let (text, dst) = arrow(value, value)?;
    let dst = subfield(dst)?;
    if dst.field.tlv_index().is_some() && dst == Subfield::whole(dst.field) {
        let Some(value) = parse_bytes(text, dst.n_bytes.into()) else {
            return error(format!("{value}: cannot parse integer value"));
        };
        return Ok(Action::SetTlv(Box::new(crate::tlv::set_field(dst.field, value, None))));
    }
    let Some(v) = parse_integer(text, 16) else {
        return error(format!("{value}: cannot parse integer value"));
    };
    if v & !dst.ones() != 0 {
        return error(format!("{value}: value {v:#x} does not fit into {} bits", dst.n_bits));
    }
    Ok(Action::RegLoad { dst, value: v })
}

fn dec_ttl(value: &str) -> Result<Action, TextError> {
    if value.is_empty() {
        return Ok(Action::DecTtl { ids: vec![0], nicira: false });
    }
    let ids = value
        .split([',', ' '])
        .filter(|p| !p.is_empty())
        .map(|p| u16_value(p, "dec_ttl id"))
        .collect::<Result<Vec<_>, _>>()?;
    if ids.is_empty() {
        return error("dec_ttl_cnt_ids: expected at least one controller id.");
    }
    Ok(Action::DecTtl { ids, nicira: true })
}

fn fin_timeout(value: &str) -> Result<Action, TextError> {
    let (mut idle, mut hard) = (0, 0);
    let mut rest = value;
    while let Some((key, value)) = next_key_value(&mut rest) {
        match key {
            "idle_timeout" => idle = u16_value(value, key)?,
            "hard_timeout" => hard = u16_value(value, key)?,
            _ => return error(format!("invalid key '{key}' in 'fin_timeout' argument")),
        }
    }
    Ok(Action::FinTimeout { idle, hard })
}

fn write_metadata(value: &str) -> Result<Action, TextError> {
    let (value, mask) = match value.split_once('/') {
        Some((v, m)) => (u64_value(v)?, u64_value(m)?),
        None => (u64_value(value)?, u64::MAX),
    };
    Ok(Action::WriteMetadata { value, mask })
}
