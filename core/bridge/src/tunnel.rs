//! Tunnel ports: what the options of one say, and which packets of a tunnel are its.
//!
//! Ports of one kind (and, over UDP, one destination port) share a port of the datapath; a packet that comes out of it
//! belongs to the port whose configuration fits its outer header best. Names and numbers of the options are those of
//! ovs-vswitchd.conf.db(5), "Tunnel Options"; addresses are 16 bytes, those of IPv4 mapped (RFC 4291 §2.5.5.2).

use flow::Tunnel;
use flow::text::address::{ipv6_addr, parse_ipv4_masked, parse_ipv6_masked};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

/// An address of either family.
pub type Address = [u8; 16];

const NO_ADDRESS: Address = [0; 16];

/// A value that the port fixes, or leaves to flows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice<T> {
    /// Nothing is said.
    #[default]
    Unset,
    /// This one.
    Fixed(T),
    /// `flow`: fields of the packet say.
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

/// A byte of the inner packet, or a fixed one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inherit {
    /// As the packet inside has it.
    Inner,
    /// This.
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

/// Which packets a port takes and gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PacketTypes {
    /// Ethernet frames (`legacy_l2`).
    #[default]
    Ethernet,
    /// Packets without an Ethernet header, which tables see as Ethernet packets (`legacy_l3`).
    Layer3,
    /// All, and their packet type says which (`ptap`).
    Aware,
}

/// The configuration of a tunnel port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelConfig {
    /// `vxlan`, `gre`, ...
    pub kind: String,
    /// The other end.
    pub remote: Choice<Address>,
    /// This end.
    pub local: Choice<Address>,
    /// The key of packets that come.
    pub in_key: Choice<u64>,
    /// The key of packets that go.
    pub out_key: Choice<u64>,
    /// Outer TOS without ECN, which is always that of the packet inside.
    pub tos: Inherit,
    /// Outer TTL.
    pub ttl: Inherit,
    /// UDP destination; 0 where the kind has none.
    pub dst_port: u16,
    /// Outer checksum.
    pub csum: Option<bool>,
    /// Sequence numbers.
    pub seq: bool,
    /// The outer packet must not be cut.
    pub dont_fragment: bool,
    /// VXLAN group policy.
    pub gbp: bool,
    /// The generic protocol extension of VXLAN: something else than a frame may be inside.
    pub gpe: bool,
    /// What is inside.
    pub packet_types: PacketTypes,
    /// Mark of outer packets.
    pub egress_mark: Option<u32>,
    /// ERSPAN.
    pub erspan: Erspan,
}

/// Kinds with an Ethernet frame inside.
pub const KINDS: &[&str] = &["vxlan", "geneve", "gre", "ip6gre", "erspan", "ip6erspan"];

/// The TTL of outer headers unless a port says otherwise.
pub const DEFAULT_TTL: u8 = 64;
const VXLAN_PORT: u16 = 4789;
const GENEVE_PORT: u16 = 6081;

/// What is wrong with options: each a line; fatal if the port cannot be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadOptions(pub String);

fn default_port(kind: &str) -> u16 {
    match kind {
        "vxlan" => VXLAN_PORT,
        "geneve" => GENEVE_PORT,
        _ => 0,
    }
}

fn is_gre(kind: &str) -> bool {
    matches!(kind, "gre" | "ip6gre")
}

fn is_erspan(kind: &str) -> bool {
    matches!(kind, "erspan" | "ip6erspan")
}

/// A number as C reads it: decimal, or hexadecimal after `0x`; 0 where there is none.
fn number(text: &str) -> u64 {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], radix).unwrap_or(0)
}

fn hex_number(text: &str) -> u64 {
    number(&format!("0x{}", text.trim_start_matches("0x")))
}

fn address(text: &str) -> Option<Choice<Address>> {
    if text == "flow" {
        return Some(Choice::Flow);
    }
    if text.contains('/') {
        return None;
    }
    if text.contains(':') {
        return parse_ipv6_masked(text).ok().map(|(a, _)| Choice::Fixed(a.to_be_bytes()));
    }
    parse_ipv4_masked(text).ok().map(|(a, _)| Choice::Fixed(mapped(a)))
}

fn is_multicast(a: Address) -> bool {
    as_ipv4(a).map_or(a[0] == 0xff, |v4| v4 >> 28 == 0xe)
}

