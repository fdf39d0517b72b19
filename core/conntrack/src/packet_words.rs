//! Packets on the fast path: TCP and UDP over IPv4 without options, or over IPv6 without extension headers.
//!
//! The fields of such a packet are read as words in the layout of a [`Record`](crate::record::Record), so that they are compared with
//! a record word by word. [`Written`] is what the datapath writes into a packet after tracking.

use crate::checks::Checks;
use crate::key::{End, Key, Tuple};
use crate::nat::{Translation, Transport};
use crate::packet_fields::{Content, Packet, PacketFields};
use crate::record::{IS_IPV6, Pair, Side};
use crate::table::Handle;
use crate::tcp::Segment;
use cpu::Chain;
use packet::checksum::Words;
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
    pub(crate) ipv6_addresses: Pair,
    /// Source and destination port, 32 bits each.
    pub(crate) ports: u64,
    pub(crate) content: Content,
}

/// Edits of a packet after tracking.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Written {
    /// Nothing.
    #[default]
    Nothing,
    /// New addresses and ports of a TCP or UDP packet over IPv4 without options.
    Ends(Ends),
    /// The edits of any other packet: [`Conntrack::translation`](crate::Conntrack::translation) computes them.
    Translation(Translated),
}

/// A packet that must be translated: its connection, the translated side, and its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translated {
    pub(crate) handle: Handle,
    pub(crate) side: Side,
    pub(crate) reply: bool,
    pub(crate) related: bool,
}

/// Addresses and ports of an IPv4 packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Source and destination address, 32 bits each.
    pub addresses: u64,
    /// Source and destination port, 16 bits each.
    pub ports: u32,
}

impl From<Option<Translated>> for Written {
    fn from(translated: Option<Translated>) -> Written {
        translated.map_or(Written::Nothing, Written::Translation)
    }
}

impl Ends {
    /// The ends of packets whose replies have these addresses and ports, in the layout of a record.
    #[inline(always)]
    pub(crate) fn of_replies(reply_addresses: u64, reply_ports: u64) -> Ends {
        let ports = reply_ports.rotate_left(32);
        let ports = ((ports >> 32) as u32) << 16 | ports as u32 & 0xffff;
        Ends { addresses: reply_addresses.rotate_left(32), ports }
    }
}

impl From<Ends> for Translation {
    fn from(ends: Ends) -> Translation {
        let address = |shift: u32| Some([0, ends.addresses >> shift & 0xffff_ffff]);
        let transport = Transport::Ports((ends.ports >> 16) as u16, ends.ports as u16);
        Translation { v6: false, src: address(32), dst: address(0), transport, quoted: None }
    }
}

/// Bytes of an IPv4 header without options.
const IPV4: usize = 20;
/// Bytes of an IPv6 header.
const IPV6: usize = 40;
/// First bytes of a transport header: the ports; of UDP also length and checksum.
const ENDS: usize = 8;

impl PacketWords {
    /// Reads an IPv4 packet, and counts the checksums that it verifies. `None`, and nothing counted: the fast path does not handle it; read
    /// it with [`packet_fields::read`](crate::packet_fields::read).
    #[inline(always)]
    pub(crate) fn read_ipv4(&mut self, packet: &Packet<'_>, zone: u16, checks: &mut Checks) -> Option<()> {
        let (head, rest) = packet.l3.split_first_chunk::<IPV4>()?;
        // Version and length of the header, service, total length, identification, fragment.
        let (front, proto) = (u64::from_be_bytes(*head.first_chunk()?), head[9]);
        // No options, and no fragment.
        if front & 0xff00_0000_0000_3fff != 0x45 << 56 {
            return None;
        }
        let data = without_padding(rest, usize::from((front >> 32) as u16).wrapping_sub(IPV4))?;
        let [ip_sum, sum] = packet.sums;
        if !ip_sum.is_right(|| Words::default().with(head).are_intact()) {
            return None;
        }
        let (_, addresses) = head.split_last_chunk::<8>()?;
        self.meta_bits = meta_bits(proto, zone);
        self.addresses = u64::from_be_bytes(*addresses);
        self.read_transport(data, (sum, false), checks, || Words::default().with(addresses))?;
        checks.ip += u64::from(ip_sum == RxChecksum::Nothing);
        Some(())
    }

    /// Reads an IPv6 packet, like [`read_ipv4`](Self::read_ipv4).
    #[inline(always)]
    pub(crate) fn read_ipv6(&mut self, packet: &Packet<'_>, zone: u16, checks: &mut Checks) -> Option<()> {
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
        self.read_transport(data, (packet.sums[1], true), checks, || Words::default().with(addresses))
    }

