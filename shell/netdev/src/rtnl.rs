//! Route netlink: the kernel's state of interfaces, and notifications of changes.
//!
//! Parsing has no side effects and accepts any input: a message that is not understood is skipped. Nothing blocks: the reply to a request is
//! in the socket when `send` returns. Sources: RFC 3549; rtnetlink(7).

use crate::stats::Stats;
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

const RTMGRP_LINK: u32 = 1;
const NLMSG_ERROR: u16 = 2;
const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_GETLINK: u16 = 18;
const RTM_SETLINK: u16 = 19;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_STATS64: u16 = 23;
const IFLA_GROUP: u16 = 27;
const IFLA_CARRIER: u16 = 33;
const IFLA_CARRIER_CHANGES: u16 = 35;

/// The group of devices that are about to be deleted. The number is arbitrary but large, because groups that administrators set are small.
const DELETED_GROUP: u32 = 0x736c_7563;

const HEADER: usize = 16;
const IFINFO: usize = 16;
const RECEIVE_BYTES: usize = 32 << 10;
const IFF_UP: u32 = 1;
const IFF_LOOPBACK: u32 = 8;

/// An interface and its state in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Interface index. The kernel assigns ascending numbers, so an index is rarely reused.
    pub ifindex: u32,
    /// Its current name.
    pub name: String,
    /// Administratively up.
    pub up: bool,
    /// Whether it is a loopback device: packets sent to it are received again.
    pub loopback: bool,
    /// Whether it has a carrier.
    pub carrier: bool,
    /// How often the carrier was gained or lost.
    pub carrier_changes: u32,
    /// The MTU.
    pub mtu: u32,
    /// The Ethernet address, if it has one.
    pub mac: Option<[u8; 6]>,
    /// The kernel's counters, from the kernel's point of view.
    pub stats: Stats,
}

/// An event of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkEvent {
    /// The interface is new, or a property changed.
    Changed(Box<Link>),
    /// The interface was deleted, or left this network namespace. A tap that was moved to another namespace continues to work: see module `tap`.
    Removed {
        /// Its index.
        ifindex: u32,
        /// Its name.
        name: String,
    },
    /// Notifications were lost: the caller must read all interfaces again.
    Lost,
}

/// Looks an interface up by name.
pub fn link_by_name(name: &str) -> io::Result<Link> {
    let mut attributes = Vec::new();
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    put_attribute(&mut attributes, IFLA_IFNAME, &bytes);
    get_link(0, &attributes)
}

/// Looks an interface up by index.
pub fn link_by_index(ifindex: u32) -> io::Result<Link> {
    get_link(ifindex, &[])
}

/// Deletes an interface. It no longer exists when this returns.
pub fn delete_link(ifindex: u32) -> io::Result<()> {
    let socket = open(0)?;
    transact(&socket, &request(RTM_DELLINK, NLM_F_REQUEST | NLM_F_ACK, ifindex, &[]))?;
    Ok(())
}

/// Deletes interfaces, in one transaction if possible. They no longer exist when this returns; errors are ignored.
pub fn delete_links(ifindices: &[u32]) {
    if ifindices.len() < 2 || delete_as_group(ifindices).is_err() {
        ifindices.iter().for_each(|ifindex| _ = delete_link(*ifindex));
    }
}

/// Puts the devices into a group and deletes the group: the kernel deletes all devices of a group at once.
fn delete_as_group(ifindices: &[u32]) -> io::Result<()> {
    let socket = open(0)?;
    let mut group = Vec::new();
    put_attribute(&mut group, IFLA_GROUP, &DELETED_GROUP.to_ne_bytes());
    const ACKED: u16 = NLM_F_REQUEST | NLM_F_ACK;
    let mut found = false;
    for ifindex in ifindices {
        // Fails if another program has deleted the device meanwhile.
        found |= transact(&socket, &request(RTM_SETLINK, ACKED, *ifindex, &group)).is_ok();
    }
    if found {
        transact(&socket, &request(RTM_DELLINK, ACKED, 0, &group))?;
    }
    Ok(())
}

