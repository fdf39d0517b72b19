//! Messages about the IOTLB of a guest with an IOMMU.

use super::ConnectionState;
use crate::device::translation::{Channel, IotlbChange};
use crate::file_descriptors::{Kind, kind};
use crate::iotlb::{Access, Iotlb};
use crate::memory::GuestMemory;
use crate::message::Message;
use crate::ring::RingError;
use crate::rules::Refusal;
use rustix::event::PollFd;
use std::os::fd::AsFd;
use std::sync::Arc;

impl ConnectionState {
    pub(super) fn set_channel(&mut self, message: &Message) -> Result<(), Refusal> {
        match &message.fds[..] {
            [fd] if kind(fd.as_fd()) == Kind::Socket => {
                self.channel.set_socket(fd.try_clone().map_err(|_| Refusal::NoMemory)?);
                Ok(())
            }
            _ => Err(Refusal::FileDescriptor),
        }
    }

    /// Changes the translations. The rings get them before the front-end gets a reply: see [`ConnectionState::take_affected_rings`].
    pub(super) fn change_iotlb(&mut self, payload: &[u8]) -> Result<(), Refusal> {
        let change = IotlbChange::read(payload)?;
        match change {
            IotlbChange::Update { range, user, access } => {
                let memory = self.memory.as_ref().ok_or(Refusal::Memory("there is no memory"))?;
                let pieces = memory.pieces(range, user)?;
                let iotlb = Arc::make_mut(&mut self.iotlb);
                pieces.into_iter().for_each(|(range, user)| iotlb.insert(range, user, access));
                self.granted = Some((range, access));
            }
            IotlbChange::Invalidate(range) => {
                Arc::make_mut(&mut self.iotlb).remove(range);
                // Before the rings get the new IOTLB: they must request these pages again.
                self.device.missing().forget(range);
            }
        }
        let Some(resources) = self.ring_resources() else { return Ok(()) };
        let rings = self.rings.iter().enumerate();
        let affected = rings.filter(|(number, ring)| {
            ring.is_affected(*number, change.range(), &self.device, &resources, self.features)
        });
        self.changed = Some(affected.map(|(number, _)| number).collect());
        Ok(())
    }

    /// Returns, once after each message that changed the IOTLB, the numbers of the rings whose own memory the change affects. These rings must be
    /// [applied](ConnectionState::apply_rings) while no worker accesses the rings. Then the new IOTLB must be
    /// [installed](crate::device::Device::install).
    pub fn take_affected_rings(&mut self) -> Option<Vec<usize>> {
        self.changed.take()
    }

    /// Whether the last change removed translations.
    pub fn has_removed(&self) -> bool {
        self.granted.is_none()
    }

    /// Records that all rings have the new translations. Only now the pages count as answered: a worker with the old translations would request the
    /// pages again.
    pub fn installed(&mut self) {
        let Some((range, access)) = self.granted.take() else { return };
        let answered = self.device.missing().answered(range, access);
        if let Err(ring) = answered {
            self.device.invalid().get_or_insert((ring, RingError::Denied));
        }
    }

    pub fn iotlb(&self) -> &Arc<Iotlb> {
        &self.iotlb
    }

    pub fn channel(&mut self) -> &mut Channel {
        &mut self.channel
    }

    pub fn poll_channel<'a>(&'a self, fds: &mut Vec<PollFd<'a>>) {
        self.channel.poll_fds(fds);
    }

    /// Starts or stops rings after a change of the IOTLB.
    pub fn apply_rings(&mut self, rings: &[usize]) {
        rings.iter().for_each(|number| self.apply(*number as u32));
    }

    /// Removes all translations: the front-end does not send invalidations while its device is stopped.
    pub(super) fn clear_iotlb(&mut self) {
        if self.has_iommu() {
            self.iotlb = Arc::default();
            self.device.missing().clear();
            self.changed.get_or_insert_default();
        }
    }

    /// The front-end's address of a ring's address.
    pub(super) fn user_address(&self, address: u64) -> u64 {
        match self.has_iommu() {
            true => self.iotlb.find(address, Access::READ, &mut 0).map_or(0, |(user, _)| user),
            false => address,
        }
    }

    /// Removes the translations to memory that is not in the new memory.
    pub(super) fn remove_unmapped_translations(&mut self, memory: &GuestMemory) {
        if self.has_iommu() {
            let is_mapped = |user, len| memory.left_at_user_address(user).is_some_and(|left| len <= left);
            Arc::make_mut(&mut self.iotlb).retain(is_mapped);
            self.changed.get_or_insert_default();
        }
    }
}
