//! What follows when routes or neighbours change.

use super::Underlay;
use crate::backer::Backer;
use crate::switch::Switch;
use flow::Mac;
use router::Noted;
use std::net::IpAddr;
use units::Millis;
use xlate::Change;

impl Switch {
    /// Takes in what the kernel told of routes.
    pub(crate) fn run_routes(&mut self) {
        let Underlay { kernel, router, .. } = &mut self.underlay;
        if kernel.as_mut().is_some_and(|kernel| kernel.run(router)) {
            self.routes_changed();
        }
    }

    /// Routes, rules or addresses changed: translations that asked for them are made again. A datapath without tunnels
    /// does not ask, and the first tunnel publishes what there is then.
    pub fn routes_changed(&mut self) {
        let with_tunnels = |b: &&mut Backer| b.ports.values().any(|p| p.tunnels > 0);
        for backer in self.datapaths.of_bridges_mut().filter(with_tunnels) {
            backer.changes.push(Change::Routes);
            backer.changes.push(Change::Addresses);
        }
    }

    /// Outer UDP headers have source ports of this range from now on.
    pub fn set_tunnel_source_ports(&mut self, first: u16, last: u16) {
        self.underlay.source_ports = (first, last);
        self.datapaths.all().for_each(|b| b.datapath.set_tunnel_source_ports(first, last));
    }

    /// A neighbour is there.
    pub fn note_neighbour(&mut self, bridge: &str, ip: IpAddr, mac: Mac) {
        let now = self.clock.now();
        if self.underlay.neighbours.lock().note(bridge, ip, mac, now) == Noted::Changed {
            self.neighbours_changed([ip]);
        }
    }

    /// Forgets the neighbours of a bridge, or all.
    pub fn flush_neighbours(&mut self, bridge: Option<&str>) {
        if self.underlay.neighbours.flush(bridge) {
            self.mark_all_dirty();
        }
    }

    /// Forgets the neighbours that were neither used nor seen for long.
    pub(crate) fn expire_neighbours(&mut self, now: Millis) {
        let gone = self.underlay.neighbours.expire(now);
        self.neighbours_changed(gone);
    }

    fn neighbours_changed(&mut self, ips: impl IntoIterator<Item = IpAddr>) {
        for ip in ips {
            self.datapaths.of_bridges_mut().for_each(|b| b.changes.push(Change::Neighbour { ip }));
        }
    }
}
