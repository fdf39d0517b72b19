//! What is read of and written into packets that go the quick way: TCP and UDP over IPv4 without options.
//!
//! What is read of such a packet are the words that a record has, so its connection is found by comparing them.

use crate::key::{End, Key};
use crate::nat::{Translation, Transport};
use crate::record::Side;
use crate::subject::{Content, Packet, Subject};
use crate::table::Handle;
use crate::tcp::Segment;
use cpu::Chain;
use packet::checksum::Words;
use packet::ether::ethertype;
use packet::{Tcp, Udp, ipproto};

/// What a packet says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quick {
    /// Zone and protocol, as the first word of a record has them.
    pub(crate) what: u64,
    /// Source and destination.
    pub(crate) addresses: u64,
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
/// Bytes of a transport header that say whose packet it is, and of UDP also length and checksum.
const ENDS: usize = 8;

impl Quick {
    /// Reads a packet. `None`: it is to be read in the general way.
    #[inline(always)]
    pub(crate) fn fill(&mut self, packet: &Packet<'_>, zone: u16) -> Option<()> {
        let (head, rest) = packet.l3.split_first_chunk::<IPV4>()?;
        let &[kind, _, l0, l1, _, _, f0, f1, _, proto, ..] = head;
        let len = usize::from(u16::from_be_bytes([l0, l1])).checked_sub(IPV4)?;
        let data = rest.get(..len)?;
        let plain = packet.ethertype == ethertype::IPV4
            && kind == 0x45
            && f0 & 0x3f | f1 == 0
            && rest.len() - len <= usize::from(u16::MAX);
        let (ends, _) = data.split_first_chunk::<ENDS>()?;
        if !plain || packet.verify && !Words::default().with(head).are_intact() {
            return None;
        }
        let has_sum = match proto {
            ipproto::UDP => {
                let [.., l0, l1, s0, s1] = *ends;
                if !(Udp::LEN..=len).contains(&u16::from_be_bytes([l0, l1]).into()) {
                    return None;
                }
                self.content = Content::Other;
                s0 | s1 != 0
            }
            ipproto::TCP => {
                let (tcp, payload) = Tcp::parse_checked(data)?;
                self.content = Content::Tcp(Segment::of_data(&tcp, payload.len() as u32)?);
                true
            }
            _ => return None,
        };
        let (_, addresses) = head.split_last_chunk::<8>()?;
        if packet.verify && has_sum {
            // The pseudo header: addresses, protocol, length.
            let pseudo = Words::default().with_pair(u32::from(proto) + len as u32).with(addresses);
            if !pseudo.with(data).are_intact() {
                return None;
            }
        }
        let [a, b, c, d, ..] = *ends;
        let (src, dst) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        self.what = u64::from(proto) << 8 | u64::from(zone) << 16;
        self.addresses = u64::from_be_bytes(*addresses);
        self.ports = u64::from(src) << 32 | u64::from(dst);
        self.finished = packet.verify;
        (src != 0 && dst != 0).then_some(())
    }

    #[inline(always)]
    pub(crate) fn hash(&self, chain: &Chain) -> u64 {
        Key::hash_four(self.what, self.addresses, self.ports, chain)
    }

    /// As the general way needs it.
    #[cold]
    pub(crate) fn subject(&self) -> Subject {
        let end = |shift: u32| End {
            address: [0, self.addresses >> shift & 0xffff_ffff],
            port: (self.ports >> shift) as u32,
        };
        let (zone, proto) = ((self.what >> 16) as u16, (self.what >> 8) as u8);
        let key = Key { zone, v6: false, proto, src: end(32), dst: end(0) };
        Subject { key, related: false, content: self.content }
    }
}
