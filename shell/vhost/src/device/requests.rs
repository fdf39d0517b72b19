//! Executes the messages of a front-end.
//!
//! [`ConnectionState`] is the state of one connection. [`crate::rules`] checks the order of messages before they are executed. Source:
//! vhost-user specification, "Front-end message types".

mod iommu;

use super::ring_config::{KickState, RingConfig, RingResources};
use super::translation::Channel;
use super::{ANNOUNCE, Device, numa};
use crate::blocked_writes::make_call_fd_nonblocking;
use crate::bounds::MAX_PAIRS;
use crate::dirty::DirtyLog;
use crate::feature::{self, protocol};
use crate::file_descriptors::{Kind, kind};
use crate::guest::Guest;
use crate::iotlb::{Access, Iotlb, IovaRange};
use crate::log::Level;
use crate::memory::{GuestMemory, REGIONS_MAX, RegionLayout};
use crate::memory_table::REGIONS_MAX as TABLE_MAX;
use crate::message::Message;
use crate::ring::descriptor::Addresses;
use crate::ring::inflight::{InflightArea, InflightRegion};
use crate::rules::{self, Fields, Refusal, Rules, request};
use request::*;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Features that are offered to all guests.
pub(crate) const FEATURES: u64 = feature::CSUM
    | feature::GUEST_CSUM
    | feature::MTU
    | feature::GUEST_TSO4
    | feature::GUEST_TSO6
    | feature::GUEST_ECN
    | feature::HOST_TSO4
    | feature::HOST_TSO6
    | feature::HOST_ECN
    | feature::GUEST_USO4
    | feature::GUEST_USO6
    | feature::HOST_USO
    | feature::MRG_RXBUF
    | feature::LOG_ALL
    | feature::CTRL_VQ
    | feature::CTRL_RX
    | feature::GUEST_ANNOUNCE
    | feature::MQ
    | feature::ANY_LAYOUT
    | feature::INDIRECT
    | feature::EVENT_IDX
    | feature::PROTOCOL_FEATURES
    | feature::VERSION_1
    | feature::RING_PACKED
    | feature::IN_ORDER;
/// Protocol features that are offered to all front-ends.
pub(crate) const PROTOCOL_FEATURES: u64 = protocol::MQ
    | protocol::LOG_SHMFD
    | protocol::RARP
    | protocol::REPLY_ACK
    | protocol::NET_MTU
    | protocol::INFLIGHT_SHMFD
    | protocol::RESET_DEVICE
    | protocol::CONFIGURE_MEM_SLOTS
    | protocol::STATUS;

/// `DRIVER_OK` of the device status (virtio 1.2, 2.1).
const DRIVER_OK: u64 = 4;
/// Bits of a kick or call message's payload that are the ring's number.
const RING_BITS: u64 = 0xff;
/// Flag of a kick or call message: it has no file descriptor.
const NO_DESCRIPTOR: u64 = 0x100;
/// `VHOST_VRING_F_LOG`: writes to the used ring are logged.
const LOG_USED: u32 = 1;

/// The state of one connection.
#[derive(Debug)]
pub(super) struct ConnectionState {
    device: Arc<Device>,
    rules: Rules,
    features: u64,
    protocol_features: u64,
    status: u64,
    mtu: Option<u16>,
    memory: Option<Arc<GuestMemory>>,
    /// The translations of a guest with an IOMMU, as the front-end has sent them. Rings may still use the previous ones: see
    /// [`ConnectionState::take_affected_rings`].
    iotlb: Arc<Iotlb>,
    /// `Some`: the IOTLB was changed. Contains the numbers of the rings whose own memory the change affects.
    changed: Option<Vec<usize>>,
    /// The range and the access of the last translation, until all rings have it.
    granted: Option<(IovaRange, Access)>,
    /// The socket for messages to the front-end.
    channel: Channel,
    /// The log of written pages, while the guest is being migrated.
    log: Option<Arc<DirtyLog>>,
    /// The inflight area, from which a restarted switch reads the positions of the rings.
    area: Option<Arc<InflightArea>>,
    rings: Vec<RingConfig>,
    /// The first two rings run, so the guest counts as connected.
    connected: bool,
}

