//! `Flow`: all fields of a packet and its metadata in one flat structure.
//!
//! The control half (tables, translation, text) uses flows. The datapath parses packets to much smaller keys instead, and
//! converts a key to a flow only on a miss. Numbers are in host order; addresses are bytes in wire order. There is no
//! padding, and the size is a multiple of eight bytes, so that masks are applied word by word (`words`). The last part is
//! the layout of the tunnel options. It only tells which bytes of the options belong to which field, so it is not part of
//! the words: two flows are equal if their words are equal.
//!
//! **Invariant**: fields that a packet does not have are zero. A field such as `nw_src` has a meaning only if its
//! prerequisites are met (see `field`).

use crate::nsh::Nsh;
use crate::tlv::{Layout, Tlv};
use std::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// An Ethernet address.
#[repr(transparent)]
#[derive(
    Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// ff:ff:ff:ff:ff:ff
    pub const BROADCAST: Mac = Mac([0xff; 6]);

    /// Returns whether this is a multicast or broadcast address: the group bit is set.
    pub fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Returns whether the address is locally administered: the local bit is set, or the address is in the range of addresses
    /// that Open vSwitch generates (00:23:20:80:00:00 and above).
    pub fn is_local(self) -> bool {
        let [a, b, c, d, ..] = self.0;
        a & 2 != 0 || [a, b, c, d & 0x80] == [0x00, 0x23, 0x20, 0x80]
    }

    /// The address as the low 48 bits of a number.
    pub fn to_u64(self) -> u64 {
        self.0.iter().fold(0, |n, &b| n << 8 | u64::from(b))
    }

    /// The address from the low 48 bits of a number.
    pub fn from_u64(v: u64) -> Mac {
        let b = v.to_be_bytes();
        Mac([b[2], b[3], b[4], b[5], b[6], b[7]])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let m = self.0;
        write!(f, "{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", m[0], m[1], m[2], m[3], m[4], m[5])
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A VLAN tag: its TPID, and its TCI with `VLAN_CFI` set. All zero means that there is no tag.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Vlan {
    /// Ethertype of the tag: 0x8100 or 0x88a8.
    pub tpid: u16,
    /// PCP (3 bits), CFI (always set, see [`VLAN_CFI`]), VID (12 bits).
    pub tci: u16,
}

/// The CFI bit of [`Vlan::tci`]: in a flow it means that the VLAN tag is present.
pub const VLAN_CFI: u16 = 0x1000;

/// Number of VLAN tags that a flow holds.
pub const VLANS_MAX: usize = 2;
/// Number of MPLS label stack entries that a flow holds.
pub const MPLS_MAX: usize = 3;
/// Number of registers: `reg0` to `reg31`.
pub const REGS: usize = 32;

/// Bits of [`Flow::nw_frag`].
pub mod frag {
    /// A first or later fragment.
    pub const ANY: u8 = 1;
    /// A later fragment, which has no L4 header.
    pub const LATER: u8 = 2;
}

/// Bits of [`Flow::ct_state`] (Open vSwitch `CS_*`).
pub mod ct_state {
    #![allow(missing_docs)]
    pub const NEW: u8 = 0x01;
    pub const ESTABLISHED: u8 = 0x02;
    pub const RELATED: u8 = 0x04;
    pub const REPLY_DIR: u8 = 0x08;
    pub const INVALID: u8 = 0x10;
    pub const TRACKED: u8 = 0x20;
    pub const SRC_NAT: u8 = 0x40;
    pub const DST_NAT: u8 = 0x80;
}

/// The outer header of a packet that was received from a tunnel, or that will be sent to one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Tunnel {
    /// Tunnel key, for example the VNI.
    pub tun_id: u64,
    /// Outer IPv6 source; zero over IPv4.
    pub ipv6_src: [u8; 16],
    /// Outer IPv6 destination.
    pub ipv6_dst: [u8; 16],
    /// Outer IPv4 source; zero over IPv6.
    pub ip_src: u32,
    /// Outer IPv4 destination.
    pub ip_dst: u32,
    /// `FLOW_TNL_F_*`: oam 1, df 2, csum 4, key 8 (internal).
    pub flags: u16,
    /// Outer TOS.
    pub ip_tos: u8,
    /// Outer TTL.
    pub ip_ttl: u8,
    /// Outer UDP source port.
    pub tp_src: u16,
    /// Outer UDP destination port.
    pub tp_dst: u16,
    /// VXLAN group policy id.
    pub gbp_id: u16,
    /// VXLAN group policy flags.
    pub gbp_flags: u8,
    /// ERSPAN version.
    pub erspan_ver: u8,
    /// ERSPAN index.
    pub erspan_idx: u32,
    /// ERSPAN direction.
    pub erspan_dir: u8,
    /// ERSPAN hardware id.
    pub erspan_hwid: u8,
    /// GTP-U flags.
    pub gtpu_flags: u8,
    /// GTP-U message type.
    pub gtpu_msgtype: u8,
    /// Keeps the size a multiple of eight; always zero.
    pub pad: u32,
}

