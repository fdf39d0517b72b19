//! Tunnel ports: parses their options, and finds the port of a received tunnel packet.
//!
//! Tunnel ports of one kind (and, over UDP, of one destination port) share a port of the datapath. A packet received
//! there belongs to the tunnel port whose configuration matches its outer header best. Names and numbers of the options
//! are those of ovs-vswitchd.conf.db(5), "Tunnel Options". Addresses are 16 bytes; IPv4 addresses are mapped to IPv6
//! (RFC 4291 §2.5.5.2).

mod options;

use flow::Tunnel;
use flow::text::address::ipv6_addr;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use tunnel::FlowLabel;

/// An IPv4 (mapped) or IPv6 address.
pub type Address = [u8; 16];

const NO_ADDRESS: Address = [0; 16];

/// A value that the port's configuration fixes, or that flows set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Choice<T> {
    /// Not configured.
    #[default]
    Unset,
    /// Fixed by the port.
    Fixed(T),
    /// `flow`: the value is in the tunnel fields of the flow.
    Flow,
}

impl<T: Copy + Default> Choice<T> {
    /// The fixed value, or the default.
    pub fn value(self) -> T {
        match self {
            Choice::Fixed(v) => v,
            Choice::Unset | Choice::Flow => T::default(),
        }
    }
}

/// A byte of the outer header: copied from the inner packet, or fixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// Copied from the inner packet.
    Inner,
    /// Fixed.
    Fixed(u8),
}

/// Fields of the ERSPAN header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Erspan {
    pub version: Choice<u8>,
    pub index: Choice<u32>,
    pub direction: Choice<u8>,
    pub hardware: Choice<u8>,
}

/// Which packet types a port receives and sends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PacketTypes {
    /// Ethernet frames (`legacy_l2`).
    #[default]
    Ethernet,
    /// Packets without an Ethernet header, which OpenFlow tables see as Ethernet packets (`legacy_l3`).
    Layer3,
    /// Packets of all types; the field `packet_type` contains the type (`ptap`).
    Aware,
}

/// The configuration of a tunnel port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelConfig {
    /// `vxlan`, `gre`, ...
    pub kind: String,
    /// Address of the remote tunnel endpoint.
    pub remote: Choice<Address>,
    /// Address of the local tunnel endpoint.
    pub local: Choice<Address>,
    /// Tunnel key of received packets.
    pub in_key: Choice<u64>,
    /// Tunnel key of sent packets.
    pub out_key: Choice<u64>,
    /// Outer TOS without the ECN bits, which are always copied from the inner packet.
    pub tos: Inherit,
    /// Outer TTL.
    pub ttl: Inherit,
    /// UDP destination port; 0 for kinds without UDP.
    pub dst_port: u16,
    /// Whether outer packets have a checksum; `None`: not configured, see [`has_checksum`](TunnelConfig::has_checksum).
    pub csum: Option<bool>,
    /// Sequence numbers.
    pub seq: bool,
    /// Set the "don't fragment" flag of the outer packet.
    pub dont_fragment: bool,
    /// VXLAN group-based policy extension.
    pub gbp: bool,
    /// VXLAN generic protocol extension: the inner packet need not be an Ethernet frame.
    pub gpe: bool,
    /// Types of inner packets.
    pub packet_types: PacketTypes,
    /// Packet mark of outer packets.
    pub egress_mark: Option<u32>,
    /// ERSPAN fields.
    pub erspan: Erspan,
    /// SRv6: the segments of the path. If empty, the path is the remote endpoint alone.
    pub segments: Vec<Ipv6Addr>,
    /// SRv6: how the outer flow label is computed.
    pub flow_label: FlowLabel,
}

/// What must differ between the tunnels of a datapath: addresses, key of received packets, types of packets, datapath port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TunnelIdentity((Choice<Address>, Choice<Address>), (bool, u64), PacketTypes, String);

/// The kinds of tunnels.
pub const KINDS: &[&str] = &["vxlan", "geneve", "gre", "ip6gre", "erspan", "ip6erspan", "gtpu", "srv6"];

/// Default TTL of outer headers.
pub const DEFAULT_TTL: u8 = 64;
const VXLAN_PORT: u16 = 4789;
const GENEVE_PORT: u16 = 6081;
const GTPU_PORT: u16 = 2152;

/// The errors in the options that prevent the creation of the port, one per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOptions(pub String);

fn default_port(kind: &str) -> u16 {
    match kind {
        "vxlan" => VXLAN_PORT,
        "geneve" => GENEVE_PORT,
        "gtpu" => GTPU_PORT,
        _ => 0,
    }
}