/// Whether workers may access the rings while this request is executed.
pub(super) fn allows_workers(request: u32) -> bool {
    matches!(
        request,
        GET_FEATURES
            | GET_PROTOCOL_FEATURES
            | SET_PROTOCOL_FEATURES
            | SET_OWNER
            | GET_QUEUE_NUM
            | SET_VRING_ERR
            | SEND_RARP
            | NET_SET_MTU
            | GET_STATUS
            | GET_MAX_MEM_SLOTS
            | IOTLB_MSG
            | SET_SLAVE_REQ_FD
    )
}

/// A reply: its payload, and a file whose descriptor is sent with it.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub payload: Vec<u8>,
    pub file: Option<OwnedFd>,
}

/// The reply to a request; `None`: the request has no reply.
type Reply = Option<Answer>;

fn answer(payload: Vec<u8>) -> Reply {
    Some(Answer { payload, file: None })
}

fn long(value: u64) -> Reply {
    answer(value.to_ne_bytes().to_vec())
}

impl ConnectionState {
    pub fn new(device: &Arc<Device>) -> ConnectionState {
        ConnectionState {
            device: Arc::clone(device),
            rules: Rules::with_inflight(),
            features: 0,
            protocol_features: 0,
            status: 0,
            mtu: None,
            memory: None,
            iotlb: Arc::default(),
            changed: None,
            granted: None,
            channel: Channel::default(),
            log: None,
            area: None,
            rings: Vec::new(),
            connected: false,
        }
    }

    /// Executes a message. Called while no worker accesses the rings, except for requests that [`allows_workers`] accepts.
    pub fn handle(&mut self, message: &Message) -> Result<Reply, Refusal> {
        let checked = rules::Message { request: message.request(), payload: message.payload() };
        self.rules.before(self.features, checked)?;
        let reply = self.execute(message)?;
        self.rules.after(checked)?;
        Ok(reply)
    }

    fn execute(&mut self, message: &Message) -> Result<Reply, Refusal> {
        let fields = Fields(message.payload());
        let memory_slots = self.protocol_features & protocol::CONFIGURE_MEM_SLOTS != 0;
        match message.request() {
            GET_FEATURES => return Ok(long(self.offered())),
            SET_FEATURES => self.set_features(fields.long(0)?)?,
            GET_PROTOCOL_FEATURES => return Ok(long(self.protocol_offered())),
            SET_PROTOCOL_FEATURES if fields.long(0)? & !self.protocol_offered() == 0 => {
                self.protocol_features = fields.long(0)?;
            }
            GET_QUEUE_NUM => return Ok(long(MAX_PAIRS as u64)),
            SET_OWNER => {}
            RESET_OWNER | RESET_DEVICE => self.reset(),
            SET_MEM_TABLE => self.set_table(message)?,
            GET_MAX_MEM_SLOTS if memory_slots => return Ok(long(REGIONS_MAX as u64)),
            ADD_MEM_REG if memory_slots => self.add_region(message)?,
            REM_MEM_REG if memory_slots => self.remove_region(message)?,
            SET_VRING_NUM => {
                let size = fields.word(4)?;
                self.ring(fields.word(0)?)?.size = u16::try_from(size).map_err(|_| Refusal::Size(size))?;
            }
            SET_VRING_ADDR => self.set_addresses(fields)?,
            SET_LOG_BASE if self.protocol_features & protocol::LOG_SHMFD != 0 => {
                let file = message.fds.first().ok_or(Refusal::FileDescriptor)?;
                self.log = Some(Arc::new(DirtyLog::map(message.payload(), file)?));
                self.apply_all();
                // The reply to this request has an empty payload.
                return Ok(answer(Vec::new()));
            }
            // The eventfd that would notify the front-end of new bits in the log is not used: front-ends read the log without notifications.
            SET_LOG_FD => {}
            SET_VRING_BASE => self.ring(fields.word(0)?)?.base = Some(fields.word(4)? as u16),
            GET_VRING_BASE => return self.stop(fields.word(0)?).map(answer),
            GET_INFLIGHT_FD if self.supports_inflight_area() => return self.make_area(message),
            SET_INFLIGHT_FD if self.supports_inflight_area() => self.set_area(message)?,
            SET_VRING_KICK => self.set_kick(message)?,
            SET_VRING_CALL => self.set_call(message)?,
            // The switch reports an invalid ring by closing the connection.
            SET_VRING_ERR => drop(event(message)?),
            SET_VRING_ENABLE => {
                let number = fields.word(0)?;
                self.ring(number)?.enabled = fields.word(4)? != 0;
                self.apply(number);
            }
            SET_SLAVE_REQ_FD if self.protocol_features & protocol::BACKEND_REQ != 0 => {
                self.set_channel(message)?
            }
            IOTLB_MSG if self.has_iommu() => self.change_iotlb(message.payload())?,
            SEND_RARP => self.announce(message.payload())?,
            NET_SET_MTU => self.mtu = u16::try_from(fields.long(0)?).ok(),
            SET_STATUS => self.set_status(fields.long(0)?),
            GET_STATUS => return Ok(long(self.status)),
            _ => return Err(Refusal::NotOffered),
        }
        Ok(None)
    }

