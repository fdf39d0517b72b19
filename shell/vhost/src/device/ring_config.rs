//! The configuration of one ring, from the guest's messages.

use super::Device;
use crate::dirty::DirtyLog;
use crate::feature;
use crate::memory::GuestMemory;
use crate::ring::access::{Addresses, RingMemory};
use crate::ring::split::{Log, Ring};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How the guest kicks a ring.
#[derive(Clone, Debug, Default)]
pub(super) enum KickState {
    /// The guest has not started the ring.
    #[default]
    Stopped,
    /// The guest does not kick: the ring is polled.
    Polled,
    /// The guest kicks by this eventfd.
    Event(Arc<OwnedFd>),
}

/// The memory of the guest, and the log of its migration.
#[derive(Clone, Copy)]
pub(super) struct Memory<'a> {
    pub memory: &'a Arc<GuestMemory>,
    pub log: Option<&'a Arc<DirtyLog>>,
}

/// The configuration of one ring. Only the serving thread has it.
#[derive(Debug, Default)]
pub(super) struct RingConfig {
    pub size: u16,
    pub addresses: Option<Addresses>,
    /// The guest's address of the used ring, whose writes are to be logged during a migration.
    pub log_used: Option<u64>,
    pub kick: KickState,
    pub call: Option<Arc<OwnedFd>>,
    pub enabled: bool,
    /// The next index, when the ring was stopped.
    pub base: u16,
    /// The ring is in use.
    pub running: bool,
}

impl RingConfig {
    /// Whether the ring lies in this memory; true as long as it has no addresses.
    pub fn fits(&self, memory: &Arc<GuestMemory>, features: u64) -> bool {
        let event_index = features & feature::EVENT_IDX != 0;
        self.addresses.is_none_or(|at| RingMemory::new(memory, at, self.size, event_index).is_some())
    }

    /// The ring as it is configured now; `None`: it is not ready. It replaces `old`.
    fn ring(&self, memory: &Memory<'_>, features: u64, old: Option<&Ring>) -> Option<Ring> {
        let kick = match &self.kick {
            KickState::Stopped => return None,
            KickState::Polled => None,
            KickState::Event(event) => Some(Arc::clone(event)),
        };
        let addresses = self.addresses.filter(|_| self.enabled)?;
        let mut ring = Ring::new(memory.memory, addresses, self.size, features, old)?;
        let log = memory.log.filter(|_| features & feature::LOG_ALL != 0);
        ring.log = log.map(|log| Log { dirty: Arc::clone(log), used: self.log_used });
        (ring.kick, ring.call) = (kick, self.call.clone());
        Some(ring)
    }

    /// Starts the ring as it is configured now, or stops it. To be called while no worker is inside.
    pub fn apply(&mut self, number: usize, device: &Device, memory: Option<Memory<'_>>, features: u64) {
        let old = device.replace(number, None);
        self.base = old.as_ref().map_or(self.base, |old| old.next);
        let new = memory.and_then(|memory| self.ring(&memory, features, old.as_deref()));
        self.running = new.is_some();
        device.replace(number, new.map(Box::new));
    }
}