    /// Reads the transport header and verifies the checksum, of which `sum` is known. `needs_sum`: every packet must have one. `addresses`:
    /// returns the checksum of the addresses.
    #[inline(always)]
    fn read_transport(
        &mut self,
        data: &[u8],
        (sum, needs_sum): (RxChecksum, bool),
        checks: &mut Checks,
        addresses: impl FnOnce() -> Words,
    ) -> Option<()> {
        let (ends, _) = data.split_first_chunk::<ENDS>()?;
        let proto = (self.meta_bits >> 8) as u8;
        let has_sum = match proto {
            ipproto::UDP => {
                let [.., l0, l1, s0, s1] = *ends;
                if !(Udp::LEN..=data.len()).contains(&u16::from_be_bytes([l0, l1]).into()) {
                    return None;
                }
                self.content = Content::Other;
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
            !has_sum || addresses().with_pair(u32::from(proto) + data.len() as u32).with(data).are_intact()
        };
        if !sum.is_right(verify) {
            return None;
        }
        let ports = u32::from_be_bytes(*ends.first_chunk()?);
        self.ports = u64::from(ports >> 16) << 32 | u64::from(ports & 0xffff);
        if ports >> 16 == 0 || ports & 0xffff == 0 {
            return None;
        }
        checks.transport += u64::from(has_sum && sum == RxChecksum::Nothing);
        Some(())
    }

    /// IPv4 addresses, and ports.
    #[inline(always)]
    pub(crate) fn words(&self) -> (u64, u64) {
        (self.addresses, self.ports)
    }

    /// Returns whether the packet, over IPv4, has these addresses and ports.
    #[inline(always)]
    pub(crate) fn has_ends(&self, ends: &Ends) -> bool {
        let ports = (self.ports >> 16) as u32 | self.ports as u32 & 0xffff;
        (self.addresses, ports) == (ends.addresses, ends.ports)
    }

    #[inline(always)]
    pub(crate) fn hash_ipv4(&self, chain: &Chain) -> u64 {
        Key::hash_ipv4(self.meta_bits, self.addresses, self.ports, chain)
    }

    #[inline(always)]
    pub(crate) fn hash_ipv6(&self, chain: &Chain) -> u64 {
        Key::hash_ipv6(self.meta_bits, self.ipv6_addresses, self.ports, chain)
    }

    /// Takes a UDP packet from its tuple, which an earlier `ct` has read.
    pub(crate) fn read_tuple(&mut self, tuple: &Tuple, zone: u16) {
        self.meta_bits = meta_bits(tuple.proto, zone) | if tuple.v6 { IS_IPV6 } else { 0 };
        self.addresses = tuple.src[1] << 32 | tuple.dst[1] & 0xffff_ffff;
        self.ipv6_addresses = [tuple.src, tuple.dst];
        self.ports = u64::from(tuple.tp_src) << 32 | u64::from(tuple.tp_dst);
        self.content = Content::Other;
    }

    /// Converts the packet to the form of the general path.
    #[inline]
    pub(crate) fn fields(&self) -> PacketFields {
        let v6 = self.meta_bits & IS_IPV6 != 0;
        let [src, dst] = match v6 {
            false => [32, 0].map(|shift| [0, self.addresses >> shift & 0xffff_ffff]),
            true => self.ipv6_addresses,
        };
        let end = |address, shift: u32| End { address, port: (self.ports >> shift) as u32 };
        let (zone, proto) = ((self.meta_bits >> 16) as u16, (self.meta_bits >> 8) as u8);
        let key = Key { zone, v6, proto, src: end(src, 32), dst: end(dst, 0) };
        PacketFields { key, related: false, content: self.content }
    }
}

#[inline(always)]
fn meta_bits(proto: u8, zone: u16) -> u64 {
    u64::from(proto) << 8 | u64::from(zone) << 16
}

/// The first `len` bytes of a payload. `None`: it is shorter, or more than 64 KiB of padding follow.
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

    /// A packet from its network header on: of either family, of a protocol, with a byte changed, and with padding or cut.
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
        /// The fast path reads a packet as the general path does, with the same hash. It reads every intact TCP and UDP packet.
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
            let stated = [RxChecksum::Nothing, RxChecksum::Wrong, RxChecksum::Open, RxChecksum::Right(3)];
            let packet = Packet { ethertype, l3: &l3, sums: sums.map(|n| stated[usize::from(n)]) };
            let (mut words, mut checks, mut counted) = (PacketWords::default(), Checks::default(), Checks::default());
            let read = if v6 { words.read_ipv6(&packet, zone, &mut checks) } else { words.read_ipv4(&packet, zone, &mut checks) };
            let general = packet_fields::read(&packet, zone, &mut counted);
            prop_assert_eq!(checks, if read.is_some() { counted } else { Checks::default() });
            if read.is_some() {
                prop_assert_eq!(Some(words.fields()), general);
                let chain = Chain::new(7);
                let hash = if v6 { words.hash_ipv6(&chain) } else { words.hash_ipv4(&chain) };
                prop_assert_eq!(hash, words.fields().key.hash(&chain));
            } else if change.is_none() && rest >= 0 && matches!(proto, 6 | 17) && !packet.sums.contains(&RxChecksum::Wrong) {
                prop_assert!(false, "{:?} was not read", l3);
            }
        }
    }
}