    fn ring(&mut self, number: u32) -> Result<&mut RingConfig, Refusal> {
        let at = number as usize;
        if at >= 2 * MAX_PAIRS {
            return Err(Refusal::NoRing(number));
        }
        if self.rings.len() <= at {
            self.rings.resize_with(at + 1, RingConfig::default);
        }
        self.rings.get_mut(at).ok_or(Refusal::NoRing(number))
    }

    fn set_features(&mut self, features: u64) -> Result<(), Refusal> {
        if features & !self.offered() != 0 {
            return Err(Refusal::NotOffered);
        }
        self.features = features;
        self.apply_all();
        Ok(())
    }

    fn offered(&self) -> u64 {
        FEATURES | if self.device.iommu { feature::ACCESS_PLATFORM } else { 0 }
    }

    fn protocol_offered(&self) -> u64 {
        PROTOCOL_FEATURES | if self.device.iommu { protocol::BACKEND_REQ } else { 0 }
    }

    fn has_iommu(&self) -> bool {
        self.features & feature::ACCESS_PLATFORM != 0
    }

    fn set_status(&mut self, status: u64) {
        self.status = status & 0xff;
        self.apply_all();
    }

    /// Whether the guest's driver has set `DRIVER_OK`; true if the device status was not negotiated.
    fn driver_is_ready(&self) -> bool {
        self.protocol_features & protocol::STATUS == 0 || self.status & DRIVER_OK != 0
    }

    /// Whether the front-end supports the inflight area.
    fn supports_inflight_area(&self) -> bool {
        self.protocol_features & protocol::INFLIGHT_SHMFD != 0
    }

    fn packed(&self) -> bool {
        self.features & feature::RING_PACKED != 0
    }

    /// Checks that no ring runs yet: a running ring would not be recorded in an area that is set later.
    fn may_set_area(&self) -> Result<(), Refusal> {
        self.rings.iter().position(|ring| ring.running).map_or(Ok(()), |n| Err(Refusal::InUse(n as u32)))
    }

    fn make_area(&mut self, message: &Message) -> Result<Reply, Refusal> {
        self.may_set_area()?;
        let (area, file) = InflightArea::create(message.payload(), self.packed())?;
        let payload = area.payload();
        self.area = Some(Arc::new(area));
        Ok(Some(Answer { payload, file: Some(file) }))
    }

    fn set_area(&mut self, message: &Message) -> Result<(), Refusal> {
        self.may_set_area()?;
        let file = message.fds.first().ok_or(Refusal::FileDescriptor)?;
        self.area = Some(Arc::new(InflightArea::map(message.payload(), file)?));
        Ok(())
    }

    fn reset(&mut self) {
        self.rings.iter_mut().for_each(RingConfig::reset);
        (self.rules, self.status) = (Rules::with_inflight(), 0);
        self.clear_iotlb();
        self.apply_all();
        let packed = self.packed();
        self.area.iter().for_each(|area| area.forget(packed));
    }

    /// Replaces the guest's memory. If a ring with addresses is not in the new memory, the old memory stays.
    fn set_memory(&mut self, memory: GuestMemory) -> Result<(), Refusal> {
        let memory = Arc::new(memory);
        // With an IOMMU, a ring without translations in the new memory waits until it has some.
        if !self.has_iommu() && !self.rings.iter().all(|ring| ring.fits(&memory, self.features)) {
            return Err(Refusal::Memory("a ring lies outside of the memory"));
        }
        self.remove_unmapped_translations(&memory);
        self.memory = Some(memory);
        self.apply_all();
        Ok(())
    }

