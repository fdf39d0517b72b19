//! The header that the packets of a megaflow are expected to have, byte by byte, while the operations of a program
//! change it.

use flow::flow::frag;
use flow::{Flow, Mac, VLAN_CFI};
use packet::ether::ethertype;

/// Length in bytes of the transport header that rewrites may use: a TCP header without options.
const TRANSPORT: usize = 20;

/// Maximum length of the header in bytes, including pushed headers.
pub(super) const HEADER: usize = 128;

/// Length in bytes of the two Ethernet addresses, with which a packet begins.
pub(super) const ADDRESSES: usize = 12;

/// One byte of the header. Some of its bits have not changed since the beginning of the present rewrite, the others
/// were written.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Byte {
    /// Index of the byte in the packet before the rewrite; `None`: the byte was pushed.
    pub(super) from: Option<u8>,
    /// The unchanged bits.
    pub(super) keep: u8,
    /// The values of the written bits.
    pub(super) value: u8,
    /// The bits that are certain: they are the same in all packets of the megaflow. Bits of addresses and ports are
    /// excluded, so that megaflows with the same actions have equal rewrites, which are shared.
    pub(super) certain: u8,
    /// The expected values of all bits, certain or not.
    pub(super) bits: u8,
}

/// The transport header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transport {
    pub(super) proto: u8,
    pub(super) at: usize,
}

/// The expected header.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    pub(super) bytes: Vec<Byte>,
    /// Number of VLAN tags.
    pub(super) tags: usize,
    /// Ethernet type after the tags; `None`: unknown.
    pub(super) dl_type: Option<u16>,
    /// Offset of the IP header.
    pub(super) ip: Option<usize>,
    /// The transport header; `None` if the packets have none or its offset is unknown.
    pub(super) transport: Option<Transport>,
}

impl Expected {
    /// Returns the header of packets that have this flow's fields where the mask is set, and the layout that such
    /// packets most likely have. `None` for packets without Ethernet.
    pub(crate) fn of(flow: &Flow, mask: &Flow) -> Option<Expected> {
        if flow.packet_type != 0 {
            return None;
        }
        let mut e =
            Expected { bytes: Vec::with_capacity(HEADER), tags: 0, dl_type: None, ip: None, transport: None };
        let mac = |e: &mut Expected, value: Mac, mask: Mac| e.add(&value.0, &mask.0);
        mac(&mut e, flow.dl_dst, mask.dl_dst);
        mac(&mut e, flow.dl_src, mask.dl_src);
        for tag in flow.vlans.iter().take_while(|tag| tag.tci & VLAN_CFI != 0) {
            e.add(&tag.tpid.to_be_bytes(), &[0; 2]);
            e.add(&tag.tci.to_be_bytes(), &[0; 2]);
            e.tags += 1;
        }
        if flow.dl_type >= ethertype::MIN && !ethertype::is_vlan(flow.dl_type) {
            e.dl_type = Some(flow.dl_type);
            e.add(&flow.dl_type.to_be_bytes(), &mask.dl_type.to_be_bytes());
            match flow.dl_type {
                ethertype::IPV4 => e.ipv4(flow, mask),
                ethertype::IPV6 => e.ipv6(flow, mask),
                _ => {}
            }
        }
        let end = e.l3() + 40 + TRANSPORT;
        e.bytes.resize(end, Byte::default());
        e.begin();
        Some(e)
    }

    fn add(&mut self, bits: &[u8], certain: &[u8]) {
        let bytes =
            bits.iter().zip(certain).map(|(&bits, &certain)| Byte { bits, certain, ..Byte::default() });
        self.bytes.extend(bytes);
    }

