//! Tunnels: tunnel ports, the bridge through which encapsulated packets are sent and received, and packets with outer headers.
//!
//! A run with tunnels has a third bridge, whose local port has the host's addresses. All next hops are configured, because
//! the switches differ in packets whose next hop is unknown: Sluice keeps these packets, the stock switch drops them.

use crate::checksum::{fold, sum};
use crate::pools::mac;
use crate::rng::Rng;
use crate::table::Table;

/// The port through which encapsulated packets are sent and received.
pub const UNDERLAY: u16 = 9;

/// The bridge of that port.
pub const BRIDGE: &str = "br2";

pub(crate) const HOST: [u8; 4] = [172, 31, 1, 1];
pub(crate) const HOST_MAC: [u8; 6] = [0xaa, 0x55, 0xaa, 0x55, 0, 2];
/// The last bytes of the addresses of the remote endpoints.
const REMOTE_ENDPOINTS: std::ops::RangeInclusive<u8> = 91..=97;
/// The UDP ports of VXLAN and Geneve.
pub(crate) const VXLAN: u16 = 4789;
pub(crate) const GENEVE: u16 = 6081;
/// The UDP source port of received packets.
pub(crate) const UDP_SOURCE: u16 = 40_001;
/// The Geneve option of received packets: class 0xffff, type 0, four bytes.
pub(crate) const OPTION: [u8; 8] = [0xff, 0xff, 0, 1, 0, 0, 0x12, 0x34];
/// The keys of tunnels and of received packets.
const KEYS: [u32; 4] = [5, 7, 9, 0x123];

/// The tunnel ports: bridge, OpenFlow port, type, options.
const TUNNELS: &[(&str, u16, &str, &str)] = &[
    ("br0", 11, "vxlan", "options:remote_ip=flow options:key=flow"),
    (
        "br0",
        12,
        "geneve",
        "options:remote_ip=172.31.1.92 options:key=5 options:csum=true options:tos=inherit options:ttl=inherit",
    ),
    ("br0", 13, "gre", "options:remote_ip=flow options:key=flow options:csum=true"),
    ("br0", 14, "geneve", "options:remote_ip=fd31:1::94 options:key=flow"),
    ("br1", 15, "vxlan", "options:remote_ip=172.31.1.95 options:key=9 options:tos=0x48"),
    ("br0", 16, "vxlan", "options:remote_ip=172.31.1.96 options:key=7 options:df_default=false"),
];

/// Returns the commands of `ovs-vsctl` that add the underlay's bridge and the tunnel ports. `pcap` is the file that records the
/// frames which the underlay's port sends.
pub fn configuration(pcap: &str) -> Vec<String> {
    let host = HOST_MAC.map(|byte| format!("{byte:02x}")).join(":");
    let mut commands = vec![format!(
        "add-br {BRIDGE} -- set bridge {BRIDGE} datapath_type=dummy fail-mode=secure other-config:hwaddr={host} \
         -- add-port {BRIDGE} p{UNDERLAY} -- set interface p{UNDERLAY} type=dummy ofport_request={UNDERLAY} options:tx_pcap={pcap}"
    )];
    for (bridge, port, kind, options) in TUNNELS {
        commands.push(format!(
            "add-port {bridge} t{port} -- set interface t{port} type={kind} ofport_request={port} {options}"
        ));
    }
    // Packets sent to p4 are mirrored to a tunnel.
    commands.push(
        "-- --id=@to get port t14 -- --id=@from get port p4 -- --id=@m create mirror name=m0 select_dst_port=@from \
         output_port=@to -- set bridge br0 mirrors=@m"
            .to_owned(),
    );
    commands
}

/// Returns whether a megaflow's key is that of packets in a tunnel for which there is no port. The ports of VXLAN and GRE accept
/// any remote endpoint and key, that of Geneve over IPv4 only one of each. No port accepts a packet without an Ethernet header.
pub fn has_no_port(key: &str) -> bool {
    let Some((_, tunnel)) = key.split_once("tunnel(") else { return false };
    if key.contains("packet_type(ns=1,") {
        return true;
    }
    if !key.contains("in_port(6081)") {
        return false;
    }
    let field = |name: &str| tunnel.split([',', '(', ')']).find_map(|f| f.strip_prefix(name));
    let (id, end) = (field("tun_id="), field("src="));
    end.is_some() && (id, end) != (Some("0x5"), Some("172.31.1.92"))
}

