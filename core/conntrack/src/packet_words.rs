//! Packets on the fast path: TCP and UDP over IPv4 without options, or over IPv6 without extension headers.
//!
//! The fields of such a packet are read as words in the layout of a [`Record`](crate::record::Record), so that they are compared with a
//! record word by word. [`PacketEdit`] is what the datapath changes in a packet after tracking.

use crate::checks::ChecksumCounts;
use crate::key::{Endpoint, Key, Tuple};
use crate::nat::{Translation, Transport};
use crate::packet_fields::{Content, Packet, PacketFields};
use crate::record::{IS_IPV6, Ipv6AddressPair, Side};
use crate::table::Handle;
use crate::tcp::Segment;
use cpu::KeyedHash64;
use packet::checksum::WordSum;
use packet::rx_checksums::RxChecksum;
use packet::{Tcp, Udp, ipproto};

/// The fields of a packet, in the layout of a record.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct PacketWords {
    /// Zone, protocol and address family, at their bits in the record's first word.
    pub(crate) meta_bits: u64,
    /// Source and destination address of an IPv4 packet.
    pub(crate) addresses: u64,
    /// Source and destination address of an IPv6 packet.
    pub(crate) ipv6_addresses: Ipv6AddressPair,
    /// Source and destination port, 32 bits each.
    pub(crate) ports: u64,
    pub(crate) content: Content,
}

/// What the datapath must change in a packet after tracking.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum PacketEdit {
    /// Nothing.
    #[default]
    Nothing,
    /// New addresses and ports of a TCP or UDP packet over IPv4 without options.
    Endpoints(Endpoints4),
    /// Edits of any other packet; [`Conntrack::translation`](crate::Conntrack::translation) computes them.
    Translation(PendingTranslation),
}

/// Identifies the translation of a packet: its connection, the translated side, and the packet's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingTranslation {
    pub(crate) handle: Handle,
    /// The side that is translated in the original direction.
    pub(crate) side: Side,
    /// The packet is a reply.
    pub(crate) reply: bool,
    /// The packet is an ICMP error about a packet of the connection.
    pub(crate) related: bool,
}

/// Addresses and ports of an IPv4 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoints4 {
    /// Source and destination address, 32 bits each.
    pub addresses: u64,
    /// Source and destination port, 16 bits each.
    pub ports: u32,
}

impl From<Option<PendingTranslation>> for PacketEdit {
    fn from(translated: Option<PendingTranslation>) -> PacketEdit {
        translated.map_or(PacketEdit::Nothing, PacketEdit::Translation)
    }
}

impl Endpoints4 {
    /// The endpoints of packets whose replies have these addresses and ports, in the layout of a record.
    #[inline(always)]
    pub(crate) fn of_replies(reply_addresses: u64, reply_ports: u64) -> Endpoints4 {
        let ports = reply_ports.rotate_left(32);
        let ports = ((ports >> 32) as u32) << 16 | ports as u32 & 0xffff;
        Endpoints4 { addresses: reply_addresses.rotate_left(32), ports }
    }
}

impl From<Endpoints4> for Translation {
    fn from(ends: Endpoints4) -> Translation {
        let address = |shift: u32| Some([0, ends.addresses >> shift & 0xffff_ffff]);
        let transport = Transport::Ports((ends.ports >> 16) as u16, ends.ports as u16);
        Translation { v6: false, src: address(32), dst: address(0), transport, quoted: None }
    }
}

/// Length of an IPv4 header without options, in bytes.
const IPV4: usize = 20;
/// Length of an IPv6 header, in bytes.
const IPV6: usize = 40;
/// Bytes that are read of a transport header: the ports; for UDP also length and checksum.
const ENDS: usize = 8;

impl PacketWords {
    /// Reads an IPv4 packet, and counts the checksums that it verifies. `None`: the fast path does not handle the packet, and nothing was
    /// counted; use [`packet_fields::read`](crate::packet_fields::read).
    #[inline(always)]
    pub(crate) fn read_ipv4(
        &mut self,
        packet: &Packet<'_>,
        zone: u16,
        checks: &mut ChecksumCounts,
    ) -> Option<()> {
        let (head, rest) = packet.l3.split_first_chunk::<IPV4>()?;
        // The first eight bytes: version, header length, TOS, total length, identification, flags and fragment offset.
        let (front, proto) = (u64::from_be_bytes(*head.first_chunk()?), head[9]);
        // Version 4, header length 20 bytes (no options), no fragment.
        if front & 0xff00_0000_0000_3fff != 0x45 << 56 {
            return None;
        }
        let data = without_padding(rest, usize::from((front >> 32) as u16).wrapping_sub(IPV4))?;
        let [ip_sum, sum] = packet.sums;
        if !ip_sum.is_right(|| WordSum::default().with(head).is_checksum_right()) {
            return None;
        }
        let (_, addresses) = head.split_last_chunk::<8>()?;
        self.meta_bits = meta_bits(proto, zone);
        self.addresses = u64::from_be_bytes(*addresses);
        self.read_transport(data, (sum, false), checks, || WordSum::default().with(addresses))?;
        checks.ip += u64::from(ip_sum == RxChecksum::Unknown);
        Some(())
    }

