//! Enforces the order of messages that the vhost-user specification intends.
//!
//! Both back-ends check messages by these rules: the back-end in this crate, and the back-end that passes messages to DPDK's library
//! (crate `dpdk`). The rules exist because of the library, which executes messages without checking their order. The library translates
//! the addresses of a ring once, for the ring's size at that time, and allocates memory of a ring by its size. So a front-end that changes
//! the size afterwards, starts a ring without size, or changes the layout of rings that have addresses would make the library read and
//! write beyond the guest's memory. These rules refuse such messages before the library executes them: the connection ends, or the
//! front-end gets a negative reply if it requested a reply.
//!
//! The order is: features; then for each ring its size, its addresses and its kick. Before the size of a ring or the features change
//! (except `LOG_ALL`), the front-end must stop the ring (`GET_VRING_BASE`). Addresses and kick may be set again at any time. QEMU,
//! rust-vmm's front-ends and DPDK's virtio-user follow this order.
//!
//! [`Rules::before`] checks a message. The back-end may still refuse the message afterwards, so until [`Rules::after`] reports that it
//! executed the message, the rules assume the outcome that allows less. Exception: a ring counts as having addresses from the check on, so
//! its size cannot change any more.
//!
//! Sources: the vhost-user specification ("Starting and stopping rings", "Message types"); virtio 1.2, 2.7 and 2.8.

use super::bounds::MAX_PAIRS;
use super::feature;
use std::fmt;

/// Request numbers (vhost-user specification, "Front-end message types").
pub mod request {
    #![allow(missing_docs, reason = "the names are the specification's")]

    pub const GET_FEATURES: u32 = 1;
    pub const SET_FEATURES: u32 = 2;
    pub const SET_OWNER: u32 = 3;
    pub const RESET_OWNER: u32 = 4;
    pub const SET_MEM_TABLE: u32 = 5;
    pub const SET_LOG_BASE: u32 = 6;
    pub const SET_LOG_FD: u32 = 7;
    pub const SET_VRING_NUM: u32 = 8;
    pub const SET_VRING_ADDR: u32 = 9;
    pub const SET_VRING_BASE: u32 = 10;
    pub const GET_VRING_BASE: u32 = 11;
    pub const SET_VRING_KICK: u32 = 12;
    pub const SET_VRING_CALL: u32 = 13;
    pub const SET_VRING_ERR: u32 = 14;
    pub const GET_PROTOCOL_FEATURES: u32 = 15;
    pub const SET_PROTOCOL_FEATURES: u32 = 16;
    pub const GET_QUEUE_NUM: u32 = 17;
    pub const SET_VRING_ENABLE: u32 = 18;
    pub const SEND_RARP: u32 = 19;
    pub const NET_SET_MTU: u32 = 20;
    pub const SET_SLAVE_REQ_FD: u32 = 21;
    pub const IOTLB_MSG: u32 = 22;
    pub const GET_CONFIG: u32 = 24;
    pub const POSTCOPY_ADVISE: u32 = 28;
    pub const POSTCOPY_LISTEN: u32 = 29;
    pub const POSTCOPY_END: u32 = 30;
    pub const GET_INFLIGHT_FD: u32 = 31;
    pub const SET_INFLIGHT_FD: u32 = 32;
    pub const RESET_DEVICE: u32 = 34;
    pub const GET_MAX_MEM_SLOTS: u32 = 36;
    pub const ADD_MEM_REG: u32 = 37;
    pub const REM_MEM_REG: u32 = 38;
    pub const SET_STATUS: u32 = 39;
    pub const GET_STATUS: u32 = 40;
}
use request::*;

/// Maximum number of descriptors of one ring (virtio 1.2, 2.7).
const RING_MAX: u32 = 1 << 15;
/// Maximum number of descriptors of all rings of a guest: the library allocates memory for each from a heap that all ports share.
const DESCRIPTORS_MAX: u32 = 1 << 18;
/// Index bits of a packed ring's base; the remaining bit is the wrap counter.
const PACKED_INDEX: u32 = 0x7fff;
/// The bits of `SET_VRING_KICK`'s payload that are the ring's number.
const KICK_RING: u64 = 0xff;

