//! BFD sessions of a datapath, by port.

use crate::port_sessions::{DueMessage, PortSession, PortSessions};
use crate::protocol_state::PortKey;
use crate::published::PublishedState;
use crate::shared_state::SharedState;
use crate::timers::wakeup::Wakeup;
use bridge::Level;
use bridge::bfd::{Event, Identity, Session, Settings};
use fastrand::Rng;
use flow::Mac;
use runtime::{Module, RateLimit};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use units::Millis;

static LOG: Module = Module::new("bfd");
static LIMIT: RateLimit = RateLimit::new(20, 20);

/// The BFD sessions of a datapath.
pub struct Sessions {
    /// The sessions by port.
    pub ports: PortSessions<Session>,
    identities: Mutex<Identities>,
}

/// The source of identities for new sessions.
struct Identities {
    /// Number of sessions created so far.
    made: u16,
    /// For discriminators and the seeds of the sessions.
    random: Rng,
}

/// The state that a session reports about its port.
pub struct Report {
    /// Packets may be forwarded to the port.
    pub forwarding: bool,
    /// Column `bfd_status`.
    pub status: BTreeMap<String, String>,
}

impl PortSession for Session {
    type Event = Event;

    fn deadline(&self, now: Millis) -> Option<Millis> {
        self.deadline(now)
    }

    fn run_timers(&mut self, now: Millis) -> Option<Vec<u8>> {
        self.run(now);
        self.transmit(now)
    }

    fn is_oam(&self) -> bool {
        self.settings().oam
    }

    fn take_events(&mut self) -> Vec<(Level, Event)> {
        self.take_events().into_iter().map(|event| (event.level(), event)).collect()
    }

    fn take_changed(&mut self) -> bool {
        self.take_changed()
    }
}

impl Sessions {
    /// No sessions. `seed`: the secret of the process. Other hosts see the discriminators, so these are made from a number
    /// that is derived from the secret and does not reveal it.
    pub fn new(shared: &Arc<SharedState>, wakeup: &Arc<Wakeup>, seed: u64) -> Sessions {
        let random = Rng::with_seed(cpu::derive(seed, b"bfd-disc"));
        Sessions {
            ports: PortSessions::new(shared, wakeup, &LOG, &LIMIT),
            identities: Mutex::new(Identities { made: 0, random }),
        }
    }

    fn identity(&self) -> Identity {
        let mut identities = self.identities.lock().unwrap_or_else(PoisonError::into_inner);
        let discriminator = loop {
            let n = identities.random.u32(..);
            if n != 0 && self.ports.ports_where(|session| session.discriminator() == n).is_empty() {
                break n;
            }
        };
        let number = identities.made;
        identities.made = number.wrapping_add(1);
        Identity { discriminator, number, seed: identities.random.u64(..) }
    }

    /// Creates or reconfigures the session of a port. To be called by the main thread only.
    pub fn configure(
        &self,
        at: PortKey,
        name: &str,
        settings: Settings,
        (mac, rx_packets): (Mac, u64),
        now: Millis,
    ) {
        if !self.ports.contains(at) {
            let session = Session::new(self.identity(), settings.clone(), mac, rx_packets, now);
            self.ports.add(at, name, session);
        }
        self.ports.change(at, now, |session| {
            session.set_mac(mac);
            session.count_traffic(rx_packets, now);
            session.configure(settings, now);
        });
    }

    /// Handles a received frame with a message for a port.
    pub fn receive(&self, at: PortKey, frame: &[u8], ttl: u8, now: Millis) {
        self.ports.change(at, now, |session| session.receive(frame, ttl, now));
    }

    /// Updates the number of packets that a port has received.
    pub fn count_traffic(&self, at: PortKey, rx_packets: u64, now: Millis) {
        self.ports.change(at, now, |session| session.count_traffic(rx_packets, now));
    }

    /// Ports whose sessions need the number of received packets.
    pub fn counting(&self) -> Vec<PortKey> {
        self.ports.ports_where(Session::counts_traffic)
    }

    /// Changes the MAC address of a port.
    pub fn set_mac(&self, at: PortKey, mac: Mac, now: Millis) {
        self.ports.change(at, now, |session| session.set_mac(mac));
    }

    /// Forces the forwarding state of the port with this name, or of all ports (`bfd/set-forwarding`); `answer` `None` ends
    /// the forcing. Returns false if no port has the name.
    pub fn force_forwarding(&self, name: Option<&str>, answer: Option<bool>, now: Millis) -> bool {
        self.ports.change_named(name, now, |session| session.force_forwarding(answer))
    }

    /// Name and `bfd/show` text of the port with this name, or of all ports.
    pub fn show(&self, name: Option<&str>, now: Millis) -> Vec<(String, String)> {
        self.ports.show(name, now, |session| session.show(now))
    }

    /// Takes the reports that have changed.
    pub fn take_changed_reports(&self, now: Millis) -> Vec<(PortKey, Report)> {
        self.ports.take_changed_reports(now, |session| {
            let status =
                session.status(now).into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
            Report { forwarding: session.decide_forwarding(now), status }
        })
    }

    /// Runs the timers that are due and returns the messages to send.
    pub fn take_due(&self, published: &PublishedState, now: Millis) -> Vec<DueMessage> {
        let is_known = |at: PortKey| published.port(at).is_some_and(|port| port.bfd.is_some());
        self.ports.take_due(is_known, now)
    }
}
