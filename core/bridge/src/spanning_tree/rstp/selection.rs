//! Port role selection machine (§17.28).

use super::bridge::Bridge;
use super::port::{InfoIs, PortRole, Variables};
use super::vector::Vector;

impl Bridge {
    /// Port role selection machine.
    pub(super) fn role_selection(&mut self) -> bool {
        if !self.ports.values().any(|port| port.has(Variables::RESELECT)) {
            return false;
        }
        self.updt_roles_tree();
        for port in self.ports.values_mut() {
            port.variables -= Variables::RESELECT;
            port.variables |= Variables::SELECTED;
        }
        true
    }

    /// updtRolesTree (§17.21.25)
    pub(super) fn updt_roles_tree(&mut self) {
        let old_root_port = self.root_port;
        self.select_root();
        self.note_moved_root(old_root_port);
        let (own, own_times) = (self.identifier(), self.own_times());
        for (number, port) in &mut self.ports {
            port.info.designated = Vector { bridge: own, port: port.id, ..self.root };
            port.info.designated_times = self.root_times;
            port.info.designated_times.hello_time = own_times.hello_time;
            let info = &port.info;
            let (role, updates) = match info.is {
                InfoIs::Disabled => (PortRole::Disabled, false),
                InfoIs::Aged => (PortRole::Designated, true),
                InfoIs::Mine => {
                    let differs = info.priority != info.designated || info.times != info.designated_times;
                    (PortRole::Designated, differs || port.variables.contains(Variables::UPDT_INFO))
                }
                InfoIs::Received if self.root_port == Some(*number) => (PortRole::Root, false),
                InfoIs::Received if info.designated < info.priority => (PortRole::Designated, true),
                InfoIs::Received if info.priority.bridge == own => (PortRole::Backup, false),
                InfoIs::Received => (PortRole::Alternate, false),
            };
            port.selected_role = role;
            port.variables.set(Variables::UPDT_INFO, updates);
        }
    }

    /// Selects the root: the best priority vector among the bridge's own and those of the paths through its ports.
    fn select_root(&mut self) {
        let own = self.identifier();
        let paths = self.ports.iter().filter(|(_, port)| {
            port.info.is == InfoIs::Received && port.info.priority.bridge.mac() != own.mac()
        });
        let paths = paths.map(|(number, port)| {
            let heard = port.info.priority;
            let path = Vector { cost: heard.cost.saturating_add(port.path_cost), ..heard };
            (path, port.id, *number)
        });
        self.root = Vector { root: own, cost: 0, bridge: own, port: 0 };
        self.root_times = self.own_times();
        self.root_port = None;
        if let Some((path, _, number)) = paths.min().filter(|(path, ..)| *path < self.root)
            && let Some(port) = self.ports.get(&number)
        {
            self.root = path;
            self.root_times = port.info.times;
            self.root_times.message_age = self.root_times.message_age.saturating_add(1);
            self.root_port = Some(number);
        }
    }

    /// If an alternate port becomes the root port, records that the stations behind the old root port are now behind
    /// the new one.
    fn note_moved_root(&mut self, old: Option<u16>) {
        let port = |number: Option<u16>| number.and_then(|n| self.ports.get(&n));
        if let (Some(old), Some(new)) = (port(old), port(self.root_port))
            && new.role == PortRole::Alternate
        {
            self.output.flush.moved.push((old.ofport, new.ofport));
        }
    }
}
