//! When a guest is shown the buffers that it gets back.
//!
//! The switch writes entries to the used ring packet by packet. The guest sees them when the switch writes the ring's index, once a
//! burst. Buffers of packets that the guest sent may wait longer: while packets are lent; and the last few, while the guest polls.
//!
//! The last few wait because of how DPDK's driver frees buffers. Usually it frees as many sent buffers as it needs for new packets.
//! If the ring is nearly empty, it frees all of them at once. These are more than the cache of its buffer pool holds, so it returns some
//! to the pool, and takes others out of the pool, which are in no cache of the processor. This slowed down guests of a switch that was
//! faster than they were.

use super::layout::Layout;
use super::split::Ring;
use crate::feature;

/// Entries that wait. For DPDK's driver a ring is nearly empty if fewer than 32 entries, or a quarter of the ring, are in use.
const WAITING: u16 = 32;
/// Number of consecutive bursts without packets after which the last entries are shown too. They take some microseconds.
const EMPTY: u16 = 64;

impl<L: Layout> Ring<L> {
    /// Shows the guest all entries before `next`, and interrupts the guest if it asks for that. Returns the number of interrupts.
    #[inline]
    pub fn show_all(&mut self) -> u64 {
        self.show(self.next)
    }

    /// Shows the entries of a burst that received packets, if none of these is lent. If the guest polls, the last entries wait for
    /// further packets.
    #[inline]
    pub fn show_most(&mut self) -> u64 {
        self.empty = 0;
        if !self.is_polling || !self.memory.lends() {
            return self.show_all();
        }
        let waiting = self.next.wrapping_sub(self.shown);
        match waiting.checked_sub(WAITING.min(self.memory.size() / 4)) {
            None | Some(0) => 0,
            Some(n) => self.show(self.shown.wrapping_add(n)),
        }
    }

    /// Called after a burst without packets; after [`EMPTY`] of them it shows the entries that wait.
    #[inline]
    pub fn show_late(&mut self) -> u64 {
        self.empty = self.empty.saturating_add(1);
        if self.empty < EMPTY { 0 } else { self.show_rest() }
    }

    /// Shows the entries that wait, if no packet is lent.
    #[inline]
    pub fn show_rest(&mut self) -> u64 {
        if self.shown == self.next || self.lent { 0 } else { self.show_all() }
    }

    /// Shows the entries of a burst whose packets were lent and have been returned.
    pub fn show_lent(&mut self) -> u64 {
        if std::mem::take(&mut self.lent) { self.show_most() } else { 0 }
    }

    /// Shows the entries before `place`.
    #[inline]
    fn show(&mut self, place: u16) -> u64 {
        self.memory.publish(place);
        let before = std::mem::replace(&mut self.shown, place);
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