fn get_link(ifindex: u32, attributes: &[u8]) -> io::Result<Link> {
    let socket = open(0)?;
    let answer = transact(&socket, &request(RTM_GETLINK, NLM_F_REQUEST, ifindex, attributes))?;
    for message in Messages(&answer) {
        if message.kind == RTM_NEWLINK
            && let Some(link) = parse_link(message.body)
        {
            return Ok(link);
        }
    }
    Err(io::Error::from(io::ErrorKind::InvalidData))
}

/// Notifies of changes of all interfaces in this network namespace.
pub struct LinkMonitor {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

/// The file descriptor is readable when there is an event.
impl AsFd for LinkMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl LinkMonitor {
    /// Starts listening.
    pub fn open() -> io::Result<LinkMonitor> {
        Ok(LinkMonitor { socket: open(RTMGRP_LINK)?, buffer: vec![0; RECEIVE_BYTES] })
    }

    /// Appends the events of at most `limit` datagrams to `events`, without blocking.
    pub fn take(&mut self, limit: usize, events: &mut Vec<LinkEvent>) {
        for _ in 0..limit {
            match rustix::net::recv(&self.socket, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, n)) => parse_events(self.buffer.get(..n).unwrap_or(&[]), events),
                Err(rustix::io::Errno::NOBUFS) => events.push(LinkEvent::Lost),
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

fn parse_events(bytes: &[u8], events: &mut Vec<LinkEvent>) {
    for message in Messages(bytes) {
        let Some(link) = parse_link(message.body) else { continue };
        match message.kind {
            RTM_NEWLINK => events.push(LinkEvent::Changed(Box::new(link))),
            RTM_DELLINK => events.push(LinkEvent::Removed { ifindex: link.ifindex, name: link.name }),
            _ => {}
        }
    }
}

pub(crate) fn open(groups: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// Sends one request. Returns the first datagram of the reply, or the error that the reply contains.
pub(crate) fn transact(socket: &OwnedFd, request: &[u8]) -> io::Result<Vec<u8>> {
    rustix::net::send(socket, request, SendFlags::empty())?;
    let mut buffer = vec![0; RECEIVE_BYTES];
    let (_, n) = rustix::net::recv(socket, &mut buffer[..], RecvFlags::DONTWAIT)?;
    buffer.truncate(n);
    for message in Messages(&buffer) {
        if message.kind == NLMSG_ERROR {
            match message.body.get(..4).and_then(i32_of) {
                Some(0) => {}
                Some(negative) => return Err(io::Error::from_raw_os_error(negative.wrapping_neg())),
                None => return Err(io::Error::from(io::ErrorKind::InvalidData)),
            }
        }
    }
    Ok(buffer)
}

fn request(kind: u16, flags: u16, ifindex: u32, attributes: &[u8]) -> Vec<u8> {
    let total = HEADER + IFINFO + attributes.len();
    let mut bytes = Vec::with_capacity(total);
    bytes.extend((total as u32).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend(1u32.to_ne_bytes()); // sequence
    bytes.extend(0u32.to_ne_bytes()); // port: set by the kernel
    bytes.extend([0; 4]); // family, padding, device type
    bytes.extend(ifindex.to_ne_bytes());
    bytes.extend([0; 8]); // flags and change mask
    bytes.extend(attributes);
    bytes
}

/// A dump request for all objects of a kind, of all address families.
pub(crate) fn request_dump(kind: u16, flags: u16) -> Vec<u8> {
    request(kind, flags, 0, &[])
}

pub(crate) fn put_attribute(to: &mut Vec<u8>, kind: u16, value: &[u8]) {
    to.extend(((value.len() + 4) as u16).to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    to.extend(value);
    to.resize(to.len().next_multiple_of(4), 0);
}

pub(crate) struct Message<'a> {
    pub(crate) kind: u16,
    pub(crate) body: &'a [u8],
}

/// Iterates over the messages of a datagram; ends at the first incomplete one.
pub(crate) struct Messages<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Message<'a>;

    fn next(&mut self) -> Option<Message<'a>> {
        let len = usize::try_from(u32_of(self.0.get(..4)?)?).ok()?;
        let kind = u16_of(self.0.get(4..6)?)?;
        let body = self.0.get(HEADER..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some(Message { kind, body })
    }
}

/// Iterates over the attributes of a message; ends at the first incomplete one.
pub(crate) struct Attributes<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<(u16, &'a [u8])> {
        const TYPE_MASK: u16 = 0x3fff;
        let len = usize::from(u16_of(self.0.get(..2)?)?);
        let kind = u16_of(self.0.get(2..4)?)? & TYPE_MASK;
        let value = self.0.get(4..len)?;
        self.0 = self.0.get(len.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    }
}

fn parse_link(body: &[u8]) -> Option<Link> {
    let mut link = Link {
        ifindex: u32_of(body.get(4..8)?)?,
        up: u32_of(body.get(8..12)?)? & IFF_UP != 0,
        loopback: u32_of(body.get(8..12)?)? & IFF_LOOPBACK != 0,
        ..Link::default()
    };
    for (kind, value) in Attributes(body.get(IFINFO..)?) {
        match kind {
            IFLA_IFNAME => {
                let end = value.iter().position(|b| *b == 0).unwrap_or(value.len());
                link.name = String::from_utf8_lossy(value.get(..end)?).into_owned();
            }
            IFLA_ADDRESS => link.mac = value.try_into().ok(),
            IFLA_MTU => link.mtu = u32_of(value).unwrap_or(0),
            IFLA_CARRIER => link.carrier = value.first() == Some(&1),
            IFLA_CARRIER_CHANGES => link.carrier_changes = u32_of(value).unwrap_or(0),
            IFLA_STATS64 => link.stats = parse_stats(value),
            _ => {}
        }
    }
    Some(link)
}

/// `struct rtnl_link_stats64`: a sequence of 64-bit numbers.
fn parse_stats(value: &[u8]) -> Stats {
    let at =
        |i: usize| value.get(i * 8..i * 8 + 8).and_then(|b| Some(u64::from_ne_bytes(b.try_into().ok()?)));
    Stats {
        rx_packets: at(0),
        tx_packets: at(1),
        rx_bytes: at(2),
        tx_bytes: at(3),
        rx_errors: at(4),
        tx_errors: at(5),
        rx_dropped: at(6),
        tx_dropped: at(7),
        multicast: at(8),
        collisions: at(9),
        rx_over_errors: at(11),
        rx_crc_errors: at(12),
        rx_frame_errors: at(13),
        rx_missed_errors: at(15),
        custom: Vec::new(),
    }
}

fn u16_of(bytes: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

pub(crate) fn u32_of(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

fn i32_of(bytes: &[u8]) -> Option<i32> {
    Some(i32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn loopback_is_known() {
        let lo = link_by_name("lo").unwrap();
        assert_eq!(lo.name, "lo");
        assert_eq!(lo.mac, Some([0; 6]));
        assert_eq!(link_by_index(lo.ifindex).unwrap().name, "lo");
        assert!(lo.stats.rx_packets.is_some());
    }

    #[test]
    fn a_missing_interface_is_enodev() {
        let error = link_by_name("no-such-link").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(19));
    }

    proptest! {
        #[test]
        fn any_datagram_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse_events(&bytes, &mut Vec::new());
            let mut framed = request(RTM_NEWLINK, 0, 1, &bytes);
            parse_events(&framed, &mut Vec::new());
            framed.truncate(bytes.len());
            parse_events(&framed, &mut Vec::new());
        }
    }
}