    fn set_table(&mut self, message: &Message) -> Result<(), Refusal> {
        let count = Fields(message.payload()).word(0)? as usize;
        if count > TABLE_MAX {
            return Err(Refusal::Memory("it has too many regions"));
        }
        let layouts: Result<Vec<_>, _> =
            (0..count).map(|i| RegionLayout::read(message.payload(), 8 + i * RegionLayout::BYTES)).collect();
        self.set_memory(GuestMemory::map(&layouts?, &message.fds)?)
    }

    /// Adds a region. QEMU until 8.0 sends each region once for each queue pair, so a region that is there already is accepted.
    fn add_region(&mut self, message: &Message) -> Result<(), Refusal> {
        let layout = RegionLayout::read(message.payload(), 8)?;
        let fd = message.fds.first().ok_or(Refusal::FileDescriptor)?;
        let before = self.memory.clone().unwrap_or_default();
        if before.has(layout, fd.as_fd())? {
            return Ok(());
        }
        self.set_memory(before.with(layout, fd.as_fd())?)
    }

    /// Removes a region. For the same reason as in [`ConnectionState::add_region`] it may be removed already.
    fn remove_region(&mut self, message: &Message) -> Result<(), Refusal> {
        let layout = RegionLayout::read(message.payload(), 8)?;
        let rest = self.memory.as_ref().and_then(|memory| memory.without(layout));
        rest.map_or(Ok(()), |memory| self.set_memory(memory))
    }

    fn set_addresses(&mut self, fields: Fields<'_>) -> Result<(), Refusal> {
        let (number, memory, features) = (fields.word(0)?, self.memory.clone(), self.features);
        let addresses =
            Addresses { descriptors: fields.long(8)?, used: fields.long(16)?, available: fields.long(24)? };
        let log_used = (fields.word(4)? & LOG_USED != 0).then_some(fields.long(32)?);
        // With an IOMMU these are I/O virtual addresses, which may not be translated yet.
        let memory = memory.filter(|_| !self.has_iommu());
        let ring = self.ring(number)?;
        let before = ring.addresses.replace(addresses);
        ring.log_used = log_used;
        if memory.is_some_and(|memory| !ring.fits(&memory, features)) {
            ring.addresses = before;
            return Err(Refusal::Memory("a ring lies outside of the memory, or at an odd address"));
        }
        self.apply(number);
        Ok(())
    }

    /// Stops a ring; the reply contains its number and its ring position.
    fn stop(&mut self, number: u32) -> Result<Vec<u8>, Refusal> {
        self.ring(number)?.kick = KickState::Stopped;
        self.clear_iotlb();
        self.apply(number);
        let packed = self.packed();
        // From now on the front-end keeps the position of the ring: clear the record in the inflight area.
        let region = self.area.as_ref().and_then(|area| area.region(number as usize, 1, packed));
        region.iter().for_each(InflightRegion::forget);
        let ring = self.ring(number)?;
        (ring.addresses, ring.size) = (None, 0);
        let base = u32::from(ring.base.unwrap_or(0));
        // A packed ring has two positions: of the next available descriptor (low half), and of the next used descriptor (high half). They
        // are equal, because the ring is stopped between bursts.
        let base = if packed { base | base << 16 } else { base };
        Ok([number, base].map(u32::to_ne_bytes).concat())
    }

    fn set_kick(&mut self, message: &Message) -> Result<(), Refusal> {
        let (number, event) = event(message)?;
        self.ring(number)?.kick = event.map_or(KickState::Polled, KickState::Event);
        self.apply(number);
        Ok(())
    }

    fn set_call(&mut self, message: &Message) -> Result<(), Refusal> {
        let (number, event) = event(message)?;
        event.iter().for_each(|event| make_call_fd_nonblocking(event.as_fd()));
        self.ring(number)?.call = event;
        self.apply(number);
        Ok(())
    }

    fn announce(&self, payload: &[u8]) -> Result<(), Refusal> {
        let address = payload.first_chunk::<6>().ok_or(Refusal::Short)?;
        let mut word = [0; 8];
        word[..6].copy_from_slice(address);
        self.device.announce.store(u64::from_ne_bytes(word) | ANNOUNCE, Ordering::Relaxed);
        Ok(())
    }

