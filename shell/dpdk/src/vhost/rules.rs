//! What a front-end may ask for, and when: the order that the vhost-user specification has in mind, enforced.
//!
//! The library does what it is asked. It looks up the addresses of a ring once, for the size that the ring has then, and
//! allocates what belongs to a ring with its size; so a front-end that gives the size again afterwards, starts a ring
//! that has none, or changes the layout under rings that have addresses would have the library read and write
//! beyond the guest's memory. These rules refuse that before the library sees it: the connection ends, or the front-end
//! is told if it wanted a reply.
//!
//! The order: features; for each ring its size, then its addresses, then its kick; and to change any of these the ring
//! is stopped first (`GET_VRING_BASE`). QEMU, rust-vmm's front-ends and DPDK's virtio-user keep to it.
//!
//! [`Rules::before`] judges, and assumes the worse until [`Rules::after`] tells that the library did it: it may still
//! refuse. Both run under the locks of the rings, on the library's thread.
//!
//! Sources: the vhost-user specification ("Starting and stopping rings", "Message types"); virtio 1.1, 2.6 and 2.7.

use super::feature;
use std::fmt;

/// The requests of which something is to be known (vhost-user specification, "Front-end message types").
pub(super) mod request {
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
    pub const SET_STATUS: u32 = 39;
    pub const GET_STATUS: u32 = 40;
}
use request::*;

/// Descriptors of one ring (virtio 1.1, 2.6).
const RING_MAX: u32 = 1 << 15;
/// Descriptors of all rings of a guest: what the library allocates for them comes from memory that all ports share.
const DESCRIPTORS_MAX: u32 = 1 << 18;
/// Bits of a packed ring's base that are an index; the other is its wrap counter.
const PACKED_INDEX: u32 = 0x7fff;
/// The bits of `SET_VRING_KICK` that are the ring's number.
const KICK_RING: u64 = 0xff;

/// One message: its number, what came with it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    pub request: u32,
    pub payload: &'a [u8],
}

/// Why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Objection {
    Short,
    NotOffered,
    /// Something of a ring that has its addresses, and was not stopped since.
    InUse(u32),
    /// Addresses or a kick for a ring that was not told its size, or a packed one its base, or a kick without addresses.
    Unprepared(u32),
    Size(u32),
    TooMany,
    /// The base of a packed ring is beyond its end.
    Base(u32),
    FeaturesInUse,
    LogOffset,
    Table(&'static str),
    /// A file or socket that nothing waits for safely, or one that does not belong there.
    Descriptor,
    NoMemory,
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Objection::Short => f.write_str("it is too short"),
            Objection::NotOffered => f.write_str("this was not offered"),
            Objection::InUse(ring) => write!(f, "ring {ring} is in use"),
            Objection::Unprepared(ring) => write!(f, "ring {ring} is not prepared"),
            Objection::Size(size) => write!(f, "no ring has {size} descriptors"),
            Objection::TooMany => {
                write!(f, "the rings have more than {DESCRIPTORS_MAX} descriptors together")
            }
            Objection::Base(ring) => write!(f, "the base of ring {ring} is beyond its end"),
            Objection::FeaturesInUse => f.write_str("rings are in use"),
            Objection::LogOffset => f.write_str("the log does not begin where its file does"),
            Objection::Table(why) => f.write_str(why),
            Objection::Descriptor => f.write_str("a descriptor of another kind belongs there"),
            Objection::NoMemory => f.write_str("there is no memory left for it"),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Ring {
    /// As given since it was made or stopped.
    size: Option<u32>,
    /// Where the library goes on in it; not known after a stop.
    index: Option<u32>,
    /// The library has its addresses.
    placed: bool,
}

impl Ring {
    /// As the library makes it.
    const NEW: Ring = Ring { size: None, index: Some(0), placed: false };
    const STOPPED: Ring = Ring { size: None, index: None, placed: false };
}

/// What one connection has said so far.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// As they were when the last message was judged.
    features: u64,
    rings: Vec<Ring>,
}

impl Rules {
    /// May the library see this? `features` are those that it has taken.
    pub fn before(&mut self, features: u64, message: Message<'_>) -> Result<(), Objection> {
        self.features = features;
        let fields = Fields(message.payload);
        if message.payload.len() < needed(message.request) {
            return Err(Objection::Short);
        }
        match message.request {
            SET_FEATURES => self.may_change(fields.long(0)?),
            SET_VRING_NUM => self.size(fields.word(0)?, fields.word(4)?),
            SET_VRING_BASE => self.base(fields.word(0)?, fields.word(4)?),
            SET_VRING_ADDR => self.place(fields.word(0)?),
            SET_VRING_KICK => self.start((fields.long(0)? & KICK_RING) as u32),
            SET_LOG_BASE if fields.long(8)? != 0 => Err(Objection::LogOffset),
            GET_INFLIGHT_FD | SET_INFLIGHT_FD => Err(Objection::NotOffered),
            _ => Ok(()),
        }
    }

