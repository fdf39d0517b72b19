//! Matches from outside name fields that no packet they match can have; those fields are dropped.

use crate::flow::{Flow, Mac};
use crate::matching::Match;

/// The groups of fields that a match may look at.
#[derive(Clone, Copy, Default)]
struct May {
    ether: bool,
    nw_addr: bool,
    nw_proto: bool,
    ip: bool,
    ipv6: bool,
    ports: bool,
    tcp: bool,
    sha: bool,
    tha: bool,
    nd_target: bool,
    mpls: bool,
    nsh: bool,
}

impl May {
    fn of(m: &Match) -> May {
        let (f, packet_type) = (&m.flow, m.flow.packet_type);
        let ether = m.mask.packet_type == 0 || packet_type == 0 && m.mask.packet_type == u32::MAX;
        let dl_type = match (ether, m.mask.packet_type, packet_type >> 16) {
            (true, ..) => f.dl_type,
            (false, u32::MAX, 1) => packet_type as u16,
            _ => 0,
        };
        let may = May { ether, ..May::default() };
        match dl_type {
            0x0800 => {
                let ports = matches!(f.nw_proto, 1 | 6 | 17 | 132);
                May { nw_addr: true, nw_proto: true, ip: true, ports, tcp: f.nw_proto == 6, ..may }
            }
            0x86dd => {
                let nd = |kind| f.nw_proto == 58 && f.tp_src == kind;
                let ports = matches!(f.nw_proto, 6 | 17 | 58 | 132);
                let (sha, tha) = (nd(135), nd(136));
                let (tcp, nd_target) = (f.nw_proto == 6, sha || tha);
                May { nw_proto: true, ip: true, ipv6: true, ports, tcp, sha, tha, nd_target, ..may }
            }
            0x0806 | 0x8035 => May { nw_addr: true, nw_proto: true, sha: true, tha: true, ..may },
            0x8847 | 0x8848 => May { mpls: true, ..may },
            0x894f => May { nsh: true, ..may },
            _ => may,
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
        // In neighbour discovery the flags stand for the type of an option (see `Flow`).
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
            // The reserved word, which has the place of an IGMP group.
            m.igmp_group_ip4 = 0;
        }
        if !self.mpls {
            m.mpls_lse = Default::default();
        }
        if !self.nsh {
            m.nsh = Default::default();
        }
    }
}

impl Match {
    /// Drops fields whose prerequisites the match does not ensure. True if something was dropped.
    pub fn normalize(&mut self) -> bool {
        let mut mask = self.mask;
        May::of(self).clear(&mut mask);
        let changed = mask != self.mask;
        *self = Match::new(&self.flow, &mask);
        changed
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
