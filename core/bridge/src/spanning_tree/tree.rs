//! One interface for both protocols.

use super::output::{Output, Pairs};
use super::port_setup::{Link, PortSetup};
use super::port_state::{PortState, PortTreeState, Protocol};
use super::settings::Settings;
use super::{rstp, stp};
use units::{Millis, OfPort};

/// The protocol entity of a bridge, of either protocol.
#[derive(Debug)]
pub enum Tree {
    /// STP.
    Stp(Box<stp::Bridge>),
    /// RSTP.
    Rstp(Box<rstp::Bridge>),
}

/// Calls a function that both protocols have.
macro_rules! either {
    ($tree:expr, $bridge:ident => $call:expr) => {
        match $tree {
            Tree::Stp($bridge) => $call,
            Tree::Rstp($bridge) => $call,
        }
    };
}

impl Tree {
    /// The protocol entity of a bridge without ports.
    pub fn new(name: &str, settings: &Settings, now: Millis) -> Tree {
        match settings {
            Settings::Stp(settings) => Tree::Stp(Box::new(stp::Bridge::new(name, settings, now))),
            Settings::Rstp(settings) => Tree::Rstp(Box::new(rstp::Bridge::new(name, settings, now))),
        }
    }

    /// Applies settings of the bridge, and sets its ports. Settings of the other protocol are ignored.
    pub fn configure(&mut self, settings: &Settings, ports: &[PortSetup], now: Millis) {
        match (&mut *self, settings) {
            (Tree::Stp(bridge), Settings::Stp(settings)) => bridge.configure(settings, now),
            (Tree::Rstp(bridge), Settings::Rstp(settings)) => bridge.configure(settings, now),
            _ => return,
        }
        either!(self, bridge => bridge.set_ports(ports, now));
    }

    /// The protocol.
    pub fn protocol(&self) -> Protocol {
        match self {
            Tree::Stp(_) => Protocol::Stp,
            Tree::Rstp(_) => Protocol::Rstp,
        }
    }

    /// The name of the bridge.
    pub fn name(&self) -> &str {
        either!(self, bridge => bridge.name())
    }

    /// Sets the state of a port's device.
    pub fn set_link(&mut self, port: OfPort, link: Link, now: Millis) {
        either!(self, bridge => bridge.set_link(port, link, now));
    }

    /// Handles a frame with a BPDU that a port received.
    pub fn receive(&mut self, port: OfPort, frame: &[u8], now: Millis) {
        let Some(bytes) = super::frame::payload(frame) else { return };
        either!(self, bridge => bridge.receive(port, bytes, now));
    }

    /// Confirms that a port neither learns nor forwards.
    pub fn confirm(&mut self, port: OfPort, now: Millis) {
        if let Tree::Rstp(bridge) = self {
            bridge.confirm(port, now);
        }
    }

    /// Handles expired timers.
    pub fn run(&mut self, now: Millis) {
        either!(self, bridge => bridge.run(now));
    }

    /// When the next timer expires.
    pub fn deadline(&self) -> Option<Millis> {
        either!(self, bridge => bridge.deadline())
    }

    /// Acts as if the topology had changed (`stp/tcn`, `rstp/tcn`).
    pub fn change_topology(&mut self, now: Millis) {
        either!(self, bridge => bridge.change_topology(now));
    }

    /// The outputs since the last call.
    pub fn take_output(&mut self) -> Output {
        either!(self, bridge => bridge.take_output())
    }

    /// The state of a port; `None` if the port does not take part in the spanning tree.
    pub fn state(&self, port: OfPort) -> Option<PortTreeState> {
        let state: PortState = either!(self, bridge => bridge.state(port))?;
        Some(PortTreeState { protocol: self.protocol(), state })
    }

    /// The text of `stp/show` or `rstp/show`.
    pub fn show(&self) -> String {
        either!(self, bridge => bridge.show())
    }

    /// Column `status` or `rstp_status` of the bridge.
    pub fn status(&self) -> Pairs<String> {
        either!(self, bridge => bridge.status())
    }

    /// Columns `status` and `statistics` of a port, or `rstp_status` and `rstp_statistics`.
    pub fn port_status(&self, port: OfPort, now: Millis) -> Option<(Pairs<String>, Pairs<i64>)> {
        either!(self, bridge => bridge.port_status(port, now))
    }
}