    /// Reads an IPv6 packet, like [`read_ipv4`](Self::read_ipv4).
    #[inline(always)]
    pub(crate) fn read_ipv6(
        &mut self,
        packet: &Packet<'_>,
        zone: u16,
        checks: &mut ChecksumCounts,
    ) -> Option<()> {
        let (head, rest) = packet.l3.split_first_chunk::<IPV6>()?;
        let &[kind, _, _, _, l0, l1, proto, ..] = head;
        let data = without_padding(rest, u16::from_be_bytes([l0, l1]).into())?;
        if kind >> 4 != 6 {
            return None;
        }
        let (_, addresses) = head.split_last_chunk::<32>()?;
        let (words, _) = addresses.as_chunks::<8>();
        let word = |i: usize| u64::from_be_bytes(words[i]);
        self.meta_bits = meta_bits(proto, zone) | IS_IPV6;
        self.ipv6_addresses = [[word(0), word(1)], [word(2), word(3)]];
        self.read_transport(data, (packet.sums[1], true), checks, || WordSum::default().with(addresses))
    }

    /// Reads the transport header and verifies its checksum. `sum`: what is known of the checksum. `needs_sum`: a UDP packet must have a
    /// checksum (IPv6). `addresses`: returns the checksum of the addresses in the pseudo header.
    #[inline(always)]
    fn read_transport(
        &mut self,
        data: &[u8],
        (sum, needs_sum): (RxChecksum, bool),
        checks: &mut ChecksumCounts,
        addresses: impl FnOnce() -> WordSum,
    ) -> Option<()> {
        let (ends, _) = data.split_first_chunk::<ENDS>()?;
        let proto = (self.meta_bits >> 8) as u8;
        let has_sum = match proto {
            ipproto::UDP => {
                let [.., l0, l1, s0, s1] = *ends;
                if !(Udp::LEN..=data.len()).contains(&u16::from_be_bytes([l0, l1]).into()) {
                    return None;
                }
                self.content = Content::UdpOrOther;
                needs_sum || s0 | s1 != 0
            }
            ipproto::TCP => {
                let (tcp, payload) = Tcp::parse_checked(data)?;
                self.content = Content::Tcp(Segment::of_data(&tcp, payload.len() as u32)?);
                true
            }
            _ => return None,
        };
        // The pseudo header: addresses, protocol, length.
        let verify = || {
            !has_sum
                || addresses().with_pair(u32::from(proto) + data.len() as u32).with(data).is_checksum_right()
        };
        if !sum.is_right(verify) {
            return None;
        }
        let ports = u32::from_be_bytes(*ends.first_chunk()?);
        self.ports = u64::from(ports >> 16) << 32 | u64::from(ports & 0xffff);
        if ports >> 16 == 0 || ports & 0xffff == 0 {
            return None;
        }
        checks.transport += u64::from(has_sum && sum == RxChecksum::Unknown);
        Some(())
    }

    /// The IPv4 addresses and the ports.
    #[inline(always)]
    pub(crate) fn addresses_and_ports(&self) -> (u64, u64) {
        (self.addresses, self.ports)
    }

    /// Returns whether an IPv4 packet has these addresses and ports.
    #[inline(always)]
    pub(crate) fn has_endpoints(&self, ends: &Endpoints4) -> bool {
        let ports = (self.ports >> 16) as u32 | self.ports as u32 & 0xffff;
        (self.addresses, ports) == (ends.addresses, ends.ports)
    }

    #[inline(always)]
    pub(crate) fn hash_ipv4(&self, key_hash: &KeyedHash64) -> u64 {
        Key::hash_ipv4(self.meta_bits, self.addresses, self.ports, key_hash)
    }

    #[inline(always)]
    pub(crate) fn hash_ipv6(&self, key_hash: &KeyedHash64) -> u64 {
        Key::hash_ipv6(self.meta_bits, self.ipv6_addresses, self.ports, key_hash)
    }

    /// Fills the fields of a UDP packet from its tuple, which an earlier `ct` has read.
    pub(crate) fn read_tuple(&mut self, tuple: &Tuple, zone: u16) {
        self.meta_bits = meta_bits(tuple.proto, zone) | if tuple.v6 { IS_IPV6 } else { 0 };
        self.addresses = tuple.src[1] << 32 | tuple.dst[1] & 0xffff_ffff;
        self.ipv6_addresses = [tuple.src, tuple.dst];
        self.ports = u64::from(tuple.tp_src) << 32 | u64::from(tuple.tp_dst);
        self.content = Content::UdpOrOther;
    }

