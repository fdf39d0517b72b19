//! Translates chains of descriptors to parts of guest memory.

use super::RingError;
use super::descriptor::Descriptor;
use super::layout::Layout;
use crate::address_space::AddressSpace;
use crate::iotlb::Access;
use crate::memory::Part;
use arrayvec::ArrayVec;

/// Maximum number of parts of one packet, including empty ones: 64 KB in buffers of 256 bytes need 256; the rest is a margin. Chains with
/// more parts are invalid.
pub(crate) const PARTS_MAX: usize = 280;

/// The parts of all chains of one packet, in order.
pub(crate) type Parts<'m> = ArrayVec<Part<'m>, PARTS_MAX>;

/// The direction of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The guest wrote the packet; the switch reads it.
    FromGuest,
    /// The switch writes the packet.
    ToGuest,
}

impl Direction {
    /// How the switch accesses the buffers of the chain.
    #[inline(always)]
    pub fn access(self) -> Access {
        if self == Direction::FromGuest { Access::READ } else { Access::WRITE }
    }
}

/// Parameters of a walk along a chain.
#[derive(Debug)]
pub(crate) struct Walk<'a, L> {
    pub ring: &'a L,
    pub direction: Direction,
    /// Indirect tables were negotiated.
    pub indirect: bool,
}

/// The result of a walk along a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain {
    /// Total length of its buffers in bytes.
    pub len: u32,
    /// The buffer id by which the chain is marked as used.
    pub id: u16,
    /// Number of ring positions that the chain occupies: the distance to the next entry.
    pub slots: u16,
}

impl<'m, L: Layout> Walk<'m, L> {
    /// Appends the parts of the chain at `position`. Its first descriptor, with number `head`, was read before. Every descriptor is read
    /// once. `last_region`: see [`crate::memory::GuestMemory::part`].
    #[inline]
    pub fn chain(
        &self,
        position: u16,
        (head, first): (u16, Descriptor),
        parts: &mut Parts<'m>,
        last_region: &mut usize,
    ) -> Result<Chain, RingError> {
        if first.has(Descriptor::INDIRECT) {
            let len = self.indirect_table(first, parts, last_region)?;
            return Ok(Chain { len, id: head, slots: 1 });
        }
        let mut len = self.append_checked(first, parts, last_region)?;
        let (mut descriptor, mut n) = (first, 0);
        while descriptor.has(Descriptor::NEXT) {
            n += 1;
            if n >= self.ring.size() {
                return Err(RingError::Chain);
            }
            descriptor = self.ring.following(position, n, &descriptor).ok_or(RingError::Head)?;
            if descriptor.has(Descriptor::INDIRECT) {
                return Err(RingError::Indirect);
            }
            len = self.add(len, self.append_checked(descriptor, parts, last_region)?)?;
        }
        // In a packed ring the last descriptor contains the buffer id.
        Ok(if L::PACKED {
            Chain { len, id: descriptor.next(), slots: n + 1 }
        } else {
            Chain { len, id: head, slots: 1 }
        })
    }

    fn add(&self, total: u32, more: u32) -> Result<u32, RingError> {
        total.checked_add(more).ok_or(RingError::Chain)
    }

    /// Appends the parts of a chain in an indirect table.
    fn indirect_table(
        &self,
        table: Descriptor,
        parts: &mut Parts<'m>,
        last_region: &mut usize,
    ) -> Result<u32, RingError> {
        let entries = table.len() / Descriptor::BYTES as u32;
        let is_valid_len = table.len().is_multiple_of(Descriptor::BYTES as u32)
            && (1..=u32::from(u16::MAX)).contains(&entries);
        if !self.indirect || !is_valid_len || table.has(Descriptor::NEXT) {
            return Err(RingError::Indirect);
        }
        let entry = |n: u16, last_region: &mut usize| {
            if u32::from(n) >= entries {
                return Err(RingError::Indirect);
            }
            let at = table
                .address
                .checked_add(u64::from(n) * Descriptor::BYTES as u64)
                .ok_or(RingError::Address)?;
            let mut bytes = [[0u8; 8]; 2];
            let part = self.ring.space().part(at, Descriptor::BYTES as u32, Access::READ, last_region)?;
            match part.read(bytes.as_flattened_mut()) {
                Descriptor::BYTES => {
                    let [address, rest] = bytes.map(u64::from_le_bytes);
                    Ok(L::in_table(address, rest))
                }
                _ => Err(RingError::Address),
            }
        };
        let (mut n, mut total, mut left) = (0, 0, self.ring.size());
        loop {
            let descriptor = entry(n, last_region)?;
            if descriptor.has(Descriptor::INDIRECT) {
                return Err(RingError::Indirect);
            }
            // DPDK's driver for packed rings leaves the direction flag set in indirect tables of packets that the guest sends.
            let len = match (L::PACKED, self.direction) {
                (true, Direction::FromGuest) => self.append_buffer(descriptor, parts, last_region),
                _ => self.append_checked(descriptor, parts, last_region),
            };
            total = self.add(total, len?)?;
            let is_last =
                if L::PACKED { u32::from(n) + 1 == entries } else { !descriptor.has(Descriptor::NEXT) };
            if is_last {
                return Ok(total);
            }
            (n, left) = (if L::PACKED { n + 1 } else { descriptor.next() }, left - 1);
            if left == 0 {
                return Err(RingError::Chain);
            }
        }
    }

    /// Appends the parts of one buffer, which must have the right direction.
    #[inline]
    fn append_checked(
        &self,
        buffer: Descriptor,
        parts: &mut Parts<'m>,
        last_region: &mut usize,
    ) -> Result<u32, RingError> {
        if buffer.has(Descriptor::WRITE) != (self.direction == Direction::ToGuest) {
            return Err(RingError::Direction);
        }
        self.append_buffer(buffer, parts, last_region)
    }

    /// Appends the parts of one buffer: several parts if the buffer crosses regions.
    #[inline]
    fn append_buffer(
        &self,
        buffer: Descriptor,
        parts: &mut Parts<'m>,
        last_region: &mut usize,
    ) -> Result<u32, RingError> {
        let (mut address, mut left) = (buffer.address, buffer.len());
        if left == 0 {
            // Counts as a part, so that `PARTS_MAX` also limits the number of descriptors without bytes.
            parts.try_push(Part::EMPTY).map_err(|_| RingError::Chain)?;
        }
        while left > 0 {
            let part = self.ring.space().part(address, left, self.direction.access(), last_region)?;
            parts.try_push(part).map_err(|_| RingError::Chain)?;
            // A part has at least one byte, and its region does not wrap around.
            address = address.checked_add(part.len() as u64).ok_or(RingError::Address)?;
            left -= part.len() as u32;
        }
        Ok(buffer.len())
    }
}
