//! Applies changes of routes and neighbours to translations.

use super::Underlay;
use crate::backer::Backer;
use crate::switch::Switch;
use flow::Mac;
use router::NeighbourUpdate;
use std::net::IpAddr;
use units::Millis;
use xlate::DependencyChange;

impl Switch {
    /// Applies the kernel's route changes.
    pub(crate) fn run_routes(&mut self) {
        let now = self.clock.now();
        let Underlay { kernel, router, .. } = &mut self.underlay;
        if kernel.as_mut().is_some_and(|kernel| kernel.run(router, now)) {
            self.routes_changed();
        }
    }

    /// Records that routes, rules or addresses changed, so that translations that used them are made again. A datapath
    /// without tunnels uses no routes; when it gets its first tunnel, a new snapshot with the current routes is published.
    pub fn routes_changed(&mut self) {
        self.status.tunnels = true;
        let with_tunnels = |b: &&mut Backer| b.ports.values().any(|p| p.tunnels > 0);
        for backer in self.datapaths.with_bridges_mut().filter(with_tunnels) {
            backer.changes.push(DependencyChange::Routes);
            backer.changes.push(DependencyChange::Addresses);
        }
    }

    /// Sets the range of source ports of outer UDP headers.
    pub fn set_tunnel_source_ports(&mut self, first: u16, last: u16) {
        self.underlay.source_ports = (first, last);
        self.datapaths.all().for_each(|b| b.datapath.set_tunnel_source_ports(first, last));
    }

    /// Records a neighbour that was learned.
    pub fn note_neighbour(&mut self, bridge: &str, ip: IpAddr, mac: Mac) {
        let now = self.clock.now();
        if self.underlay.neighbours.lock().store(bridge, ip, mac, now) == NeighbourUpdate::Changed {
            self.neighbours_changed([ip]);
        }
    }

    /// Removes the neighbours of a bridge, or (`None`) of all bridges.
    pub fn flush_neighbours(&mut self, bridge: Option<&str>) {
        if self.underlay.neighbours.flush(bridge) {
            self.mark_all_datapaths_changed();
        }
    }

    /// Removes neighbours that were neither used nor confirmed for a long time.
    pub(crate) fn expire_neighbours(&mut self, now: Millis) {
        let gone = self.underlay.neighbours.expire(now);
        self.neighbours_changed(gone);
    }

    fn neighbours_changed(&mut self, ips: impl IntoIterator<Item = IpAddr>) {
        for ip in ips {
            self.datapaths
                .with_bridges_mut()
                .for_each(|b| b.changes.push(DependencyChange::Neighbour { ip }));
        }
    }
}
