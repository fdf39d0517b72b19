//! Publishes used entries: from then on the guest sees that the buffers are used.
//!
//! The switch writes entries to the used ring packet by packet. The guest sees them when the switch writes the ring's index, once a
//! burst. The entries of packets that the guest sent may be published later: all of them while packets have leased tails, and the last
//! few while the guest polls.
//!
//! The last few entries are delayed because of how DPDK's driver in the guest frees buffers. Usually the driver frees as many sent buffers
//! as it needs for new packets. If the ring is nearly empty, it frees all sent buffers at once, which are more than the cache of its
//! buffer pool holds. So the driver returns some buffers to the pool and allocates others, which are not in the processor's cache. If the switch
//! is faster than the guest, this slows the guest down.

use super::layout::Layout;
use super::state::Ring;
use crate::feature;

/// Number of last entries that are not published while the guest polls. For DPDK's driver a ring is nearly empty if fewer than 32 entries,
/// or a quarter of the ring, are in use.
const UNPUBLISHED_MAX: u16 = 32;
/// Number of consecutive bursts without packets after which the last entries are published, too. These bursts take some microseconds.
const EMPTY_BURSTS_MAX: u16 = 64;

impl<L: Layout> Ring<L> {
    /// Publishes all entries before `next`, and interrupts the guest if it requests that. Returns the number of interrupts.
    #[inline]
    pub fn publish_all(&mut self) -> u64 {
        self.publish_up_to(self.next)
    }

    /// Publishes the entries of a burst that received packets without leased tails. If the guest polls, the last entries stay
    /// unpublished until further packets arrive.
    #[inline]
    pub fn publish_received(&mut self) -> u64 {
        self.empty_bursts = 0;
        if !self.is_polling || !self.layout.supports_leases() {
            return self.publish_all();
        }
        let unpublished = self.next.wrapping_sub(self.published);
        match unpublished.checked_sub(UNPUBLISHED_MAX.min(self.layout.size() / 4)) {
            None | Some(0) => 0,
            Some(n) => self.publish_up_to(self.published.wrapping_add(n)),
        }
    }

    /// Called after a burst without packets. After [`EMPTY_BURSTS_MAX`] such bursts it publishes the remaining entries.
    #[inline]
    pub fn publish_if_idle(&mut self) -> u64 {
        self.empty_bursts = self.empty_bursts.saturating_add(1);
        if self.empty_bursts < EMPTY_BURSTS_MAX { 0 } else { self.publish_rest() }
    }

    /// Publishes the remaining entries, unless they are deferred. Returns the number of interrupts.
    #[inline]
    pub fn publish_rest(&mut self) -> u64 {
        if self.published == self.next || self.deferred { 0 } else { self.publish_all() }
    }

    /// Publishes the entries of a deferred burst: its leases have been released, and its held buffers are marked as used. Returns
    /// the number of interrupts.
    pub fn publish_deferred(&mut self) -> u64 {
        if !std::mem::take(&mut self.deferred) {
            return 0;
        }
        if !self.held.is_empty() {
            self.release();
        }
        self.publish_received()
    }

    /// Publishes the entries before `position`.
    #[inline]
    fn publish_up_to(&mut self, position: u16) -> u64 {
        self.layout.publish(position);
        let before = std::mem::replace(&mut self.published, position);
        if let Some(log) = &self.eventfds_and_log.log {
            self.layout.mark_dirty(&log.dirty, log.used, before, position);
        }
        let before = self.signalled.replace(position);
        let event_index = self.has(feature::EVENT_IDX);
        let Some(call) = &self.eventfds_and_log.call else {
            self.is_polling = !event_index;
            return 0;
        };
        let needs_interrupt = self.layout.needs_interrupt(before, position, event_index);
        self.is_polling = !event_index && !needs_interrupt;
        if !needs_interrupt {
            return 0;
        }
        // Fails if the counter is full: then the guest has not handled an earlier interrupt yet.
        let _ = rustix::io::write(&**call, &1u64.to_ne_bytes());
        1
    }
}