/// One message: request number and payload.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The request's number.
    pub request: u32,
    /// Its payload.
    pub payload: &'a [u8],
}

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The payload is too short for its request.
    Short,
    /// The feature was not offered.
    NotOffered,
    /// There is no ring with this number.
    NoRing(u32),
    /// The ring has addresses and was not stopped since it got them.
    InUse(u32),
    /// The front-end has not set what the request needs. `SET_VRING_ADDR` needs a size and, for a packed ring, a base; `SET_VRING_KICK`
    /// needs addresses.
    Unprepared(u32),
    /// The size is not valid for a ring.
    Size(u32),
    /// All rings together have too many descriptors.
    TooMany,
    /// The base of a packed ring is beyond its end.
    Base(u32),
    /// A change of features was requested while rings are in use.
    FeaturesInUse,
    /// The log of written pages does not begin at the beginning of its file.
    LogOffset,
    /// The memory cannot be used; the text says why.
    Memory(&'static str),
    /// A file descriptor of a kind on which calls may block, or of a kind that does not belong to this message.
    FileDescriptor,
    /// The switch is out of memory or file descriptors.
    NoMemory,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Short => f.write_str("the message is too short"),
            Refusal::NotOffered => f.write_str("this feature was not offered"),
            Refusal::NoRing(ring) => write!(f, "there is no ring {ring}"),
            Refusal::InUse(ring) => write!(f, "ring {ring} is in use"),
            Refusal::Unprepared(ring) => write!(f, "ring {ring} is not prepared"),
            Refusal::Size(size) => write!(f, "no ring has {size} descriptors"),
            Refusal::TooMany => {
                write!(f, "the rings have more than {DESCRIPTORS_MAX} descriptors together")
            }
            Refusal::Base(ring) => write!(f, "the base of ring {ring} is beyond its end"),
            Refusal::FeaturesInUse => f.write_str("rings are in use"),
            Refusal::LogOffset => f.write_str("the log does not begin where its file does"),
            Refusal::Memory(why) => f.write_str(why),
            Refusal::FileDescriptor => f.write_str("a descriptor is of the wrong kind"),
            Refusal::NoMemory => {
                f.write_str("the switch has no memory or file descriptor left for the request")
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Ring {
    /// The size set since the ring was created or stopped.
    size: Option<u32>,
    /// The next index that the library will use; unknown after a stop.
    index: Option<u32>,
    /// The library has the ring's addresses.
    has_addresses: bool,
    /// The number of descriptors for which the library may have allocated memory.
    allocated: u32,
}

impl Ring {
    /// The state in which the library creates a ring.
    const NEW: Ring = Ring { size: None, index: Some(0), has_addresses: false, allocated: 0 };
    const STOPPED: Ring = Ring { size: None, index: None, has_addresses: false, allocated: 0 };
}

/// The checks of one connection, and the state that earlier messages have set.
#[derive(Debug, Default)]
pub struct Rules {
    /// The negotiated features when the last message was checked.
    features: u64,
    rings: Vec<Ring>,
    /// Requests about the inflight area are allowed.
    inflight: bool,
}

impl Rules {
    /// Creates rules for a back-end that supports the inflight area.
    pub fn with_inflight() -> Rules {
        Rules { inflight: true, ..Rules::default() }
    }

    /// Checks whether the back-end may execute this message. `features`: the features negotiated so far.
    pub fn before(&mut self, features: u64, message: Message<'_>) -> Result<(), Refusal> {
        self.features = features;
        let fields = Fields(message.payload);
        if message.payload.len() < needed(message.request) {
            return Err(Refusal::Short);
        }
        match message.request {
            SET_FEATURES => self.check_features(fields.long(0)?),
            SET_VRING_NUM => self.check_size(fields.word(0)?, fields.word(4)?),
            SET_VRING_BASE => self.check_base(fields.word(0)?, fields.word(4)?),
            SET_VRING_ADDR => self.set_addresses(fields.word(0)?),
            SET_VRING_KICK => self.check_kick((fields.long(0)? & KICK_RING) as u32),
            SET_LOG_BASE if fields.long(8)? != 0 => Err(Refusal::LogOffset),
            GET_INFLIGHT_FD | SET_INFLIGHT_FD if !self.inflight => Err(Refusal::NotOffered),
            _ => Ok(()),
        }
    }

    /// Updates the state: the library executed the message that was checked last.
    pub fn after(&mut self, message: Message<'_>) -> Result<(), Refusal> {
        let (packed, fields) = (self.packed(), Fields(message.payload));
        match message.request {
            SET_FEATURES => self.features_changed(fields.long(0)?),
            SET_VRING_NUM => {
                let size = fields.word(4)?;
                let ring = self.ring(fields.word(0)?);
                (ring.size, ring.allocated) = (Some(size), size);
            }
            SET_VRING_BASE => {
                self.ring(fields.word(0)?).index = Some(index_of(packed, fields.word(4)?));
            }
            GET_VRING_BASE => *self.ring(fields.word(0)?) = Ring::STOPPED,
            RESET_OWNER => self.rings.clear(),
            _ => {}
        }
        Ok(())
    }

    /// The state of ring `number`. DPDK's library has checked the number. The back-end in this crate checks
    /// it later, and refuses the message if the number is invalid.
    fn ring(&mut self, number: u32) -> &mut Ring {
        let number = number as usize % (2 * MAX_PAIRS);
        if self.rings.len() <= number {
            self.rings.resize(number + 1, Ring::NEW);
        }
        &mut self.rings[number]
    }

    fn packed(&self) -> bool {
        self.features & feature::RING_PACKED != 0
    }

    fn check_features(&self, features: u64) -> Result<(), Refusal> {
        let changed = (self.features ^ features) & !feature::LOG_ALL != 0;
        let freed = if features & feature::MQ == 0 { &self.rings[2.min(self.rings.len())..] } else { &[] };
        if changed && self.rings.iter().any(|r| r.has_addresses) || freed.iter().any(|r| r.has_addresses) {
            Err(Refusal::FeaturesInUse)
        } else {
            Ok(())
        }
    }

    /// Changes the state as the library does: a change of the ring layout discards the allocations of all rings. Without `MQ` the library frees
    /// all rings except the first pair, unless the device runs and the features are the same as before: then it keeps them. So nothing is
    /// known of these rings.
    fn features_changed(&mut self, features: u64) {
        if (self.features ^ features) & feature::RING_PACKED != 0 {
            self.rings.iter_mut().for_each(|r| (r.size, r.allocated) = (None, 0));
        }
        if features & feature::MQ == 0 {
            let freed = self.rings.iter_mut().skip(2);
            freed.for_each(|r| *r = Ring { allocated: r.allocated, ..Ring::STOPPED });
        }
    }

    fn check_size(&mut self, number: u32, size: u32) -> Result<(), Refusal> {
        if size == 0 || size > RING_MAX || !(self.packed() || size.is_power_of_two()) {
            return Err(Refusal::Size(size));
        }
        let ring = self.ring(number);
        if ring.has_addresses {
            return Err(Refusal::InUse(number));
        }
        // Until `after`, the ring counts as having no size: the library may run out of memory when it sets the size.
        ring.size = None;
        let others = self.rings.iter().enumerate().filter(|(other, _)| *other != number as usize);
        let others: u32 = others.map(|(_, ring)| ring.allocated).sum();
        if others + size > DESCRIPTORS_MAX { Err(Refusal::TooMany) } else { Ok(()) }
    }

    fn check_base(&mut self, number: u32, base: u32) -> Result<(), Refusal> {
        let packed = self.packed();
        let ring = self.ring(number);
        if !ring.has_addresses {
            ring.index = None;
        } else if packed && ring.size.is_none_or(|size| index_of(packed, base) >= size) {
            return Err(Refusal::Base(number));
        }
        Ok(())
    }

    /// Checks and records `SET_VRING_ADDR`. Every base of a split ring is valid, because its indexes wrap at 2^16. The index of a packed
    /// ring must be less than the ring's size.
    fn set_addresses(&mut self, number: u32) -> Result<(), Refusal> {
        let packed = self.packed();
        let ring = self.ring(number);
        match (ring.size, ring.index) {
            _ if ring.has_addresses => {}
            (None, _) => return Err(Refusal::Unprepared(number)),
            (_, None) if packed => return Err(Refusal::Unprepared(number)),
            (Some(size), Some(index)) if packed && index >= size => return Err(Refusal::Base(number)),
            _ => ring.has_addresses = true,
        }
        Ok(())
    }

    fn check_kick(&mut self, number: u32) -> Result<(), Refusal> {
        if self.ring(number).has_addresses { Ok(()) } else { Err(Refusal::Unprepared(number)) }
    }
}

/// The index that the library extracts from a ring's base.
fn index_of(packed: bool, base: u32) -> u32 {
    base & if packed { PACKED_INDEX } else { 0xffff }
}

/// Number of bytes of a payload that the library reads, regardless of the payload's length.
fn needed(request: u32) -> usize {
    match request {
        SET_FEATURES | SET_PROTOCOL_FEATURES | SET_MEM_TABLE | SET_STATUS => 8,
        SET_VRING_NUM | SET_VRING_BASE | GET_VRING_BASE | SET_VRING_ENABLE => 8,
        SET_VRING_KICK | SET_VRING_CALL | SET_VRING_ERR | SEND_RARP | NET_SET_MTU => 8,
        SET_LOG_BASE => 16,
        SET_VRING_ADDR => 40,
        IOTLB_MSG => 26,
        _ => 0,
    }
}

/// Reads integer fields of a payload, in the machine's byte order.
#[derive(Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    /// The 32-bit field at byte `at`.
    pub fn word(self, at: usize) -> Result<u32, Refusal> {
        let bytes = self.0.get(at..).and_then(<[u8]>::first_chunk).ok_or(Refusal::Short)?;
        Ok(u32::from_ne_bytes(*bytes))
    }

    /// The 64-bit field at byte `at`.
    pub fn long(self, at: usize) -> Result<u64, Refusal> {
        let bytes = self.0.get(at..).and_then(<[u8]>::first_chunk).ok_or(Refusal::Short)?;
        Ok(u64::from_ne_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests;
