//! `ofproto/list-tunnels`, `tnl/ports/show` and `tnl/egress_port_range`.

use crate::answer::{Answer, unknown};
use ::bridge::tunnel::{Address, Choice, Inherit, PacketTypes, TunnelConfig, as_ipv4};
use ::tunnel::Kind;
use dpif::text::{NoNames, key_text};
use flow::text::hex;
use openflow_service::BridgePort;
use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};
use switch::Switch;
use units::PortNo;

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String]) -> Answer {
    match (name, args) {
        ("ofproto/list-tunnels", []) => list(switch).into(),
        ("tnl/ports/show", _) => show_ports(switch, args.first().is_some_and(|a| a == "-v")).into(),
        ("tnl/egress_port_range", [first, last]) => set_source_ports(switch, first, last).into(),
        ("tnl/egress_port_range", _) => {
            let (first, last) = switch.underlay.source_ports;
            format!("Tunnel UDP source port range: {first}-{last}\n").into()
        }
        _ => unknown(name),
    }
}

/// Parses the port number at the beginning of a text; `None` if it is not between 1 and 65,535.
fn port_number(text: &str) -> Option<u16> {
    let digits = text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().ok().filter(|n| *n != 0)
}

fn set_source_ports(switch: &mut Switch, first: &str, last: &str) -> &'static str {
    let Some(first) = port_number(first) else { return "Invalid min." };
    let Some(last) = port_number(last) else { return "Invalid max." };
    switch.set_tunnel_source_ports(first.min(last), first.max(last));
    "OK"
}

/// Tunnel ports with their datapath port numbers.
fn tunnels(switch: &Switch) -> impl Iterator<Item = (&BridgePort, &TunnelConfig, PortNo)> {
    let ports = switch.bridges.values().flat_map(|b| b.ports.values());
    ports.filter_map(|p| Some((p, &**p.tunnel()?, p.number()?)))
}

fn show_ports(switch: &Switch, ends: bool) -> String {
    let mut out = "Listening ports:\n".to_owned();
    for backer in switch.datapaths.with_bridges() {
        if ends {
            let published = backer.shared.published();
            for (listener, flow, mask) in published.snapshot.underlay.endpoints.flows() {
                let key = key_text(&flow, Some(&mask), false, &NoNames);
                let _ = writeln!(out, "{} ({}) : {key}", listener.name, listener.number);
            }
            continue;
        }
        for (number, info) in backer.ports.iter().filter(|(_, info)| info.tunnels > 0) {
            let protocols = Kind::of_name(&info.kind, false).map_or(&[][..], Kind::protocols);
            for _ in protocols {
                let _ = writeln!(out, "{} ({number}) ref_cnt={}", info.name, info.tunnels);
            }
        }
    }
    out
}

fn address(a: Address) -> String {
    as_ipv4(a).map_or_else(|| Ipv6Addr::from(a).to_string(), |v4| Ipv4Addr::from_bits(v4).to_string())
}

/// The criteria by which received packets belong to the port, for example `1.1.1.1->2.2.2.2, key=0x5, legacy_l2, dp
/// port=1`.
fn matching(config: &TunnelConfig, number: PortNo) -> String {
    let ends = match (config.local, config.remote) {
        (Choice::Flow, _) => "flow->flow".to_owned(),
        (local, Choice::Flow) => format!("{}->flow", address(local.value())),
        (local, remote) => format!("{}->{}", address(local.value()), address(remote.value())),
    };
    let key = match config.in_key {
        Choice::Flow => "flow".to_owned(),
        key => hex(key.value().into()),
    };
    let types = match config.packet_types {
        PacketTypes::Ethernet => "legacy_l2",
        PacketTypes::Layer3 => "legacy_l3",
        PacketTypes::Aware => "ptap",
    };
    format!("{ends}, key={key}, {types}, dp port={number}")
}

fn line(port: &BridgePort, config: &TunnelConfig, number: PortNo) -> String {
    let mut out = format!("port {number}: {} ({}: {}", port.name, config.kind, matching(config, number));
    if config.out_key != config.in_key {
        let key = match config.out_key {
            Choice::Unset => "none".to_owned(),
            Choice::Flow => "flow".to_owned(),
            Choice::Fixed(key) => hex(key.into()),
        };
        let _ = write!(out, ", out_key={key}");
    }
    let _ = match config.ttl {
        Inherit::Inner => write!(out, ", ttl=inherit"),
        Inherit::Fixed(ttl) => write!(out, ", ttl={ttl}"),
    };
    let _ = match config.tos {
        Inherit::Inner => write!(out, ", tos=inherit"),
        Inherit::Fixed(0) => Ok(()),
        Inherit::Fixed(tos) => write!(out, ", tos={tos:#x}"),
    };
    if !config.dont_fragment {
        out.push_str(", df=false");
    }
    if let Some(csum) = config.csum {
        let _ = write!(out, ", csum={csum}");
    }
    out.push_str(")\n");
    out
}

fn list(switch: &Switch) -> String {
    let mut rows: Vec<_> = tunnels(switch).collect();
    rows.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    rows.into_iter().map(|(port, config, number)| line(port, config, number)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn ends_and_keys() {
        let of = |options: &[(&str, &str)]| {
            let options: BTreeMap<_, _> =
                options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let (config, _) = TunnelConfig::parse("geneve", "p1", &options).unwrap();
            matching(&config, PortNo(5))
        };
        assert_eq!(
            of(&[("remote_ip", "1.1.1.1"), ("key", "5")]),
            "::->1.1.1.1, key=0x5, legacy_l2, dp port=5"
        );
        assert_eq!(
            of(&[("remote_ip", "flow"), ("local_ip", "2.2.2.2")]),
            "2.2.2.2->flow, key=0, legacy_l2, dp port=5"
        );
        assert_eq!(
            of(&[("remote_ip", "flow"), ("local_ip", "flow"), ("key", "flow"), ("packet_type", "ptap")]),
            "flow->flow, key=flow, ptap, dp port=5"
        );
        assert_eq!((port_number("12x"), port_number("0"), port_number("70000")), (Some(12), None, None));
    }
}
