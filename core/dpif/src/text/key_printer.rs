//! Prints a key and its mask as text.

use super::field::{Fields, Pair};
use super::names::{DpPortNames, port_text};
use super::{nsh, tunnel_key};
use flow::text::flags;
use flow::text::hex;
use flow::{Flow, VLAN_CFI};
use units::PortNo;

/// The text of a key: its parts, separated by commas. Parts that the mask does not match are left out unless the text is
/// verbose. Without a mask all fields are exact.
pub fn key_text(key: &Flow, mask: Option<&Flow>, verbose: bool, names: &dyn DpPortNames) -> String {
    let mut w = KeyWriter::new(key, mask, verbose, names);
    w.metadata();
    w.layer2();
    w.parts.join(",")
}

/// Writes the parts of a key. The method of a header, such as `eth`, `ipv4` or `arp`, writes one part, without checking that the key has
/// this header.
pub(super) struct KeyWriter<'a> {
    key: &'a Flow,
    mask: Option<&'a Flow>,
    verbose: bool,
    /// Parts are written even if the mask matches none of their fields.
    pub(super) empty_parts: bool,
    names: &'a dyn DpPortNames,
    pub(super) parts: Vec<String>,
}

impl<'a> KeyWriter<'a> {
    pub(super) fn new(
        key: &'a Flow,
        mask: Option<&'a Flow>,
        verbose: bool,
        names: &'a dyn DpPortNames,
    ) -> KeyWriter<'a> {
        KeyWriter { key, mask, verbose, empty_parts: verbose, names, parts: Vec::new() }
    }

    /// Value and mask of a field; without a mask, the mask of the field is all ones.
    fn pair<T>(&self, get: impl Fn(&Flow) -> T) -> Pair<T> {
        (get(self.key), get(self.mask.unwrap_or(&Flow::ONES)))
    }

    fn fields(&self) -> Fields {
        Fields::new(self.verbose, self.mask.is_some())
    }

    /// Writes a part; `wild`: the mask matches none of its fields.
    fn part(&mut self, name: &str, wild: bool, inside: String) {
        if self.empty_parts || !wild {
            self.parts.push(format!("{name}({inside})"));
        }
    }

    fn number(&mut self, name: &str, (value, mask): Pair<u32>) {
        let partial = if mask == u32::MAX { String::new() } else { format!("/{}", hex(mask.into())) };
        self.part(name, mask == 0, format!("{}{partial}", hex(value.into())));
    }

    fn metadata(&mut self) {
        let (key, mask) = (self.key, self.mask);
        self.number("recirc_id", self.pair(|f| f.recirc_id));
        self.number("dp_hash", self.pair(|f| f.dp_hash));
        self.skb_priority();
        let t = &key.tunnel;
        let has_dst = t.ip_dst != 0 || t.ipv6_dst != [0; 16];
        if has_dst || t.ip_src != 0 || t.ipv6_src != [0; 16] {
            let shows_options = mask.is_none_or(|m| m.tlv.present != 0) || self.verbose;
            let bytes = if shows_options { key.tlv.options() } else { &[] };
            let mask_bytes = mask.map(|m| &m.tlv.data[..bytes.len()]);
            let show_empty = self.names.is_geneve(PortNo(key.in_port));
            let options = tunnel_key::Options { bytes, mask: mask_bytes, show_empty };
            let inside = tunnel_key::tunnel(t, mask.map(|m| &m.tunnel), options, self.verbose);
            self.part("tunnel", false, inside);
        }
        self.in_port();
        self.skb_mark();
        self.connection();
        let (ns, id) = (self.pair(|f| (f.packet_type >> 16) as u16), self.pair(|f| f.packet_type as u16));
        let mut fields = self.fields();
        fields.masked = true;
        fields.dec16("ns", ns);
        fields.hex16("id", id);
        self.part("packet_type", ns.1 | id.1 == 0, fields.finish());
    }

    pub(super) fn skb_priority(&mut self) {
        self.number("skb_priority", self.pair(|f| f.skb_priority));
    }

    pub(super) fn skb_mark(&mut self) {
        self.number("skb_mark", self.pair(|f| f.pkt_mark));
    }

    fn in_port(&mut self) {
        let (port, mask) = self.pair(|f| f.in_port);
        if PortNo(port) == PortNo::NONE {
            return;
        }
        let text = match mask {
            u32::MAX => port_text(PortNo(port), self.names),
            m => format!("{port}/{}", hex(m.into())),
        };
        self.part("in_port", mask == 0, text);
    }

    fn connection(&mut self) {
        let (state, state_mask) = self.pair(|f| u32::from(f.ct_state));
        let masked = self.mask.is_some();
        let text = match (self.verbose, masked) {
            (true, true) => format!("{}/{}", hex(state.into()), hex(state_mask.into())),
            (true, false) => hex(state.into()),
            (false, true) => flags::format_masked(flags::ct_state, state, state_mask, u32::MAX),
            (false, false) => flags::format(flags::ct_state, state, '|'),
        };
        self.part("ct_state", state_mask == 0, text);
        let with_mask = |value: u128, mask: u128, full: u128| {
            let mask = if masked && mask != full { format!("/{}", hex(mask)) } else { String::new() };
            format!("{}{mask}", hex(value))
        };
        let (zone, m) = self.pair(|f| u128::from(f.ct_zone));
        self.part("ct_zone", m == 0, with_mask(zone, m, 0xffff));
        let (mark, m) = self.pair(|f| u128::from(f.ct_mark));
        self.part("ct_mark", m == 0, with_mask(mark, m, 0xffff_ffff));
        let (label, m) = self.pair(|f| u128::from(f.ct_label[0]) << 64 | u128::from(f.ct_label[1]));
        self.part("ct_label", m == 0, with_mask(label, m, u128::MAX));
        self.original_tuple();
    }

    fn original_tuple(&mut self) {
        if self.key.ct_nw_proto == 0 {
            return;
        }
        let (src, dst) = (self.pair(|f| f.ct_tp_src), self.pair(|f| f.ct_tp_dst));
        let proto = self.pair(|f| f.ct_nw_proto);
        let ports_and_proto_wild = src.1 | dst.1 == 0 && proto.1 == 0;
        let mut fields = self.fields();
        if self.key.dl_type == 0x0800 {
            let (ip_src, ip_dst) = (self.pair(|f| f.ct_nw_src), self.pair(|f| f.ct_nw_dst));
            fields.ipv4("src", ip_src);
            fields.ipv4("dst", ip_dst);
            fields.dec8("proto", proto);
            fields.dec16("tp_src", src);
            fields.dec16("tp_dst", dst);
            self.part("ct_tuple4", ports_and_proto_wild && ip_src.1 | ip_dst.1 == 0, fields.finish());
        } else if self.key.dl_type == 0x86dd {
            let (ip_src, ip_dst) = (self.pair(|f| f.ct_ipv6_src), self.pair(|f| f.ct_ipv6_dst));
            fields.ipv6("src", ip_src);
            fields.ipv6("dst", ip_dst);
            fields.dec8("proto", proto);
            fields.dec16("src_port", src);
            fields.dec16("dst_port", dst);
            let wild = ports_and_proto_wild && ip_src.1 == [0; 16] && ip_dst.1 == [0; 16];
            self.part("ct_tuple6", wild, fields.finish());
        }
    }

    fn layer2(&mut self) {
        if self.key.packet_type != 0 {
            return self.ethertype_and_up();
        }
        let type_wild = self.mask.is_some_and(|m| m.packet_type == 0);
        let before = self.parts.len();
        self.eth();
        // If the mask matches neither the packet type nor the addresses, `eth()` says that this is an Ethernet packet.
        if self.parts.len() == before && type_wild {
            self.parts.push("eth()".to_owned());
        }
        self.tag(0);
    }

    pub(super) fn eth(&mut self) {
        let (src, dst) = (self.pair(|f| f.dl_src), self.pair(|f| f.dl_dst));
        let mut fields = self.fields();
        fields.mac("src", src);
        fields.mac("dst", dst);
        self.part("eth", src.1.to_u64() | dst.1.to_u64() == 0, fields.finish());
    }

    /// Writes VLAN tag `i`, and the parts behind it as `encap(..)`.
    fn tag(&mut self, i: usize) {
        let tag = self.key.vlans.get(i).filter(|t| t.tci != 0);
        // If the frame ends within its first tag, the flow has no tag, but its Ethernet type is that of the tag.
        let truncated = i == 0 && tag.is_none() && matches!(self.key.dl_type, 0x8100 | 0x88a8);
        let Some(tpid) = tag.map(|t| t.tpid).or(truncated.then_some(self.key.dl_type)) else {
            return self.ethertype_and_up();
        };
        self.parts.push(format!("eth_type({tpid:#06x})"));
        let tci = self.pair(|f| f.vlans[i].tci);
        let text = vlan_text(tci, self.verbose);
        self.part("vlan", tci.1 == 0, text);
        let mut inner = KeyWriter::new(self.key, self.mask, self.verbose, self.names);
        if !truncated {
            inner.tag(i + 1);
        }
        self.parts.push(format!("encap({})", inner.parts.join(",")));
    }

    fn ethertype_and_up(&mut self) {
        let dl_type = self.key.dl_type;
        if dl_type < packet::ethertype::MIN {
            // The frame has a length instead of an Ethernet type. `eth_type` is printed only if there is a mask.
            if self.mask.is_some() && self.key.vlans[0].tci == 0 {
                self.parts.push("eth_type(0/0xffff)".to_owned());
            }
            return;
        }
        let (_, mask) = self.pair(|f| f.dl_type);
        let partial = if mask == 0xffff { String::new() } else { format!("/{mask:#06x}") };
        self.part("eth_type", mask == 0, format!("{dl_type:#06x}{partial}"));
        match dl_type {
            0x0800 => self.ipv4(),
            0x86dd => self.ipv6(),
            0x0806 | 0x8035 => self.arp(),
            0x8847 | 0x8848 => self.mpls(),
            0x894f => self.nsh(),
            _ => {}
        }
        if self.key.is_ip() && self.key.nw_frag & flow::flow::frag::LATER == 0 {
            self.layer4();
        }
    }

    fn layer4(&mut self) {
        match (self.key.nw_proto, self.key.dl_type) {
            (6, _) => {
                self.ports("tcp");
                let (value, mask) = self.pair(|f| u32::from(f.tcp_flags & 0xfff));
                if value != 0 || self.mask.is_some_and(|m| m.tcp_flags != 0) {
                    let text = flags::format_masked(flags::tcp, value, mask, 0xfff);
                    self.part("tcp_flags", mask == 0, text);
                }
            }
            (17, _) => self.ports("udp"),
            (132, _) => self.ports("sctp"),
            (1, 0x0800) => self.icmp("icmp"),
            (58, 0x86dd) => {
                self.icmp("icmpv6");
                // As in Open vSwitch, the code need not be matched.
                let is_exact = self.mask.is_none_or(|m| m.tp_src & 0xff == 0xff);
                if is_exact && self.key.tp_dst == 0 && matches!(self.key.tp_src, 135 | 136) {
                    self.nd();
                    if self.key.igmp_group_ip4 != 0 || self.key.tcp_flags != 0 {
                        self.nd_ext();
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn ipv4(&mut self) {
        let (src, dst) = (self.pair(|f| f.nw_src), self.pair(|f| f.nw_dst));
        let (proto, tos) = (self.pair(|f| f.nw_proto), self.pair(|f| f.nw_tos));
        let (ttl, frag) = (self.pair(|f| f.nw_ttl), self.pair(|f| f.nw_frag));
        let mut fields = self.fields();
        fields.ipv4("src", src);
        fields.ipv4("dst", dst);
        fields.dec8("proto", proto);
        fields.hex8("tos", tos);
        fields.dec8("ttl", ttl);
        fields.frag(frag);
        let wild = src.1 | dst.1 == 0 && proto.1 | tos.1 | ttl.1 | frag.1 == 0;
        self.part("ipv4", wild, fields.finish());
    }

    pub(super) fn ipv6(&mut self) {
        let (src, dst) = (self.pair(|f| f.ipv6_src), self.pair(|f| f.ipv6_dst));
        let label = self.pair(|f| f.ipv6_label & 0xf_ffff);
        let (proto, tos) = (self.pair(|f| f.nw_proto), self.pair(|f| f.nw_tos));
        let (ttl, frag) = (self.pair(|f| f.nw_ttl), self.pair(|f| f.nw_frag));
        let mut fields = self.fields();
        fields.ipv6("src", src);
        fields.ipv6("dst", dst);
        fields.label("label", label);
        fields.dec8("proto", proto);
        fields.hex8("tclass", tos);
        fields.dec8("hlimit", ttl);
        fields.frag(frag);
        let wild =
            src.1 == [0; 16] && dst.1 == [0; 16] && label.1 == 0 && proto.1 | tos.1 | ttl.1 | frag.1 == 0;
        self.part("ipv6", wild, fields.finish());
    }

    pub(super) fn arp(&mut self) {
        let (sip, tip) = (self.pair(|f| f.nw_src), self.pair(|f| f.nw_dst));
        let (op, op_mask) = self.pair(|f| f.nw_proto);
        let op_mask = if op_mask == 0xff { 0xffff } else { u16::from(op_mask) };
        let (sha, tha) = (self.pair(|f| f.arp_sha), self.pair(|f| f.arp_tha));
        let mut fields = self.fields();
        fields.ipv4("sip", sip);
        fields.ipv4("tip", tip);
        fields.dec16("op", (op.into(), op_mask));
        fields.mac("sha", sha);
        fields.mac("tha", tha);
        let wild = sip.1 | tip.1 == 0 && op_mask == 0 && sha.1.to_u64() | tha.1.to_u64() == 0;
        self.part("arp", wild, fields.finish());
    }

    pub(super) fn mpls(&mut self) {
        let stack = &self.key.mpls_lse;
        let bottom = stack.iter().position(|lse| lse & 0x100 != 0);
        let count = bottom.map_or_else(|| stack.iter().filter(|&&lse| lse != 0).count(), |i| i + 1);
        if count > 0 {
            self.mpls_entries(count);
        }
    }

    /// Writes the first `count` entries of the label stack.
    pub(super) fn mpls_entries(&mut self, count: usize) {
        let pairs: Vec<_> = (0..count).map(|i| self.pair(|f| f.mpls_lse[i])).collect();
        let exact = pairs.iter().all(|p| p.1 == u32::MAX);
        let text: Vec<_> = pairs
            .iter()
            .map(|&(lse, m)| match exact {
                true => mpls_text(lse),
                false => format!(
                    "label={}/{:#x},tc={}/{:x},ttl={}/{:#x},bos={}/{:x}",
                    lse >> 12,
                    m >> 12,
                    lse >> 9 & 7,
                    m >> 9 & 7,
                    lse & 0xff,
                    m & 0xff,
                    lse >> 8 & 1,
                    m >> 8 & 1
                ),
            })
            .collect();
        self.part("mpls", pairs.iter().all(|p| p.1 == 0), text.join(","));
    }

    /// Writes the NSH even if the mask matches none of its fields, as Open vSwitch does.
    fn nsh(&mut self) {
        let mask = self.mask.map(|m| &m.nsh);
        self.part("nsh", false, nsh::key_fields(&self.key.nsh, mask));
    }

    pub(super) fn ports(&mut self, name: &str) {
        let (src, dst) = (self.pair(|f| f.tp_src), self.pair(|f| f.tp_dst));
        let mut fields = self.fields();
        fields.dec16("src", src);
        fields.dec16("dst", dst);
        self.part(name, src.1 | dst.1 == 0, fields.finish());
    }

    pub(super) fn icmp(&mut self, name: &str) {
        let (kind, code) = (self.pair(|f| f.tp_src as u8), self.pair(|f| f.tp_dst as u8));
        let mut fields = self.fields();
        fields.dec8("type", kind);
        fields.dec8("code", code);
        self.part(name, kind.1 | code.1 == 0, fields.finish());
    }

    pub(super) fn nd(&mut self) {
        let target = self.pair(|f| f.nd_target);
        let (sll, tll) = (self.pair(|f| f.arp_sha), self.pair(|f| f.arp_tha));
        let mut fields = self.fields();
        fields.ipv6("target", target);
        fields.mac("sll", sll);
        fields.mac("tll", tll);
        let wild = target.1 == [0; 16] && sll.1.to_u64() | tll.1.to_u64() == 0;
        self.part("nd", wild, fields.finish());
    }

    pub(super) fn nd_ext(&mut self) {
        let (reserved, option) = (self.pair(|f| f.igmp_group_ip4), self.pair(|f| f.tcp_flags as u8));
        let mut fields = self.fields();
        fields.push(format!("nd_reserved={:#x}", reserved.0));
        fields.dec8("nd_options_type", option);
        self.part("nd_ext", reserved.1 == 0 && option.1 == 0, fields.finish());
    }
}

/// VID and PCP of a tag, and `cfi=0` if the CFI bit is not set.
pub(super) fn vlan_text((tci, mask): Pair<u16>, verbose: bool) -> String {
    let mut parts = Vec::new();
    for (name, keep, shift) in [("vid", 0x0fff, 0), ("pcp", 0xe000, 13)] {
        let (value, m) = ((tci & keep) >> shift, (mask & keep) >> shift);
        if verbose || value != 0 || m != 0 {
            let partial = if m == keep >> shift { String::new() } else { format!("/{m:#x}") };
            parts.push(format!("{name}={value}{partial}"));
        }
    }
    if tci & VLAN_CFI == 0 {
        parts.push("cfi=0".to_owned());
    }
    parts.join(",")
}

/// The text of a label stack entry that is matched exactly.
pub(super) fn mpls_text(lse: u32) -> String {
    format!("label={},tc={},ttl={},bos={}", lse >> 12, lse >> 9 & 7, lse & 0xff, lse >> 8 & 1)
}
