//! Begins a connection: reserves a place, chooses free addresses and ports, and makes its record.

use crate::helper::{self, Parent};
use crate::key::Key;
use crate::limits::Admission;
use crate::nat::{Chance, Nat};
use crate::protocol::Protocol;
use crate::record::Filling;
use crate::table::{Handle, Refused};
use crate::tracker::{Connection, Conntrack, Metadata, TrackedPacket};
use flow::flow::ct_state::{INVALID, NEW, RELATED};
use std::sync::atomic::Ordering;
use units::Millis;

/// How many keys are tried for a new connection: another thread may take a key between the check that it is free and the
/// insertion.
const CLASHES_MAX: usize = 4;

impl Conntrack {
    /// Begins a connection, if the action commits and the limits allow it. `parent`: the control connection
    /// that announced it.
    pub(crate) fn begin(
        &self,
        packet: &TrackedPacket<'_>,
        key: &Key,
        parent: Option<&Parent>,
        meta: &mut Metadata,
    ) -> Option<Connection<'_>> {
        let &TrackedPacket { subject, place, action, now } = packet;
        let Some((protocol, timeout)) = Protocol::begin(&subject.content) else {
            meta.state = INVALID;
            return None;
        };
        meta.state = if parent.is_some() { NEW | RELATED } else { NEW };
        if !action.commit {
            return None;
        }
        let counted = self.admit(key.zone, now)?;
        let expires = self.policies.after(action.timeout, timeout, now);
        let (words, policy) = (protocol.words(), action.timeout);
        let mut filling = Filling {
            key: *key,
            reply: None,
            hashes: [place.hash; 2],
            expires,
            words,
            policy,
            counted,
            helper_word: 0,
        };
        filling.helper_word = helper::helper_word_of(action.helper, key, parent);
        let mut nat = action.nat.as_ref();
        if let Some(parent) = parent.filter(|_| nat.is_some()) {
            nat = None;
            filling.reply = helper::reply_of(key, parent);
            filling.hashes[1] = filling.reply.map_or(place.hash, |(reply, _)| reply.hash(&self.chain));
        }
        let Some(handle) = self.add(&mut filling, nat, now) else {
            self.limits.leave(key.zone, counted);
            return None;
        };
        let record = self.table().get(handle)?;
        if let Some(parent) = parent {
            record.set_mark(handle.generation, parent.mark);
            record.set_label(handle.generation, parent.label);
        }
        Some(Connection { handle, record })
    }

    /// Adds a connection. If it is translated, its reply key differs from those of all other connections.
    fn add(&self, filling: &mut Filling, nat: Option<&Nat>, now: Millis) -> Option<Handle> {
        let table = self.table();
        for _ in 0..CLASHES_MAX {
            if let Some((nat, side)) = nat.and_then(|nat| Some((nat, nat.side?))) {
                let random = cpu::siphash(self.secret, &[self.draws.fetch_add(1, Ordering::Relaxed)]) as u32;
                let chance = Chance { secret: self.secret, random };
                let free = |reply: &Key| !table.is_taken(reply.hash(&self.chain), reply, now);
                let Some(reply) = nat.choose(&filling.key, chance, free) else {
                    self.exhausted.fetch_add(1, Ordering::Relaxed);
                    return None;
                };
                filling.reply = Some((reply, side));
                filling.hashes[1] = reply.hash(&self.chain);
            }
            match table.insert(filling, now) {
                Ok(handle) => return Some(handle),
                Err(Refused::Taken) if nat.is_some() && filling.reply.is_some() => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// Reserves a place for a connection of a zone and returns the number of the zone's count, in which it is
    /// included.
    fn admit(&self, zone: u16, now: Millis) -> Option<u32> {
        match self.limits.admit(zone) {
            Admission::Counted(number) => return Some(number),
            Admission::ZoneFull => return None,
            Admission::Full => {}
        }
        self.evict_one(now);
        match self.limits.admit(zone) {
            Admission::Counted(number) => Some(number),
            Admission::ZoneFull | Admission::Full => None,
        }
    }

    /// Returns how many connections could not begin, since the last call, because all their possible
    /// addresses and ports were taken.
    pub fn take_exhausted(&self) -> u64 {
        self.exhausted.swap(0, Ordering::Relaxed)
    }
}
