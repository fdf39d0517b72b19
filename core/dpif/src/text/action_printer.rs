//! Prints actions as text.

use super::key_printer::{mpls_text, vlan_text};
use super::names::{DpPortNames, port_text};
use super::nsh;
use super::set::set_text;
use super::tunnel_header::header_text;
use crate::action::{Ct, CtNat, DpAction, HashAlg};
use crate::userspace::{SlowReason, Userspace, UserspaceCookie};
use flow::text::address::ipv6_addr;
use flow::text::hex;
use std::net::IpAddr;

/// The text of a list of actions, separated by commas; `drop` for an empty list.
pub fn actions_text(actions: &[DpAction], names: &dyn DpPortNames) -> String {
    if actions.is_empty() {
        return "drop".to_owned();
    }
    let text: Vec<_> = actions.iter().map(|a| action_text(a, names)).collect();
    text.join(",")
}

fn action_text(action: &DpAction, names: &dyn DpPortNames) -> String {
    match action {
        DpAction::Output(port) => port_text(*port, names),
        DpAction::Userspace(u) => userspace_text(u, names),
        DpAction::Set(set) => format!("set({})", set_text(set)),
        DpAction::PushVlan { tpid, tci } => {
            let tpid = if *tpid == 0x8100 { String::new() } else { format!("tpid={tpid:#06x},") };
            format!("push_vlan({tpid}{})", vlan_text((*tci, 0xffff), false))
        }
        DpAction::PopVlan => "pop_vlan".to_owned(),
        DpAction::PushMpls { ethertype, lse } => {
            format!("push_mpls({},eth_type={ethertype:#x})", mpls_text(*lse))
        }
        DpAction::AddMpls { ethertype, lse } => {
            format!("add_mpls({},eth_type={ethertype:#x})", mpls_text(*lse))
        }
        DpAction::PopMpls { ethertype } => format!("pop_mpls(eth_type={ethertype:#x})"),
        DpAction::PushEth { dst, src } => format!("push_eth(src={src},dst={dst})"),
        DpAction::PopEth => "pop_eth".to_owned(),
        DpAction::PushNsh(push) => format!("push_nsh({})", nsh::push_fields(push)),
        DpAction::PopNsh => "pop_nsh()".to_owned(),
        DpAction::Recirc(id) => format!("recirc({})", hex((*id).into())),
        DpAction::Hash { alg: HashAlg::L4, basis } => format!("hash(l4({basis}))"),
        DpAction::Hash { alg: HashAlg::SymL4, basis } => format!("hash(sym_l4({basis}))"),
        DpAction::Ct(ct) => ct_text(ct),
        DpAction::CtClear => "ct_clear".to_owned(),
        DpAction::Clone(inner) => format!("clone({})", actions_text(inner, names)),
        DpAction::Sample(s) => {
            let percentage = 100.0 * f64::from(s.probability) / f64::from(u32::MAX);
            format!("sample(sample={percentage:.1}%,actions({}))", actions_text(&s.actions, names))
        }
        DpAction::Meter(id) => format!("meter({id})"),
        DpAction::Trunc(len) => format!("trunc({len})"),
        DpAction::CheckPktLen(c) => format!(
            "check_pkt_len(size={},gt({}),le({}))",
            c.pkt_len,
            actions_text(&c.greater, names),
            actions_text(&c.less_equal, names)
        ),
        DpAction::Drop(_) => "drop".to_owned(),
        DpAction::TunnelPush(push) => format!(
            "tnl_push(tnl_port({}),{},out_port({}))",
            port_text(push.tunnel_port, names),
            header_text(push),
            port_text(push.out_port, names)
        ),
        DpAction::TunnelPop(port) => format!("tnl_pop({})", port_text(*port, names)),
        DpAction::LbOutput(out) => format!("lb_output({})", out.bond_id),
    }
}

fn userspace_text(u: &Userspace, names: &dyn DpPortNames) -> String {
    let mut out = format!("userspace(pid={},{}", u.pid, cookie_text(&u.cookie, names));
    if u.include_actions {
        out.push_str(",actions");
    }
    if let Some(port) = u.tunnel_out_port {
        out.push_str(&format!(",tunnel_out_port={}", port_text(port, names)));
    }
    out.push(')');
    out
}