fn is_gre(kind: &str) -> bool {
    matches!(kind, "gre" | "ip6gre")
}

/// Whether the kind carries only packets without an Ethernet header.
fn is_layer_3(kind: &str) -> bool {
    matches!(kind, "gtpu" | "srv6")
}

/// Whether the kind has option `csum`.
fn has_checksum_option(kind: &str) -> bool {
    is_gre(kind) || matches!(kind, "vxlan" | "geneve")
}

fn is_erspan(kind: &str) -> bool {
    matches!(kind, "erspan" | "ip6erspan")
}

/// Maps an IPv4 address to 16 bytes; 0.0.0.0 becomes [`NO_ADDRESS`].
fn mapped(v4: u32) -> Address {
    if v4 == 0 { NO_ADDRESS } else { Ipv4Addr::from(v4).to_ipv6_mapped().octets() }
}

/// The IPv4 address of a mapped address.
pub fn as_ipv4(a: Address) -> Option<u32> {
    std::net::Ipv6Addr::from(a).to_ipv4_mapped().map(u32::from)
}

fn text_of(a: Address) -> String {
    as_ipv4(a).map_or_else(|| ipv6_addr(u128::from_be_bytes(a)), |v4| Ipv4Addr::from(v4).to_string())
}

impl TunnelConfig {
    /// The name of the datapath port that this port shares with other tunnels.
    pub fn datapath_name(&self) -> String {
        match self.kind.as_str() {
            kind @ ("vxlan" | "geneve" | "gtpu") => {
                format!("{}_sys_{}", if kind == "geneve" { "genev" } else { kind }, self.dst_port)
            }
            kind => format!("{kind}_sys"),
        }
    }

    /// The options that differ from their defaults, as `dpif/show` prints them.
    pub fn options(&self) -> BTreeMap<String, String> {
        let mut out = BTreeMap::new();
        let mut put = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                out.insert(key.to_owned(), value);
            }
        };
        let chosen = |a: Choice<Address>| choice_text(a, text_of);
        put("remote_ip", chosen(self.remote));
        put("local_ip", chosen(self.local));
        let decimal = |k: Choice<u64>| choice_text(k, |v| v.to_string());
        if self.in_key == self.out_key {
            put("key", decimal(self.in_key));
        } else {
            put("in_key", decimal(self.in_key));
            put("out_key", decimal(self.out_key));
        }
        put("ttl", inherit_text(self.ttl, DEFAULT_TTL, |v| v.to_string()));
        put("tos", inherit_text(self.tos, 0, |v| format!("{v:#x}")));
        put("dst_port", (self.dst_port != default_port(&self.kind)).then(|| self.dst_port.to_string()));
        put("csum", self.csum.filter(|on| *on || !is_gre(&self.kind)).map(|on| on.to_string()));
        put("seq", self.seq.then(|| "true".to_owned()));
        let named = match self.packet_types {
            PacketTypes::Ethernet => None,
            PacketTypes::Layer3 if is_layer_3(&self.kind) => None,
            PacketTypes::Layer3 => Some("legacy_l3"),
            PacketTypes::Aware => Some("ptap"),
        };
        put("packet_type", named.map(str::to_owned));
        put("df_default", (!self.dont_fragment).then(|| "false".to_owned()));
        put("egress_pkt_mark", self.egress_mark.map(|m| m.to_string()));
        if is_erspan(&self.kind) {
            let e = &self.erspan;
            let flow = || Some("flow".to_owned());
            let any = e.version == Choice::Flow;
            let (v1, v2) = (e.version.value() == 1, e.version.value() == 2);
            // Values that are not set are zero.
            put("erspan_ver", if any { flow() } else { Some(e.version.value().to_string()) });
            let of_version = |has: bool, is_flow: bool, text: String| match (any, has) {
                (true, _) => flow(),
                (false, true) => Some(if is_flow { "flow".to_owned() } else { text }),
                (false, false) => None,
            };
            put("erspan_idx", of_version(v1, e.index == Choice::Flow, format!("{:#x}", e.index.value())));
            put("erspan_dir", of_version(v2, e.direction == Choice::Flow, e.direction.value().to_string()));
            put(
                "erspan_hwid",
                of_version(v2, e.hardware == Choice::Flow, format!("{:#x}", e.hardware.value())),
            );
        }
        out
    }

    /// Whether outer packets have a checksum. Without a setting, only UDP over IPv6 has a checksum, because IPv6
    /// requires it.
    pub fn has_checksum(&self, ipv4: bool) -> bool {
        self.csum.unwrap_or(!ipv4 && default_port(&self.kind) != 0)
    }

    /// Whether the outer header can have options (RFC 8926 §3.5).
    pub fn has_options(&self) -> bool {
        self.kind == "geneve"
    }

    /// How well a packet with this type and outer header matches the port: lower is better. `None`: the packet does not
    /// belong to this port.
    pub fn match_rank(&self, outer: &Tunnel, packet_type: u32) -> Option<u8> {
        let aware = match (self.packet_types, packet_type) {
            (PacketTypes::Aware, _) => 1,
            (PacketTypes::Ethernet, 0) => 0,
            (PacketTypes::Layer3, kind) if kind != 0 => 0,
            _ => return None,
        };
        let (from, to) = (source(outer), destination(outer));
        let key = match self.in_key {
            Choice::Flow => 1,
            fixed if fixed.value() == outer.tun_id => 0,
            _ => return None,
        };
        let remote = match self.remote {
            Choice::Flow => 1,
            Choice::Fixed(a) if a == from => 0,
            _ => return None,
        };
        let local = match self.local {
            Choice::Fixed(a) if a == to => 0,
            Choice::Unset => 1,
            Choice::Flow => 2,
            Choice::Fixed(_) => return None,
        };
        Some(((key * 2 + remote) * 3 + local) * 2 + aware)
    }

    /// What distinguishes the tunnel from others. If two are equal, a received packet could match both configurations equally
    /// well, so only one of the ports may exist.
    pub fn identity(&self) -> TunnelIdentity {
        let key = (self.in_key == Choice::Flow, self.in_key.value());
        TunnelIdentity((self.remote, self.local), key, self.packet_types, self.datapath_name())
    }
}