/// The flows of the underlay's bridge.
pub const FLOWS: &str = "in_port=LOCAL,actions=output:9\nin_port=9,actions=LOCAL\n";

/// Returns the appctl commands that configure the host's addresses, routes and next hops.
pub fn underlay() -> Vec<(&'static str, Vec<String>)> {
    let host = std::net::Ipv4Addr::from(HOST);
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut commands = vec![
        ("netdev-dummy/ip4addr", words(&[BRIDGE, &format!("{host}/24")])),
        ("netdev-dummy/ip6addr", words(&[BRIDGE, "fd31:1::1/64"])),
        ("ovs/route/add", words(&["172.31.1.0/24", BRIDGE])),
        ("ovs/route/add", words(&["fd31:1::/64", BRIDGE])),
        // The two switches select the source port by different hash functions.
        ("tnl/egress_port_range", words(&["40000", "40000"])),
        ("tnl/neigh/aging", words(&["3600"])),
    ];
    for end in REMOTE_ENDPOINTS {
        let hop = format!("f8:bc:12:44:34:{end}");
        commands.push(("tnl/neigh/set", words(&[BRIDGE, &format!("172.31.1.{end}"), &hop])));
        commands.push(("tnl/neigh/set", words(&[BRIDGE, &format!("fd31:1::{end}"), &hop])));
    }
    commands
}

/// Replaces some output ports of the table by tunnel ports, and some ingress ports of its matches.
pub fn use_tunnels(rng: &mut Rng, table: &mut Table) {
    for line in table.flows.iter_mut().chain(&mut table.groups) {
        *line = with_tunnel_outputs(rng, line);
        if line.contains("in_port=") && !line.contains("in_port=10") && rng.chance(40) {
            let from = rng.pick(&[11, 12, 13, 14, 16]);
            *line = replaced(line, "in_port=", &from.to_string());
        }
    }
}

/// Replaces the number after the first occurrence of `key`.
fn replaced(line: &str, key: &str, number: &str) -> String {
    let Some((head, tail)) = line.split_once(key) else { return line.to_owned() };
    format!("{head}{key}{number}{}", tail.trim_start_matches(|c: char| c.is_ascii_digit()))
}

fn with_tunnel_outputs(rng: &mut Rng, line: &str) -> String {
    let mut parts = line.split("output:");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        if rest.len() < part.len() && rng.chance(40) {
            let port = rng.pick(&[11, 11, 12, 13, 14, 16]);
            // An action set must not contain a field twice, and executes its actions in another order.
            if matches!(port, 11 | 13) && !line.contains("write_actions") && rng.chance(80) {
                let end =
                    rng.between(u64::from(*REMOTE_ENDPOINTS.start()), u64::from(*REMOTE_ENDPOINTS.end()));
                out.push_str(&format!(
                    "set_field:172.31.1.{end}->tun_dst,set_field:{}->tun_id,",
                    rng.pick(&KEYS)
                ));
            }
            out.push_str(&format!("output:{port}{rest}"));
        } else {
            out.push_str(&format!("output:{part}"));
        }
    }
    out
}

