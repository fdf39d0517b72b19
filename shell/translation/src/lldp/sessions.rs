//! LLDP sessions of a datapath, by port.

use crate::port_sessions::{DueMessage, PortSession, PortSessions};
use crate::protocol_state::PortKey;
use crate::published::PublishedState;
use crate::shared_state::SharedState;
use crate::timers::wakeup::Wakeup;
use bridge::Level;
use bridge::lldp::{Announcement, Event, Session};
use flow::Mac;
use runtime::{Module, RateLimit};
use std::sync::Arc;
use units::Millis;
use xlate::BridgeId;

static LOG: Module = Module::new("lldp");
static LIMIT: RateLimit = RateLimit::new(20, 30);

/// The LLDP sessions of a datapath.
pub struct Sessions {
    /// The sessions by port.
    pub ports: PortSessions<Session>,
}

impl PortSession for Session {
    type Event = Event;

    fn deadline(&self, _now: Millis) -> Option<Millis> {
        Some(self.deadline())
    }

    fn run_timers(&mut self, now: Millis) -> Option<Vec<u8>> {
        self.run(now)
    }

    fn take_events(&mut self) -> Vec<(Level, Event)> {
        self.take_events().into_iter().map(|event| (event.level(), event)).collect()
    }

    /// The database has no columns about neighbours.
    fn take_changed(&mut self) -> bool {
        false
    }

    /// The line of Open vSwitch, which scripts search for.
    fn log_line(port: &str, event: &Event) -> String {
        format!("{event} received on {port}")
    }
}

impl Sessions {
    /// No sessions.
    pub fn new(shared: &Arc<SharedState>, wakeup: &Arc<Wakeup>) -> Sessions {
        Sessions { ports: PortSessions::new(shared, wakeup, &LOG, &LIMIT) }
    }

    /// Creates the session of a port if it has none, and sets the address of the port and its announcement. To be called by the main thread only.
    pub fn configure(&self, at: PortKey, name: &str, mac: Mac, announcement: &Announcement, now: Millis) {
        if !self.ports.contains(at) {
            self.ports.add(at, name, Session::new(name, mac));
        }
        self.ports.change(at, now, |session| {
            session.set_mac(mac);
            session.announce(announcement);
        });
    }

    /// Handles a received frame with the Ethertype of LLDP.
    pub fn receive(&self, at: PortKey, frame: &[u8], now: Millis) {
        self.ports.change(at, now, |session| session.receive(frame, now));
    }

    /// Changes the MAC address of a port.
    pub fn set_mac(&self, at: PortKey, mac: Mac, now: Millis) {
        self.ports.change(at, now, |session| session.set_mac(mac));
    }

    /// The ports of a bridge that have a session.
    pub fn of_bridge(&self, bridge: BridgeId) -> Vec<PortKey> {
        if self.ports.is_empty() {
            return Vec::new();
        }
        self.ports.ports_selected(|at, _| at.0 == bridge)
    }

    /// Name and text of the sessions of a bridge, or of all.
    pub fn show_bridge(
        &self,
        bridge: Option<BridgeId>,
        now: Millis,
        text: impl Fn(&mut Session) -> String,
    ) -> Vec<(String, String)> {
        self.ports.show_where(|at, _| bridge.is_none_or(|bridge| at.0 == bridge), now, text)
    }

    /// Name and neighbours of the port with this name, or of all ports.
    pub fn show(&self, name: Option<&str>, now: Millis) -> Vec<(String, String)> {
        self.ports.show(name, now, |session| session.show(now))
    }

    /// Runs the timers that are due and returns the messages to send.
    pub fn take_due(&self, published: &PublishedState, now: Millis) -> Vec<DueMessage> {
        let is_known = |at: PortKey| published.port(at).is_some_and(|port| port.lldp);
        self.ports.take_due(is_known, now)
    }
}