    /// What rings need to run; `None`: they must not run.
    fn ring_resources(&self) -> Option<RingResources<'_>> {
        Some(RingResources {
            memory: self.memory.as_ref().filter(|_| self.driver_is_ready())?,
            iotlb: self.has_iommu().then_some(&self.iotlb),
            log: self.log.as_ref(),
            area: self.area.as_ref(),
        })
    }

    /// Starts or stops a ring, as its configuration requires.
    fn apply(&mut self, number: u32) {
        let at = number as usize;
        let Some(mut ring) = self.rings.get_mut(at).map(std::mem::take) else { return };
        let before = ring.running;
        ring.apply(at, &self.device, self.ring_resources(), self.features);
        let running = ring.running;
        self.rings[at] = ring;
        if before != running {
            self.report_ring(at, running);
        }
        self.report_guest();
    }

    fn apply_all(&mut self) {
        (0..self.rings.len() as u32).for_each(|number| self.apply(number));
    }

    fn report_ring(&self, number: usize, running: bool) {
        let (port, pair) = (&self.device.port, number / 2);
        let side = if number % 2 == 1 { "rx" } else { "tx" };
        match side {
            "rx" => port.set_from_guest(pair, running),
            _ => port.set_to_guest(pair, running),
        }
        if running && self.connected {
            port.include_pair(pair);
        }
        let (path, state) = (&port.path, if running { "enabled" } else { "disabled" });
        let what = format!(
            "State of queue {number} ( {side}_qid {pair} ) of vhost device '{path}' changed to '{state}'"
        );
        port.say(Level::Info, &what);
    }

    /// Updates the port's facts about the guest, and reports when the guest connects or disconnects.
    fn report_guest(&mut self) {
        let connected = self.rings.iter().take(2).filter(|ring| ring.running).count() == 2;
        let port = Arc::clone(&self.device.port);
        if connected {
            let at = |memory: &Arc<GuestMemory>, at: Addresses| {
                let part = memory.at_user_address(self.user_address(at.descriptors), 16);
                part.map_or(-1, |part| numa::node_of(part.start()))
            };
            let first = self.memory.as_ref().zip(self.rings.first().and_then(|ring| ring.addresses));
            let node = first.map_or(-1, |(memory, addresses)| at(memory, addresses));
            port.numa.store(node, Ordering::Relaxed);
            port.features.store(self.features, Ordering::Relaxed);
            *self.device.connected_guest() = Some(Guest {
                features: self.features,
                mtu: self.mtu.filter(|_| self.features & feature::MTU != 0),
                numa: u32::try_from(node).ok(),
                rings: self.rings.iter().map(|ring| ring.size).collect(),
            });
        }
        if connected == self.connected {
            return;
        }
        self.connected = connected;
        let path = &port.path;
        if connected {
            port.set_pairs(self.rings.len().div_ceil(2));
            let node = port.numa.load(Ordering::Relaxed).max(0);
            port.say(Level::Info, &format!("vHost Device '{path}' has been added on numa node {node}"));
        } else {
            port.features.store(0, Ordering::Relaxed);
            *self.device.connected_guest() = None;
            port.say(Level::Info, &format!("vHost Device '{path}' has been removed"));
        }
        port.guest_changed();
    }

    /// Frees all memory of the connection. Called when it has ended and no worker accesses the rings.
    pub fn end(&mut self) {
        self.rings.clear();
        (self.memory, self.log, self.area) = (None, None, None);
        (self.iotlb, self.channel) = (Arc::default(), Channel::default());
        self.device.clear();
        self.report_guest();
        self.device.port.set_pairs(1);
        self.device.port.disable_all_rings();
    }
}

/// Reads a kick, call or error message: the ring number, and the eventfd (`None`: the message has no eventfd).
fn event(message: &Message) -> Result<(u32, Option<Arc<OwnedFd>>), Refusal> {
    let word = Fields(message.payload()).long(0)?;
    let number = (word & RING_BITS) as u32;
    match (word & NO_DESCRIPTOR != 0, &message.fds[..]) {
        (true, []) => Ok((number, None)),
        (false, [fd]) if kind(fd.as_fd()) == Kind::Event => {
            let copy = fd.try_clone().map_err(|_| Refusal::NoMemory)?;
            Ok((number, Some(Arc::new(copy))))
        }
        _ => Err(Refusal::FileDescriptor),
    }
}
