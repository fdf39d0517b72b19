//! Begins a connection: reserves a place, chooses free addresses and ports, and makes its record.

use crate::established::Plan;
use crate::helper::{self, Parent};
use crate::key::Key;
use crate::limits::Admission;
use crate::nat::{Chance, Nat};
use crate::packet_fields::PacketFields;
use crate::packet_words::{Ends, Translated, Written};
use crate::protocol::Protocol;
use crate::record::{Filling, Record, Side};
use crate::table::{Handle, Refused};
use crate::timeout::Timeout;
use crate::tracker::{
    Action, Connection, Conntrack, FirstReply, Known, Metadata, Place, TrackedPacket, masked_label,
    masked_mark, translated_bit,
};
use flow::flow::ct_state::{INVALID, NEW, RELATED, TRACKED};
use packet::ipproto;
use std::sync::atomic::Ordering;
use units::Millis;

/// The metadata of a new packet without a connection.
#[inline(always)]
fn fresh(key: &Key) -> Metadata {
    Metadata { state: NEW | TRACKED, zone: key.zone, tuple: key.tuple(), ..Metadata::default() }
}

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
        let &TrackedPacket { fields, place, action, now } = packet;
        let Some((protocol, timeout)) = Protocol::begin(&fields.content) else {
            meta.state = INVALID;
            return None;
        };
        meta.state = if parent.is_some() { NEW | RELATED } else { NEW };
        if !action.commit {
            return None;
        }
        let mut filling = self.filling((key, place.hash), (&protocol, timeout), action, now);
        filling.counted = self.admit(key.zone, now)?;
        let mut nat = action.nat.as_ref();
        if let Some(parent) = parent {
            filling.helper_word = helper::helper_word_of(action.helper, key, Some(parent));
            (filling.mark, filling.label) = (parent.mark, parent.label);
            if nat.take().is_some() {
                filling.reply = helper::reply_of(key, parent);
                filling.hashes[1] = filling.reply.map_or(place.hash, |(reply, _)| reply.hash(&self.chain));
            }
        }
        self.add(&mut filling, (nat, None), now).ok()
    }

    /// The record of a connection that this packet begins, without mark, label and translation.
    #[inline(always)]
    fn filling(
        &self,
        (key, hash): (&Key, u64),
        (protocol, timeout): (&Protocol, Timeout),
        action: &Action,
        now: Millis,
    ) -> Filling {
        Filling {
            key: *key,
            reply: None,
            hashes: [hash; 2],
            expires: self.policies.after(action.timeout, timeout, now),
            words: protocol.words(),
            policy: action.timeout,
            counted: 0,
            mark: 0,
            label: [0; 2],
            helper_word: helper::helper_word_of(action.helper, key, None),
        }
    }

    /// Tracks a packet whose connection did not exist when it was looked up, and begins it if the action commits. Returns `None` and
    /// does nothing if the general path is needed: another packet has begun it meanwhile, the table is full, or a helper expects
    /// connections.
    #[inline(never)]
    pub(crate) fn begin_absent(
        &self,
        fields: &PacketFields,
        place: &Place<'_>,
        meta: &mut Metadata,
        plan: &Plan<'_>,
    ) -> Option<Written> {
        let (&Plan { action, now, .. }, key) = (plan, &fields.key);
        if fields.related || !self.helpers.expectations.is_empty() {
            return None;
        }
        let (protocol, timeout) = Protocol::begin(&fields.content)?;
        // An earlier packet of the batch may have begun the connection. A connection that is not translated is refused by the insertion
        // then; a translated one may be refused for another reason.
        let is_absent = || plan.table.is_absent(place.hash);
        let is_translated = action.nat.is_some_and(|nat| nat.side.is_some());
        if (!action.commit || is_translated) && !is_absent() {
            return None;
        }
        if !action.commit {
            *meta = Metadata { known: Known::without_connection(place.hash), ..fresh(key) };
            return Some(Written::Nothing);
        }
        let mut filling = self.filling((key, place.hash), (&protocol, timeout), action, now);
        filling.mark = action.mark.map_or(0, |mark| masked_mark(0, mark));
        filling.label = action.label.map_or([0; 2], |label| masked_label([0; 2], label));
        filling.counted = match self.limits.admit(key.zone) {
            Admission::Counted(counted) => counted,
            Admission::ZoneFull if is_absent() => {
                *meta = fresh(key);
                return Some(Written::Nothing);
            }
            Admission::ZoneFull | Admission::Full => return None,
        };
        let c = match self.add(&mut filling, (action.nat.as_ref(), place.reply.as_ref()), now) {
            Ok(c) => c,
            Err(Refused::Taken) => return None,
            Err(Refused::ReplyTaken | Refused::Full) => {
                *meta = fresh(key);
                return Some(Written::Nothing);
            }
        };
        let known = if action.nat.is_none() { Known::of(c.handle, false, false) } else { Known::default() };
        *meta = Metadata { mark: filling.mark, label: filling.label, known, ..fresh(key) };
        let mut written = Written::Nothing;
        if let Some((reply, side)) = filling.reply {
            meta.state |= translated_bit(side, false);
            let any = Translated { handle: c.handle, side, reply: false, related: false };
            written = match !key.v6 && matches!(key.proto, ipproto::TCP | ipproto::UDP) {
                true => Written::Ends(Ends::of_replies(reply.address_word(), reply.port_word())),
                false => Written::Translation(any),
            };
        }
        if filling.helper_word != 0 {
            self.write_helper_state(&c, false, written != Written::Nothing, meta);
        }
        Some(written)
    }

    /// Adds a connection, which was admitted, or else takes back its admission.
    fn add(
        &self,
        filling: &mut Filling,
        (nat, first): (Option<&Nat>, Option<&FirstReply>),
        now: Millis,
    ) -> Result<Connection<'_>, Refused> {
        let added = match (nat.and_then(|nat| Some((nat, nat.side?))), filling.reply.is_some()) {
            (Some(nat), _) => self.add_translated(filling, (nat, first), now),
            // The connection of a helper, whose reply key follows from its control connection.
            (None, true) => {
                let reserved = self.table().reserve_reply(filling, now);
                reserved.and_then(|reserved| self.table().insert_reserved(reserved, filling, now))
            }
            (None, false) => self.table().insert(filling, now),
        };
        if added.is_err() {
            self.limits.leave(filling.key.zone, filling.counted);
        }
        added.map(|(handle, record)| Connection { handle, record })
    }

    /// Adds a translated connection, whose reply key differs from those of all other connections. A key that is tried is reserved at once
    /// if it is free, so most connections search the index once for each key. `first`: the likely reply key, whose hash is known.
    fn add_translated(
        &self,
        filling: &mut Filling,
        ((nat, side), first): ((&Nat, Side), Option<&FirstReply>),
        now: Millis,
    ) -> Result<(Handle, &Record), Refused> {
        let table = self.table();
        let chance = Chance { secret: self.secret, draws: &self.draws };
        let key = filling.key;
        let mut reserved = None;
        let free = |reply: &Key| {
            let known = first.filter(|first| first.is_of(reply));
            filling.hashes[1] = known.map_or_else(|| reply.hash(&self.chain), |first| first.hash);
            filling.reply = Some((*reply, side));
            // Later keys are often taken too: they are searched without a lock.
            if reserved.is_some() && table.is_taken(filling.hashes[1], reply, now) {
                return false;
            }
            let result = table.reserve_reply(filling, now);
            reserved = Some(result);
            !matches!(result, Err(Refused::ReplyTaken))
        };
        let chosen = nat.choose(&key, chance, free);
        match reserved {
            Some(result) if chosen.is_some() => table.insert_reserved(result?, filling, now),
            _ => {
                self.exhausted.fetch_add(1, Ordering::Relaxed);
                Err(Refused::Full)
            }
        }
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
