//! CFM sessions of a datapath, by port.

use crate::port_sessions::{DueMessage, PortSession, PortSessions};
use crate::protocol_state::PortKey;
use crate::published::PublishedState;
use crate::shared_state::SharedState;
use crate::timers::wakeup::Wakeup;
use bridge::Level;
use bridge::cfm::{Event, Filter, Session, Settings, Status, WrongId};
use fastrand::Rng;
use flow::Mac;
use runtime::{Module, RateLimit};
use std::sync::{Arc, Mutex, PoisonError};
use units::Millis;

static LOG: Module = Module::new("cfm");
static LIMIT: RateLimit = RateLimit::new(20, 30);

/// The CFM sessions of a datapath.
pub struct Sessions {
    /// The sessions by port.
    pub ports: PortSessions<Session>,
    /// For the seeds of the sessions, which choose random VLANs.
    random: Mutex<Rng>,
}

/// The state that a session reports about its port.
pub struct Report {
    /// Packets may be forwarded to the port.
    pub forwarding: bool,
    /// The values of the CFM columns of table Interface.
    pub status: Status,
}

impl PortSession for Session {
    type Event = Event;

    fn deadline(&self, _now: Millis) -> Option<Millis> {
        Some(self.deadline())
    }

    fn run_timers(&mut self, now: Millis) -> Option<Vec<u8>> {
        let frame = self.transmit(now);
        self.run(now);
        frame
    }

    fn take_events(&mut self) -> Vec<(Level, Event)> {
        self.take_events().into_iter().map(|event| (event.level(), event)).collect()
    }

    fn take_changed(&mut self) -> bool {
        self.take_changed()
    }
}

impl Sessions {
    /// No sessions. `seed`: the secret of the process.
    pub fn new(shared: &Arc<SharedState>, wakeup: &Arc<Wakeup>, seed: u64) -> Sessions {
        let random = Mutex::new(Rng::with_seed(cpu::derive(seed, b"cfm-vlan")));
        Sessions { ports: PortSessions::new(shared, wakeup, &LOG, &LIMIT), random }
    }

    /// Creates or reconfigures the session of a port, and returns the filter that selects its frames. To be called by the main
    /// thread only.
    ///
    /// # Errors
    ///
    /// The settings have no valid identifier. Then the port has no session.
    pub fn configure(
        &self,
        at: PortKey,
        name: &str,
        settings: Settings,
        (mac, rx_packets): (Mac, u64),
        now: Millis,
    ) -> Result<Filter, WrongId> {
        if !self.ports.contains(at) {
            let seed = self.random.lock().unwrap_or_else(PoisonError::into_inner).u64(..);
            self.ports.add(at, name, Session::new(settings.clone(), mac, rx_packets, seed, now)?);
        }
        let filter = Filter::new(settings.extended, settings.check_tnl_key);
        let result = self.ports.change(at, now, |session| {
            session.set_mac(mac);
            session.count_traffic(rx_packets);
            session.configure(settings, now)
        });
        if let Some(Err(wrong)) = result {
            self.ports.forget(at);
            return Err(wrong);
        }
        Ok(filter)
    }

    /// Handles a received frame with a message for a port.
    pub fn receive(&self, at: PortKey, frame: &[u8], now: Millis) {
        self.ports.change(at, now, |session| session.receive(frame, now));
    }

    /// Updates the number of packets that a port has received.
    pub fn count_traffic(&self, at: PortKey, rx_packets: u64, now: Millis) {
        self.ports.change(at, now, |session| session.count_traffic(rx_packets));
    }

    /// Ports whose sessions need the number of received packets.
    pub fn counting(&self) -> Vec<PortKey> {
        self.ports.ports_where(Session::counts_traffic)
    }

    /// Changes the MAC address of a port.
    pub fn set_mac(&self, at: PortKey, mac: Mac, now: Millis) {
        self.ports.change(at, now, |session| session.set_mac(mac));
    }

    /// Forces a fault (true) or its absence (false) on the port with this name, or on all ports (`cfm/set-fault`); `None` ends
    /// the forcing. Returns false if no port has the name.
    pub fn force_fault(&self, name: Option<&str>, forced: Option<bool>, now: Millis) -> bool {
        self.ports.change_named(name, now, |session| session.force_fault(forced))
    }

    /// Name and `cfm/show` text of the port with this name, or of all ports.
    pub fn show(&self, name: Option<&str>, now: Millis) -> Vec<(String, String)> {
        self.ports.show(name, now, |session| session.show(now))
    }

    /// Takes the reports that have changed.
    pub fn take_changed_reports(&self, now: Millis) -> Vec<(PortKey, Report)> {
        self.ports.take_changed_reports(now, |session| Report {
            forwarding: session.is_forwarding(),
            status: session.status(),
        })
    }

    /// Runs the timers that are due and returns the messages to send.
    pub fn take_due(&self, published: &PublishedState, now: Millis) -> Vec<DueMessage> {
        let is_known = |at: PortKey| published.port(at).is_some_and(|port| port.cfm.is_some());
        self.ports.take_due(is_known, now)
    }
}
