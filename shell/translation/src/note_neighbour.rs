//! Learning next hops from packets and commands.

use crate::changes::Changes;
use crate::shared_state::SharedState;
use crate::side_effect::SideEffect;
use flow::Mac;
use router::Noted;
use std::net::IpAddr;
use units::Millis;
use xlate::{Change, Held, Neighbours};

impl SharedState {
    /// Records the address of a next hop, and the translations that this may change.
    pub fn note_neighbour(&self, bridge: &str, ip: IpAddr, mac: Mac, now: Millis) {
        let mut table = self.neighbours.lock();
        if table.note(bridge, ip, mac, now) == Noted::Changed {
            let mut changes = Changes::default();
            changes.push(Change::Neighbour { ip });
            self.live.note(changes);
            drop(table);
            self.send_held(bridge, ip, now);
        }
    }

    /// Holds a packet until its next hop is known; sends it at once if that has become known since the translation.
    pub(crate) fn hold(&self, held: Held, packet: &[u8], now: Millis) {
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
