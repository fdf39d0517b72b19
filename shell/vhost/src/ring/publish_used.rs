//! Publishes used entries: from then on the guest sees the buffers that it gets back.
//!
//! The switch writes entries to the used ring packet by packet. The guest sees them when the switch writes the ring's index, once a
//! burst. The entries of packets that the guest sent may wait longer: all of them while packets are lent, and the last few while the
//! guest polls.
//!
//! The last few wait because of how DPDK's driver in the guest frees buffers. Usually it frees as many sent buffers as it needs for new
//! packets. If the ring is nearly empty, it frees all sent buffers at once. That is more than the cache of its buffer pool holds. So it
//! returns some buffers to the pool and takes others from it, which are not in the processor's cache. Where the switch was faster than
//! the guest, this slowed the guest down.

use super::layout::Layout;
use super::split::Ring;
use crate::feature;

/// Number of last entries that wait. For DPDK's driver a ring is nearly empty if fewer than 32 entries, or a quarter of the ring, are in
/// use.
const WAITING: u16 = 32;
/// Number of consecutive bursts without packets after which the last entries are published too. These bursts take some microseconds.
const EMPTY: u16 = 64;

impl<L: Layout> Ring<L> {
    /// Publishes all entries before `next`, and interrupts the guest if it asks for that. Returns the number of interrupts.
    #[inline]
    pub fn publish_all(&mut self) -> u64 {
        self.publish_up_to(self.next)
    }

    /// Publishes the entries of a burst that received packets, if none of these is lent. If the guest polls, the last entries wait for
    /// further packets.
    #[inline]
    pub fn publish_most(&mut self) -> u64 {
        self.empty = 0;
        if !self.is_polling || !self.memory.lends() {
            return self.publish_all();
        }
        let waiting = self.next.wrapping_sub(self.published);
        match waiting.checked_sub(WAITING.min(self.memory.size() / 4)) {
            None | Some(0) => 0,
            Some(n) => self.publish_up_to(self.published.wrapping_add(n)),
        }
    }

    /// Called after a burst without packets; after [`EMPTY`] of them it publishes the entries that wait.
    #[inline]
    pub fn publish_late(&mut self) -> u64 {
        self.empty = self.empty.saturating_add(1);
        if self.empty < EMPTY { 0 } else { self.publish_rest() }
    }

    /// Publishes the entries that wait, if no packet is lent.
    #[inline]
    pub fn publish_rest(&mut self) -> u64 {
        if self.published == self.next || self.lent { 0 } else { self.publish_all() }
    }

    /// Publishes the entries of a burst whose packets were lent and have been returned, and those that are held.
    pub fn publish_lent(&mut self) -> u64 {
        if !std::mem::take(&mut self.lent) {
            return 0;
        }
        if !self.held.is_empty() {
            self.release();
        }
        self.publish_most()
    }

    /// Publishes the entries before `place`.
    #[inline]
    fn publish_up_to(&mut self, place: u16) -> u64 {
        self.memory.publish(place);
        let before = std::mem::replace(&mut self.published, place);
        if let Some(log) = &self.wiring.log {
            self.memory.log(&log.dirty, log.used, before, place);
        }
        let before = self.signalled.replace(place);
        let event_index = self.has(feature::EVENT_IDX);
        let Some(call) = &self.wiring.call else {
            self.is_polling = !event_index;
            return 0;
        };
        let wants = self.memory.wants_interrupt(before, place, event_index);
        self.is_polling = !event_index && !wants;
        if !wants {
            return 0;
        }
        // Fails if the counter is full: then the guest has an earlier interrupt to handle.
        let _ = rustix::io::write(&**call, &1u64.to_ne_bytes());
        1
    }
}
