//! One session: its state and its timers.

use super::auto_attach::{self, Element, Status};
use super::event::Event;
use super::message::{Id, Message, capability};
use super::neighbours::{Neighbours, Stored};
use crate::payload::payload;
use flow::Mac;
use packet::ethertype;
use std::collections::BTreeMap;
use units::Millis;

/// Destination of sent messages: they reach the nearest bridge (IEEE 802.1AB table 7-1).
const DESTINATION: Mac = Mac([0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e]);
/// Accepted destinations: nearest bridge, nearest non-TPMR bridge, nearest customer bridge (table 7-1).
const DESTINATIONS: [Mac; 3] =
    [DESTINATION, Mac([0x01, 0x80, 0xc2, 0x00, 0x00, 0x03]), Mac([0x01, 0x80, 0xc2, 0x00, 0x00, 0x00])];

/// Time between two messages (9.2.5.7, msgTxInterval).
pub(super) const INTERVAL: Millis = Millis(30_000);
/// Time that a message is valid, in seconds: four intervals.
pub(super) const TTL: u16 = 120;
/// Time between two messages after the announcement has changed, and while a new neighbour is informed (9.2.5.5, msgFastTx).
pub(super) const FAST_INTERVAL: Millis = Millis(1_000);
/// Number of messages that inform a new neighbour, because it may have missed the last one (9.2.5.19, txFastInit).
const FAST_MESSAGES: u32 = 4;

/// What the ports of a bridge announce.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Announcement {
    /// Name of the system; empty: not announced.
    pub system_name: String,
    /// Description of the system; empty: not announced.
    pub system_description: String,
    /// Requested services (I-SIDs of 24 bits) and the VLANs that carry them.
    pub mappings: BTreeMap<u32, u16>,
}

/// Counters of a session since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Sent messages.
    pub(super) tx: u64,
    /// Received frames.
    pub(super) rx: u64,
    /// Received frames that were not valid messages.
    pub(super) rx_discarded: u64,
    /// Received elements that were not understood.
    pub(super) rx_unrecognized: u64,
    /// Neighbours whose messages expired.
    pub(super) aged_out: u64,
    /// New neighbours.
    pub(super) inserted: u64,
    /// Neighbours that were removed because they sent a shutdown LLDPDU (TTL 0).
    pub(super) deleted: u64,
    /// Messages of new neighbours that were not stored, because there are too many neighbours.
    pub(super) dropped: u64,
}

/// A session; see the module documentation.
#[derive(Debug)]
pub struct Session {
    name: String,
    mac: Mac,
    pub(super) announcement: Announcement,
    /// When the last message was sent; `None`: none was sent yet.
    last_tx: Option<Millis>,
    /// When the next message is due; `None`: at once.
    pub(super) next_tx: Option<Millis>,
    /// Number of messages that are still sent at short intervals.
    fast: u32,
    pub(super) neighbours: Neighbours,
    /// Decisions of servers by service; services without a decision are missing.
    pub(super) decisions: BTreeMap<u32, Status>,
    pub(super) counters: Counters,
    events: Vec<Event>,
}

impl Session {
    /// Creates a session for the port with this name and MAC address.
    pub fn new(name: &str, mac: Mac) -> Session {
        Session {
            name: name.to_owned(),
            mac,
            announcement: Announcement::default(),
            last_tx: None,
            next_tx: None,
            fast: 0,
            neighbours: Neighbours::default(),
            decisions: BTreeMap::new(),
            counters: Counters::default(),
            events: Vec::new(),
        }
    }

    /// Sets the MAC address of the port.
    pub fn set_mac(&mut self, mac: Mac) {
        if mac != self.mac {
            self.mac = mac;
            self.send_soon();
        }
    }

    /// Sets what is announced.
    pub fn announce(&mut self, announcement: &Announcement) {
        if *announcement != self.announcement {
            self.announcement = announcement.clone();
            self.decisions.retain(|isid, _| announcement.mappings.contains_key(isid));
            self.send_soon();
        }
    }

    /// Sends the next message as soon as the short interval allows.
    fn send_soon(&mut self) {
        self.next_tx = self.last_tx.map(|at| at + FAST_INTERVAL);
    }

    /// When the session must be called next.
    pub fn deadline(&self) -> Millis {
        let next_tx = self.next_tx.unwrap_or_default();
        self.neighbours.deadline().map_or(next_tx, |expires| expires.min(next_tx))
    }

    /// Removes expired neighbours, and returns the frame to send now, if one is due.
    pub fn run(&mut self, now: Millis) -> Option<Vec<u8>> {
        self.counters.aged_out += self.neighbours.expire(now);
        if self.next_tx.is_some_and(|at| now < at) {
            return None;
        }
        self.fast = self.fast.saturating_sub(1);
        let interval = if self.fast == 0 { INTERVAL } else { FAST_INTERVAL };
        (self.last_tx, self.next_tx) = (Some(now), Some(now + interval));
        self.counters.tx += 1;
        let ethertype = ethertype::LLDP.to_be_bytes();
        Some([&DESTINATION.0, &self.mac.0, ethertype.as_slice(), &self.message().encode()].concat())
    }

    /// The message to send.
    fn message(&self) -> Message {
        let Announcement { system_name, system_description, mappings } = &self.announcement;
        Message {
            ttl: TTL,
            system_name: system_name.clone(),
            system_description: system_description.clone(),
            capabilities: Some((capability::BRIDGE, capability::BRIDGE)),
            element: Some(Element::of_switch(self.mac.0)),
            assignments: auto_attach::requests(mappings),
            ..Message::new(Id::chassis_mac(self.mac.0), Id::port_name(&self.name))
        }
    }

    /// Processes a frame with the Ethertype of LLDP.
    pub fn receive(&mut self, frame: &[u8], now: Millis) {
        self.counters.rx += 1;
        let Some((_, payload)) = payload(frame, ethertype::LLDP) else { return self.discard(None) };
        if !DESTINATIONS.iter().any(|mac| frame.starts_with(&mac.0)) {
            return self.discard(Some(Event::OtherDestination));
        }
        match Message::decode(payload) {
            Ok(message) => self.process(message, now),
            Err(why) => self.discard(Some(Event::Refused(why))),
        }
    }

    fn discard(&mut self, event: Option<Event>) {
        self.counters.rx_discarded += 1;
        self.events.extend(event);
    }

    fn process(&mut self, message: Message, now: Millis) {
        self.counters.rx_unrecognized += message.unrecognized;
        for assignment in &message.assignments {
            let (isid, status) = (assignment.isid, assignment.status);
            // Status 0 is that of a request, so it decides nothing.
            let is_decision = status != Status(0) && self.announcement.mappings.contains_key(&isid);
            if is_decision && self.decisions.insert(isid, status) != Some(status) {
                self.events.push(Event::Assigned { isid, status: status.name() });
            }
        }
        let (chassis, port) = (message.chassis.clone(), message.port.clone());
        match self.neighbours.store(message, now) {
            Stored::Inserted => {
                self.counters.inserted += 1;
                self.fast = FAST_MESSAGES;
                self.send_soon();
                self.events.push(Event::Discovered { chassis, port });
            }
            Stored::Deleted => self.counters.deleted += 1,
            Stored::Dropped => self.counters.dropped += 1,
            Stored::Updated | Stored::Unknown => {}
        }
    }

    /// The events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }
}
