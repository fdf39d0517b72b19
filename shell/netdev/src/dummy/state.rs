//! The state of one dummy device, shared by its `Netdev`, its queues and the control commands.

use super::arp;
use super::checksums::Checksums;
use super::pcap::Pcap;
pub use super::stream::ConnState;
use super::stream::Streams;
use crate::stats::Stats;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use units::Millis;

/// Maximum number of frames in a queue. Further frames are dropped.
const RX_QUEUE_MAX: usize = 100;

/// Packets and bytes of one queue.
#[derive(Clone, Copy, Default)]
pub(super) struct Count {
    pub packets: u64,
    pub bytes: u64,
}

impl Count {
    pub(super) fn add(&mut self, len: usize) {
        self.packets += 1;
        self.bytes += len as u64;
    }
}

/// One receive queue: its frames, and a file descriptor that is readable while the queue has frames.
pub(super) struct Queue {
    frames: VecDeque<Vec<u8>>,
    wake: Arc<OwnedFd>,
    pub count: Count,
}

impl Queue {
    pub(super) fn new() -> io::Result<Queue> {
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Queue { frames: VecDeque::new(), wake: Arc::new(wake), count: Count::default() })
    }

    pub(super) fn wake_fd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.wake)
    }

    fn push(&mut self, frame: Vec<u8>) {
        if self.frames.len() < RX_QUEUE_MAX {
            self.frames.push_back(frame);
            // Fails only if the 64-bit counter would overflow, and then the file descriptor is readable anyway.
            let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
        }
    }

    pub(super) fn pop(&mut self) -> Option<Vec<u8>> {
        let frame = self.frames.pop_front()?;
        if self.frames.is_empty() {
            // Fails if a worker has reset the counter already, which does not matter.
            let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
        }
        Some(frame)
    }

    pub(super) fn waiting(&self) -> usize {
        self.frames.len()
    }
}

pub(super) struct State {
    pub mac: [u8; 6],
    pub mtu: u32,
    pub up: bool,
    pub ifindex: Option<u32>,
    pub numa_id: u32,
    /// Payload bytes of each received TCP segment. 0: segmentation offload is not used, and sent frames are segmented by the switch.
    pub segment_size: u16,
    pub checksums: Checksums,
    pub rxqs: Vec<Queue>,
    pub txqs: Vec<Count>,
    pub totals: Totals,
    pub streams: Streams,
    pub tx_pcap: Option<Pcap>,
    pub rxq_pcap: Option<Pcap>,
    pub ip4: Vec<(Ipv4Addr, u8)>,
    pub ip6: Vec<(Ipv6Addr, u8)>,
    pub seq: u64,
    /// Increases when the queues are replaced. Queues of an older generation receive nothing.
    pub generation: u64,
    pub ended: bool,
}

/// Counters of the device, both directions.
#[derive(Default)]
pub(super) struct Totals {
    pub rx: Count,
    pub tx: Count,
}

impl State {
    /// Puts a frame into an rx queue and writes it to the pcap file.
    pub(super) fn queue_frame(&mut self, frame: Vec<u8>, qid: usize) {
        // With `options:pcap` one file contains both directions.
        let shared = self.tx_pcap.as_mut().filter(|pcap| pcap.both_ways());
        if let Some(pcap) = self.rxq_pcap.as_mut().or(shared) {
            pcap.write(&frame);
        }
        if let Some(queue) = self.rxqs.get_mut(qid) {
            queue.push(frame);
        }
    }

    /// Counts a sent frame, writes it to the stream and the pcap file, and queues the reply if it is an ARP request.
    pub(super) fn handle_sent(&mut self, frame: &[u8], qid: usize) {
        self.totals.tx.add(frame.len());
        if let Some(count) = self.txqs.get_mut(qid) {
            count.add(frame.len());
        }
        self.streams.send(frame);
        if let Some(reply) = arp::reply(frame, self.mac, &self.ip4) {
            self.queue_frame(reply, 0);
        }
        if let Some(pcap) = &mut self.tx_pcap {
            pcap.write(frame);
        }
    }

    /// Creates a new file for each capture whose file was deleted. Returns whether there are captures.
    fn renew_captures(&mut self) -> bool {
        self.tx_pcap.iter_mut().chain(&mut self.rxq_pcap).for_each(Pcap::renew);
        self.has_captures()
    }

    /// Whether frames are written to a file.
    pub(super) fn has_captures(&self) -> bool {
        self.tx_pcap.is_some() || self.rxq_pcap.is_some()
    }

    pub(super) fn stats(&self) -> Stats {
        let mut custom = vec![
            ("rx_custom_packets_1".to_owned(), self.totals.rx.packets),
            ("rx_custom_packets_2".to_owned(), self.totals.rx.packets),
        ];
        let counts = self.rxqs.iter().map(|q| q.count).enumerate().map(|c| ("rx", c));
        for (direction, (i, count)) in counts.chain(self.txqs.iter().copied().enumerate().map(|c| ("tx", c)))
        {
            custom.push((format!("{direction}_q{i}_bytes"), count.bytes));
            custom.push((format!("{direction}_q{i}_packets"), count.packets));
        }
        Stats {
            rx_packets: Some(self.totals.rx.packets),
            tx_packets: Some(self.totals.tx.packets),
            rx_bytes: Some(self.totals.rx.bytes),
            tx_bytes: Some(self.totals.tx.bytes),
            custom,
            ..Stats::default()
        }
    }
}

