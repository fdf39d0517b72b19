//! Reads the kernel's addresses, routes and policy rules, and reports their changes.
//!
//! A dump is read in steps that do not block, so that a host with a million routes occupies the main loop only for one step at a
//! time. Changes during a dump are reported after it. Sources: RFC 3549; rtnetlink(7).

mod entry;
mod message;

pub use entry::{KernelAddress, KernelRoute, KernelRule, RouteEvent};

use crate::rtnl::{self, Message, Messages};
use message::{parse_address, parse_route, parse_rule};
use rustix::net::{RecvFlags, SendFlags};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use units::Millis;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWADDR: u16 = 20;
const RTM_DELADDR: u16 = 21;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
const RTM_GETRULE: u16 = 34;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
/// The error of a kernel without policy rules (errno(3)).
const EOPNOTSUPP: i32 = 95;
/// How long to wait after the first failed dump; the wait doubles with each further one, up to [`RETRY_MAX`].
const RETRY_MIN: Millis = Millis::from_secs(1);
const RETRY_MAX: Millis = Millis::from_secs(64);

/// Multicast groups of addresses, routes and rules of both address families.
const GROUPS: u32 = 0x10 | 0x100 | 0x40 | 0x400 | 0x80 | 1 << 18;
const RECEIVE_BYTES: usize = 32 << 10;
/// The dumps in their order. Routes come last: to select them, the reader needs the addresses, and the rules, which name the tables in use.
const DUMPS: [u16; 3] = [RTM_GETADDR, RTM_GETRULE, RTM_GETROUTE];

/// Reads routes, addresses and rules.
pub struct RouteMonitor {
    /// Socket for notifications of changes.
    changes: OwnedFd,
    /// Socket for dumps.
    dumps: OwnedFd,
    buffer: Vec<u8>,
    /// Kinds of the remaining dumps; the first one is being read.
    pending_dumps: VecDeque<u16>,
    /// Whether the dump must be repeated: a caller requested it, it failed, or notifications were lost.
    dump_needed: bool,
    /// After a failed dump: when to request the next one, and how long that is after the failure.
    retry: Option<(Millis, Millis)>,
}

/// The file descriptor is readable when something changes.
impl AsFd for RouteMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }
}

impl RouteMonitor {
    /// Starts listening. The first events are those of a dump.
    pub fn open() -> io::Result<RouteMonitor> {
        Ok(RouteMonitor {
            changes: rtnl::open(GROUPS)?,
            dumps: rtnl::open(0)?,
            buffer: vec![0; RECEIVE_BYTES],
            pending_dumps: VecDeque::new(),
            dump_needed: true,
            retry: None,
        })
    }

    /// Requests another dump of all entries, after the current one.
    pub fn refresh(&mut self) {
        self.dump_needed = true;
    }

    /// When more events can be read without a change in the kernel; `None`: not before one. A time in the past means now.
    pub fn next_dump(&self) -> Option<Millis> {
        let is_pending = self.dump_needed || !self.pending_dumps.is_empty();
        is_pending.then(|| self.retry.map_or(Millis(0), |(at, _)| at))
    }

    /// Appends the events of at most `limit` datagrams to `events`, without blocking.
    pub fn take(&mut self, limit: usize, now: Millis, events: &mut Vec<RouteEvent>) {
        for _ in 0..limit {
            if !self.pending_dumps.is_empty() {
                if !self.read_dump(now, events) {
                    return;
                }
            } else if self.dump_needed && self.retry.is_none_or(|(at, _)| now >= at) {
                self.dump_needed = false;
                self.pending_dumps.extend(DUMPS);
                events.push(RouteEvent::Reset);
                self.request_dump(now, events);
            } else if !self.read_changes(events) {
                return;
            }
        }
    }

    fn request_dump(&mut self, now: Millis, events: &mut Vec<RouteEvent>) {
        let Some(&kind) = self.pending_dumps.front() else {
            self.retry = None;
            return events.push(RouteEvent::Complete);
        };
        let request = rtnl::request_dump(kind, NLM_F_REQUEST | NLM_F_DUMP);
        if rustix::net::send(&self.dumps, &request, SendFlags::empty()).is_err() {
            self.fail(now, events);
        }
    }

    /// Ends all dumps, because one has failed. They are requested again later, on a new socket: the old one may contain the rest of a dump.
    fn fail(&mut self, now: Millis, events: &mut Vec<RouteEvent>) {
        if let Ok(new) = rtnl::open(0) {
            self.dumps = new;
        }
        self.pending_dumps.clear();
        self.dump_needed = true;
        let wait = self.retry.map_or(RETRY_MIN, |(_, last)| Millis(2 * last.0).min(RETRY_MAX));
        self.retry = Some((now + wait, wait));
        events.push(RouteEvent::Failed);
    }

    /// Reads a datagram of the dump. Returns false if none has arrived yet.
    fn read_dump(&mut self, now: Millis, events: &mut Vec<RouteEvent>) -> bool {
        let n = match rustix::net::recv(&self.dumps, &mut self.buffer[..], RecvFlags::DONTWAIT) {
            Ok((_, n)) => n,
            Err(rustix::io::Errno::INTR) => return true,
            Err(rustix::io::Errno::AGAIN) => return false,
            Err(_) => 0,
        };
        let bytes = self.buffer.get(..n).unwrap_or(&[]);
        let of_rules = self.pending_dumps.front() == Some(&RTM_GETRULE);
        let (mut ended, mut failed) = (false, n == 0);
        for message in Messages(bytes) {
            match message.kind {
                // The end of a dump may report an error, too.
                NLMSG_DONE | NLMSG_ERROR => match error_number(message.body) {
                    0 if message.kind == NLMSG_DONE => ended = true,
                    EOPNOTSUPP if of_rules => ended = true,
                    _ => failed = true,
                },
                _ => events.extend(event(&message)),
            }
        }
        if failed {
            self.fail(now, events);
        } else if ended {
            self.pending_dumps.pop_front();
            self.request_dump(now, events);
        }
        true
    }

