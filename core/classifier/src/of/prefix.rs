//! The fields for which a table may have a prefix trie.

use super::sparse::SparseMask;
use flow::Flow;

/// Maximum number of fields that a table tracks.
pub const PREFIX_FIELDS_MAX: usize = 4;

/// A field with prefix tracking (`Flow_Table:prefixes`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum PrefixField {
    TunId,
    TunSrc,
    TunDst,
    TunIpv6Src,
    TunIpv6Dst,
    NwSrc,
    NwDst,
    Ipv6Src,
    Ipv6Dst,
}

const NAMES: [(&str, PrefixField); 11] = [
    ("tun_id", PrefixField::TunId),
    ("tun_src", PrefixField::TunSrc),
    ("tun_dst", PrefixField::TunDst),
    ("tun_ipv6_src", PrefixField::TunIpv6Src),
    ("tun_ipv6_dst", PrefixField::TunIpv6Dst),
    ("ip_src", PrefixField::NwSrc),
    ("ip_dst", PrefixField::NwDst),
    ("nw_src", PrefixField::NwSrc),
    ("nw_dst", PrefixField::NwDst),
    ("ipv6_src", PrefixField::Ipv6Src),
    ("ipv6_dst", PrefixField::Ipv6Dst),
];

impl PrefixField {
    /// The fields that a table tracks by default.
    pub const DEFAULT: [PrefixField; 4] =
        [PrefixField::NwDst, PrefixField::NwSrc, PrefixField::Ipv6Dst, PrefixField::Ipv6Src];

    /// The field with this name in the database; `None` if its prefixes cannot be tracked.
    pub fn from_name(name: &str) -> Option<PrefixField> {
        NAMES.iter().find(|(n, _)| *n == name).map(|(_, f)| *f)
    }

    /// The field's value, left-aligned in 128 bits.
    pub fn value(self, flow: &Flow) -> u128 {
        match self {
            PrefixField::TunId => u128::from(flow.tunnel.tun_id) << 64,
            PrefixField::TunSrc => u128::from(flow.tunnel.ip_src) << 96,
            PrefixField::TunDst => u128::from(flow.tunnel.ip_dst) << 96,
            PrefixField::TunIpv6Src => u128::from_be_bytes(flow.tunnel.ipv6_src),
            PrefixField::TunIpv6Dst => u128::from_be_bytes(flow.tunnel.ipv6_dst),
            PrefixField::NwSrc => u128::from(flow.nw_src) << 96,
            PrefixField::NwDst => u128::from(flow.nw_dst) << 96,
            PrefixField::Ipv6Src => u128::from_be_bytes(flow.ipv6_src),
            PrefixField::Ipv6Dst => u128::from_be_bytes(flow.ipv6_dst),
        }
    }

    /// Returns whether the packet has the field. An ARP packet, whose addresses are in the same fields of a flow as IPv4
    /// addresses, does not.
    pub fn applies(self, flow: &Flow) -> bool {
        match self {
            PrefixField::NwSrc | PrefixField::NwDst => flow.network_type() == 0x0800,
            PrefixField::Ipv6Src | PrefixField::Ipv6Dst => flow.network_type() == 0x86dd,
            _ => true,
        }
    }

    /// Adds the field's `bits` leading bits to a mask.
    pub fn set_prefix(self, mask: &mut Flow, bits: u32) {
        let p = if bits == 0 { 0 } else { u128::MAX << (128 - bits.min(self.width())) };
        let w = |old: [u8; 16]| (u128::from_be_bytes(old) | p).to_be_bytes();
        match self {
            PrefixField::TunId => mask.tunnel.tun_id |= (p >> 64) as u64,
            PrefixField::TunSrc => mask.tunnel.ip_src |= (p >> 96) as u32,
            PrefixField::TunDst => mask.tunnel.ip_dst |= (p >> 96) as u32,
            PrefixField::TunIpv6Src => mask.tunnel.ipv6_src = w(mask.tunnel.ipv6_src),
            PrefixField::TunIpv6Dst => mask.tunnel.ipv6_dst = w(mask.tunnel.ipv6_dst),
            PrefixField::NwSrc => mask.nw_src |= (p >> 96) as u32,
            PrefixField::NwDst => mask.nw_dst |= (p >> 96) as u32,
            PrefixField::Ipv6Src => mask.ipv6_src = w(mask.ipv6_src),
            PrefixField::Ipv6Dst => mask.ipv6_dst = w(mask.ipv6_dst),
        }
    }

    /// The mask with all bits of the field.
    pub fn mask(self) -> Flow {
        let mut m = Flow::ZERO;
        self.set_prefix(&mut m, self.width());
        m
    }

    /// The field's width in bits.
    pub fn width(self) -> u32 {
        match self {
            PrefixField::TunSrc | PrefixField::TunDst | PrefixField::NwSrc | PrefixField::NwDst => 32,
            PrefixField::TunId => 64,
            _ => 128,
        }
    }

    /// The length of the prefix of this field that a mask matches; 0 if the mask matches no bit of the field, or bits that are
    /// not a prefix.
    pub fn prefix_len(self, mask: &SparseMask) -> u32 {
        let bits = self.value(&mask.expand());
        let len = bits.leading_ones();
        if bits.count_ones() == len { len } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        let mut m = Flow::ZERO;
        PrefixField::NwDst.set_prefix(&mut m, 20);
        assert_eq!(m.nw_dst, 0xffff_f000);
        assert_eq!(PrefixField::NwDst.prefix_len(&SparseMask::new(&m)), 20);
        assert_eq!(PrefixField::NwSrc.prefix_len(&SparseMask::new(&m)), 0);
        m.nw_dst = 0xff00_00ff;
        assert_eq!(PrefixField::NwDst.prefix_len(&SparseMask::new(&m)), 0);
        assert_eq!(PrefixField::from_name("ip_dst"), Some(PrefixField::NwDst));
        assert_eq!(PrefixField::from_name("dl_src"), None);
    }
}
