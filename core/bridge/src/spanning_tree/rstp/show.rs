//! The text of `rstp/show`, and the columns `rstp_status` and `rstp_statistics`.

use super::bridge::Bridge;
use super::vector::{NUMBER_MASK, Times};
use crate::spanning_tree::identifier::BridgeIdentifier;
use crate::spanning_tree::output::Pairs;
use crate::spanning_tree::port_state::Protocol;
use crate::spanning_tree::table::{row, times};
use units::{Millis, OfPort};

/// Width of the column "Cost" in characters.
const COST_WIDTH: usize = 9;

impl Bridge {
    /// The text of `rstp/show`.
    pub fn show(&self) -> String {
        let own = details(self.identifier(), self.own_times());
        let root = match self.root_port.and_then(|number| self.ports.get(&number)) {
            None => format!("{own}  This bridge is the root\n"),
            Some(port) => {
                let details = details(self.root.root, port.info.designated_times);
                let (name, cost) = (&port.name, self.root.cost);
                format!("{details}  root-port       {name}\n  root-path-cost  {cost}\n")
            }
        };
        let mut text = format!("---- {} ----\nRoot ID:\n{root}\nBridge ID:\n{own}\n", self.name);
        text.push_str(&row(["Interface", "Role", "State"], "Cost", COST_WIDTH, "Pri.Nbr "));
        text.push_str("  ---------- ---------- ---------- -------- -------\n");
        for port in self.ports.values() {
            let columns = [port.name.as_str(), port.role.name(), port.state.name(Protocol::Rstp)];
            let id = format!("{}.{}", port.id >> 8 & 0xf0, port.id & NUMBER_MASK);
            text.push_str(&row(columns, port.path_cost, COST_WIDTH, &id));
        }
        text.push('\n');
        text
    }

    /// Column `rstp_status` of the bridge.
    pub fn status(&self) -> Pairs<String> {
        let root_port = self.root_port.and_then(|number| self.ports.get(&number));
        Pairs::from([
            ("rstp_bridge_id", self.identifier().rstp_text()),
            ("rstp_root_path_cost", self.root.cost.to_string()),
            ("rstp_root_id", self.root.root.rstp_text()),
            ("rstp_designated_id", self.root.bridge.rstp_text()),
            ("rstp_designated_port_id", format!("{:04x}", self.root.port)),
            ("rstp_bridge_port_id", format!("{:04x}", root_port.map_or(0, |port| port.id))),
        ])
    }

    /// Columns `rstp_status` and `rstp_statistics` of a port.
    pub fn port_status(&self, port: OfPort, _now: Millis) -> Option<(Pairs<String>, Pairs<i64>)> {
        let port = self.ports.values().find(|p| p.ofport == port)?;
        let known = &port.info.priority;
        let status = Pairs::from([
            ("rstp_port_id", format!("{:04x}", port.id)),
            ("rstp_port_role", port.role.name().to_owned()),
            ("rstp_port_state", port.state.name(Protocol::Rstp).to_owned()),
            ("rstp_designated_bridge_id", known.bridge.rstp_text()),
            ("rstp_designated_port_id", format!("{:04x}", known.port)),
            ("rstp_designated_path_cost", known.cost.to_string()),
        ]);
        let counts = port.counts;
        let statistics = Pairs::from([
            ("rstp_tx_count", counts.tx),
            ("rstp_rx_count", counts.rx),
            ("rstp_error_count", counts.errors),
            ("rstp_uptime", counts.uptime),
        ]);
        Some((status, statistics))
    }
}

/// The lines that describe a bridge.
fn details(bridge: BridgeIdentifier, of: Times) -> String {
    let (priority, mac) = (bridge.priority(), bridge.mac());
    let seconds = [of.hello_time, of.max_age, of.forward_delay].map(u64::from);
    format!("  stp-priority    {priority}\n  stp-system-id   {mac}\n{}", times(seconds))
}
