//! Rings with arbitrary content, as a guest could write it, for the fuzz target and the tests.

use crate::address_space::IovaSpace;
use crate::bounds::MAX_PAIRS;
use crate::feature;
use crate::iotlb::{Access, Iotlb, IovaRange};
use crate::memory::{GuestMemory, RegionLayout};
use crate::ring::any::{AnyRing, Space};
use crate::ring::descriptor::Addresses;
use crate::ring::fill::Item;
use crate::ring::state::StartPosition;
use crate::ring::tail_leases::TailLeases;
use packet::frame::{FRAME_MAX, FramePool};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::sync::Arc;

/// Bytes of the guest's memory, in two adjacent regions.
pub const MEMORY: usize = 1 << 14;
/// Offsets of the ring's parts: descriptors, available ring and used ring, or for a packed ring descriptors and both event structures.
pub const RING: [u64; 3] = [0, 0x400, 0x800];
/// Number of descriptors of the ring.
pub const SIZE: u16 = 16;
/// Address of the guest's memory in the front-end's address space.
const FRONT_END_BASE: u64 = 1 << 40;

/// Runs three bursts on a guest's ring, once without and once with an IOMMU. The first byte of `content` selects features, direction
/// (receive or send) and tail leases; the rest is the beginning of the guest's memory. Panics if an invariant of the rings does not hold.
pub fn run(content: &[u8]) {
    let Some((&mode, content)) = content.split_first() else { return };
    let half = MEMORY as u64 / 2;
    let layout = |guest, offset| RegionLayout { guest, size: half, user: FRONT_END_BASE + guest, offset };
    let Ok(fd) = memfd_create("guest", MemfdFlags::CLOEXEC) else { return };
    if ftruncate(&fd, MEMORY as u64).is_err() {
        return;
    }
    let Ok(memory) = GuestMemory::map(&[layout(0, 0), layout(half, half)], &[&fd, &fd]) else { return };
    let memory = Arc::new(memory);
    let write = || {
        let (first, second) = content.split_at(content.len().min(half as usize));
        for (at, bytes) in [(0, first), (half, second)] {
            memory.part(at, half as u32, &mut 0).map(|part| part.write(bytes));
        }
    };
    let mut features = 0;
    let choices = [feature::VERSION_1, feature::MRG_RXBUF, feature::INDIRECT, feature::EVENT_IDX];
    for (bit, feature) in choices.into_iter().enumerate() {
        features |= if mode & 1 << bit != 0 { feature } else { 0 };
    }
    let offloads = feature::CSUM | feature::HOST_TSO4 | feature::HOST_TSO6 | feature::HOST_USO;
    features |= if mode & 0x10 != 0 { offloads } else { 0 };
    features |= if mode & 0x80 != 0 { feature::RING_PACKED } else { 0 };
    let space = IovaSpace::new(&memory, &Arc::new(translations()));
    for space in [Space::Physical(&memory), Space::Iova(&space)] {
        write();
        run_bursts(space, mode, features, &write);
    }
}

/// Translations of a guest with an IOMMU: of the ring, and of its memory except a part. One part must not be written. Each is in one region.
fn translations() -> Iotlb {
    let mut iotlb = Iotlb::default();
    let mut add = |iova, at, size, access| {
        let range = IovaRange::new(iova, size);
        range.into_iter().for_each(|range| iotlb.insert(range, FRONT_END_BASE + at, access));
    };
    add(FRONT_END_BASE, 0, 0x1000, Access::BOTH);
    for (at, size, access) in [
        (0, 0x1000, Access::BOTH),
        (0x1800, 0x800, Access::BOTH),
        (0x2000, 0x1000, Access::READ),
        (0x3000, 0x1000, Access::BOTH),
    ] {
        add(at, at, size, access);
    }
    iotlb
}

/// Runs three bursts. `write` restores the guest's memory.
fn run_bursts(space: Space<'_>, mode: u8, features: u64, write: &impl Fn()) {
    let [descriptors, available, used] = RING.map(|at| FRONT_END_BASE + at);
    let at = Addresses { descriptors, used, available };
    let Ok(Some(mut ring)) = AnyRing::new(space, at, SIZE, features, StartPosition::default(), None) else {
        return;
    };
    let (mut pool, mut out, mut leases) = (FramePool::new(MAX_PAIRS), Vec::new(), TailLeases::new());
    let with_leases = mode & 0x40 != 0;
    let packets = [&[7u8; 60][..], &[8; 3000], &[9; 14], &[10; 60]];
    for _ in 0..3 {
        let before = ring.position();
        let progress = |ring: &AnyRing| match ring {
            AnyRing::Split(_) | AnyRing::IovaSplit(_) => ring.position().wrapping_sub(before),
            // A packet may use several descriptors, so the number of entries is not known. The position must be within the ring.
            AnyRing::Packed(_) | AnyRing::IovaPacked(_) => ring.position() & 0x7fff,
        };
        if mode & 0x20 == 0 {
            let got =
                ring.receive(usize::from(SIZE) * 2, &mut pool, &mut out, with_leases.then_some(&mut leases));
            let is_packed = matches!(ring, AnyRing::Packed(_) | AnyRing::IovaPacked(_));
            assert!(is_packed || usize::from(progress(&ring)) == got.packets);
            assert!(got.packets <= usize::from(SIZE) && got.refused + out.len() == got.packets);
            assert!(out.iter().all(|frame| (14..=FRAME_MAX).contains(&frame.len())));
            assert!(
                out.iter().all(|frame| !frame.has_offload_state() || frame.offload().fits(frame.bytes()))
            );
            pool.free_all(&mut out);
            leases.clear();
            assert!(leases.is_empty() && (got.needs_return || !ring.is_deferred()));
            ring.publish_deferred();
        } else {
            let items = packets.map(Item::new);
            let mut sent = 0;
            let filled = ring.fill(&items, |_, _| sent += 1);
            assert!(
                filled.handled <= items.len() && sent + filled.too_long == filled.handled
                    || ring.invalid().is_some()
            );
        }
        assert!(progress(&ring) <= SIZE && ring.available().unwrap_or(0) <= SIZE);
        // Buffers may overlap with the ring, so the switch may have overwritten it: restore the content.
        write();
        // A ring that waits for a translation continues.
        ring.set_iotlb(&Arc::new(translations()));
    }
}