/// Why a frame could not be put into a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InjectError {
    /// The device has no such queue.
    BadQueue,
}

/// Dummies that have changed, have connections or write captures, so that the main loop need not check each dummy.
///
/// **Lock order**: `connected` and `capturing` before the state of a dummy.
#[derive(Default)]
pub struct ChangedDummies {
    /// Names of dummies whose `change_seq` increased.
    changed: Mutex<BTreeSet<Arc<str>>>,
    /// Dummies with connections.
    connected: Mutex<Vec<DummyHandle>>,
    /// Dummies with capture files.
    capturing: Mutex<Vec<DummyHandle>>,
}

impl ChangedDummies {
    /// The names of dummies that changed since the last call.
    pub(crate) fn take_changed(&self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut *lock(&self.changed))
    }

    /// Serves the connections of all dummies.
    pub(crate) fn run(&self, now: Millis) {
        let mut connected = lock(&self.connected);
        connected.retain(DummyHandle::is_open);
        for dummy in connected.iter() {
            dummy.run(now);
        }
    }

    /// Creates a new file for each capture whose file was deleted. Open vSwitch opens all capture files again at each change of the
    /// database, and its tests rely on that: they delete the files of many ports, and then change one port.
    pub(crate) fn renew_captures(&self) {
        lock(&self.capturing).retain(|dummy| dummy.lock().renew_captures());
    }
}

/// Locks a mutex, also after a panic of another thread: then at most one update of a counter is missing.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The controls of one dummy; copies control the same device.
#[derive(Clone)]
pub struct DummyHandle {
    name: Arc<str>,
    state: Arc<Mutex<State>>,
    changes: Arc<ChangedDummies>,
}

impl DummyHandle {
    pub(super) fn new(name: &str, state: State, changes: &Arc<ChangedDummies>) -> DummyHandle {
        DummyHandle { name: name.into(), state: Arc::new(Mutex::new(state)), changes: Arc::clone(changes) }
    }

    /// Records a change of its state.
    pub(super) fn changed(&self, state: &mut State) {
        state.seq += 1;
        lock(&self.changes.changed).insert(Arc::clone(&self.name));
    }

    /// Records that it has connections that must be served.
    pub(super) fn register_connections(&self) {
        self.add_to(&self.changes.connected);
    }

    /// Records that it writes captures.
    pub(super) fn register_captures(&self) {
        self.add_to(&self.changes.capturing);
    }

    fn add_to(&self, list: &Mutex<Vec<DummyHandle>>) {
        let mut list = lock(list);
        if !list.iter().any(|dummy| Arc::ptr_eq(&dummy.state, &self.state)) {
            list.push(self.clone());
        }
    }

    /// The state.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// The device's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether the port is still open.
    pub fn is_open(&self) -> bool {
        !self.lock().ended
    }

    /// Number of receive queues.
    pub fn n_rxq(&self) -> usize {
        self.lock().rxqs.len()
    }

    /// Makes the device receive `frame` on queue `qid`. A full queue drops the frame, as a NIC does.
    pub fn inject(&self, frame: &[u8], qid: usize) -> Result<(), InjectError> {
        let mut state = self.lock();
        if qid >= state.rxqs.len() {
            return Err(InjectError::BadQueue);
        }
        state.queue_frame(frame.to_vec(), qid);
        Ok(())
    }

    /// Number of frames that wait to be received.
    pub fn waiting(&self) -> usize {
        self.lock().rxqs.iter().map(Queue::waiting).sum()
    }

    /// Sets it up or down.
    pub fn set_admin(&self, up: bool) {
        let mut state = self.lock();
        if state.up != up {
            state.up = up;
            self.changed(&mut state);
        }
    }

    /// State of its active connection.
    pub fn conn_state(&self) -> ConnState {
        self.lock().streams.conn_state()
    }

    /// Adds an IPv4 address; the device answers ARP requests for it.
    pub fn add_ip4(&self, address: Ipv4Addr, prefix: u8) {
        let mut state = self.lock();
        state.ip4.push((address, prefix));
        self.changed(&mut state);
    }

    /// Adds an IPv6 address.
    pub fn add_ip6(&self, address: Ipv6Addr, prefix: u8) {
        let mut state = self.lock();
        state.ip6.push((address, prefix));
        self.changed(&mut state);
    }

    /// Its IPv4 addresses.
    pub fn ip4(&self) -> Vec<(Ipv4Addr, u8)> {
        self.lock().ip4.clone()
    }

    /// Its IPv6 addresses.
    pub fn ip6(&self) -> Vec<(Ipv6Addr, u8)> {
        self.lock().ip6.clone()
    }

    /// Serves its connections. The main loop must call this in each turn. Returns the time of the next call
    /// (`Millis::NEVER`: when one of `poll_fds` is ready).
    pub fn run(&self, now: Millis) -> Millis {
        let mut guard = self.lock();
        let state = &mut *guard;
        let mut received = Vec::new();
        let next = state.streams.run(now, &mut received);
        for frame in received {
            state.queue_frame(frame, 0);
        }
        next
    }

    /// The file descriptors of its connections, each with whether it must also be polled for writing.
    pub fn poll_fds(&self) -> Vec<(std::os::fd::RawFd, bool)> {
        self.lock().streams.poll_fds()
    }
}
