//! Rings with any content, as a guest could write it, for the fuzz target and the tests.

use crate::bounds::MAX_PAIRS;
use crate::feature;
use crate::memory::{GuestMemory, Layout};
use crate::ring::any::AnyRing;
use crate::ring::descriptor::Addresses;
use crate::ring::fill::Item;
use crate::ring::loans::Loans;
use crate::ring::split::Start;
use packet::frame::{FRAME_MAX, FramePool};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::sync::Arc;

/// Bytes of the guest's memory, in two regions that follow each other.
pub const MEMORY: usize = 1 << 14;
/// Where the parts of the ring are: descriptors, available ring, used ring; of a packed ring: descriptors, event structures.
pub const RING: [u64; 3] = [0, 0x400, 0x800];
/// Descriptors of the ring.
pub const SIZE: u16 = 16;
const USER: u64 = 1 << 40;

/// Receives from, and sends to, a guest whose memory begins with `content`. The first byte selects features. Panics if an invariant of
/// the rings does not hold.
pub fn rings(content: &[u8]) {
    let Some((&mode, content)) = content.split_first() else { return };
    let half = MEMORY as u64 / 2;
    let layout = |guest, offset| Layout { guest, size: half, user: USER + guest, offset };
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
    features |= if mode & 0x10 != 0 { feature::CSUM | feature::HOST_TSO4 | feature::HOST_TSO6 } else { 0 };
    features |= if mode & 0x80 != 0 { feature::RING_PACKED } else { 0 };
    write();
    let [descriptors, available, used] = RING.map(|at| USER + at);
    let at = Addresses { descriptors, used, available };
    let Ok(Some(mut ring)) = AnyRing::new(&memory, at, SIZE, features, Start::default(), None) else {
        return;
    };
    let (mut pool, mut out, mut loans) = (FramePool::new(MAX_PAIRS), Vec::new(), Loans::new());
    let lends = mode & 0x40 != 0;
    let packets = [&[7u8; 60][..], &[8; 3000], &[9; 14], &[10; 60]];
    for _ in 0..3 {
        let before = ring.place();
        let moved = |ring: &AnyRing| match ring {
            AnyRing::Split(ring) => ring.next.wrapping_sub(before),
            // A packet has a descriptor at least; the place is within the ring.
            AnyRing::Packed(ring) => ring.next & 0x7fff,
        };
        if mode & 0x20 == 0 {
            let got = ring.receive(usize::from(SIZE) * 2, &mut pool, &mut out, lends.then_some(&mut loans));
            assert!(matches!(ring, AnyRing::Packed(_)) || usize::from(moved(&ring)) == got.packets);
            assert!(got.packets <= usize::from(SIZE) && got.refused + out.len() == got.packets);
            assert!(out.iter().all(|frame| (14..=FRAME_MAX).contains(&frame.len())));
            assert!(
                out.iter().all(|frame| !frame.has_offload_state() || frame.offload().fits(frame.bytes()))
            );
            pool.free_all(&mut out);
            loans.clear();
            assert!(loans.is_empty() && (got.lent || !ring.is_lent()));
            ring.publish_lent();
        } else {
            let items = packets.map(Item::new);
            let mut sent = 0;
            let filled = ring.fill(&items, |_, _| sent += 1);
            assert!(
                filled.handled <= items.len() && sent + filled.too_long == filled.handled
                    || ring.invalid().is_some()
            );
        }
        assert!(moved(&ring) <= SIZE && ring.waiting().unwrap_or(0) <= SIZE);
        // Buffers may overlap with the ring, so the switch may have overwritten it: restore the content.
        write();
    }
}
