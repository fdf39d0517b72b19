//! The configuration of one ring, set by the guest's messages.

use super::Device;
use crate::address_space::{IovaSpace, RingParts};
use crate::dirty::DirtyLog;
use crate::feature;
use crate::iotlb::{Iotlb, IovaRange};
use crate::memory::GuestMemory;
use crate::ring::RingError;
use crate::ring::any::{AnyRing, Space};
use crate::ring::descriptor::Addresses;
use crate::ring::inflight::InflightArea;
use crate::ring::state::{EventfdsAndLog, Log, StartPosition};
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

/// The memory of the guest, its IOTLB (`None`: it has no IOMMU), the log of written pages, and the inflight area.
#[derive(Clone, Copy)]
pub(super) struct RingResources<'a> {
    pub memory: &'a Arc<GuestMemory>,
    pub iotlb: Option<&'a Arc<Iotlb>>,
    pub log: Option<&'a Arc<DirtyLog>>,
    pub area: Option<&'a Arc<InflightArea>>,
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
    /// The ring is in use by workers, or would be if its own translations had not been invalidated.
    pub running: bool,
    /// The ring will start when the IOTLB has the translations of its own memory.
    waits: bool,
    /// The ring that was in use before it began to wait: the new one continues at its position.
    before: Option<Box<AnyRing>>,
    /// The memory of the ring in use, if the guest has an IOMMU.
    parts: RingParts,
}

impl RingConfig {
    /// Forgets all but the eventfd by which the guest is interrupted.
    pub fn reset(&mut self) {
        *self = RingConfig { call: self.call.take(), ..RingConfig::default() };
    }

    /// Whether the ring is in this memory; true if it has no addresses yet.
    pub fn fits(&self, memory: &Arc<GuestMemory>, features: u64) -> bool {
        let fits = |at| AnyRing::fits(Space::Physical(memory), at, self.size, features) == Ok(true);
        self.addresses.is_none_or(fits)
    }

    /// Whether the ring must start, stop or move, because translations of `changed` are different now. If it still waits for some, requests
    /// those.
    pub fn is_affected(
        &self,
        number: usize,
        changed: IovaRange,
        device: &Device,
        resources: &RingResources<'_>,
        features: u64,
    ) -> bool {
        let (Some(iotlb), Some(at)) = (resources.iotlb, self.addresses) else { return false };
        if !self.waits {
            let mut parts = self.parts.iter().filter(|part| part.range.overlaps(changed));
            return parts.any(|part| iotlb.find_contiguous(part.range, part.access) != Ok(part.user));
        }
        let space = IovaSpace::new(resources.memory, iotlb);
        let waits =
            AnyRing::fits(Space::Iova(&space), at, self.size, features) == Err(RingError::Untranslated);
        device.request_translation(number, space.misses());
        !waits
    }

    /// Creates ring `number` as it is configured now; `None`: its configuration is not complete. The new ring replaces `old`.
    fn ring(
        &self,
        number: usize,
        device: &Device,
        resources: &RingResources<'_>,
        features: u64,
        old: Option<&AnyRing>,
    ) -> Result<Option<AnyRing>, RingError> {
        let kick = match &self.kick {
            KickState::Stopped => return Ok(None),
            KickState::Polled => None,
            KickState::Event(event) => Some(Arc::clone(event)),
        };
        let enabled = self.enabled || features & feature::PROTOCOL_FEATURES == 0;
        let Some(addresses) = self.addresses.filter(|_| enabled) else { return Ok(None) };
        let packed = features & feature::RING_PACKED != 0;
        let region =
            resources.area.map(|area| area.region(number, self.size, packed).ok_or(RingError::Inflight));
        let start = StartPosition { base: self.base, region: region.transpose()? };
        let ring = match resources.iotlb {
            None => {
                AnyRing::new(Space::Physical(resources.memory), addresses, self.size, features, start, old)?
            }
            Some(iotlb) => {
                let space = IovaSpace::new(resources.memory, iotlb);
                let ring = AnyRing::new(Space::Iova(&space), addresses, self.size, features, start, old);
                device.request_translation(number, space.misses());
                // Without an IOMMU, such a ring was refused before.
                Some(ring?.ok_or(RingError::Scattered)?)
            }
        };
        let Some(mut ring) = ring else { return Ok(None) };
        let log = resources.log.filter(|_| features & feature::LOG_ALL != 0);
        let log = log.map(|log| Log { dirty: Arc::clone(log), used: self.logged(resources.memory, &ring) });
        ring.set_eventfds_and_log(EventfdsAndLog { kick, call: self.call.clone(), log });
        Ok(Some(ring))
    }

    /// The guest-physical address of the used ring, if writes to it are logged. With an IOMMU, the front-end names an I/O virtual address,
    /// so the address is that of the memory in use.
    fn logged(&self, memory: &Arc<GuestMemory>, ring: &AnyRing) -> Option<u64> {
        let Some(space) = ring.iova_space() else { return self.log_used };
        let used = *space.ring_parts().get(2).filter(|_| self.log_used.is_some())?;
        memory.address_of(&memory.at_user_address(used.user, 1)?)
    }

    /// Starts the ring as it is configured now, or stops it. Called while no worker accesses the rings.
    pub fn apply(
        &mut self,
        number: usize,
        device: &Device,
        resources: Option<RingResources<'_>>,
        features: u64,
    ) {
        let old = device.stop(number).or_else(|| self.before.take());
        self.base = old.as_ref().map(|old| old.position()).or(self.base);
        let new = resources
            .map_or(Ok(None), |resources| self.ring(number, device, &resources, features, old.as_deref()));
        self.waits = new.as_ref().err() == Some(&RingError::Untranslated);
        let new = new.unwrap_or_else(|invalid| {
            if !self.waits {
                // Instead of reading the next message, the session will end the connection.
                device.invalid().get_or_insert((number, invalid));
            }
            None
        });
        self.running = new.is_some() || self.waits && old.is_some();
        self.before = old.filter(|_| self.waits);
        self.parts =
            new.as_ref().and_then(AnyRing::iova_space).map(IovaSpace::ring_parts).unwrap_or_default();
        device.replace(number, new.map(Box::new));
        device.wake_worker(number);
    }
}