/// All fields of a packet and its metadata.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Flow {
    /// Outer header of the tunnel packet.
    pub tunnel: Tunnel,
    /// OpenFlow metadata.
    pub metadata: u64,
    /// Registers of the OpenFlow pipeline (Nicira extension).
    pub regs: [u32; REGS],
    /// QoS queue priority (`set_queue`).
    pub skb_priority: u32,
    /// Packet mark.
    pub pkt_mark: u32,
    /// Hash computed by the datapath's `hash` action.
    pub dp_hash: u32,
    /// Ingress port: an OpenFlow number (16 bits) in the control half, a datapath number in `dpif`.
    pub in_port: u32,
    /// Recirculation id; 0 is the first pass.
    pub recirc_id: u32,
    /// Id of the conjunction that matched.
    pub conj_id: u32,
    /// Connection tracking mark.
    pub ct_mark: u32,
    /// Connection tracking zone.
    pub ct_zone: u16,
    /// Connection tracking state, see [`ct_state`].
    pub ct_state: u8,
    /// Original direction tuple: IP protocol.
    pub ct_nw_proto: u8,
    /// Connection tracking label, most significant half first.
    pub ct_label: [u64; 2],
    /// Packet type: which header the packet begins with (`ns << 16 | ns_type`); 0 is Ethernet.
    pub packet_type: u32,
    /// The output port of the action set.
    pub actset_output: u16,
    /// Ethernet type, after VLAN tags; 0x05ff for 802.2 frames without SNAP.
    pub dl_type: u16,
    /// Ethernet destination.
    pub dl_dst: Mac,
    /// Ethernet source.
    pub dl_src: Mac,
    /// VLAN tags, the outer first.
    pub vlans: [Vlan; VLANS_MAX],
    /// MPLS label stack entries, the outer first.
    pub mpls_lse: [u32; MPLS_MAX],
    /// IPv4 source; ARP SPA.
    pub nw_src: u32,
    /// IPv4 destination; ARP TPA.
    pub nw_dst: u32,
    /// Original direction tuple: IPv4 source.
    pub ct_nw_src: u32,
    /// Original direction tuple: IPv4 destination.
    pub ct_nw_dst: u32,
    /// IPv6 flow label.
    pub ipv6_label: u32,
    /// IPv6 source.
    pub ipv6_src: [u8; 16],
    /// IPv6 destination.
    pub ipv6_dst: [u8; 16],
    /// Original direction tuple: IPv6 source.
    pub ct_ipv6_src: [u8; 16],
    /// Original direction tuple: IPv6 destination.
    pub ct_ipv6_dst: [u8; 16],
    /// Neighbour discovery target.
    pub nd_target: [u8; 16],
    /// Network service header.
    pub nsh: Nsh,
    /// Fragment bits, see [`frag`].
    pub nw_frag: u8,
    /// IP TOS: DSCP and ECN.
    pub nw_tos: u8,
    /// IP TTL or hop limit.
    pub nw_ttl: u8,
    /// IP protocol; ARP opcode, or 0 if the opcode exceeds 8 bits.
    pub nw_proto: u8,
    /// ND reserved word, or the IGMP group.
    pub igmp_group_ip4: u32,
    /// ARP SHA; ND source link-layer address.
    pub arp_sha: Mac,
    /// ARP THA; ND target link-layer address.
    pub arp_tha: Mac,
    /// TCP flags (12 bits); ND options type.
    pub tcp_flags: u16,
    /// TCP, UDP, SCTP source port; ICMP type.
    pub tp_src: u16,
    /// TCP, UDP, SCTP destination port; ICMP code.
    pub tp_dst: u16,
    /// Original direction tuple: source port; ICMP type.
    pub ct_tp_src: u16,
    /// Original direction tuple: destination port; ICMP code.
    pub ct_tp_dst: u16,
    /// Keeps the size a multiple of eight; always zero.
    pub pad: [u8; 6],
    /// Options of the tunnel header. Few packets have options, so these are the last words: hot loops stop before them
    /// ([`PLAIN_WORDS`]).
    pub tlv: Tlv,
    /// Which bytes of `tlv` belong to which field; not part of the words.
    pub layout: Layout,
}

