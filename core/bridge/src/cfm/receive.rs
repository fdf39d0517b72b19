//! Processes received messages.
//!
//! In the standard, a message with another interval is a fault. Here it is only logged, as in Open vSwitch: any host can send such messages, and a
//! fault can disable a link.

use super::event::Event;
use super::fault::Faults;
use super::frame::ETHERTYPE;
use super::message::Message;
use super::session::{DEMAND_INTERVALS, RemotePoint, Session};
use crate::payload::payload;
use flow::Mac;
use units::Millis;

/// Maximum number of remote points of a session, as in Open vSwitch.
const MAX_POINTS: usize = 256;

impl Session {
    /// Processes a frame for the session.
    pub fn receive(&mut self, frame: &[u8], now: Millis) {
        let Some((from, payload)) = payload(frame, ETHERTYPE) else { return };
        match Message::decode(payload) {
            Err(why) => self.events.push(Event::Refused(why)),
            Ok(message) if !message.is_of_our_association => {
                self.received_faults |= Faults::MAID;
                self.events.push(Event::OtherAssociation(from));
            }
            Ok(message) => self.process(&message, from, now),
        }
    }

    /// Processes a message of our association.
    fn process(&mut self, message: &Message, from: Mac, now: Millis) {
        let extended = self.settings.extended;
        let id = if extended { message.extended_id } else { u64::from(message.id) };
        if !message.has_interval(self.interval) {
            self.events.push(Event::OtherInterval { id, message: *message });
        }
        self.events.push(Event::Received { id, message: *message });
        let mut faults = Faults::empty();
        faults.set(Faults::RDI, message.rdi);
        if id == self.settings.id {
            faults |= Faults::LOOPBACK;
            self.events.push(Event::Loopback(id));
        }
        if self.points.len() >= MAX_POINTS && !self.points.contains_key(&id) {
            self.received_faults |= faults | Faults::OVERFLOW;
            self.events.push(Event::Overflow { id, from });
            return;
        }
        self.received_faults |= faults;
        if faults.is_empty() && self.counts_traffic() {
            self.demand.message_until = now + Millis(self.interval.time.0 * DEMAND_INTERVALS);
        }
        let point = self.points.entry(id).or_default();
        if point.sequence != 0 && message.sequence != point.sequence.wrapping_add(1) {
            self.events.push(Event::Gap { id, from: point.sequence, to: message.sequence });
        }
        *point = RemotePoint {
            heard: true,
            is_up: !(extended && message.is_down),
            sequence: message.sequence,
            messages: point.messages + u32::from(faults.is_empty()),
            last_rx: now,
        };
    }
}