fn cookie_text(cookie: &UserspaceCookie, names: &dyn DpPortNames) -> String {
    match cookie {
        UserspaceCookie::Slow { reason } => {
            let set: Vec<_> =
                SlowReason::ALL.iter().filter(|(r, ..)| reason.contains(*r)).map(|r| r.1).collect();
            format!("slow_path({})", if set.is_empty() { "0".to_owned() } else { set.join(",") })
        }
        UserspaceCookie::Controller {
            dont_send,
            continuation,
            reason,
            recirc_id,
            rule_cookie,
            controller_id,
            max_len,
        } => format!(
            "controller(reason={reason},dont_send={},continuation={},recirc_id={recirc_id},rule_cookie={},\
             controller_id={controller_id},max_len={max_len})",
            u8::from(*dont_send),
            u8::from(*continuation),
            hex((*rule_cookie).into())
        ),
        UserspaceCookie::Sflow { vlan_tci, output } => {
            format!("sFlow(vid={},pcp={},output={output})", vlan_tci & 0xfff, vlan_tci >> 13)
        }
        UserspaceCookie::FlowSample {
            probability,
            collector_set_id,
            obs_domain_id,
            obs_point_id,
            output_port,
            direction,
        } => {
            let direction = ["", ",ingress", ",egress"].get(usize::from(*direction)).unwrap_or(&"");
            format!(
                "flow_sample(probability={probability},collector_set_id={collector_set_id},\
                 obs_domain_id={obs_domain_id},obs_point_id={obs_point_id},output_port={}{direction})",
                port_text(*output_port, names)
            )
        }
        UserspaceCookie::Ipfix { output_port } => {
            format!("ipfix(output_port={})", port_text(*output_port, names))
        }
    }
}

fn ct_text(ct: &Ct) -> String {
    let mut parts = Vec::new();
    if ct.commit && !ct.force {
        parts.push("commit".to_owned());
    }
    if ct.force {
        parts.push("force_commit".to_owned());
    }
    if ct.zone != 0 {
        parts.push(format!("zone={}", ct.zone));
    }
    if let Some((value, mask)) = ct.mark {
        parts.push(format!("mark={}/{}", hex(value.into()), hex(mask.into())));
    }
    if let Some((value, mask)) = ct.label {
        let wide = |l: [u64; 2]| u128::from(l[0]) << 64 | u128::from(l[1]);
        let mask = match wide(mask) {
            u128::MAX => String::new(),
            m => format!("/{}", hex(m)),
        };
        parts.push(format!("label={}{mask}", hex(wide(value))));
    }
    if let Some(helper) = &ct.helper {
        parts.push(format!("helper={helper}"));
    }
    if let Some(timeout) = &ct.timeout {
        parts.push(format!("timeout={}", timeout.name));
    }
    if let Some(nat) = &ct.nat {
        parts.push(nat_text(nat));
    }
    if parts.is_empty() { "ct".to_owned() } else { format!("ct({})", parts.join(",")) }
}

fn nat_text(nat: &CtNat) -> String {
    let Some(snat) = nat.snat else { return "nat".to_owned() };
    let mut first = if snat { "src" } else { "dst" }.to_owned();
    if let Some((min, max)) = nat.addresses {
        let bracket = nat.ports.is_some();
        let text = |a: IpAddr| match a {
            IpAddr::V4(a) => a.to_string(),
            IpAddr::V6(a) if bracket => format!("[{}]", ipv6_addr(a.into())),
            IpAddr::V6(a) => ipv6_addr(a.into()),
        };
        first.push_str(&format!("={}", text(min)));
        if max != min {
            first.push_str(&format!("-{}", text(max)));
        }
        if let Some((low, high)) = nat.ports {
            first.push_str(&format!(":{low}"));
            if high != low {
                first.push_str(&format!("-{high}"));
            }
        }
    }
    let options = [(nat.persistent, "persistent"), (nat.hash, "hash"), (nat.random, "random")];
    for (_, name) in options.iter().filter(|(on, _)| *on) {
        first.push_str(&format!(",{name}"));
    }
    format!("nat({first})")
}