/// Number of words of a [`Flow`], without the layout.
pub const FLOW_WORDS: usize = std::mem::offset_of!(Flow, layout) / 8;
/// Number of words of a [`Flow`] before its tunnel options.
pub const PLAIN_WORDS: usize = std::mem::offset_of!(Flow, tlv) / 8;
const _: () = assert!(std::mem::offset_of!(Flow, tlv).is_multiple_of(8));

/// The memory of a flow as words.
#[repr(C)]
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
struct Words {
    words: [u64; FLOW_WORDS],
    layout: Layout,
}

impl PartialEq for Flow {
    fn eq(&self, other: &Flow) -> bool {
        self.words() == other.words()
    }
}

impl Eq for Flow {}

impl Default for Flow {
    fn default() -> Flow {
        Flow::ZERO
    }
}

impl Flow {
    /// All fields are zero; as a mask: no bit is matched.
    pub const ZERO: Flow = zerocopy::transmute!(Words { words: [0; FLOW_WORDS], layout: Layout::EMPTY });
    /// All bits are set; as a mask: every bit is matched.
    pub const ONES: Flow =
        zerocopy::transmute!(Words { words: [u64::MAX; FLOW_WORDS], layout: Layout::EMPTY });

    /// The flow as words, for masks and hashes.
    pub fn words(&self) -> &[u64; FLOW_WORDS] {
        let view: &Words = zerocopy::transmute_ref!(self);
        &view.words
    }

    /// The flow as words, mutable.
    pub fn words_mut(&mut self) -> &mut [u64; FLOW_WORDS] {
        let view: &mut Words = zerocopy::transmute_mut!(self);
        &mut view.words
    }

    /// Clears all connection tracking fields.
    pub fn clear_conntrack(&mut self) {
        self.copy_conntrack(&Flow::ZERO);
    }

    /// Copies the connection tracking fields of another packet.
    pub fn copy_conntrack(&mut self, of: &Flow) {
        (self.ct_state, self.ct_zone, self.ct_mark, self.ct_label) =
            (of.ct_state, of.ct_zone, of.ct_mark, of.ct_label);
        (self.ct_nw_proto, self.ct_tp_src, self.ct_tp_dst) = (of.ct_nw_proto, of.ct_tp_src, of.ct_tp_dst);
        (self.ct_nw_src, self.ct_nw_dst) = (of.ct_nw_src, of.ct_nw_dst);
        (self.ct_ipv6_src, self.ct_ipv6_dst) = (of.ct_ipv6_src, of.ct_ipv6_dst);
    }

    /// The bits that are set in `mask`; the other bits are zero.
    #[must_use]
    pub fn masked(&self, mask: &Flow) -> Flow {
        let mut out = *self;
        for (o, m) in out.words_mut().iter_mut().zip(mask.words()) {
            *o &= m;
        }
        out
    }

    /// Adds the bits of another mask.
    pub fn or_assign(&mut self, other: &Flow) {
        for (o, m) in self.words_mut().iter_mut().zip(other.words()) {
            *o |= m;
        }
    }

    /// Returns whether `self` and `other` are equal in every bit of `mask`.
    pub fn equal_under(&self, other: &Flow, mask: &Flow) -> bool {
        self.words().iter().zip(other.words()).zip(mask.words()).all(|((a, b), m)| (a ^ b) & m == 0)
    }

    /// The ethertype of the network header. A packet without an Ethernet header has it in its packet type. 0: no network header.
    pub fn network_type(&self) -> u16 {
        match (self.packet_type, self.packet_type >> 16) {
            (0, _) => self.dl_type,
            (kind, 1) => kind as u16,
            _ => 0,
        }
    }

    /// Returns whether the Ethernet type is IPv4 or IPv6.
    pub fn is_ip(&self) -> bool {
        self.dl_type == 0x0800 || self.dl_type == 0x86dd
    }

    /// VID of the outer VLAN tag; `None` without a tag.
    pub fn vlan_vid(&self) -> Option<u16> {
        let tci = self.vlans[0].tci;
        (tci & VLAN_CFI != 0).then_some(tci & 0xfff)
    }
}

impl fmt::Debug for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.words().as_bytes();
        f.write_str("Flow {")?;
        for (i, chunk) in bytes.chunks(8).enumerate().filter(|(_, c)| c.iter().any(|&b| b != 0)) {
            write!(f, " {i}:{chunk:02x?}")?;
        }
        f.write_str(" }")
    }
}
