//! Where a field lies in a `Flow`, so that one piece of code reads and writes them all.

use crate::flow::{Flow, Vlan};
use std::mem::offset_of;
use zerocopy::IntoBytes;

/// `count` units of `unit` bytes at `offset`, the most significant first, each in host order; of the number that they
/// make, the bits `keep`, shifted right by `shift`. Addresses are units of one byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    offset: usize,
    unit: u8,
    count: u8,
    keep: u128,
    shift: u8,
}

pub(super) const fn at(offset: usize, unit: u8, count: u8, keep: u128, shift: u8) -> Place {
    Place { offset, unit, count, keep, shift }
}

/// An address: `n` bytes in wire order.
pub(super) const fn bytes(offset: usize, n: u8) -> Place {
    let keep = if n == 16 { u128::MAX } else { (1 << (8 * n as u32)) - 1 };
    at(offset, 1, n, keep, 0)
}

/// `n` registers from the one of this index.
pub(super) const fn reg(index: usize, n: u8) -> Place {
    let keep = if n == 4 { u128::MAX } else { (1 << (32 * n as u32)) - 1 };
    at(offset_of!(Flow, regs) + 4 * index, 4, n, keep, 0)
}

/// Bits of the TCI of the outer VLAN tag.
pub(super) const fn vlan(keep: u128, shift: u8) -> Place {
    at(offset_of!(Flow, vlans) + offset_of!(Vlan, tci), 2, 1, keep, shift)
}

/// Bits of the outer MPLS label stack entry.
pub(super) const fn mpls(keep: u128, shift: u8) -> Place {
    at(offset_of!(Flow, mpls_lse), 4, 1, keep, shift)
}

/// The place of a field of tunnel options is its flow's own; see `tlv`.
pub(super) const TLV: Place = at(0, 1, 0, 0, 0);

impl Place {
    /// The whole number that the place is part of.
    fn load(&self, flow: &Flow) -> u128 {
        let unit = usize::from(self.unit);
        let len = unit * usize::from(self.count);
        let slot = flow.as_bytes().get(self.offset..self.offset + len).unwrap_or(&[]);
        slot.chunks_exact(unit).fold(0, |n, chunk| {
            let v = match *chunk {
                [a] => u64::from(a),
                [a, b] => u64::from(u16::from_ne_bytes([a, b])),
                [a, b, c, d] => u64::from(u32::from_ne_bytes([a, b, c, d])),
                [a, b, c, d, e, f, g, h] => u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
                _ => 0,
            };
            n << (8 * unit) | u128::from(v)
        })
    }

    fn store(&self, flow: &mut Flow, value: u128) {
        let unit = usize::from(self.unit);
        let len = unit * usize::from(self.count);
        let Some(slot) = flow.as_mut_bytes().get_mut(self.offset..self.offset + len) else { return };
        let mut rest = value;
        for chunk in slot.chunks_exact_mut(unit).rev() {
            match unit {
                1 => chunk.copy_from_slice(&(rest as u8).to_ne_bytes()),
                2 => chunk.copy_from_slice(&(rest as u16).to_ne_bytes()),
                4 => chunk.copy_from_slice(&(rest as u32).to_ne_bytes()),
                _ => chunk.copy_from_slice(&(rest as u64).to_ne_bytes()),
            }
            rest >>= 8 * unit;
        }
    }

    pub(super) fn get(&self, flow: &Flow) -> u128 {
        (self.load(flow) & self.keep) >> self.shift
    }

    pub(super) fn set(&self, flow: &mut Flow, value: u128) {
        let old = self.load(flow) & !self.keep;
        self.store(flow, old | (value << self.shift & self.keep));
    }

    /// All bits of the place, as a value.
    pub(super) fn ones(&self) -> u128 {
        self.keep >> self.shift
    }
}
