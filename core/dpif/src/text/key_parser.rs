//! Parses a key and its mask.

use super::error::TextError;
use super::names::DpPortNames;
use super::nsh;
use super::scan::{DEPTH_MAX, Item, items, masked};
use flow::flow::{VLAN_CFI, VLANS_MAX, frag};
use flow::text::address::{parse_ipv4_masked, parse_ipv6_masked, parse_mac_masked};
use flow::text::{flags, parse_bytes};
use flow::tlv::{FIELD_BYTES_MAX, OPTIONS_MAX, TlvValue};
use flow::{Flow, Mac, Tlv, Tunnel};
use packet::ethertype;
use units::PortNo;

/// Parses a key and a mask. A field without a mask is exact; a missing field is not matched.
pub fn parse_key(text: &str, names: &dyn DpPortNames) -> Result<(Flow, Flow), TextError> {
    let mut reader = KeyReader::new(names);
    reader.key.in_port = PortNo::NONE.0;
    reader.list(text, 0)?;
    if !reader.has_type {
        // A text without `eth_type`: the Ethernet type follows from the packet type, or from the network header in the text.
        reader.key.dl_type = match reader.key.packet_type {
            0 => reader.header_type,
            packet_type => packet_type as u16,
        };
    }
    Ok((reader.key, reader.mask))
}

/// State of the parser.
pub(super) struct KeyReader<'a> {
    pub(super) key: Flow,
    pub(super) mask: Flow,
    names: &'a dyn DpPortNames,
    /// Number of VLAN tags so far.
    tags: usize,
    /// The text contains a non-zero `eth_type` at this level of `encap`.
    has_type: bool,
    /// The frame ends within the VLAN tag that was parsed last.
    truncated: bool,
    /// The Ethernet type implied by the network header, for a text without the type.
    header_type: u16,
}

/// A field in the key and in the mask.
type ValueAndMask<'f, T> = (&'f mut T, &'f mut T);

fn store<T>(target: ValueAndMask<'_, T>, (value, mask): (T, T)) {
    *target.0 = value;
    *target.1 = mask;
}

macro_rules! value_and_mask {
    ($self:ident . $($field:tt)+) => { (&mut $self.key.$($field)+, &mut $self.mask.$($field)+) };
}