/// An IPv4 address in 16 bytes; none is none.
fn mapped(v4: u32) -> Address {
    if v4 == 0 { NO_ADDRESS } else { Ipv4Addr::from(v4).to_ipv6_mapped().octets() }
}

/// The IPv4 address that is mapped.
pub fn as_ipv4(a: Address) -> Option<u32> {
    std::net::Ipv6Addr::from(a).to_ipv4_mapped().map(u32::from)
}

fn text_of(a: Address) -> String {
    as_ipv4(a).map_or_else(|| ipv6_addr(u128::from_be_bytes(a)), |v4| Ipv4Addr::from(v4).to_string())
}

/// Reading of options, one after another.
struct Reader<'a> {
    name: &'a str,
    config: TunnelConfig,
    complaints: Vec<String>,
}

impl Reader<'_> {
    fn complain(&mut self, text: &str) {
        self.complaints.push(format!("{}: {text}", self.name));
    }

    /// The complaints so far are why the port cannot be.
    fn fatal(&mut self, text: &str) -> BadOptions {
        self.complain(text);
        BadOptions(self.complaints.join("\n"))
    }

    fn one(&mut self, key: &str, value: &str) -> Result<(), BadOptions> {
        let kind = self.config.kind.clone();
        let is_true = value == "true";
        match key {
            "remote_ip" => match address(value) {
                None => self.complain(&format!("bad {kind} 'remote_ip'")),
                Some(Choice::Fixed(a)) if is_multicast(a) => {
                    return Err(self.fatal(&format!("multicast remote_ip={value} not allowed")));
                }
                Some(to) => self.config.remote = to,
            },
            "local_ip" => match address(value) {
                None => self.complain(&format!("bad {kind} 'local_ip'")),
                Some(from) => self.config.local = from,
            },
            "tos" if value == "inherit" => self.config.tos = Inherit::Inner,
            "tos" => match number(value) {
                tos if tos & !0xfc == 0 => self.config.tos = Inherit::Fixed(tos as u8),
                _ => self.complain(&format!("invalid TOS {value}")),
            },
            "ttl" if value == "inherit" => self.config.ttl = Inherit::Inner,
            "ttl" => match number(value) as u8 {
                0 => {}
                ttl => self.config.ttl = Inherit::Fixed(ttl),
            },
            "dst_port" if default_port(&kind) != 0 => self.config.dst_port = number(value) as u16,
            "csum" if !matches!(kind.as_str(), "erspan" | "ip6erspan") => {
                self.config.csum = matches!(value, "true" | "false").then_some(is_true).or(self.config.csum);
            }
            "seq" if is_gre(&kind) => self.config.seq = is_true,
            "df_default" => self.config.dont_fragment = value != "false",
            "key" | "in_key" | "out_key" | "packet_type" => {}
            "exts" if kind == "vxlan" => {
                for ext in value.split(',') {
                    match ext {
                        "gbp" => self.config.gbp = true,
                        "gpe" => self.config.gpe = true,
                        _ => self.complain(&format!("unknown extension '{ext}'")),
                    }
                }
            }
            "egress_pkt_mark" => self.config.egress_mark = Some(number(value) as u32),
            "erspan_idx" | "erspan_ver" | "erspan_dir" | "erspan_hwid" => self.erspan(key, value)?,
            "remote_cert" | "remote_name" | "psk" => {}
            _ if key.starts_with("ipsec_") => {}
            _ => self.complain(&format!("unknown {kind} argument '{key}'")),
        }
        Ok(())
    }

    fn erspan(&mut self, key: &str, value: &str) -> Result<(), BadOptions> {
        let e = &mut self.config.erspan;
        if value == "flow" {
            match key {
                "erspan_idx" => e.index = Choice::Flow,
                "erspan_dir" => e.direction = Choice::Flow,
                "erspan_hwid" => e.hardware = Choice::Flow,
                _ => {
                    *e = Erspan {
                        version: Choice::Flow,
                        index: Choice::Flow,
                        direction: Choice::Flow,
                        hardware: Choice::Flow,
                    };
                }
            }
            return Ok(());
        }
        match key {
            "erspan_idx" => match hex_number(value) {
                v if v >> 20 == 0 => e.index = Choice::Fixed(v as u32),
                _ => return Err(self.fatal(&format!("invalid erspan index: {value}"))),
            },
            "erspan_ver" => match number(value) {
                v @ 1..=2 => e.version = Choice::Fixed(v as u8),
                _ => return Err(self.fatal(&format!("invalid erspan version: {value}"))),
            },
            "erspan_dir" => match number(value) {
                v @ 0..=1 => e.direction = Choice::Fixed(v as u8),
                _ => return Err(self.fatal(&format!("invalid erspan direction: {value}"))),
            },
            _ => match hex_number(value) {
                v if v >> 6 == 0 => e.hardware = Choice::Fixed(v as u8),
                _ => return Err(self.fatal(&format!("invalid erspan hardware ID: {value}"))),
            },
        }
        Ok(())
    }

    /// After the other options, as the kind and its extensions say what there may be.
    fn packet_type(&mut self, value: Option<&str>) -> Result<(), BadOptions> {
        let config = &mut self.config;
        let carries_layer_3 = config.kind == "gre" || config.gpe;
        match value {
            None | Some("legacy_l2") => {}
            Some("ptap") => config.packet_types = PacketTypes::Aware,
            Some("legacy_l3") if carries_layer_3 => config.packet_types = PacketTypes::Layer3,
            Some("legacy_l3") => {
                let kind = match config.kind.as_str() {
                    "vxlan" => "VXLAN (without GPE)",
                    kind => kind,
                };
                let text = format!("legacy_l3 configured on {kind} tunnel that cannot carry L3 traffic");
                return Err(self.fatal(&text));
            }
            Some(other) => {
                let text = format!("unknown packet_type '{other}'");
                return Err(self.fatal(&text));
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), BadOptions> {
        let kind = self.config.kind.clone();
        let (local, remote) = (self.config.local, self.config.remote);
        if remote == Choice::Unset {
            return Err(self.fatal(&format!("{kind} type requires valid 'remote_ip' argument")));
        }
        if local == Choice::Flow && remote != Choice::Flow {
            return Err(self.fatal(&format!("{kind} type requires 'remote_ip=flow' with 'local_ip=flow'")));
        }
        if let (Choice::Fixed(a), Choice::Fixed(b)) = (local, remote)
            && as_ipv4(a).is_some() != as_ipv4(b).is_some()
        {
            return Err(self.fatal("'remote_ip' and 'local_ip' has to be of the same address family"));
        }
        Ok(())
    }
}

fn key(options: &BTreeMap<String, String>, name: &str) -> Choice<u64> {
    match options.get(name).or_else(|| options.get("key")).map(String::as_str) {
        None => Choice::Unset,
        Some("flow") => Choice::Flow,
        Some(text) => Choice::Fixed(number(text)),
    }
}

impl TunnelConfig {
    /// Reads the options of port `name`. With the configuration come the complaints about options that it does without.
    pub fn parse(
        kind: &str,
        name: &str,
        options: &BTreeMap<String, String>,
    ) -> Result<(TunnelConfig, Vec<String>), BadOptions> {
        let config = TunnelConfig {
            kind: kind.to_owned(),
            remote: Choice::Unset,
            local: Choice::Unset,
            in_key: key(options, "in_key"),
            out_key: key(options, "out_key"),
            tos: Inherit::Fixed(0),
            ttl: Inherit::Fixed(DEFAULT_TTL),
            dst_port: default_port(kind),
            csum: None,
            seq: false,
            dont_fragment: true,
            gbp: false,
            gpe: false,
            packet_types: PacketTypes::default(),
            egress_mark: None,
            erspan: Erspan::default(),
        };
        let mut reader = Reader { name, config, complaints: Vec::new() };
        for (key, value) in options {
            reader.one(key, value)?;
        }
        reader.check()?;
        reader.packet_type(options.get("packet_type").map(String::as_str))?;
        Ok((reader.config, reader.complaints))
    }

    /// The name of the datapath's port that it shares with others of its kind.
    pub fn datapath_name(&self) -> String {
        match self.kind.as_str() {
            "vxlan" | "geneve" => {
                format!("{}_sys_{}", if self.kind == "geneve" { "genev" } else { "vxlan" }, self.dst_port)
            }
            kind => format!("{kind}_sys"),
        }
    }

    /// The options that differ from their defaults, as `dpif/show` tells them.
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
            PacketTypes::Layer3 => Some("legacy_l3"),
            PacketTypes::Aware => Some("ptap"),
        };
        put("packet_type", named.map(str::to_owned));
        put("df_default", (!self.dont_fragment).then(|| "false".to_owned()));
        put("egress_pkt_mark", self.egress_mark.map(|m| m.to_string()));
        if is_erspan(&self.kind) {
            let e = &self.erspan;
            let (v1, v2) = (e.version != Choice::Fixed(2), e.version != Choice::Fixed(1));
            let hex = |c: Choice<u32>| choice_text(c, |v| format!("{v:#x}"));
            put("erspan_ver", choice_text(e.version, |v| v.to_string()));
            put("erspan_idx", hex(e.index).filter(|_| v1));
            put("erspan_dir", choice_text(e.direction, |v| v.to_string()).filter(|_| v2));
            put("erspan_hwid", choice_text(e.hardware, |v| format!("{v:#x}")).filter(|_| v2));
        }
        out
    }

    /// Outer packets have a checksum: as asked; if nothing is asked, of UDP over IPv6, which demands one.
    pub fn has_checksum(&self, ipv4: bool) -> bool {
        self.csum.unwrap_or(!ipv4 && !is_gre(&self.kind) && !is_erspan(&self.kind))
    }

    /// How well a packet of this type with this outer header fits: the less, the better. `None`: it is another port's.
    pub fn fits(&self, outer: &Tunnel, packet_type: u32) -> Option<u8> {
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

    /// A port with this configuration and this one could not be told apart.
    pub fn collides(&self, other: &TunnelConfig) -> bool {
        let key = |c: Choice<u64>| (c == Choice::Flow, c.value());
        self.datapath_name() == other.datapath_name()
            && (self.remote, self.local) == (other.remote, other.local)
            && key(self.in_key) == key(other.in_key)
            && self.packet_types == other.packet_types
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

/// The outer source of a packet.
pub fn source(outer: &Tunnel) -> Address {
    if outer.ip_dst != 0 { mapped(outer.ip_src) } else { outer.ipv6_src }
}

/// The outer destination; none where the packet came out of no tunnel.
pub fn destination(outer: &Tunnel) -> Address {
    if outer.ip_dst != 0 { mapped(outer.ip_dst) } else { outer.ipv6_dst }
}

/// The packet came out of a tunnel.
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
    fn options_come_back_as_they_went_but_for_defaults() {
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
    }

    #[test]
    fn what_cannot_be_is_refused_and_the_rest_complained_of() {
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
    fn the_port_that_says_most_gets_the_packet() {
        let outer = Tunnel { ip_src: 0x0101_0101, ip_dst: 0x0202_0202, tun_id: 5, ..Tunnel::default() };
        let fit = |options: &[(&str, &str)]| parse("gre", options).unwrap().0.fits(&outer, 0);
        let exact = fit(&[("remote_ip", "1.1.1.1"), ("local_ip", "2.2.2.2"), ("key", "5")]);
        let any_local = fit(&[("remote_ip", "1.1.1.1"), ("key", "5")]);
        let any_remote = fit(&[("remote_ip", "flow"), ("key", "5")]);
        let any_key = fit(&[("remote_ip", "1.1.1.1"), ("key", "flow")]);
        assert!(exact < any_local && any_local < any_remote && any_remote < any_key && any_key.is_some());
        assert_eq!(fit(&[("remote_ip", "1.1.1.1")]), None);
        assert_eq!(fit(&[("remote_ip", "1.1.1.2"), ("key", "5")]), None);
        let of_type = |text, packet_type| {
            let options = [("remote_ip", "1.1.1.1"), ("key", "5"), ("packet_type", text)];
            parse("gre", &options).unwrap().0.fits(&outer, packet_type)
        };
        assert_eq!(of_type("legacy_l2", 0), any_local);
        assert!(of_type("legacy_l2", 0) < of_type("ptap", 0) && of_type("ptap", 0) < any_remote);
        assert!(of_type("legacy_l3", 0x1_0800) < of_type("ptap", 0x1_0800));
        assert_eq!((of_type("legacy_l3", 0), of_type("legacy_l2", 0x1_0800)), (None, None));
        assert_eq!(fit(&[("remote_ip", "1.1.1.1"), ("local_ip", "2.2.2.3"), ("key", "5")]), None);
    }
}
