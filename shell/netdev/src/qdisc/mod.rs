//! Queueing disciplines of kernel devices, by route netlink: creates, changes and removes them, and reads their counters.
//!
//! The root discipline is `1:`, its only inner class is `1:fffe`, and queue *n* is class `1:(n+1)`, as in Open vSwitch. Nothing
//! blocks. Source: rtnetlink(7), linux/pkt_sched.h, tc(8).

mod kinds;
mod message;
mod psched;
#[cfg(test)]
mod tests;

pub use kinds::{Class, Counts, HfscClass, HtbClass, Qdisc};

use crate::rtnl::{self, Attributes, Messages, u32_of};
use message::{
    CREATE, ECHO, EXCLUSIVE, RTM_DELQDISC, RTM_DELTCLASS, RTM_GETTCLASS, RTM_NEWQDISC, RTM_NEWTCLASS, Request,
};
use psched::Psched;
use std::io;

/// Maximum number of queues of a discipline.
pub const QUEUES: u32 = 0xf000;

const ROOT: u32 = u32::MAX;
const HANDLE: u32 = 1 << 16;
/// The inner class, which contains all queues.
const INNER: u32 = HANDLE | 0xfffe;

const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;

/// The priority (`SO_PRIORITY`) that assigns packets to a queue; it is the queue's class.
pub fn priority(queue: u32) -> u32 {
    HANDLE | (queue.min(QUEUES - 1) + 1)
}

/// Replaces the root discipline of a device.
pub fn install(ifindex: u32, qdisc: &Qdisc) -> io::Result<()> {
    remove(ifindex)?;
    transact(&new_qdisc(ifindex, qdisc, Psched::of_host()))?;
    let inner_class = match qdisc {
        Qdisc::Htb(class) => Class::Htb(*class),
        Qdisc::Hfsc(class) => Class::Hfsc(*class),
        _ => return Ok(()),
    };
    set_inner_class(ifindex, &inner_class).inspect_err(|_| drop(remove(ifindex)))
}

/// Changes the total rate of all queues: the rate of the inner class.
pub fn set_inner_class(ifindex: u32, class: &Class) -> io::Result<()> {
    transact(&new_class(ifindex, (INNER, HANDLE), class, Psched::of_host())).map(drop)
}

/// Creates or changes a queue.
pub fn set_queue(ifindex: u32, queue: u32, class: &Class) -> io::Result<()> {
    transact(&new_class(ifindex, (priority(queue), INNER), class, Psched::of_host())).map(drop)
}

/// Removes a queue.
pub fn delete_queue(ifindex: u32, queue: u32) -> io::Result<()> {
    transact(&Request::new(RTM_DELTCLASS, 0, (ifindex, priority(queue), 0)).finish()).map(drop)
}

/// Removes the root discipline. The device then uses the kernel's default.
pub fn remove(ifindex: u32) -> io::Result<()> {
    match transact(&Request::new(RTM_DELQDISC, 0, (ifindex, 0, ROOT)).finish()) {
        // The device uses the default already.
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => Ok(()),
        other => other.map(drop),
    }
}

/// The counters of a queue.
pub fn counts(ifindex: u32, queue: u32) -> io::Result<Counts> {
    let request = Request::new(RTM_GETTCLASS, ECHO, (ifindex, priority(queue), INNER)).finish();
    let answer = transact(&request)?;
    let found = Messages(&answer).filter(|m| m.kind == RTM_NEWTCLASS).find_map(|m| parse_counts(m.body));
    found.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

fn transact(request: &[u8]) -> io::Result<Vec<u8>> {
    rtnl::transact(&rtnl::open(0)?, request)
}

fn new_qdisc(ifindex: u32, qdisc: &Qdisc, psched: Psched) -> Vec<u8> {
    let mut request = Request::new(RTM_NEWQDISC, EXCLUSIVE | CREATE, (ifindex, HANDLE, ROOT));
    match *qdisc {
        Qdisc::Htb(_) => request.htb(),
        Qdisc::Hfsc(_) => request.hfsc(),
        Qdisc::Sfq { quantum, perturb } => request.plain("sfq", &[quantum, perturb, 0, 0, 0]),
        Qdisc::Codel { target, limit, interval } => {
            request.nested("codel", &[(1, target), (2, limit), (3, interval)]);
        }
        Qdisc::FqCodel { target, limit, interval, flows, quantum } => {
            let options = [(1, target), (2, limit), (3, interval), (5, flows), (6, quantum)];
            request.nested("fq_codel", &options);
        }
        Qdisc::Netem { latency, limit, loss, jitter } => {
            let loss = u64::from(u32::MAX) * u64::from(loss.min(100)) / 100;
            let (latency, jitter) = (psched.ticks_of_micros(latency), psched.ticks_of_micros(jitter));
            request.plain("netem", &[latency, limit, loss as u32, 0, 0, jitter]);
        }
    }
    request.finish()
}

fn new_class(ifindex: u32, (class, parent): (u32, u32), rates: &Class, psched: Psched) -> Vec<u8> {
    let mut request = Request::new(RTM_NEWTCLASS, CREATE, (ifindex, class, parent));
    match rates {
        Class::Htb(rates) => request.htb_class(rates, psched),
        Class::Hfsc(rates) => request.hfsc_class(rates),
    }
    request.finish()
}

/// Parses the kernel's message about a class, and returns the counters.
fn parse_counts(body: &[u8]) -> Option<Counts> {
    let attributes = |bytes, kind| Attributes(bytes).find(|(k, _)| *k == kind).map(|(_, value)| value);
    let stats = attributes(body.get(message::TCMSG..)?, TCA_STATS2)?;
    let basic = attributes(stats, TCA_STATS_BASIC)?;
    let queue = attributes(stats, TCA_STATS_QUEUE)?;
    Some(Counts {
        bytes: u64::from_ne_bytes(basic.get(..8)?.try_into().ok()?),
        packets: u32_of(basic.get(8..12)?)?.into(),
        // `dropped` follows the lengths of the queue in bytes and packets.
        dropped: u32_of(queue.get(8..12)?)?.into(),
    })
}
