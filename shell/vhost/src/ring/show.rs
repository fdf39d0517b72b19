//! When a guest sees the buffers that it gets back.
//!
//! The used ring has entries that the guest does not see yet: its index is written once a burst. Buffers of packets that the guest
//! sent may wait longer: while packets are lent, and the last few while the guest polls.
//!
//! The last few wait because of a driver's store of free buffers. DPDK's driver frees sent buffers one by one, just as many as it needs,
//! unless the ring is nearly empty: then it frees all of them at once. These are more than its store holds near the core, so it puts
//! some back into the common store and takes others out of it, which no cache has any more. So a switch that is faster than its guest
//! slowed the guest down, and then waited for it.

use super::layout::Layout;
use super::split::Ring;
use crate::feature;

/// Entries that wait: DPDK's driver takes a ring for nearly empty if fewer than 32, or a quarter of the ring, are not used.
const WAITING: u16 = 32;
/// Bursts without packets after which nothing waits any more: some microseconds.
const EMPTY: u16 = 64;

impl<L: Layout> Ring<L> {
    /// Shows the guest all entries before `next`, and interrupts it if it wants that. Returns the number of interrupts.
    #[inline]
    pub fn show_all(&mut self) -> u64 {
        self.show(self.next)
    }

    /// Shows the entries of a burst that found packets, of which none is lent. If the guest polls, the last entries wait for
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

    /// Shows what waits, after some bursts without packets.
    #[inline]
    pub fn show_late(&mut self) -> u64 {
        self.empty = self.empty.saturating_add(1);
        if self.empty < EMPTY { 0 } else { self.show_rest() }
    }

    /// Shows what waits, if something does and none of it is lent.
    #[inline]
    pub fn show_rest(&mut self) -> u64 {
        if self.shown == self.next || self.lent { 0 } else { self.show_all() }
    }

    /// Shows the entries of a burst of which packets were lent.
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
        // Fails if the counter is full: then the guest has an interrupt that it has not handled.
        let _ = rustix::io::write(&**call, &1u64.to_ne_bytes());
        1
    }
}