    fn ipv4(&mut self, flow: &Flow, mask: &Flow) {
        let at = self.bytes.len();
        self.ip = Some(at);
        self.add(&[0x45, flow.nw_tos, 0, 0, 0, 0, 0, 0], &[0, mask.nw_tos, 0, 0, 0, 0, 0, 0]);
        self.add(&[flow.nw_ttl, flow.nw_proto, 0, 0], &[mask.nw_ttl, mask.nw_proto, 0, 0]);
        self.add(&flow.nw_src.to_be_bytes(), &[0; 4]);
        self.add(&flow.nw_dst.to_be_bytes(), &[0; 4]);
        self.ports(flow);
    }

    fn ipv6(&mut self, flow: &Flow, mask: &Flow) {
        let first = |f: &Flow| u32::from(f.nw_tos) << 20 | f.ipv6_label & 0xf_ffff;
        self.ip = Some(self.bytes.len());
        self.add(&first(flow).to_be_bytes(), &first(mask).to_be_bytes());
        self.add(&[0, 0, flow.nw_proto, flow.nw_ttl], &[0, 0, mask.nw_proto, mask.nw_ttl]);
        self.add(&flow.ipv6_src, &[0; 16]);
        self.add(&flow.ipv6_dst, &[0; 16]);
        self.ports(flow);
    }

    fn ports(&mut self, flow: &Flow) {
        if flow.nw_frag & frag::LATER == 0 {
            self.transport = Some(Transport { proto: flow.nw_proto, at: self.bytes.len() });
            self.add(&flow.tp_src.to_be_bytes(), &[0; 2]);
            self.add(&flow.tp_dst.to_be_bytes(), &[0; 2]);
        }
    }

    /// Offset of the header that follows Ethernet and its tags.
    pub(super) fn l3(&self) -> usize {
        ADDRESSES + 4 * self.tags + 2
    }

    /// Begins a rewrite: the present bytes become the bytes of the packet before the rewrite.
    pub(super) fn begin(&mut self) {
        for (i, byte) in self.bytes.iter_mut().enumerate() {
            (byte.from, byte.keep, byte.value) = (Some(i as u8), 0xff, 0);
        }
    }

    /// NAT changes addresses and ports, so values that were written before are no longer certain.
    pub(super) fn apply_nat(&mut self) {
        let addresses = match self.dl_type {
            Some(ethertype::IPV4) => 12..20,
            Some(ethertype::IPV6) => 8..40,
            _ => return,
        };
        let addresses = self.ip.map(|ip| ip + addresses.start..ip + addresses.end);
        let ports = self.transport.map(|transport| transport.at..transport.at + 4);
        for range in [addresses, ports].into_iter().flatten() {
            self.bytes.get_mut(range).into_iter().flatten().for_each(|byte| byte.certain = 0);
        }
    }

    /// Writes bits from offset `at` on.
    pub(super) fn write(&mut self, at: usize, value: &[u8], mask: &[u8]) {
        for (byte, (&value, &mask)) in self.bytes[at..].iter_mut().zip(value.iter().zip(mask)) {
            byte.keep &= !mask;
            byte.value = byte.value & !mask | value & mask;
            byte.bits = byte.bits & !mask | value & mask;
            byte.certain |= mask;
        }
    }

    /// Inserts four bytes. Returns `None` if the header would become longer than [`HEADER`].
    pub(super) fn insert(&mut self, at: usize, value: [u8; 4]) -> Option<()> {
        if self.bytes.len() + 4 > HEADER {
            return None;
        }
        let pushed = value.map(|value| Byte { from: None, keep: 0, value, certain: 0xff, bits: value });
        self.bytes.splice(at..at, pushed);
        self.shift(at, |x| x + 4);
        Some(())
    }

    /// Removes four bytes.
    pub(super) fn remove(&mut self, at: usize) {
        self.bytes.drain(at..at + 4);
        self.shift(at, |x| x - 4);
    }

    fn shift(&mut self, at: usize, by: impl Fn(usize) -> usize) {
        if let Some(ip) = self.ip.as_mut().filter(|ip| **ip >= at) {
            *ip = by(*ip);
        }
        if let Some(transport) = self.transport.as_mut().filter(|t| t.at >= at) {
            transport.at = by(transport.at);
        }
    }
}
