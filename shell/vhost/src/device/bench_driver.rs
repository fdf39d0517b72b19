//! A guest's driver in the same process, for measurements: one queue pair, one descriptor for each packet.
//!
//! The driver does as little as possible: it writes descriptors and ring entries once, and makes a burst available by one store to the
//! index. So the time of a loop of bursts is the time that the switch needs for the rings, without transfers between two cores.

use super::Device;
use super::from_guest::FromGuest;
use super::to_guest::ToGuest;
use crate::feature;
use crate::memory::{GuestMemory, RegionLayout};
use crate::notify::Notify;
use crate::port_state::PortState;
use crate::ring::any::{AnyRing, Space};
use crate::ring::descriptor::Addresses;
use crate::ring::state::{HEADER, StartPosition};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use std::sync::Arc;

/// Number of descriptors of each ring.
const SIZE: u16 = 256;
/// Bytes of the smallest buffer: a packet of up to 2,048 bytes with its virtio header.
const BUFFER: u64 = 2048 + 256;
/// Bytes of the three parts of a ring together: descriptors at offset 0, available ring at 0x1000, used ring at 0x2000.
const RING: u64 = 0x4000;
/// Address of the guest's memory in the front-end's address space.
const FRONT_END_BASE: u64 = 1 << 40;
/// `VIRTQ_DESC_F_WRITE`: the device writes the buffer.
const DESC_F_WRITE: u64 = 2;

/// A guest with one queue pair.
#[derive(Debug)]
pub struct BenchDriver {
    device: Arc<Device>,
    memory: Arc<GuestMemory>,
    /// For each ring: the index of its available ring, or, if it is packed, the number of descriptors made available so far.
    offered: [u16; 2],
    /// Bytes of each buffer.
    buffer: u64,
    /// For each ring, if the rings are packed: the second word of its descriptors.
    packed: Option<[u64; 2]>,
}

impl BenchDriver {
    /// Creates a guest that sends packets of `len` bytes, with split or packed rings; `None`: the system has no memory for it.
    pub fn new(len: usize, packed: bool) -> Option<BenchDriver> {
        let buffer = if len <= 2048 { BUFFER } else { (len as u64).next_multiple_of(64) + BUFFER };
        let size = 2 * (RING + u64::from(SIZE) * buffer);
        let fd = memfd_create("guest", MemfdFlags::CLOEXEC).ok()?;
        ftruncate(&fd, size).ok()?;
        let memory =
            GuestMemory::map(&[RegionLayout { guest: 0, size, user: FRONT_END_BASE, offset: 0 }], &[&fd])
                .ok()?;
        let port = Arc::new(PortState::new("driver", Notify::default()));
        let device = Arc::new(Device::new(&port, false));
        let words = [buffer | DESC_F_WRITE << 48, (HEADER + len) as u64];
        let packed_words = packed.then_some(words);
        let driver =
            BenchDriver { device, memory: Arc::new(memory), offered: [0; 2], buffer, packed: packed_words };
        for ring in 0..2u64 {
            let (base, own) = (ring * RING, u64::from(SIZE) * buffer * ring + 2 * RING);
            for n in 0..u64::from(SIZE) {
                let rest = if ring == 0 { buffer | DESC_F_WRITE << 32 } else { (HEADER + len) as u64 };
                driver.write(base + 16 * n, &[own + n * buffer, rest].map(u64::to_le_bytes).concat());
                if packed {
                    driver.write(base + 16 * n + 8, &[0; 8]);
                }
                driver.write(base + 0x1004 + 2 * n, &(n as u16).to_le_bytes());
            }
            // The driver polls: it disables interrupts in the flags of the available ring, or in its event suppression structure.
            driver.write(base + 0x1000, &if packed { [0, 0, 1, 0] } else { [1, 0, 0, 0] });
            let [descriptors, available, used] = [0, 0x1000, 0x2000].map(|at| FRONT_END_BASE + base + at);
            let at = Addresses { descriptors, available, used };
            let mut features = feature::VERSION_1 | feature::MRG_RXBUF | feature::IN_ORDER;
            if packed {
                features |= feature::RING_PACKED;
            }
            let new = AnyRing::new(
                Space::Physical(&driver.memory),
                at,
                SIZE,
                features,
                StartPosition::default(),
                None,
            )
            .ok()??;
            driver.device.replace(ring as usize, Some(Box::new(new)));
        }
        port.set_to_guest(0, true);
        Some(driver)
    }

    /// The switch's receive queue for packets from this guest.
    pub fn receiver(&self) -> FromGuest {
        FromGuest::new(&self.device, 0)
    }

    /// The switch's send queue for packets to this guest.
    pub fn sender(&self) -> ToGuest {
        ToGuest::new(&self.device, 0)
    }

    /// Makes `n` packets of the guest, and `n` buffers for packets of the switch, available.
    pub fn offer(&mut self, n: u16) {
        for ring in 0..2 {
            if let Some(words) = self.packed {
                for slot in (0..n).map(|n| self.offered[ring].wrapping_add(n)) {
                    let flags = if (slot / SIZE).is_multiple_of(2) { 1 << 7 } else { 1 << 15 };
                    let (at, id) = (u64::from(slot % SIZE), u64::from(slot % SIZE) << 32);
                    let word = words[ring] | id | flags << 48;
                    self.write(ring as u64 * RING + 16 * at + 8, &word.to_le_bytes());
                }
            }
            self.offered[ring] = self.offered[ring].wrapping_add(n);
            if self.packed.is_some() {
                continue;
            }
            self.write(ring as u64 * RING + 0x1002, &self.offered[ring].to_le_bytes());
        }
    }

    /// The virtio header and the first 8 bytes of the packet in buffer `n` of the guest's receive ring.
    pub fn received(&self, n: u16) -> [u8; HEADER + 8] {
        let mut bytes = [0; HEADER + 8];
        let part = self.memory.part(2 * RING + u64::from(n % SIZE) * self.buffer, bytes.len() as u32, &mut 0);
        part.map(|part| part.read(&mut bytes));
        bytes
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.part(at, bytes.len() as u32, &mut 0).map(|part| part.write(bytes));
    }
}
