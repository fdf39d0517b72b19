//! Learns next hops from packets and commands.

use crate::changes::Changes;
use crate::shared_state::SharedState;
use crate::side_effect::SideEffect;
use flow::Mac;
use router::NeighbourUpdate;
use std::net::IpAddr;
use units::Millis;
use xlate::{DependencyChange, HeldOutput, Neighbours};

impl SharedState {
    /// Records the Ethernet address of a next hop. If the address is new, reports the change and sends the packets that are
    /// held for the next hop.
    pub fn note_neighbour(&self, bridge: &str, ip: IpAddr, mac: Mac, now: Millis) {
        let mut table = self.neighbours.lock();
        if table.store(bridge, ip, mac, now) == NeighbourUpdate::Changed {
            let mut changes = Changes::default();
            changes.push(DependencyChange::Neighbour { ip });
            self.live.note(changes);
            drop(table);
            self.send_held(bridge, ip, now);
        }
    }

    /// Holds a packet until its next hop is known. If the next hop has become known since the translation, sends the packet at
    /// once.
    pub(crate) fn hold(&self, held: HeldOutput, packet: &[u8], now: Millis) {
        let (bridge, next) = (held.next_bridge.clone(), held.next);
        self.neighbours.hold(held, packet, now);
        if self.neighbours.mac_of(&bridge, next).is_some() {
            self.send_held(&bridge, next, now);
        }
    }

    fn send_held(&self, bridge: &str, ip: IpAddr, now: Millis) {
        let released = self.neighbours.release(bridge, ip, now);
        if !released.is_empty() {
            self.enqueue(SideEffect::Release(released));
        }
    }
}
