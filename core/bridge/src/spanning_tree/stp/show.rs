//! The text of `stp/show`, and the columns `status` and `statistics`.

use super::bridge::{Bridge, ERRORS, Port, RECEIVED, SENT, number_of};
use super::timer::Times;
use crate::spanning_tree::identifier::BridgeIdentifier;
use crate::spanning_tree::output::Pairs;
use crate::spanning_tree::port_state::Protocol;
use crate::spanning_tree::table::{row, times};
use units::{Millis, OfPort};

/// Width of the column "Cost" in characters.
const COST_WIDTH: usize = 6;

impl Bridge {
    /// The text of `stp/show`.
    pub fn show(&self) -> String {
        let mut text = format!("---- {} ----\nRoot ID:\n", self.name);
        // As in Open vSwitch: the root section shows this bridge's own times, the bridge section the times in
        // force.
        text.push_str(&details(self.root, self.own_times));
        match self.root_port.and_then(|number| self.ports.get(&number)) {
            None => text.push_str("  This bridge is the root\n"),
            Some(port) => {
                let (name, cost) = (&port.name, self.root_path_cost);
                text.push_str(&format!("  root-port       {name}\n  root-path-cost  {cost}\n"));
            }
        }
        text.push_str("\nBridge ID:\n");
        text.push_str(&details(self.identifier, self.times));
        text.push('\n');
        text.push_str(&row(["Interface", "Role", "State"], "Cost", COST_WIDTH, "Pri.Nbr "));
        text.push_str("  ---------- ---------- ---------- ----- -------\n");
        for port in self.ports.values().filter(|p| p.is_enabled()) {
            let columns = [port.name.as_str(), self.role(port), port.state.name(Protocol::Stp)];
            let id = format!("{}.{}", port.id >> 8, number_of(port.id));
            text.push_str(&row(columns, port.path_cost, COST_WIDTH, &id));
        }
        text.push('\n');
        text
    }

    fn role(&self, port: &Port) -> &'static str {
        match port {
            _ if self.root_port == Some(number_of(port.id)) => "root",
            _ if port.is_designated(self.identifier) => "designated",
            _ if !port.is_enabled() => "disabled",
            _ => "alternate",
        }
    }

    /// Column `status` of the bridge.
    pub fn status(&self) -> Pairs<String> {
        Pairs::from([
            ("stp_bridge_id", self.identifier.stp_text()),
            ("stp_designated_root", self.root.stp_text()),
            ("stp_root_path_cost", self.root_path_cost.to_string()),
        ])
    }

    /// Columns `status` and `statistics` of a port.
    pub fn port_status(&self, port: OfPort, now: Millis) -> Option<(Pairs<String>, Pairs<i64>)> {
        let port = self.ports.values().find(|p| p.ofport == port)?;
        let status = Pairs::from([
            ("stp_port_id", port.id.to_string()),
            ("stp_state", port.state.name(Protocol::Stp).to_owned()),
            ("stp_sec_in_state", (now.since(port.since).0 / 1000).to_string()),
            ("stp_role", self.role(port).to_owned()),
        ]);
        let statistics = Pairs::from([
            ("stp_tx_count", port.counts[SENT]),
            ("stp_rx_count", port.counts[RECEIVED]),
            ("stp_error_count", port.counts[ERRORS]),
        ]);
        Some((status, statistics))
    }
}

/// The lines that describe a bridge.
fn details(bridge: BridgeIdentifier, of: Times) -> String {
    let (priority, mac) = (bridge.priority(), bridge.mac());
    format!("  stp-priority  {priority}\n  stp-system-id   {mac}\n{}", times(of.seconds()))
}
