//! Derives the configuration of a tunnel port from the options of its row, with messages about wrong options.

use super::{
    Address, BadOptions, Choice, DEFAULT_TTL, Erspan, Inherit, PacketTypes, TunnelConfig, as_ipv4,
    default_port, has_checksum_option, is_gre, is_layer_3, mapped,
};
use flow::text::address::{parse_ipv4_masked, parse_ipv6_masked};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use tunnel::FlowLabel;

/// Maximum number of segments in the path of an SRv6 tunnel.
const SEGMENTS_MAX: usize = 6;

/// Parses a number as C does: decimal, or hexadecimal after `0x`. The result is 0 if the text does not begin with a digit.
fn number(text: &str) -> u64 {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], radix).unwrap_or(0)
}

/// Parses a key as `strtoull` does: decimal, octal after `0`, or hexadecimal after `0x`. A number that is too large becomes 2⁶⁴ - 1; a negative
/// number is added to 2⁶⁴.
fn key_number(text: &str) -> u64 {
    let text = text.trim_start();
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let (digits, radix) = match hex.filter(|hex| hex.starts_with(|c: char| c.is_ascii_hexdigit())) {
        Some(hex) => (hex, 16),
        None => (text, if text.starts_with('0') { 8 } else { 10 }),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    match u64::from_str_radix(&digits[..end], radix) {
        Ok(n) if negative => n.wrapping_neg(),
        Ok(n) => n,
        Err(_) if end == 0 => 0,
        Err(_) => u64::MAX,
    }
}

/// Parses a hexadecimal number, with or without `0x`.
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

fn key(options: &BTreeMap<String, String>, name: &str) -> Choice<u64> {
    match options.get(name).or_else(|| options.get("key")).map(String::as_str) {
        None => Choice::Unset,
        Some("flow") => Choice::Flow,
        Some(text) => Choice::Fixed(key_number(text)),
    }
}

impl TunnelConfig {
    /// Parses the options of port `name`. Returns the configuration, and messages about options that were ignored.
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
            segments: Vec::new(),
            flow_label: FlowLabel::default(),
        };
        let mut reader = Reader { name, config, complaints: Vec::new() };
        for (key, value) in options {
            reader.parse_option(key, value)?;
        }
        reader.check()?;
        reader.packet_type(options.get("packet_type").map(String::as_str))?;
        Ok((reader.config, reader.complaints))
    }
}

/// Parses the options of one port, one after another.
struct Reader<'a> {
    name: &'a str,
    config: TunnelConfig,
    complaints: Vec<String>,
}

impl Reader<'_> {
    fn complain(&mut self, text: &str) {
        self.complaints.push(format!("{}: {text}", self.name));
    }

    /// Adds an error and returns all messages as the reason why the port cannot be created.
    fn fatal(&mut self, text: &str) -> BadOptions {
        self.complain(text);
        BadOptions(self.complaints.join("\n"))
    }

    fn parse_option(&mut self, key: &str, value: &str) -> Result<(), BadOptions> {
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
            "csum" if has_checksum_option(&kind) => {
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
            "srv6_segs" => match segments(value) {
                Some(segments) => self.config.segments = segments,
                None => self.complain(&format!("bad {value} 'srv6_segs'")),
            },
            "srv6_flowlabel" => {
                self.config.flow_label = match value {
                    "zero" => FlowLabel::Zero,
                    "compute" => FlowLabel::Compute,
                    _ => FlowLabel::Copy,
                };
            }
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

    /// Parses `packet_type`. Called after the other options, because the tunnel kind and its extensions restrict the packet type.
    fn packet_type(&mut self, value: Option<&str>) -> Result<(), BadOptions> {
        let config = &mut self.config;
        let only_layer_3 = is_layer_3(&config.kind);
        let carries_layer_3 = config.kind == "gre" || config.gpe || only_layer_3;
        match value {
            None if only_layer_3 => config.packet_types = PacketTypes::Layer3,
            Some("legacy_l2") if only_layer_3 => {
                let kind = &config.kind;
                let text = format!("legacy_l2 configured on {kind} tunnel that cannot carry L2 traffic");
                return Err(self.fatal(&text));
            }
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

    /// Checks the addresses of both tunnel endpoints.
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

/// Parses the addresses of a path, which are separated by commas. `None`: an address is invalid, or there are too many.
fn segments(text: &str) -> Option<Vec<Ipv6Addr>> {
    let all: Option<Vec<Ipv6Addr>> = text.split(',').map(|a| a.trim().parse().ok()).collect();
    all.filter(|all| all.len() <= SEGMENTS_MAX)
}