/// Returns a packet that arrives at the underlay's port and contains this one.
pub fn encapsulated(rng: &mut Rng, inner: &[u8]) -> Vec<u8> {
    let key = rng.pick(&KEYS);
    let (protocol, payload) = match rng.below(3) {
        0 => (17, udp(VXLAN, &[&[8, 0, 0, 0], &(key << 8).to_be_bytes()[..], inner].concat())),
        1 => (17, udp(GENEVE, &[&geneve(rng, key)[..], inner].concat())),
        _ => (47, [&[0x20, 0, 0x65, 0x58], &key.to_be_bytes()[..], inner].concat()),
    };
    let mut ip = vec![0x45, rng.pick(&[0, 0, 2, 3, 0x48])];
    ip.extend((20 + payload.len() as u16).to_be_bytes());
    ip.extend([0, 0, rng.pick(&[0, 0x40]), 0, rng.pick(&[1, 64]), protocol, 0, 0, 172, 31, 1]);
    ip.push(rng.between(u64::from(*REMOTE_ENDPOINTS.start()), u64::from(*REMOTE_ENDPOINTS.end())) as u8);
    ip.extend(HOST);
    let checksum = fold(sum(&ip));
    ip[10..12].copy_from_slice(&checksum);
    let to = if rng.chance(95) { HOST_MAC } else { mac(rng) };
    let mut frame = [&to[..], &[0xf8, 0xbc, 0x12, 0x44, 0x34, 0x91], &[8, 0], &ip, &payload].concat();
    match rng.below(20) {
        // One bit of the outer headers is wrong, but not in the IP version: if it becomes 6, the stock switch reads an IPv6 header
        // that is not there.
        0 => {
            let at = rng.between(14, 49) as usize;
            frame[at] ^= 1 << rng.below(if at == 14 { 4 } else { 8 });
        }
        1 => frame.truncate(rng.between(34, frame.len() as u64) as usize),
        _ => {}
    }
    frame
}

/// A Geneve header, with an option in half of the cases.
fn geneve(rng: &mut Rng, key: u32) -> Vec<u8> {
    let option: &[u8] = if rng.chance(50) { &OPTION } else { &[] };
    let mut header = vec![(option.len() / 4) as u8, 0, 0x65, 0x58];
    header.extend((key << 8).to_be_bytes());
    header.extend(option);
    header
}

fn udp(to: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = UDP_SOURCE.to_be_bytes().to_vec();
    out.extend(to.to_be_bytes());
    out.extend((8 + payload.len() as u16).to_be_bytes());
    out.extend([0, 0]);
    out.extend(payload);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_lead_into_tunnels() {
        let mut rng = Rng::new(1);
        let line = "flow add table=0,in_port=3,actions=output:1,output:2,bundle(output:x)";
        let lines: Vec<String> = (0..50).map(|_| with_tunnel_outputs(&mut rng, line)).collect();
        assert!(lines.iter().any(|l| l.contains("->tun_id,output:11,")));
        assert!(lines.iter().any(|l| l == line) && lines.iter().all(|l| l.ends_with(",bundle(output:x)")));
        assert_eq!(replaced("a,in_port=3,b", "in_port=", "12"), "a,in_port=12,b");
    }

    #[test]
    fn keys_of_no_port() {
        let key = |end: &str, id: u32| {
            format!("in_port(6081),tunnel(tun_id={id:#x},src={end},dst=172.31.1.1,flags(+key))")
        };
        assert!(has_no_port(&key("172.31.1.92", 7)) && has_no_port(&key("172.31.1.95", 5)));
        assert!(!has_no_port(&key("172.31.1.92", 5)) && !has_no_port("in_port(6081)"));
        assert!(!has_no_port(&key("172.31.1.95", 5).replace("6081", "4789")));
        let without_ethernet =
            "in_port(10),packet_type(ns=1,id=0x6559),tunnel(tun_id=0x5,src=172.31.1.96,dst=172.31.1.1)";
        assert!(has_no_port(without_ethernet) && !has_no_port("in_port(1),packet_type(ns=1,id=0x800)"));
        assert!(!has_no_port(&key("fd31:1::95", 5).replace(",src", ",ipv6_src")));
    }

    #[test]
    fn most_outer_headers_are_right() {
        let mut rng = Rng::new(2);
        let frames: Vec<Vec<u8>> = (0..100).map(|_| encapsulated(&mut rng, &[0; 60])).collect();
        let right = |frame: &&Vec<u8>| frame.get(14..34).is_some_and(|ip| fold(sum(ip)) == [0, 0]);
        assert!((80..100).contains(&frames.iter().filter(right).count()));
    }
}