    /// Reads a datagram of changes. Returns false if there is none.
    fn read_changes(&mut self, events: &mut Vec<RouteEvent>) -> bool {
        match rustix::net::recv(&self.changes, &mut self.buffer[..], RecvFlags::DONTWAIT) {
            Ok((_, n)) => {
                let bytes = self.buffer.get(..n).unwrap_or(&[]);
                events.extend(Messages(bytes).filter_map(|m| event(&m)));
            }
            Err(rustix::io::Errno::NOBUFS) => self.dump_needed = true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
        true
    }
}

/// The number of the error (errno(3)) in the body of an `NLMSG_ERROR` or `NLMSG_DONE`; 0: none.
fn error_number(body: &[u8]) -> i32 {
    body.first_chunk().map_or(0, |code| i32::from_ne_bytes(*code).wrapping_neg())
}

/// The event that a message reports; `None` if the message is not relevant.
fn event(message: &Message<'_>) -> Option<RouteEvent> {
    let (kind, body) = (message.kind, message.body);
    match kind {
        RTM_NEWADDR | RTM_DELADDR => Some(RouteEvent::Address(parse_address(body)?, kind == RTM_NEWADDR)),
        RTM_NEWROUTE | RTM_DELROUTE => Some(RouteEvent::Route(parse_route(body)?, kind == RTM_NEWROUTE)),
        RTM_NEWRULE | RTM_DELRULE => Some(RouteEvent::Rule(parse_rule(body)?, kind == RTM_NEWRULE)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_loopback_address_and_its_route_are_dumped() {
        let mut monitor = RouteMonitor::open().unwrap();
        let mut events = Vec::new();
        for _ in 0..10_000 {
            monitor.take(100, Millis(0), &mut events);
            if monitor.next_dump().is_none() {
                break;
            }
        }
        assert_eq!((events.first(), events.last()), (Some(&RouteEvent::Reset), Some(&RouteEvent::Complete)));
        let local: std::net::IpAddr = "127.0.0.1".parse().unwrap();
        let is_local = |e: &RouteEvent| matches!(e, RouteEvent::Address(a, true) if a.addr == local);
        assert!(events.iter().any(is_local), "{events:?}");
        let is_route =
            |e: &RouteEvent| matches!(e, RouteEvent::Route(r, true) if r.dst == local && r.table == 255);
        assert!(events.iter().any(is_route), "{events:?}");
        let is_rule = |e: &RouteEvent| matches!(e, RouteEvent::Rule(r, true) if r.table == 254);
        assert!(events.iter().any(is_rule), "{events:?}");
    }

    #[test]
    fn a_failed_dump_is_repeated_and_not_reported_as_complete() {
        let mut monitor = RouteMonitor::open().unwrap();
        // The kernel answers a request for a dump of an unknown kind with an error.
        monitor.pending_dumps.push_back(RTM_GETADDR - 1);
        monitor.dump_needed = false;
        let mut events = Vec::new();
        let now = Millis(5000);
        monitor.request_dump(now, &mut events);
        while events.is_empty() {
            monitor.take(1, now, &mut events);
        }
        assert_eq!(events, [RouteEvent::Failed]);
        let retry = now + RETRY_MIN;
        assert_eq!(monitor.next_dump(), Some(retry));
        monitor.take(100, now, &mut events);
        assert_eq!(events, [RouteEvent::Failed], "not before {retry:?}");
        while monitor.next_dump().is_some() {
            monitor.take(100, retry, &mut events);
        }
        assert_eq!((events.get(1), events.last()), (Some(&RouteEvent::Reset), Some(&RouteEvent::Complete)));
    }

    /// `ip route add 192.168.10.12/32 via inet6 fe80::51 dev ...`, alone and as the first of several next hops.
    #[test]
    fn a_next_hop_may_be_of_the_other_family() {
        let next: std::net::Ipv6Addr = "fe80::51".parse().unwrap();
        let attribute = |kind: u16, value: &[u8]| {
            let mut out = [(4 + value.len() as u16).to_ne_bytes(), kind.to_ne_bytes()].concat();
            out.extend(value);
            out.resize(out.len().next_multiple_of(4), 0);
            out
        };
        let via = |family: u16| attribute(18, &[&family.to_ne_bytes()[..], &next.octets()].concat());
        let body = |attributes: &[u8]| {
            let dst = attribute(1, &[192, 168, 10, 12]);
            [&[2, 32, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0][..], &dst, attributes].concat()
        };
        let gateway = |attributes: &[u8]| parse_route(&body(attributes)).and_then(|r| r.gateway);
        let device = attribute(4, &7u32.to_ne_bytes());
        assert_eq!(gateway(&[via(10), device.clone()].concat()), Some(next.into()));
        assert_eq!(gateway(&[via(2), device].concat()), None, "16 bytes are no address of IPv4");
        let hop =
            [&(8 + via(10).len() as u16).to_ne_bytes()[..], &[0, 0], &7u32.to_ne_bytes(), &via(10)].concat();
        assert_eq!(gateway(&attribute(9, &hop)), Some(next.into()));
    }

    proptest! {
        #[test]
        fn any_message_is_survived(kind in 16u16..40, body in proptest::collection::vec(any::<u8>(), 0..200)) {
            event(&Message { kind, body: &body });
        }
    }
}
