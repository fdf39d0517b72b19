//! Removes from a match the fields that packets of the match cannot have.

use crate::flow::{Flow, Mac, frag};
use crate::matching::Match;

/// Returns whether packets of a match may have the value `of` in a field that is matched by `value` and `mask`.
pub(crate) fn may_equal(value: u8, mask: u8, of: u8) -> bool {
    value == of & mask
}

/// The groups of fields that packets of a match may have; the other fields must not be matched.
#[derive(Clone, Copy, Default)]
struct PossibleFields {
    ether: bool,
    nw_addr: bool,
    nw_proto: bool,
    ip: bool,
    ipv6: bool,
    ports: bool,
    tcp: bool,
    icmp: bool,
    sha: bool,
    tha: bool,
    nd_target: bool,
    mpls: bool,
    nsh: bool,
    nsh_context: bool,
    erspan_1: bool,
    erspan_2: bool,
}

impl PossibleFields {
    fn of(m: &Match) -> PossibleFields {
        let (f, packet_type) = (&m.flow, m.flow.packet_type);
        let ether = m.mask.packet_type == 0 || packet_type == 0 && m.mask.packet_type == u32::MAX;
        let dl_type = match (ether, m.mask.packet_type, packet_type >> 16) {
            (true, ..) => f.dl_type,
            (false, u32::MAX, 1) => packet_type as u16,
            _ => 0,
        };
        let version = |of| may_equal(f.tunnel.erspan_ver, m.mask.tunnel.erspan_ver, of);
        let (erspan_1, erspan_2) = (version(1), version(2));
        let nsh_context = may_equal(f.nsh.md_type, m.mask.nsh.md_type, packet::nsh::MD_TYPE_1);
        let possible = PossibleFields { ether, nsh_context, erspan_1, erspan_2, ..PossibleFields::default() };
        match dl_type {
            0x0800 => {
                let ports = matches!(f.nw_proto, 1 | 6 | 17 | 132);
                let (tcp, icmp) = (f.nw_proto == 6, f.nw_proto == 1);
                PossibleFields { nw_addr: true, nw_proto: true, ip: true, ports, tcp, icmp, ..possible }
            }
            0x86dd => {
                let nd = |kind| f.nw_proto == 58 && f.tp_src == kind && f.tp_dst == 0;
                let ports = matches!(f.nw_proto, 6 | 17 | 58 | 132);
                let (sha, tha) = (nd(135), nd(136));
                let (tcp, icmp, nd_target) = (f.nw_proto == 6, f.nw_proto == 58, sha || tha);
                PossibleFields {
                    nw_proto: true,
                    ip: true,
                    ipv6: true,
                    ports,
                    tcp,
                    icmp,
                    sha,
                    tha,
                    nd_target,
                    ..possible
                }
            }
            0x0806 | 0x8035 => {
                PossibleFields { nw_addr: true, nw_proto: true, sha: true, tha: true, ..possible }
            }
            0x8847 | 0x8848 => PossibleFields { mpls: true, ..possible },
            0x894f => PossibleFields { nsh: true, ..possible },
            _ => possible,
        }
    }

    fn clear(self, m: &mut Flow) {
        if !self.ether {
            (m.dl_src, m.dl_dst) = (Mac::default(), Mac::default());
        }
        if !self.nw_addr {
            (m.nw_src, m.nw_dst) = (0, 0);
        }
        if !self.ports {
            (m.tp_src, m.tp_dst) = (0, 0);
        }
        // In neighbour discovery `tcp_flags` contains the type of an option (see `Flow`).
        if !self.tcp && !self.nd_target {
            m.tcp_flags = 0;
        }
        if !self.nw_proto {
            m.nw_proto = 0;
        }
        if !self.ip {
            (m.nw_tos, m.nw_ttl, m.nw_frag) = (0, 0, 0);
        }
        if !self.sha {
            m.arp_sha = Mac::default();
        }
        if !self.tha {
            m.arp_tha = Mac::default();
        }
        if !self.ipv6 {
            (m.ipv6_src, m.ipv6_dst, m.ipv6_label) = ([0; 16], [0; 16], 0);
        }
        if !self.nd_target {
            m.nd_target = [0; 16];
            // In neighbour discovery this is the reserved word.
            m.igmp_group_ip4 = 0;
        }
        if !self.mpls {
            m.mpls_lse = Default::default();
        }
        if !self.nsh {
            m.nsh = Default::default();
        }
        if !self.nsh_context {
            m.nsh.context = Default::default();
        }
        if !self.erspan_1 {
            m.tunnel.erspan_idx = 0;
        }
        if !self.erspan_2 {
            (m.tunnel.erspan_dir, m.tunnel.erspan_hwid) = (0, 0);
        }
    }
}

impl Match {
    /// Removes the fields whose prerequisites the match does not ensure. Returns whether a field was removed.
    pub fn normalize(&mut self) -> bool {
        self.normalized().is_some()
    }

    /// Does the same as [`normalize`](Self::normalize), but returns the original match if a field was removed.
    pub fn normalized(&mut self) -> Option<Box<Match>> {
        let mut mask = self.mask;
        let possible = PossibleFields::of(self);
        possible.clear(&mut mask);
        let before = (mask != self.mask).then(|| Box::new(*self));
        if before.is_some() {
            *self = Match::new(&self.flow, &mask);
        }
        self.match_whole_bytes(possible);
        self.complete_fragment_mask();
        before
    }

    /// ICMP type, ICMP code and the ND option type have 8 bits, but are stored in 16-bit fields of a flow. If one of them is
    /// matched, all bits of its field are matched.
    fn match_whole_bytes(&mut self, possible: PossibleFields) {
        let (flow, mask) = (&mut self.flow, &mut self.mask);
        let fields = [
            (possible.icmp, &mut flow.tp_src, &mut mask.tp_src),
            (possible.icmp, &mut flow.tp_dst, &mut mask.tp_dst),
            (possible.nd_target, &mut flow.tcp_flags, &mut mask.tcp_flags),
        ];
        for (_, value, mask) in fields.into_iter().filter(|(is_byte, _, mask)| *is_byte && **mask != 0) {
            *value &= 0xff;
            *mask = u16::MAX;
        }
    }

    /// A later fragment is always a fragment. So "no fragment" determines the bit `LATER`, and "later fragment" determines the bit
    /// `ANY`: in these cases both bits are matched, as in the text form.
    fn complete_fragment_mask(&mut self) {
        let both = frag::ANY | frag::LATER;
        let (value, mask) = (self.flow.nw_frag, self.mask.nw_frag & both);
        if mask == frag::ANY && value & frag::ANY == 0 {
            self.mask.nw_frag |= frag::LATER;
        } else if mask == frag::LATER && value & frag::LATER != 0 {
            self.mask.nw_frag |= frag::ANY;
            self.flow.nw_frag |= frag::ANY;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{FieldId, Match};

    #[test]
    fn addresses_without_a_type_are_dropped() {
        let mut m = Match::CATCHALL;
        m.set(FieldId::Ipv4Src, 0x0a00_0001);
        m.set(FieldId::InPort, 1);
        assert!(m.normalize());
        assert_eq!(m.to_string(), "in_port=1");
        m.set(FieldId::IpFrag, 0);
        assert!(m.normalize());
        assert_eq!(m.to_string(), "in_port=1");
        m.set(FieldId::EthType, 0x0800);
        m.set(FieldId::Ipv4Src, 0x0a00_0001);
        assert!(!m.normalize());
    }
}
