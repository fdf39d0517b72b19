//! Prints a match as text.

use super::{NameMap, NoNames, address, field_out, flags, hex, port_text, tlv};
use crate::field::low_bits;
use crate::flow::{Flow, Mac, VLAN_CFI, frag};
use crate::matching::Match;
use crate::normalize::may_equal;
use std::fmt;
use units::OfPort;

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(&NoNames))
    }
}

impl Match {
    /// The text of the matched fields, separated by commas. It contains no priority.
    pub fn text(&self, names: &dyn NameMap) -> String {
        Writer { f: &self.flow, m: &self.mask, names, parts: Vec::new() }.write()
    }
}

struct Writer<'a> {
    f: &'a Flow,
    m: &'a Flow,
    names: &'a dyn NameMap,
    parts: Vec<String>,
}

/// The fields that the short name of a protocol implies, so that they are not printed again.
#[derive(Clone, Copy, Default)]
struct Implied {
    dl_type: bool,
    nw_proto: bool,
}

fn is_arp(dl_type: u16) -> bool {
    matches!(dl_type, 0x0806 | 0x8035)
}

impl Writer<'_> {
    fn push_field(&mut self, name: &str, value: impl fmt::Display) {
        self.parts.push(format!("{name}={value}"));
    }

    /// Prints a hexadecimal value, with the mask unless it has all of `bits` bits.
    fn hex(&mut self, name: &str, value: u128, mask: u128, bits: u32) {
        match mask {
            0 => {}
            m if m == low_bits(bits) => self.push_field(name, hex(value)),
            m => self.push_field(name, format_args!("{}/{}", hex(value), hex(m))),
        }
    }

    /// Prints a decimal value if the mask is full, otherwise value and mask in hexadecimal.
    fn dec16(&mut self, name: &str, value: u16, mask: u16) {
        match mask {
            0 => {}
            u16::MAX => self.push_field(name, value),
            m => self.push_field(name, format_args!("{value:#x}/{m:#x}")),
        }
    }

    fn dec8(&mut self, name: &str, value: u8, mask: u8) {
        match mask {
            0 => {}
            u8::MAX => self.push_field(name, value),
            m => self.push_field(name, format_args!("{value:#04x}/{m:#04x}")),
        }
    }

    /// Prints a hexadecimal value; zero as `0x0`.
    fn hex32(&mut self, name: &str, value: u32, mask: u32) {
        match mask {
            0 => {}
            u32::MAX => self.push_field(name, format_args!("{value:#x}")),
            m => self.push_field(name, format_args!("{value:#x}/{m:#x}")),
        }
    }

    fn dec32(&mut self, name: &str, value: u32, mask: u32) {
        match mask {
            0 => {}
            u32::MAX => self.push_field(name, value),
            m => self.push_field(name, format_args!("{value:#010x}/{m:#010x}")),
        }
    }

    fn mac(&mut self, name: &str, value: Mac, mask: Mac) {
        if mask != Mac::default() {
            self.push_field(name, address::mac(value, mask));
        }
    }

    fn ipv4(&mut self, name: &str, value: u32, mask: u32) {
        if mask != 0 {
            self.push_field(name, address::ipv4(value, mask));
        }
    }

    fn ipv6(&mut self, name: &str, value: [u8; 16], mask: [u8; 16]) {
        if mask != [0; 16] {
            self.push_field(name, address::ipv6(u128::from_be_bytes(value), u128::from_be_bytes(mask)));
        }
    }

    fn write(mut self) -> String {
        let (f, m) = (self.f, self.m);
        self.pipeline();
        self.connection();
        let mut dl_type = f.dl_type;
        let default_type = f.packet_type == 0 && m.packet_type == u32::MAX;
        if m.packet_type != 0 && (!default_type || m.recirc_id != 0) {
            self.parts.push(field_out::packet_type(f.packet_type, m.packet_type));
            if f.packet_type >> 16 == 1 {
                dl_type = f.packet_type as u16;
            }
        }
        let implied = self.protocol(dl_type);
        for (i, (&value, &mask)) in
            f.regs.iter().zip(&m.regs).enumerate().filter(|(_, (_, mask))| **mask != 0)
        {
            self.hex(&format!("reg{i}"), value.into(), mask.into(), 32);
        }
        self.tunnel();
        self.hex("metadata", f.metadata.into(), m.metadata.into(), 64);
        if m.in_port != 0 {
            let text = port_text(OfPort(f.in_port as u16), self.names);
            self.push_field("in_port", text);
        }
        self.vlans();
        self.mac("dl_src", f.dl_src, m.dl_src);
        self.mac("dl_dst", f.dl_dst, m.dl_dst);
        if !implied.dl_type && m.dl_type != 0 {
            self.push_field("dl_type", format_args!("{dl_type:#06x}"));
        }
        self.network(dl_type, implied);
        self.mpls();
        self.fragment();
        self.transport(dl_type);
        self.parts.join(",")
    }

    /// Prints metadata fields that are not part of the packet.
    fn pipeline(&mut self) {
        let (f, m) = (self.f, self.m);
        self.hex("pkt_mark", f.pkt_mark.into(), m.pkt_mark.into(), 32);
        self.hex("recirc_id", f.recirc_id.into(), m.recirc_id.into(), 32);
        self.hex("dp_hash", f.dp_hash.into(), m.dp_hash.into(), 32);
        if m.conj_id != 0 {
            self.push_field("conj_id", f.conj_id);
        }
        if m.skb_priority != 0 {
            self.push_field("skb_priority", hex(f.skb_priority.into()));
        }
        if m.actset_output != 0 {
            let text = port_text(OfPort(f.actset_output), self.names);
            self.push_field("actset_output", text);
        }
    }

    fn connection(&mut self) {
        let (f, m) = (self.f, self.m);
        if m.ct_state != 0 {
            let (state, mask) = (f.ct_state.into(), m.ct_state.into());
            self.push_field("ct_state", flags::format_masked(flags::ct_state, state, mask, 0xff));
        }
        self.dec16("ct_zone", f.ct_zone, m.ct_zone);
        self.hex("ct_mark", f.ct_mark.into(), m.ct_mark.into(), 32);
        let wide = |l: [u64; 2]| u128::from(l[0]) << 64 | u128::from(l[1]);
        self.hex("ct_label", wide(f.ct_label), wide(m.ct_label), 128);
        self.ipv4("ct_nw_src", f.ct_nw_src, m.ct_nw_src);
        self.ipv6("ct_ipv6_src", f.ct_ipv6_src, m.ct_ipv6_src);
        self.ipv4("ct_nw_dst", f.ct_nw_dst, m.ct_nw_dst);
        self.ipv6("ct_ipv6_dst", f.ct_ipv6_dst, m.ct_ipv6_dst);
        if m.ct_nw_proto != 0 {
            self.push_field("ct_nw_proto", f.ct_nw_proto);
        }
        self.dec16("ct_tp_src", f.ct_tp_src, m.ct_tp_src);
        self.dec16("ct_tp_dst", f.ct_tp_dst, m.ct_tp_dst);
    }

    /// Prints the short name of the protocol, and returns the fields that the name implies.
    fn protocol(&mut self, dl_type: u16) -> Implied {
        if self.m.dl_type == 0 {
            return Implied::default();
        }
        let proto = (self.m.nw_proto != 0).then_some(self.f.nw_proto);
        let (name, nw_proto) = match (dl_type, proto) {
            (0x0800, Some(1)) => ("icmp", true),
            (0x0800, Some(6)) => ("tcp", true),
            (0x0800, Some(17)) => ("udp", true),
            (0x0800, Some(132)) => ("sctp", true),
            (0x0800, _) => ("ip", false),
            (0x86dd, Some(58)) => ("icmp6", true),
            (0x86dd, Some(6)) => ("tcp6", true),
            (0x86dd, Some(17)) => ("udp6", true),
            (0x86dd, Some(132)) => ("sctp6", true),
            (0x86dd, _) => ("ipv6", false),
            (0x0806, _) => ("arp", false),
            (0x8035, _) => ("rarp", false),
            (0x8847, _) => ("mpls", false),
            (0x8848, _) => ("mplsm", false),
            _ => return Implied::default(),
        };
        self.parts.push(name.to_owned());
        Implied { dl_type: true, nw_proto }
    }

    fn tunnel(&mut self) {
        let (f, m) = (&self.f.tunnel, &self.m.tunnel);
        self.hex("tun_id", f.tun_id.into(), m.tun_id.into(), 64);
        self.ipv4("tun_src", f.ip_src, m.ip_src);
        self.ipv4("tun_dst", f.ip_dst, m.ip_dst);
        self.ipv6("tun_ipv6_src", f.ipv6_src, m.ipv6_src);
        self.ipv6("tun_ipv6_dst", f.ipv6_dst, m.ipv6_dst);
        self.dec16("tun_gbp_id", f.gbp_id, m.gbp_id);
        self.hex("tun_gbp_flags", f.gbp_flags.into(), m.gbp_flags.into(), 8);
        if m.ip_tos != 0 {
            self.push_field("tun_tos", format_args!("{:x}", f.ip_tos));
        }
        if m.ip_ttl != 0 {
            self.push_field("tun_ttl", f.ip_ttl);
        }
        self.dec8("tun_erspan_ver", f.erspan_ver, m.erspan_ver);
        if may_equal(f.erspan_ver, m.erspan_ver, 1) {
            self.hex("tun_erspan_idx", f.erspan_idx.into(), m.erspan_idx.into(), 32);
        }
        if may_equal(f.erspan_ver, m.erspan_ver, 2) {
            self.dec8("tun_erspan_dir", f.erspan_dir, m.erspan_dir);
            self.hex("tun_erspan_hwid", f.erspan_hwid.into(), m.erspan_hwid.into(), 8);
        }
        // As in Open vSwitch, the GTP-U fields are printed without their masks.
        if m.gtpu_flags != 0 {
            self.push_field("gtpu_flags", hex(f.gtpu_flags.into()));
        }
        if m.gtpu_msgtype != 0 {
            self.push_field("gtpu_msgtype", f.gtpu_msgtype);
        }
        if m.flags & 0xf != 0 {
            let (value, mask) = (u32::from(f.flags & 0xf), u32::from(m.flags & 0xf));
            self.push_field("tun_flags", flags::format_masked(flags::tunnel, value, mask, 0xf));
        }
        let options = Match { flow: *self.f, mask: *self.m };
        self.parts.extend(options.tlvs().map(|t| tlv::match_text(&t)));
    }

    fn vlans(&mut self) {
        let tags = self.f.vlans.iter().zip(&self.m.vlans).take_while(|(_, m)| m.tci != 0);
        for (i, (tag, mask)) in tags.enumerate() {
            let n = if i == 0 { String::new() } else { i.to_string() };
            let (vid, pcp) = (mask.tci & 0xfff, mask.tci & 0xe000);
            let whole_parts = matches!(vid, 0 | 0xfff) && matches!(pcp, 0 | 0xe000) && (vid | pcp) != 0;
            if mask.tci & VLAN_CFI != 0 && tag.tci & VLAN_CFI != 0 && whole_parts {
                if vid != 0 {
                    self.push_field(&format!("dl_vlan{n}"), tag.tci & 0xfff);
                }
                if pcp != 0 {
                    self.push_field(&format!("dl_vlan_pcp{n}"), tag.tci >> 13);
                }
            } else if mask.tci == 0xffff {
                self.push_field(&format!("vlan_tci{n}"), format_args!("{:#06x}", tag.tci));
            } else {
                self.push_field(&format!("vlan_tci{n}"), format_args!("{:#06x}/{:#06x}", tag.tci, mask.tci));
            }
        }
    }

    fn network(&mut self, dl_type: u16, implied: Implied) {
        let (f, m) = (self.f, self.m);
        if dl_type == 0x86dd {
            self.ipv6("ipv6_src", f.ipv6_src, m.ipv6_src);
            self.ipv6("ipv6_dst", f.ipv6_dst, m.ipv6_dst);
            match m.ipv6_label {
                0 => {}
                u32::MAX => self.push_field("ipv6_label", format_args!("{:#07x}", f.ipv6_label)),
                mask => self.push_field("ipv6_label", format_args!("{:#07x}/{mask:#07x}", f.ipv6_label)),
            }
        } else if dl_type == 0x894f {
            self.nsh();
        } else {
            let (src, dst) = if is_arp(dl_type) { ("arp_spa", "arp_tpa") } else { ("nw_src", "nw_dst") };
            self.ipv4(src, f.nw_src, m.nw_src);
            self.ipv4(dst, f.nw_dst, m.nw_dst);
        }
        if !implied.nw_proto && m.nw_proto != 0 {
            self.push_field(if is_arp(dl_type) { "arp_op" } else { "nw_proto" }, f.nw_proto);
        }
        if is_arp(dl_type) {
            self.mac("arp_sha", f.arp_sha, m.arp_sha);
            self.mac("arp_tha", f.arp_tha, m.arp_tha);
        }
        if m.nw_tos & 0xfc != 0 {
            self.push_field("nw_tos", f.nw_tos & 0xfc);
        }
        if m.nw_tos & 3 != 0 {
            self.push_field("nw_ecn", f.nw_tos & 3);
        }
        if m.nw_ttl != 0 {
            self.push_field("nw_ttl", f.nw_ttl);
        }
    }

    fn nsh(&mut self) {
        let (f, m) = (&self.f.nsh, &self.m.nsh);
        self.dec8("nsh_flags", f.flags, m.flags);
        self.dec8("nsh_ttl", f.ttl, m.ttl);
        self.dec8("nsh_mdtype", f.md_type, m.md_type);
        self.dec8("nsh_np", f.np, m.np);
        let spi_mask = if m.spi() == low_bits(24) as u32 { u32::MAX } else { m.spi() };
        self.hex32("nsh_spi", f.spi(), spi_mask);
        self.dec8("nsh_si", f.si(), m.si());
        if may_equal(f.md_type, m.md_type, packet::nsh::MD_TYPE_1) {
            for (i, (&value, &mask)) in f.context.iter().zip(&m.context).enumerate() {
                self.hex32(&format!("nsh_c{}", i + 1), value, mask);
            }
        }
    }

    fn mpls(&mut self) {
        let (lse, mask) = (self.f.mpls_lse, self.m.mpls_lse);
        for (name, keep, shift) in [
            ("mpls_label", 0xffff_f000, 12),
            ("mpls_tc", 0xe00, 9),
            ("mpls_ttl", 0xff, 0),
            ("mpls_bos", 0x100, 8),
        ] {
            if mask[0] & keep != 0 {
                self.push_field(name, (lse[0] & keep) >> shift);
            }
        }
        self.dec32("mpls_lse1", lse[1], mask[1]);
        self.dec32("mpls_lse2", lse[2], mask[2]);
    }

    fn fragment(&mut self) {
        let (any, later) = (self.f.nw_frag & frag::ANY != 0, self.f.nw_frag & frag::LATER != 0);
        let name = match self.m.nw_frag & 3 {
            3 => match (any, later) {
                (false, false) => "no",
                (true, false) => "first",
                (true, true) => "later",
                (false, true) => "<error>",
            },
            frag::ANY => ["no", "yes"][usize::from(any)],
            frag::LATER => ["not_later", "later"][usize::from(later)],
            _ => return,
        };
        self.push_field("nw_frag", name);
    }

    fn transport(&mut self, dl_type: u16) {
        let (f, m) = (self.f, self.m);
        let icmp6 = dl_type == 0x86dd && f.nw_proto == 58;
        let icmp = icmp6 || dl_type == 0x0800 && f.nw_proto == 1;
        let (src, dst) = if icmp { ("icmp_type", "icmp_code") } else { ("tp_src", "tp_dst") };
        self.dec16(src, f.tp_src, m.tp_src);
        self.dec16(dst, f.tp_dst, m.tp_dst);
        if icmp6 {
            self.ipv6("nd_target", f.nd_target, m.nd_target);
            self.mac("nd_sll", f.arp_sha, m.arp_sha);
            self.mac("nd_tll", f.arp_tha, m.arp_tha);
            self.dec32("nd_reserved", f.igmp_group_ip4, m.igmp_group_ip4);
            self.dec16("nd_options_type", f.tcp_flags, m.tcp_flags);
        }
        if f.is_ip() && f.nw_proto == 6 && m.tcp_flags != 0 {
            let (value, mask) = (u32::from(f.tcp_flags), u32::from(m.tcp_flags & 0xfff));
            self.push_field("tcp_flags", flags::format_masked(flags::tcp, value, mask, 0xfff));
        }
    }
}