fn choice_text<T>(choice: Choice<T>, text: impl Fn(T) -> String) -> Option<String> {
    match choice {
        Choice::Unset => None,
        Choice::Flow => Some("flow".to_owned()),
        Choice::Fixed(v) => Some(text(v)),
    }
}

fn inherit_text(value: Inherit, default: u8, text: impl Fn(u8) -> String) -> Option<String> {
    match value {
        Inherit::Inner => Some("inherit".to_owned()),
        Inherit::Fixed(v) => (v != default).then(|| text(v)),
    }
}

/// The outer source address of a packet.
pub fn source(outer: &Tunnel) -> Address {
    if outer.ip_dst != 0 { mapped(outer.ip_src) } else { outer.ipv6_src }
}

/// The outer destination address of a packet; [`NO_ADDRESS`] if the packet did not come from a tunnel.
pub fn destination(outer: &Tunnel) -> Address {
    if outer.ip_dst != 0 { mapped(outer.ip_dst) } else { outer.ipv6_dst }
}

/// Whether the packet came from a tunnel.
pub fn is_tunnelled(outer: &Tunnel) -> bool {
    destination(outer) != NO_ADDRESS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(kind: &str, options: &[(&str, &str)]) -> Result<(TunnelConfig, Vec<String>), BadOptions> {
        let options = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        TunnelConfig::parse(kind, "p1", &options)
    }

    fn shown(kind: &str, options: &[(&str, &str)]) -> String {
        let (config, complaints) = parse(kind, options).unwrap();
        assert!(complaints.is_empty(), "{complaints:?}");
        let pairs: Vec<String> = config.options().iter().map(|(k, v)| format!("{k}={v}")).collect();
        pairs.join(", ")
    }

    #[test]
    fn options_round_trip_except_defaults() {
        assert_eq!(shown("vxlan", &[("remote_ip", "1.1.1.1"), ("dst_port", "4789")]), "remote_ip=1.1.1.1");
        assert_eq!(shown("vxlan", &[("remote_ip", "flow"), ("dst_port", "1")]), "dst_port=1, remote_ip=flow");
        let gre = [
            ("remote_ip", "1.1.1.1"),
            ("key", "0x5"),
            ("df_default", "false"),
            ("ttl", "1"),
            ("csum", "true"),
        ];
        assert_eq!(shown("gre", &gre), "csum=true, df_default=false, key=5, remote_ip=1.1.1.1, ttl=1");
        let keys = [("remote_ip", "fc00::1"), ("in_key", "2"), ("out_key", "flow"), ("tos", "inherit")];
        assert_eq!(shown("geneve", &keys), "in_key=2, out_key=flow, remote_ip=fc00::1, tos=inherit");
        let gpe = [("remote_ip", "1.1.1.1"), ("exts", "gpe"), ("packet_type", "legacy_l3")];
        assert_eq!(shown("vxlan", &gpe), "packet_type=legacy_l3, remote_ip=1.1.1.1");
        assert_eq!(
            shown("gre", &[("remote_ip", "1.1.1.1"), ("packet_type", "legacy_l2")]),
            "remote_ip=1.1.1.1"
        );
        let v2 =
            [("remote_ip", "1.1.1.1"), ("erspan_ver", "2"), ("erspan_hwid", "7"), ("erspan_dir", "flow")];
        assert_eq!(shown("erspan", &v2), "erspan_dir=flow, erspan_hwid=0x7, erspan_ver=2, remote_ip=1.1.1.1");
        let v1 = [("remote_ip", "1.1.1.1"), ("erspan_ver", "1")];
        assert_eq!(shown("erspan", &v1), "erspan_idx=0x0, erspan_ver=1, remote_ip=1.1.1.1");
        let any = "erspan_dir=flow, erspan_hwid=flow, erspan_idx=flow, erspan_ver=flow, remote_ip=1.1.1.1";
        assert_eq!(shown("erspan", &[("remote_ip", "1.1.1.1"), ("erspan_ver", "flow")]), any);
        for (text, key) in [
            ("010", "8"),
            ("-5", "18446744073709551611"),
            ("99999999999999999999", "18446744073709551615"),
            ("0x1fz", "31"),
            ("0x", "0"),
            (" +7", "7"),
            ("08", "0"),
            ("abc", "0"),
        ] {
            assert_eq!(
                shown("gre", &[("remote_ip", "1.1.1.1"), ("key", text)]),
                format!("key={key}, remote_ip=1.1.1.1")
            );
        }
    }

    #[test]
    fn fatal_options_are_refused_and_others_reported() {
        let refused = |options: &[(&str, &str)]| parse("vxlan", options).unwrap_err().0;
        assert_eq!(refused(&[]), "p1: vxlan type requires valid 'remote_ip' argument");
        assert_eq!(refused(&[("remote_ip", "224.0.0.1")]), "p1: multicast remote_ip=224.0.0.1 not allowed");
        assert!(refused(&[("remote_ip", "1.1.1.1"), ("local_ip", "flow")]).contains("'remote_ip=flow'"));
        assert!(
            refused(&[("remote_ip", "1.1.1.1"), ("local_ip", "fc00::1")]).contains("same address family")
        );
        let packet_type = |text| refused(&[("remote_ip", "1.1.1.1"), ("packet_type", text)]);
        let no_layer_3 =
            "p1: legacy_l3 configured on VXLAN (without GPE) tunnel that cannot carry L3 traffic";
        assert_eq!(packet_type("legacy_l3"), no_layer_3);
        assert_eq!(packet_type("l4"), "p1: unknown packet_type 'l4'");
        let (_, told) = parse("vxlan", &[("remote_ip", "1.1.1.1"), ("tos", "3"), ("colour", "red")]).unwrap();
        assert_eq!(told, ["p1: unknown vxlan argument 'colour'", "p1: invalid TOS 3"]);
    }

    #[test]
    fn the_most_specific_port_gets_the_packet() {
        let outer = Tunnel { ip_src: 0x0101_0101, ip_dst: 0x0202_0202, tun_id: 5, ..Tunnel::default() };
        let fit = |options: &[(&str, &str)]| parse("gre", options).unwrap().0.match_rank(&outer, 0);
        let exact = fit(&[("remote_ip", "1.1.1.1"), ("local_ip", "2.2.2.2"), ("key", "5")]);
        let any_local = fit(&[("remote_ip", "1.1.1.1"), ("key", "5")]);
        let any_remote = fit(&[("remote_ip", "flow"), ("key", "5")]);
        let any_key = fit(&[("remote_ip", "1.1.1.1"), ("key", "flow")]);
        assert!(exact < any_local && any_local < any_remote && any_remote < any_key && any_key.is_some());
        assert_eq!(fit(&[("remote_ip", "1.1.1.1")]), None);
        assert_eq!(fit(&[("remote_ip", "1.1.1.2"), ("key", "5")]), None);
        let of_type = |text, packet_type| {
            let options = [("remote_ip", "1.1.1.1"), ("key", "5"), ("packet_type", text)];
            parse("gre", &options).unwrap().0.match_rank(&outer, packet_type)
        };
        assert_eq!(of_type("legacy_l2", 0), any_local);
        assert!(of_type("legacy_l2", 0) < of_type("ptap", 0) && of_type("ptap", 0) < any_remote);
        assert!(of_type("legacy_l3", 0x1_0800) < of_type("ptap", 0x1_0800));
        assert_eq!((of_type("legacy_l3", 0), of_type("legacy_l2", 0x1_0800)), (None, None));
        assert_eq!(fit(&[("remote_ip", "1.1.1.1"), ("local_ip", "2.2.2.3"), ("key", "5")]), None);
    }
}