    /// Converts the fields to the form that the general path uses.
    #[inline]
    pub(crate) fn fields(&self) -> PacketFields {
        let v6 = self.meta_bits & IS_IPV6 != 0;
        let [src, dst] = match v6 {
            false => [32, 0].map(|shift| [0, self.addresses >> shift & 0xffff_ffff]),
            true => self.ipv6_addresses,
        };
        let end = |address, shift: u32| Endpoint { address, port: (self.ports >> shift) as u32 };
        let (zone, proto) = ((self.meta_bits >> 16) as u16, (self.meta_bits >> 8) as u8);
        let key = Key { zone, v6, proto, src: end(src, 32), dst: end(dst, 0) };
        PacketFields { key, related: false, content: self.content }
    }
}

#[inline(always)]
fn meta_bits(proto: u8, zone: u16) -> u64 {
    u64::from(proto) << 8 | u64::from(zone) << 16
}

/// The first `len` bytes of a payload. `None`: the payload is shorter, or more than 64 KiB of padding follow.
#[inline(always)]
fn without_padding(rest: &[u8], len: usize) -> Option<&[u8]> {
    let data = rest.get(..len)?;
    if rest.len() - len > usize::from(u16::MAX) {
        return None;
    }
    Some(data)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::packet_fields;
    use flow::Flow;
    use flow::compose::compose;
    use packet::ether::ethertype;
    use proptest::prelude::*;

    /// Bytes of an Ethernet header.
    const ETHERNET: usize = 14;

    /// A packet from its network header on: IPv4 or IPv6, with `proto` and `len` bytes of payload. `change`: offset and new value of one
    /// byte; `rest`: bytes of padding that are added, or, if negative, bytes that are cut off.
    fn packet(v6: bool, proto: u8, len: usize, change: Option<(usize, u8)>, rest: isize) -> (u16, Vec<u8>) {
        let flow = Flow {
            dl_type: if v6 { ethertype::IPV6 } else { ethertype::IPV4 },
            nw_proto: proto,
            nw_ttl: 64,
            nw_src: 0x0a00_0001,
            nw_dst: 0x1400_0001,
            ipv6_src: [0x20; 16],
            ipv6_dst: std::array::from_fn(|i| i as u8),
            tp_src: 1024,
            tp_dst: 53,
            tcp_flags: 0x10,
            ..Flow::ZERO
        };
        let mut l3 = compose(&flow, &vec![0xa5; len]).split_off(ETHERNET);
        if let Some((at, value)) = change {
            let at = at % l3.len();
            l3[at] = value;
        }
        let len = l3.len().saturating_add_signed(rest);
        l3.resize(len, 0);
        (flow.dl_type, l3)
    }

    proptest! {
        /// Fast path and general path read a packet alike, with the same hash. The fast path reads every intact TCP and UDP packet.
        #[test]
        fn fast_path_reads_as_the_general_path(
            v6: bool,
            proto in prop::sample::select(vec![6, 17, 17, 1, 58, 132, 44, 0]),
            len in 0..40usize,
            change in prop::option::of((0..100usize, any::<u8>())),
            rest in -30..30isize,
            sums in [0..4u8, 0..4u8],
            zone: u16,
        ) {
            let (ethertype, l3) = packet(v6, proto, len, change, rest);
            let stated = [RxChecksum::Unknown, RxChecksum::Wrong, RxChecksum::Unfinished, RxChecksum::Right(3)];
            let packet = Packet { ethertype, l3: &l3, sums: sums.map(|n| stated[usize::from(n)]) };
            let (mut words, mut checks, mut counted) = (PacketWords::default(), ChecksumCounts::default(), ChecksumCounts::default());
            let read = if v6 { words.read_ipv6(&packet, zone, &mut checks) } else { words.read_ipv4(&packet, zone, &mut checks) };
            let general = packet_fields::read(&packet, zone, &mut counted);
            prop_assert_eq!(checks, if read.is_some() { counted } else { ChecksumCounts::default() });
            if read.is_some() {
                prop_assert_eq!(Some(words.fields()), general);
                let key_hash = KeyedHash64::new(7);
                let hash = if v6 { words.hash_ipv6(&key_hash) } else { words.hash_ipv4(&key_hash) };
                prop_assert_eq!(hash, words.fields().key.hash(&key_hash));
            } else if change.is_none() && rest >= 0 && matches!(proto, 6 | 17) && !packet.sums.contains(&RxChecksum::Wrong) {
                prop_assert!(false, "{:?} was not read", l3);
            }
        }
    }
}
