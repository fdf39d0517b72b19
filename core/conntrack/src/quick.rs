//! What is read of and written into packets that go the quick way: TCP and UDP over IPv4 without options, or over IPv6 without
//! extension headers.
//!
//! What is read of such a packet are the words that a record has, so its connection is found by comparing them.

use crate::key::{End, Key};
use crate::nat::{Translation, Transport};
use crate::record::{IS_SIX, Pair, Side};
use crate::subject::{Content, Packet, Subject};
use crate::table::Handle;
use crate::tcp::Segment;
use cpu::Chain;
use packet::checksum::Words;
use packet::{Tcp, Udp, ipproto};

/// What a packet says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quick {
    /// Zone, protocol and address family, as the first word of a record has them.
    pub(crate) what: u64,
    /// Source and destination of IPv4.
    pub(crate) addresses: u64,
    /// Of IPv6.
    pub(crate) six: Pair,
    pub(crate) ports: u64,
    pub(crate) content: Content,
    /// Its checksums are finished.
    pub(crate) finished: bool,
}

/// What is written into a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Written {
    /// Nothing.
    #[default]
    Nothing,
    /// Into TCP or UDP, over IPv4 without options, whose checksums are finished.
    Ends(Ends),
    /// Into any packet: what [`Conntrack::translation`](crate::Conntrack::translation) says.
    Translation(Translated),
}

/// A packet that is to be translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translated {
    pub(crate) handle: Handle,
    pub(crate) side: Side,
    pub(crate) reply: bool,
    pub(crate) related: bool,
}

/// Both ends of a packet of IPv4 that has ports.
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
/// Bytes of a transport header that say whose packet it is, and of UDP also length and checksum.
const ENDS: usize = 8;

impl Quick {
    /// Reads a packet of IPv4. `None`: it is to be read in the general way.
    #[inline(always)]
    pub(crate) fn fill_four(&mut self, packet: &Packet<'_>, zone: u16) -> Option<()> {
        let (head, rest) = packet.l3.split_first_chunk::<IPV4>()?;
        // Version and length of the header, service, total length, identification, fragment.
        let (front, proto) = (u64::from_be_bytes(*head.first_chunk()?), head[9]);
        // No options, and no fragment.
        if front & 0xff00_0000_0000_3fff != 0x45 << 56 {
            return None;
        }
        let data = without_padding(rest, usize::from((front >> 32) as u16).wrapping_sub(IPV4))?;
        if packet.verify && !Words::default().with(head).are_intact() {
            return None;
        }
        let (_, addresses) = head.split_last_chunk::<8>()?;
        self.what = what(proto, zone);
        self.addresses = u64::from_be_bytes(*addresses);
        self.fill_rest(data, packet.verify, false, || Words::default().with(addresses))
    }

    /// Reads a packet of IPv6, like [`fill_four`](Self::fill_four).
    #[inline(always)]
    pub(crate) fn fill_six(&mut self, packet: &Packet<'_>, zone: u16) -> Option<()> {
        let (head, rest) = packet.l3.split_first_chunk::<IPV6>()?;
        let &[kind, _, _, _, l0, l1, proto, ..] = head;
        let data = without_padding(rest, u16::from_be_bytes([l0, l1]).into())?;
        if kind >> 4 != 6 {
            return None;
        }
        let (_, addresses) = head.split_last_chunk::<32>()?;
        let (words, _) = addresses.as_chunks::<8>();
        let word = |i: usize| u64::from_be_bytes(words[i]);
        self.what = what(proto, zone) | IS_SIX;
        self.six = [[word(0), word(1)], [word(2), word(3)]];
        self.fill_rest(data, packet.verify, true, || Words::default().with(addresses))
    }

    /// Reads a transport header and its payload. `addresses`: the sum of those.
    #[inline(always)]
    fn fill_rest(
        &mut self,
        data: &[u8],
        verify: bool,
        needs_sum: bool,
        addresses: impl FnOnce() -> Words,
    ) -> Option<()> {
        let (ends, _) = data.split_first_chunk::<ENDS>()?;
        let proto = (self.what >> 8) as u8;
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
        if verify
            && has_sum
            && !addresses().with_pair(u32::from(proto) + data.len() as u32).with(data).are_intact()
        {
            return None;
        }
        let ports = u32::from_be_bytes(*ends.first_chunk()?);
        self.ports = u64::from(ports >> 16) << 32 | u64::from(ports & 0xffff);
        self.finished = verify;
        (ports >> 16 != 0 && ports & 0xffff != 0).then_some(())
    }

    /// Addresses of IPv4, and ports.
    #[inline(always)]
    pub(crate) fn words(&self) -> (u64, u64) {
        (self.addresses, self.ports)
    }

    #[inline(always)]
    pub(crate) fn hash_four(&self, chain: &Chain) -> u64 {
        Key::hash_four(self.what, self.addresses, self.ports, chain)
    }

    #[inline(always)]
    pub(crate) fn hash_six(&self, chain: &Chain) -> u64 {
        Key::hash_six(self.what, self.six, self.ports, chain)
    }

    /// As the general way needs it.
    #[cold]
    pub(crate) fn subject(&self) -> Subject {
        let v6 = self.what & IS_SIX != 0;
        let [src, dst] = match v6 {
            false => [32, 0].map(|shift| [0, self.addresses >> shift & 0xffff_ffff]),
            true => self.six,
        };
        let end = |address, shift: u32| End { address, port: (self.ports >> shift) as u32 };
        let (zone, proto) = ((self.what >> 16) as u16, (self.what >> 8) as u8);
        let key = Key { zone, v6, proto, src: end(src, 32), dst: end(dst, 0) };
        Subject { key, related: false, content: self.content }
    }
}

#[inline(always)]
fn what(proto: u8, zone: u16) -> u64 {
    u64::from(proto) << 8 | u64::from(zone) << 16
}

/// The first `len` bytes of a payload. `None`: they are not there, or too much follows.
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
    use crate::subject;
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
        /// Whatever is read the quick way is what the general way reads, and has the same hash; packets that are whole and
        /// of a usual protocol are read.
        #[test]
        fn a_packet_says_the_same_in_both_ways(
            v6: bool,
            proto in prop::sample::select(vec![6, 17, 17, 1, 58, 132, 44, 0]),
            len in 0..40usize,
            change in prop::option::of((0..100usize, any::<u8>())),
            rest in -30..30isize,
            verify: bool,
            zone: u16,
        ) {
            let (ethertype, l3) = packet(v6, proto, len, change, rest);
            let packet = Packet { ethertype, l3: &l3, verify };
            let mut quick = Quick::default();
            let read = if v6 { quick.fill_six(&packet, zone) } else { quick.fill_four(&packet, zone) };
            let general = subject::read(ethertype, &l3, zone, verify);
            if read.is_some() {
                prop_assert_eq!(Some(quick.subject()), general);
                let chain = Chain::new(7);
                let hash = if v6 { quick.hash_six(&chain) } else { quick.hash_four(&chain) };
                prop_assert_eq!(hash, quick.subject().key.hash(&chain));
            } else if change.is_none() && rest >= 0 && matches!(proto, 6 | 17) {
                prop_assert!(false, "{:?} was not read", l3);
            }
        }
    }
}
