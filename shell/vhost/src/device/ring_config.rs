//! The configuration of one ring, set by the guest's messages.

use super::Device;
use crate::dirty::DirtyLog;
use crate::feature;
use crate::memory::GuestMemory;
use crate::ring::InvalidRing;
use crate::ring::any::AnyRing;
use crate::ring::descriptor::Addresses;
use crate::ring::inflight::Area;
use crate::ring::state::{Log, StartPosition, Wiring};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How the guest kicks a ring.
#[derive(Clone, Debug, Default)]
pub(super) enum KickState {
    /// The guest has not started the ring.
    #[default]
    Stopped,
    /// The guest does not kick: the ring must be polled.
    Polled,
    /// The guest kicks by this eventfd.
    Event(Arc<OwnedFd>),
}

/// The memory of the guest, the log of written pages, and the inflight area.
#[derive(Clone, Copy)]
pub(super) struct Memory<'a> {
    pub memory: &'a Arc<GuestMemory>,
    pub log: Option<&'a Arc<DirtyLog>>,
    pub area: Option<&'a Arc<Area>>,
}

/// The configuration of one ring. Only the serving thread accesses it.
#[derive(Debug, Default)]
pub(super) struct RingConfig {
    pub size: u16,
    pub addresses: Option<Addresses>,
    /// The guest-physical address of the used ring, if writes to it are logged during a migration.
    pub log_used: Option<u64>,
    pub kick: KickState,
    pub call: Option<Arc<OwnedFd>>,
    /// The last value of `SET_VRING_ENABLE`. Without protocol features there is no such message, and each ring is enabled.
    pub enabled: bool,
    /// The ring position when the ring was stopped, or the position that the front-end set.
    pub base: Option<u16>,
    /// The ring is in use by workers.
    pub running: bool,
}

impl RingConfig {
    /// Whether the ring is in this memory; true if it has no addresses yet.
    pub fn fits(&self, memory: &Arc<GuestMemory>, features: u64) -> bool {
        self.addresses.is_none_or(|at| AnyRing::fits(memory, at, self.size, features))
    }

    /// Creates ring `number` as it is configured now; `None`: its configuration is not complete. The new ring replaces `old`.
    fn ring(
        &self,
        number: usize,
        memory: &Memory<'_>,
        features: u64,
        old: Option<&AnyRing>,
    ) -> Result<Option<AnyRing>, InvalidRing> {
        let kick = match &self.kick {
            KickState::Stopped => return Ok(None),
            KickState::Polled => None,
            KickState::Event(event) => Some(Arc::clone(event)),
        };
        let enabled = self.enabled || features & feature::PROTOCOL_FEATURES == 0;
        let Some(addresses) = self.addresses.filter(|_| enabled) else { return Ok(None) };
        let packed = features & feature::RING_PACKED != 0;
        let region =
            memory.area.map(|area| area.region(number, self.size, packed).ok_or(InvalidRing::Inflight));
        let start = StartPosition { base: self.base, region: region.transpose()? };
        let ring = AnyRing::new(memory.memory, addresses, self.size, features, start, old)?;
        let Some(mut ring) = ring else { return Ok(None) };
        let log = memory.log.filter(|_| features & feature::LOG_ALL != 0);
        let log = log.map(|log| Log { dirty: Arc::clone(log), used: self.log_used });
        ring.set_wiring(Wiring { kick, call: self.call.clone(), log });
        Ok(Some(ring))
    }

    /// Starts the ring as it is configured now, or stops it. Called while no worker accesses the rings.
    pub fn apply(&mut self, number: usize, device: &Device, memory: Option<Memory<'_>>, features: u64) {
        let old = device.stop(number);
        self.base = old.as_ref().map(|old| old.position()).or(self.base);
        let new = memory.map_or(Ok(None), |memory| self.ring(number, &memory, features, old.as_deref()));
        let new = new.unwrap_or_else(|invalid| {
            // Instead of reading the next message, the session will end the connection.
            device.invalid().get_or_insert((number, invalid));
            None
        });
        self.running = new.is_some();
        device.replace(number, new.map(Box::new));
    }
}
