//! Changes of a guest's IOTLB, and requests for missing translations.
//!
//! A new [`Iotlb`] is given to each ring under the ring's lock. A burst holds the lock, so when all rings have the new one, no worker
//! accesses memory by a translation that was removed; only then the front-end gets its reply, and may use the memory for other purposes.
//! The rings need not be paused for that, and packets are not dropped. Only a ring whose own memory is affected stops until its
//! translation has arrived again.
//!
//! Source: vhost-user specification, "IOMMU support".

use super::Device;
use crate::address_space::Miss;
use crate::iotlb::{Access, Iotlb, IovaRange};
use crate::message::{Message, Outbox, WriteResult};
use crate::rules::{Fields, Refusal};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// Request number of the back-end's messages about the IOTLB (vhost-user specification, "Back-end message types").
const BACKEND_IOTLB_MSG: u32 = 1;

/// Types of messages about the IOTLB.
const MISS: u8 = 1;
const UPDATE: u8 = 2;
const INVALIDATE: u8 = 3;
/// Bytes of a message about the IOTLB, with the padding at its end.
const BYTES: usize = 32;

/// A change of the IOTLB, from a `VHOST_USER_IOTLB_MSG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IotlbChange {
    /// A translation to an address of the front-end.
    Update {
        range: IovaRange,
        user: u64,
        access: Access,
    },
    Invalidate(IovaRange),
}

impl IotlbChange {
    /// Reads a message: address, size, address of the front-end (8 bytes each), access and type (a byte each).
    pub fn read(payload: &[u8]) -> Result<IotlbChange, Refusal> {
        let fields = Fields(payload);
        let (iova, size, user) = (fields.long(0)?, fields.long(8)?, fields.long(16)?);
        let [access, kind] = payload.get(24..26).and_then(<[u8]>::first_chunk).ok_or(Refusal::Short)?;
        let range = IovaRange::new(iova, size);
        match *kind {
            UPDATE => {
                let range = range.ok_or(Refusal::Memory("a translation has size 0 or wraps around"))?;
                let access = Access::from_bits(*access).ok_or(Refusal::Memory("there is no such access"))?;
                Ok(IotlbChange::Update { range, user, access })
            }
            // Front-ends invalidate all addresses by a size of 0, which is 2^64 here. To remove too many translations does no harm.
            INVALIDATE if size == 0 => Ok(IotlbChange::Invalidate(IovaRange::ALL)),
            INVALIDATE => {
                Ok(IotlbChange::Invalidate(range.unwrap_or(IovaRange { first: iova, last: u64::MAX })))
            }
            _ => Err(Refusal::NotOffered),
        }
    }

    pub fn range(&self) -> IovaRange {
        match self {
            IotlbChange::Update { range, .. } | IotlbChange::Invalidate(range) => *range,
        }
    }
}

impl Device {
    /// Gives new translations to the rings from number `next` on, which increases. Returns false at a ring that a worker accesses.
    ///
    /// `ahead`: looks up the next buffers of rings that the guest receives on, because translations were removed. The next packet for the
    /// guest may arrive much later, and would be dropped if the switch requested the translation of its buffer only then.
    pub(super) fn install(&self, iotlb: &Arc<Iotlb>, ahead: bool, next: &mut usize) -> bool {
        while let Some(slot) = self.slots.get(*next) {
            let Some(mut guard) = slot.ring.try_lock() else { return false };
            let continues = guard.as_mut().is_some_and(|ring| {
                let continues = ring.set_iotlb(iotlb);
                if ahead && next.is_multiple_of(2) {
                    ring.request_ahead();
                    self.request_missed_translations(*next, ring);
                }
                continues
            });
            drop(guard);
            if continues {
                self.wake_worker(*next);
            }
            *next += 1;
        }
        true
    }

    /// The eventfd that becomes readable when ring `number` continues after it waited for a translation; `None`: guests are not offered an
    /// IOMMU, or the process has no free file descriptor.
    pub(super) fn continuation(&self, number: usize) -> Option<&Arc<OwnedFd>> {
        let slot = self.slots.get(number).filter(|_| self.iommu)?;
        if slot.continued.get().is_none() {
            let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
            let _ = slot.continued.set(Arc::new(event));
        }
        slot.continued.get()
    }

    /// Wakes the worker of ring `number` if it sleeps.
    pub(super) fn wake_worker(&self, number: usize) {
        if let Some(event) = self.slots.get(number).and_then(|slot| slot.continued.get()) {
            let _ = rustix::io::write(&**event, &1u64.to_ne_bytes());
        }
    }
}

/// The socket on which the switch sends messages to the front-end.
#[derive(Debug, Default)]
pub(super) struct Channel {
    /// `None`: the front-end has not sent a socket, or closed it.
    socket: Option<OwnedFd>,
    /// A message that waits for space in the socket.
    outbox: Option<Outbox>,
}

impl Channel {
    /// Uses another socket.
    pub fn set_socket(&mut self, socket: OwnedFd) {
        *self = Channel { socket: Some(socket), outbox: None };
    }

    /// Requests the missing translations of a guest, as far as the socket accepts the messages.
    pub fn request(&mut self, device: &Device, closing: &Arc<AtomicUsize>) {
        while let Some(socket) = &self.socket {
            let next = self.outbox.take().or_else(|| {
                let miss = device.missing().next()?;
                Some(Outbox::new(Message::new(BACKEND_IOTLB_MSG, &payload(miss), closing)))
            });
            let Some(mut outbox) = next else { return };
            match outbox.write(socket) {
                WriteResult::All => {}
                WriteResult::Part => {
                    self.outbox = Some(outbox);
                    return;
                }
                WriteResult::Ended => self.socket = None,
            }
        }
    }

    /// Adds the file descriptor for which the channel waits.
    pub fn poll_fds<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        let waits = self.socket.as_ref().filter(|_| self.outbox.is_some());
        fds.extend(waits.map(|socket| PollFd::new(socket, PollFlags::OUT)));
    }
}

/// The payload of a request for a page's translation. The size and the front-end's address are not known.
fn payload(Miss { page, access }: Miss) -> [u8; BYTES] {
    let mut payload = [0; BYTES];
    payload[..8].copy_from_slice(&page.to_ne_bytes());
    [payload[24], payload[25]] = [access.bits(), MISS];
    payload
}
