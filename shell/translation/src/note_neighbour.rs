//! A packet or a command told where a next hop is.

use crate::changes::Changes;
use crate::shared_state::SharedState;
use crate::side_effect::SideEffect;
use flow::Mac;
use router::Noted;
use std::net::IpAddr;
use units::Millis;
use xlate::{Change, Held, Neighbours};

impl SharedState {
    /// Notes where a next hop is, and what translations may no longer be right about.
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

    /// Keeps a packet until its next hop is known. It may have become known since the packet was translated.
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
