//! Mode `basic` of kernel devices: one packet socket receives for many of them; the metadata of a packet tells its device.
//!
//! The socket is bound to no device, and a filter lets the packets of its members pass. One member, the first one, reads
//! it and puts the packets of others on their lists. Each member has a descriptor that is readable while its list has
//! packets; that of the first member also while the socket has.
//!
//! As in the source, nothing isolates members from each other: a flood to one fills the socket, and the packets of all
//! are lost. That is what mode `spp` is for.

use crate::linux::mmsg::{BATCH, Mmsg};
use crate::linux::packet_socket;
use crate::posted::Posted;
use crate::received::finish;
use crate::rx_buffers::QueueUse;
use packet::frame::{Frame, FrameBatch, FramePool};
use packet::queue::{RxQueue, RxResult};
use rustix::event::{EventfdFlags, epoll, eventfd};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Packets that wait on the lists of all members together.
const WAITING_MAX: usize = 4096;

static SOCKET: Mutex<Option<Receiver>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Receiver>> {
    SOCKET.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The socket and its members, by interface index.
struct Receiver {
    fd: OwnedFd,
    members: BTreeMap<u32, Member>,
    mmsg: Box<Mmsg>,
    posted: Posted,
    waiting: usize,
    /// Packets that the kernel dropped.
    lost: u64,
}

struct Member {
    list: VecDeque<Frame>,
    /// Written when the list gets its first packet.
    event: OwnedFd,
    /// Readable while there is something for the member.
    ready: Arc<OwnedFd>,
    dropped: Arc<AtomicU64>,
}

/// A device's membership; ends when dropped.
pub struct Membership {
    ifindex: u32,
    ready: Arc<OwnedFd>,
    dropped: Arc<AtomicU64>,
    _promiscuous: OwnedFd,
}

impl Membership {
    /// Joins the socket, which the first member opens.
    pub fn join(ifindex: u32) -> io::Result<Arc<Membership>> {
        let promiscuous = packet_socket::promiscuous(ifindex)?;
        let ready = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        epoll::add(&*ready, &event, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        let dropped = Arc::new(AtomicU64::new(0));
        let mut place = lock();
        let first = place.is_none();
        let receiver = match &mut *place {
            Some(receiver) => receiver,
            None => place.insert(Receiver {
                fd: packet_socket::open_unbound()?,
                members: BTreeMap::new(),
                mmsg: Mmsg::new(),
                posted: Posted::new(BATCH),
                waiting: 0,
                lost: 0,
            }),
        };
        let member =
            Member { list: VecDeque::new(), event, ready: Arc::clone(&ready), dropped: Arc::clone(&dropped) };
        let reader = receiver.members.keys().next().copied().filter(|reader| *reader != ifindex);
        if let Some(old) = receiver.members.insert(ifindex, member) {
            receiver.waiting -= old.list.len();
        }
        receiver.follow(reader)?;
        let indices: Vec<u32> = receiver.members.keys().copied().collect();
        packet_socket::accept_only(&receiver.fd, &indices)?;
        if first {
            packet_socket::bind_all(&receiver.fd)?;
        }
        Ok(Arc::new(Membership { ifindex, ready, dropped, _promiscuous: promiscuous }))
    }

    /// The descriptor that is readable while there may be packets.
    pub fn ready(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.ready)
    }

    /// Packets that found no space on the lists since the last call.
    pub fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }

    /// The use of the socket: packets on the member's list, and the packets that the kernel dropped for all members.
    pub fn usage(&self) -> QueueUse {
        let mut place = lock();
        let Some(receiver) = &mut *place else { return QueueUse::default() };
        receiver.lost += packet_socket::take_drops(&receiver.fd).unwrap_or(0);
        let held = receiver.members.get(&self.ifindex).map_or(0, |member| member.list.len() as u32);
        QueueUse {
            pool: "basic".to_owned(),
            of_pool: (WAITING_MAX as u32, receiver.waiting as u32),
            held,
            high: WAITING_MAX as u32,
            allowance: (WAITING_MAX - receiver.waiting) as u32 + held,
            lost: receiver.lost,
            ..QueueUse::default()
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut place = lock();
        let Some(receiver) = &mut *place else { return };
        let reader = receiver.members.keys().next().copied();
        // The device may have joined again meanwhile.
        let is_ours = |member: &&Member| Arc::ptr_eq(&member.dropped, &self.dropped);
        if receiver.members.get(&self.ifindex).filter(is_ours).is_none() {
            return;
        }
        if let Some(member) = receiver.members.remove(&self.ifindex) {
            receiver.waiting -= member.list.len();
        }
        if receiver.members.is_empty() {
            *place = None;
            return;
        }
        let indices: Vec<u32> = receiver.members.keys().copied().collect();
        // Packets of a device that is no member are dropped also without the filter.
        let _ = packet_socket::accept_only(&receiver.fd, &indices);
        let _ = receiver.follow(reader);
    }
}

impl Receiver {
    /// Makes the first member the one that reads the socket, instead of `old`.
    fn follow(&mut self, old: Option<u32>) -> io::Result<()> {
        let Some((now, member)) = self.members.iter().next() else { return Ok(()) };
        if old == Some(*now) {
            return Ok(());
        }
        if let Some(old) = old.and_then(|old| self.members.get(&old)) {
            epoll::delete(&*old.ready, &self.fd)?;
        }
        Ok(epoll::add(&*member.ready, &self.fd, epoll::EventData::new_u64(1), epoll::EventFlags::IN)?)
    }

    /// Reads a burst from the socket. Returns whether it was a full one.
    fn read(&mut self, pool: &mut FramePool) -> bool {
        if !self.posted.fill(pool, BATCH) {
            return false;
        }
        let Receiver { fd, members, mmsg, posted, waiting, .. } = self;
        let received = posted.with_buffers::<BATCH>(BATCH, |buffers| mmsg.receive(fd, buffers).unwrap_or(0));
        for i in 0..received {
            let meta = mmsg.received(i);
            let Some(member) = members.get_mut(&mmsg.device(i)).filter(|_| !meta.outgoing) else { continue };
            let frame = posted.take(pool, i, meta.len).and_then(|frame| finish(frame, &meta));
            match frame.filter(|_| *waiting < WAITING_MAX) {
                Some(frame) => {
                    if member.list.is_empty() {
                        let _ = rustix::io::write(&member.event, &1u64.to_ne_bytes());
                    }
                    member.list.push_back(frame);
                    *waiting += 1;
                }
                None => {
                    member.dropped.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        posted.end_of_burst(pool);
        received == BATCH
    }
}

/// The rx queue of a member.
pub struct MemberRx(pub Arc<Membership>);

impl RxQueue for MemberRx {
    fn rx(&mut self, pool: &mut FramePool, out: &mut FrameBatch, max: usize) -> RxResult {
        let mut result = RxResult::default();
        let mut place = lock();
        let Some(receiver) = &mut *place else { return result };
        if receiver.members.keys().next() == Some(&self.0.ifindex) {
            result.more = receiver.read(pool);
        }
        let Some(member) = receiver.members.get_mut(&self.0.ifindex) else { return result };
        let n = member.list.len().min(max);
        out.extend(member.list.drain(..n));
        if n > 0 && member.list.is_empty() {
            let mut count = [0; 8];
            let _ = rustix::io::read(&member.event, &mut count);
        }
        result.more |= !member.list.is_empty();
        receiver.waiting -= n;
        result.dropped = self.0.take_dropped() as u32;
        result
    }
}