impl<'a> KeyReader<'a> {
    pub(super) fn new(names: &'a dyn DpPortNames) -> KeyReader<'a> {
        KeyReader {
            key: Flow::ZERO,
            mask: Flow::ZERO,
            names,
            tags: 0,
            has_type: false,
            truncated: false,
            header_type: ethertype::NONE,
        }
    }

    fn list(&mut self, text: &str, depth: usize) -> Result<(), TextError> {
        if depth > DEPTH_MAX {
            return Err(TextError::Depth);
        }
        for item in items(text)? {
            match item.name {
                // A verbose key starts with the identifier of the flow.
                name if name.starts_with("ufid:") => {}
                "encap" if self.truncated => {
                    if !item.list()?.is_empty() {
                        return Err(item.error());
                    }
                }
                "encap" => {
                    self.has_type = false;
                    self.list(item.list()?, depth + 1)?;
                }
                _ => self.part(&item)?,
            }
        }
        Ok(())
    }

    /// Parses one part, other than `encap`.
    pub(super) fn part(&mut self, item: &Item<'_>) -> Result<(), TextError> {
        let inside = item.list()?;
        match item.name {
            "ipv4" => self.header_type = ethertype::IPV4,
            "ipv6" => self.header_type = ethertype::IPV6,
            "mpls" => self.header_type = ethertype::MPLS,
            _ => {}
        }
        self.part_fields(item.name, inside).ok_or_else(|| item.error())
    }

    fn part_fields(&mut self, name: &str, s: &str) -> Option<()> {
        match name {
            "recirc_id" => store(value_and_mask!(self.recirc_id), masked(s, u32::MAX)?),
            "dp_hash" => store(value_and_mask!(self.dp_hash), masked(s, u32::MAX)?),
            "skb_priority" => store(value_and_mask!(self.skb_priority), masked(s, u32::MAX)?),
            "skb_mark" => store(value_and_mask!(self.pkt_mark), masked(s, u32::MAX)?),
            "tunnel" => return self.tunnel(s),
            "in_port" => {
                let by_name = |n: &str| self.names.number(n).map(|p| (p.0, u32::MAX));
                store(value_and_mask!(self.in_port), masked(s, u32::MAX).or_else(|| by_name(s))?);
            }
            "ct_state" => {
                let (value, mask) = flags::parse(s, flags::ct_state, "ct_state", 0xff).ok()?;
                store(value_and_mask!(self.ct_state), (value as u8, mask as u8));
            }
            "ct_zone" => store(value_and_mask!(self.ct_zone), masked(s, u16::MAX)?),
            "ct_mark" => store(value_and_mask!(self.ct_mark), masked(s, u32::MAX)?),
            "ct_label" => {
                let halves = |v: u128| [(v >> 64) as u64, v as u64];
                let (value, mask) = masked(s, u128::MAX)?;
                store(value_and_mask!(self.ct_label), (halves(value), halves(mask)));
            }
            "ct_tuple4" | "ct_tuple6" => return self.each_field(s, Self::tuple_field),
            "packet_type" => return self.each_field(s, Self::packet_type_field),
            "eth" => return self.each_field(s, Self::eth_field),
            "eth_type" => return self.eth_type(s),
            "vlan" => return self.vlan(s),
            "mpls" => return self.mpls(s),
            "nsh" => return nsh::parse(s, &mut self.key.nsh, &mut self.mask.nsh),
            "ipv4" => return self.each_field(s, Self::ipv4_field),
            "ipv6" => return self.each_field(s, Self::ipv6_field),
            "tcp" | "udp" | "sctp" => return self.each_field(s, Self::port_field),
            "tcp_flags" => {
                let (value, mask) = flags::parse(s, flags::tcp, "TCP", 0xfff).ok()?;
                store(value_and_mask!(self.tcp_flags), (value as u16, mask as u16));
            }
            "icmp" | "icmpv6" => return self.each_field(s, Self::icmp_field),
            "arp" => return self.each_field(s, Self::arp_field),
            "nd" | "nd_ext" => return self.each_field(s, Self::nd_field),
            _ => return None,
        }
        Some(())
    }

    fn tunnel(&mut self, s: &str) -> Option<()> {
        for item in items(s).ok()? {
            if item.name == "geneve" {
                let (options, mask) = geneve_options(item.inside?)?;
                self.key.tlv = Tlv::from_options(&options)?;
                self.mask.tlv = Tlv { present: u64::MAX, ..Tlv::from_options(&mask)? };
            } else {
                tunnel(item.text, &mut self.key.tunnel, &mut self.mask.tunnel)?;
            }
        }
        Some(())
    }

    fn each_field(&mut self, s: &str, read: fn(&mut Self, &str, &str) -> Option<()>) -> Option<()> {
        items(s).ok()?.iter().try_for_each(|i| read(self, i.name, i.value?))
    }

    fn tuple_field(&mut self, name: &str, v: &str) -> Option<()> {
        match name {
            "src" if v.contains(':') => store(value_and_mask!(self.ct_ipv6_src), ipv6(v)?),
            "dst" if v.contains(':') => store(value_and_mask!(self.ct_ipv6_dst), ipv6(v)?),
            "src" => store(value_and_mask!(self.ct_nw_src), parse_ipv4_masked(v).ok()?),
            "dst" => store(value_and_mask!(self.ct_nw_dst), parse_ipv4_masked(v).ok()?),
            "proto" => store(value_and_mask!(self.ct_nw_proto), masked(v, 0xff)?),
            "tp_src" | "src_port" => store(value_and_mask!(self.ct_tp_src), masked(v, 0xffff)?),
            "tp_dst" | "dst_port" => store(value_and_mask!(self.ct_tp_dst), masked(v, 0xffff)?),
            _ => return None,
        }
        Some(())
    }

    fn packet_type_field(&mut self, name: &str, v: &str) -> Option<()> {
        let (value, mask) = masked::<u16>(v, 0xffff)?;
        let shift = match name {
            "ns" => 16,
            "id" => 0,
            _ => return None,
        };
        self.key.packet_type |= u32::from(value) << shift;
        self.mask.packet_type |= u32::from(mask) << shift;
        Some(())
    }

    fn eth_field(&mut self, name: &str, v: &str) -> Option<()> {
        let pair = parse_mac_masked(v).ok()?;
        match name {
            "src" => store(value_and_mask!(self.dl_src), pair),
            "dst" => store(value_and_mask!(self.dl_dst), pair),
            _ => return None,
        }
        Some(())
    }

    /// Parses `eth_type`. Type 0 means that the frame has a length instead of a type.
    fn eth_type(&mut self, s: &str) -> Option<()> {
        let (value, mask) = masked::<u16>(s, 0xffff)?;
        self.has_type = value != 0;
        store(value_and_mask!(self.dl_type), (value, mask));
        Some(())
    }

    /// Parses a VLAN tag; the `eth_type` that was parsed before is its TPID. A tag without the CFI bit describes a frame that
    /// ends within the tag; then the `eth_type` stays the type of the frame.
    fn vlan(&mut self, s: &str) -> Option<()> {
        let i = self.tags;
        if i >= VLANS_MAX || self.truncated {
            return None;
        }
        let (mut tci, mut mask) = (VLAN_CFI, VLAN_CFI);
        for item in items(s).ok()? {
            let (value, m) = masked::<u16>(item.value?, 0xffff)?;
            let (keep, shift) = match item.name {
                "vid" => (0x0fff, 0),
                "pcp" => (0x0007, 13),
                "cfi" => {
                    tci = tci & !VLAN_CFI | (value & 1) << 12;
                    continue;
                }
                "tci" => {
                    (tci, mask) = (value ^ VLAN_CFI, m);
                    continue;
                }
                _ => return None,
            };
            if value > keep {
                return None;
            }
            tci |= value << shift;
            mask |= (m & keep) << shift;
        }
        let tag = (&mut self.key.vlans[i], &mut self.mask.vlans[i]);
        if tci == 0 {
            (self.truncated, tag.1.tci) = (true, mask);
            return Some(());
        }
        (tag.0.tpid, tag.0.tci) = (self.key.dl_type, tci);
        (tag.1.tpid, tag.1.tci) = (self.mask.dl_type, mask);
        (self.key.dl_type, self.mask.dl_type) = (0, 0);
        self.tags += 1;
        Some(())
    }

    fn mpls(&mut self, s: &str) -> Option<()> {
        let mut n = 0;
        for (count, item) in items(s).ok()?.iter().enumerate() {
            n = count / 4;
            let (value, mask) = masked::<u32>(item.value?, u32::MAX)?;
            let (keep, shift) = match item.name {
                "label" => (0xf_ffff, 12),
                "tc" => (7, 9),
                "ttl" => (0xff, 0),
                "bos" => (1, 8),
                _ => return None,
            };
            *self.key.mpls_lse.get_mut(n)? |= (value & keep) << shift;
            *self.mask.mpls_lse.get_mut(n)? |= (mask & keep) << shift;
        }
        (n < self.key.mpls_lse.len()).then_some(())
    }

    fn ipv4_field(&mut self, name: &str, v: &str) -> Option<()> {
        match name {
            "src" => store(value_and_mask!(self.nw_src), parse_ipv4_masked(v).ok()?),
            "dst" => store(value_and_mask!(self.nw_dst), parse_ipv4_masked(v).ok()?),
            "tos" => store(value_and_mask!(self.nw_tos), masked(v, 0xff)?),
            "ttl" => store(value_and_mask!(self.nw_ttl), masked(v, 0xff)?),
            _ => return self.ip_field(name, v),
        }
        Some(())
    }

    fn ipv6_field(&mut self, name: &str, v: &str) -> Option<()> {
        match name {
            "src" => store(value_and_mask!(self.ipv6_src), ipv6(v)?),
            "dst" => store(value_and_mask!(self.ipv6_dst), ipv6(v)?),
            "label" => {
                let (value, mask) = masked(v, 0xf_ffffu32).filter(|(l, _)| *l <= 0xf_ffff)?;
                let mask = if mask & 0xf_ffff == 0xf_ffff { u32::MAX } else { mask };
                store(value_and_mask!(self.ipv6_label), (value, mask));
            }
            "tclass" => store(value_and_mask!(self.nw_tos), masked(v, 0xff)?),
            "hlimit" => store(value_and_mask!(self.nw_ttl), masked(v, 0xff)?),
            _ => return self.ip_field(name, v),
        }
        Some(())
    }

    /// Parses a field that IPv4 and IPv6 have in common.
    fn ip_field(&mut self, name: &str, v: &str) -> Option<()> {
        match name {
            "proto" => store(value_and_mask!(self.nw_proto), masked(v, 0xff)?),
            "frag" => {
                let value = match v {
                    "no" => 0,
                    "first" => frag::ANY,
                    "later" => frag::ANY | frag::LATER,
                    _ => return None,
                };
                store(value_and_mask!(self.nw_frag), (value, frag::ANY | frag::LATER));
            }
            _ => return None,
        }
        Some(())
    }

    fn port_field(&mut self, name: &str, v: &str) -> Option<()> {
        match name {
            "src" => store(value_and_mask!(self.tp_src), masked(v, 0xffff)?),
            "dst" => store(value_and_mask!(self.tp_dst), masked(v, 0xffff)?),
            _ => return None,
        }
        Some(())
    }

    fn icmp_field(&mut self, name: &str, v: &str) -> Option<()> {
        let (value, mask) = masked::<u8>(v, 0xff)?;
        let pair = (u16::from(value), if mask == 0xff { 0xffff } else { mask.into() });
        match name {
            "type" => store(value_and_mask!(self.tp_src), pair),
            "code" => store(value_and_mask!(self.tp_dst), pair),
            _ => return None,
        }
        Some(())
    }

    fn arp_field(&mut self, name: &str, v: &str) -> Option<()> {
        match name {
            "sip" => store(value_and_mask!(self.nw_src), parse_ipv4_masked(v).ok()?),
            "tip" => store(value_and_mask!(self.nw_dst), parse_ipv4_masked(v).ok()?),
            "op" => {
                let (op, mask) = masked::<u16>(v, 0xffff)?;
                store(value_and_mask!(self.nw_proto), (u8::try_from(op).ok()?, mask as u8));
            }
            "sha" => store(value_and_mask!(self.arp_sha), parse_mac_masked(v).ok()?),
            "tha" => store(value_and_mask!(self.arp_tha), parse_mac_masked(v).ok()?),
            _ => return None,
        }
        Some(())
    }

    fn nd_field(&mut self, name: &str, v: &str) -> Option<()> {
        match name {
            "target" => store(value_and_mask!(self.nd_target), ipv6(v)?),
            "sll" => store(value_and_mask!(self.arp_sha), parse_mac_masked(v).ok()?),
            "tll" => store(value_and_mask!(self.arp_tha), parse_mac_masked(v).ok()?),
            "nd_reserved" => store(value_and_mask!(self.igmp_group_ip4), masked(v, u32::MAX)?),
            "nd_options_type" => {
                let (value, mask) = masked::<u8>(v, 0xff)?;
                let mask = if mask == 0xff { 0xffff } else { mask.into() };
                store(value_and_mask!(self.tcp_flags), (value.into(), mask));
            }
            _ => return None,
        }
        Some(())
    }
}

fn ipv6(text: &str) -> Option<([u8; 16], [u8; 16])> {
    let (addr, mask) = parse_ipv6_masked(text).ok()?;
    Some((addr.to_be_bytes(), mask.to_be_bytes()))
}

/// Parses a MAC address that must not have a mask, as in `push_eth`.
pub(super) fn exact_mac(text: &str) -> Option<Mac> {
    parse_mac_masked(text).ok().filter(|(_, mask)| *mask == Mac::BROADCAST).map(|(addr, _)| addr)
}

/// Parses the fields of `tunnel(...)`, except Geneve options.
pub(super) fn tunnel(s: &str, key: &mut Tunnel, mask: &mut Tunnel) -> Option<()> {
    for item in items(s).ok()? {
        if let Some(inside) = item.inside {
            match item.name {
                "flags" => {
                    let (value, m) = flags::parse(inside, flags::tunnel, "tunnel", 0xf).ok()?;
                    key.flags |= value as u16;
                    mask.flags |= m as u16;
                }
                "vxlan" => {
                    let gbp = items(inside).ok()?;
                    gbp_fields(gbp.first().filter(|g| g.name == "gbp")?.inside?, key, mask)?;
                }
                "erspan" => erspan_fields(inside, key, mask)?,
                "gtpu" => gtpu_fields(inside, key, mask)?,
                _ => return None,
            }
            continue;
        }
        let v = item.value?;
        match item.name {
            "tun_id" => {
                store((&mut key.tun_id, &mut mask.tun_id), masked(v, u64::MAX)?);
                key.flags |= 8;
                mask.flags |= 8;
            }
            "src" => store((&mut key.ip_src, &mut mask.ip_src), parse_ipv4_masked(v).ok()?),
            "dst" => store((&mut key.ip_dst, &mut mask.ip_dst), parse_ipv4_masked(v).ok()?),
            "ipv6_src" => store((&mut key.ipv6_src, &mut mask.ipv6_src), ipv6(v)?),
            "ipv6_dst" => store((&mut key.ipv6_dst, &mut mask.ipv6_dst), ipv6(v)?),
            "tos" => store((&mut key.ip_tos, &mut mask.ip_tos), masked(v, 0xff)?),
            "ttl" => store((&mut key.ip_ttl, &mut mask.ip_ttl), masked(v, 0xff)?),
            "tp_src" => store((&mut key.tp_src, &mut mask.tp_src), masked(v, 0xffff)?),
            "tp_dst" => store((&mut key.tp_dst, &mut mask.tp_dst), masked(v, 0xffff)?),
            _ => return None,
        }
    }
    Some(())
}

fn gbp_fields(s: &str, key: &mut Tunnel, mask: &mut Tunnel) -> Option<()> {
    for item in items(s).ok()? {
        match item.name {
            "id" => store((&mut key.gbp_id, &mut mask.gbp_id), masked(item.value?, 0xffff)?),
            "flags" => store((&mut key.gbp_flags, &mut mask.gbp_flags), masked(item.value?, 0xff)?),
            _ => return None,
        }
    }
    Some(())
}

fn erspan_fields(s: &str, key: &mut Tunnel, mask: &mut Tunnel) -> Option<()> {
    for item in items(s).ok()? {
        let v = item.value?;
        match item.name {
            "ver" => store((&mut key.erspan_ver, &mut mask.erspan_ver), masked(v, 0xff)?),
            "idx" => store((&mut key.erspan_idx, &mut mask.erspan_idx), masked(v, 0x000f_ffff)?),
            "dir" => store((&mut key.erspan_dir, &mut mask.erspan_dir), masked(v, 0xff)?),
            "hwid" => store((&mut key.erspan_hwid, &mut mask.erspan_hwid), masked(v, 0xff)?),
            _ => return None,
        }
    }
    Some(())
}

fn gtpu_fields(s: &str, key: &mut Tunnel, mask: &mut Tunnel) -> Option<()> {
    for item in items(s).ok()? {
        let v = item.value?;
        match item.name {
            "flags" => store((&mut key.gtpu_flags, &mut mask.gtpu_flags), masked(v, 0xff)?),
            "msgtype" => store((&mut key.gtpu_msgtype, &mut mask.gtpu_msgtype), masked(v, 0xff)?),
            _ => return None,
        }
    }
    Some(())
}

/// Parses Geneve options, a sequence of `{class=..,type=..,len=..,0x../0x..}`; returns the encoded options and their masks.
pub(super) fn geneve_options(s: &str) -> Option<(Vec<u8>, Vec<u8>)> {
    let (mut out, mut masks) = (Vec::new(), Vec::new());
    let mut rest = s;
    while !rest.is_empty() {
        let (option, after) = rest.strip_prefix('{')?.split_once('}')?;
        let (mut class, mut kind, mut len) = ((0u16, 0u16), (0u8, 0u8), (0u8, 0u8));
        let mut data = None;
        for item in items(option).ok()? {
            match item.name {
                "class" => class = masked(item.value?, 0xffff)?,
                "type" => kind = masked(item.value?, 0xff)?,
                "len" => len = masked(item.value?, 0xff)?,
                _ => data = Some(item.text),
            }
        }
        let (n_bytes, len_mask) = (usize::from(len.0), len.1);
        if n_bytes > FIELD_BYTES_MAX || n_bytes % 4 != 0 {
            return None;
        }
        let (value, mask) = match data.map(|text| text.split_once('/').unwrap_or((text, ""))) {
            None => (Vec::new(), Vec::new()),
            Some((value, "")) => (parse_bytes(value, n_bytes)?, vec![0xff; n_bytes]),
            Some((value, mask)) => (parse_bytes(value, n_bytes)?, parse_bytes(mask, n_bytes)?),
        };
        let append = |to: &mut Vec<u8>, class: u16, rest: [u8; 2], bytes: &[u8]| {
            to.extend_from_slice(&class.to_be_bytes());
            to.extend_from_slice(&rest);
            to.extend_from_slice(&TlvValue::of_len(bytes, n_bytes));
        };
        append(&mut out, class.0, [kind.0, (n_bytes / 4) as u8], &value);
        append(&mut masks, class.1, [kind.1, len_mask & 0x1f], &mask);
        rest = after.trim_start_matches(',');
    }
    (out.len() <= OPTIONS_MAX).then_some((out, masks))
}