    /// The library did what was judged last.
    pub fn after(&mut self, message: Message<'_>) -> Result<(), Objection> {
        let (packed, fields) = (self.packed(), Fields(message.payload));
        match message.request {
            SET_FEATURES => self.changed(fields.long(0)?),
            SET_VRING_NUM => self.ring(fields.word(0)?).size = Some(fields.word(4)?),
            SET_VRING_BASE => {
                self.ring(fields.word(0)?).index = Some(index_of(packed, fields.word(4)?));
            }
            GET_VRING_BASE => *self.ring(fields.word(0)?) = Ring::STOPPED,
            RESET_OWNER => self.rings.clear(),
            _ => {}
        }
        Ok(())
    }

    /// The library has looked at the number: it is below its bound.
    fn ring(&mut self, number: u32) -> &mut Ring {
        let number = number as usize % (2 * super::MAX_PAIRS);
        if self.rings.len() <= number {
            self.rings.resize(number + 1, Ring::NEW);
        }
        &mut self.rings[number]
    }

    fn packed(&self) -> bool {
        self.features & feature::RING_PACKED != 0
    }

    fn may_change(&self, features: u64) -> Result<(), Objection> {
        let changed = (self.features ^ features) & !feature::LOG_ALL != 0;
        if changed && self.rings.iter().any(|r| r.placed) { Err(Objection::FeaturesInUse) } else { Ok(()) }
    }

    /// What was allocated for one layout is not there for the other; rings beyond the first pair go with `MQ`.
    fn changed(&mut self, features: u64) {
        if (self.features ^ features) & feature::RING_PACKED != 0 {
            self.rings.iter_mut().for_each(|r| r.size = None);
        }
        if features & feature::MQ == 0 {
            self.rings.truncate(2);
        }
    }

    fn size(&mut self, number: u32, size: u32) -> Result<(), Objection> {
        if size == 0 || size > RING_MAX || !(self.packed() || size.is_power_of_two()) {
            return Err(Objection::Size(size));
        }
        let ring = self.ring(number);
        if ring.placed {
            return Err(Objection::InUse(number));
        }
        // If the library runs out of memory the ring has nothing.
        ring.size = None;
        let others: u32 = self.rings.iter().filter_map(|r| r.size).sum();
        if others + size > DESCRIPTORS_MAX { Err(Objection::TooMany) } else { Ok(()) }
    }

    fn base(&mut self, number: u32, base: u32) -> Result<(), Objection> {
        let packed = self.packed();
        let ring = self.ring(number);
        if !ring.placed {
            ring.index = None;
        } else if packed && ring.size.is_none_or(|size| index_of(packed, base) >= size) {
            return Err(Objection::Base(number));
        }
        Ok(())
    }

    /// The indexes of a split ring wrap by themselves; those of a packed one do not.
    fn place(&mut self, number: u32) -> Result<(), Objection> {
        let packed = self.packed();
        let ring = self.ring(number);
        match (ring.size, ring.index) {
            _ if ring.placed => {}
            (None, _) => return Err(Objection::Unprepared(number)),
            (_, None) if packed => return Err(Objection::Unprepared(number)),
            (Some(size), Some(index)) if packed && index >= size => return Err(Objection::Base(number)),
            _ => ring.placed = true,
        }
        Ok(())
    }

    fn start(&mut self, number: u32) -> Result<(), Objection> {
        if self.ring(number).placed { Ok(()) } else { Err(Objection::Unprepared(number)) }
    }
}

/// The index that the library makes of a base.
fn index_of(packed: bool, base: u32) -> u32 {
    base & if packed { PACKED_INDEX } else { 0xffff }
}

/// Bytes that the library reads of a payload, however long it is.
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

/// Numbers in a payload, in the machine's order.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub &'a [u8]);

impl Fields<'_> {
    pub fn word(self, at: usize) -> Result<u32, Objection> {
        let bytes = self.0.get(at..).and_then(<[u8]>::first_chunk).ok_or(Objection::Short)?;
        Ok(u32::from_ne_bytes(*bytes))
    }

    pub fn long(self, at: usize) -> Result<u64, Objection> {
        let bytes = self.0.get(at..).and_then(<[u8]>::first_chunk).ok_or(Objection::Short)?;
        Ok(u64::from_ne_bytes(*bytes))
    }
}

#[cfg(test)]
mod tests;
