//! Begins a connection: counts it towards the limits, chooses free addresses and ports, and inserts its record.

use crate::established::PreparedAction;
use crate::helper::{self, Parent};
use crate::key::Key;
use crate::limits::{Admission, CountedIn};
use crate::nat::{Nat, RandomSource};
use crate::packet_fields::PacketFields;
use crate::packet_words::{Endpoints4, PacketEdit, PendingTranslation};
use crate::protocol::Protocol;
use crate::record::{Record, RecordContents, Side};
use crate::table::{Handle, InsertError};
use crate::timeout::Timeout;
use crate::tracker::{
    Action, Connection, Conntrack, EarlierLookUp, FirstReply, IndexHint, Metadata, TrackedPacket,
    masked_label, masked_mark, translated_bit,
};
use flow::flow::ct_state::{INVALID, NEW, RELATED, TRACKED};
use packet::ipproto;
use std::sync::atomic::Ordering;
use units::Millis;

/// The metadata of a new packet without a connection.
#[inline(always)]
fn new_packet_metadata(key: &Key) -> Metadata {
    Metadata { state: NEW | TRACKED, zone: key.zone, tuple: key.tuple(), ..Metadata::default() }
}

impl Conntrack {
    /// Begins a connection if the action commits and the limits allow the connection. `parent`: the control connection that announced the
    /// connection.
    pub(crate) fn begin(
        &self,
        packet: &TrackedPacket<'_>,
        key: &Key,
        parent: Option<&Parent>,
        meta: &mut Metadata,
    ) -> Option<Connection<'_>> {
        let &TrackedPacket { fields, hint, action, now } = packet;
        let Some((protocol, timeout)) = Protocol::begin(&fields.content) else {
            meta.state = INVALID;
            return None;
        };
        meta.state = if parent.is_some() { NEW | RELATED } else { NEW };
        if !action.commit {
            return None;
        }
        let mut contents = self.record_contents((key, hint.hash), (&protocol, timeout), action, now);
        contents.zone_count_id = self.admit(key.zone, now)?;
        let mut nat = action.nat.as_ref();
        if let Some(parent) = parent {
            contents.helper_word = helper::helper_word_of(action.helper, key, Some(parent));
            (contents.mark, contents.label) = (parent.mark, parent.label);
            if nat.take().is_some() {
                contents.reply = helper::reply_of(key, parent);
                contents.hashes[1] =
                    contents.reply.map_or(hint.hash, |(reply, _)| reply.hash(&self.key_hash));
            }
        }
        self.add(&mut contents, (nat, None), now).ok()
    }

    /// The record contents of a connection that this packet begins, without mark, label and translation.
    #[inline(always)]
    fn record_contents(
        &self,
        (key, hash): (&Key, u64),
        (protocol, timeout): (&Protocol, Timeout),
        action: &Action,
        now: Millis,
    ) -> RecordContents {
        RecordContents {
            key: *key,
            reply: None,
            hashes: [hash; 2],
            expires: self.policies.after(action.timeout, timeout, now),
            words: protocol.words(),
            policy: action.timeout,
            zone_count_id: 0,
            mark: 0,
            label: [0; 2],
            helper_word: helper::helper_word_of(action.helper, key, None),
        }
    }

    /// Tracks a packet whose connection did not exist when it was looked up, and begins the connection if the action commits. Returns
    /// `None` and changes nothing if the general path is needed: an earlier packet has begun the connection meanwhile, the table is full,
    /// or a helper expects connections.
    #[inline(never)]
    pub(crate) fn begin_absent(
        &self,
        fields: &PacketFields,
        hint: &IndexHint<'_>,
        meta: &mut Metadata,
        prepared: &PreparedAction<'_>,
    ) -> Option<PacketEdit> {
        let (&PreparedAction { action, now, .. }, key) = (prepared, &fields.key);
        if fields.related || !self.helpers.expectations.is_empty() {
            return None;
        }
        let (protocol, timeout) = Protocol::begin(&fields.content)?;
        // An earlier packet of the batch may have begun the connection. Without translation, the insertion detects that
        // (`InsertError::Taken`). With translation, the insertion may fail for another reason first, so the index is searched here.
        let is_absent = || prepared.table.is_absent(hint.hash);
        let is_translated = action.nat.is_some_and(|nat| nat.side.is_some());
        if (!action.commit || is_translated) && !is_absent() {
            return None;
        }
        if !action.commit {
            *meta = Metadata {
                earlier: EarlierLookUp::without_connection(hint.hash),
                ..new_packet_metadata(key)
            };
            return Some(PacketEdit::Nothing);
        }
        let mut contents = self.record_contents((key, hint.hash), (&protocol, timeout), action, now);
        contents.mark = action.mark.map_or(0, |mark| masked_mark(0, mark));
        contents.label = action.label.map_or([0; 2], |label| masked_label([0; 2], label));
        contents.zone_count_id = match self.limits.admit(key.zone) {
            Admission::Counted(counted) => counted,
            Admission::ZoneFull if is_absent() => {
                *meta = new_packet_metadata(key);
                return Some(PacketEdit::Nothing);
            }
            Admission::ZoneFull | Admission::Full => return None,
        };
        let c = match self.add(&mut contents, (action.nat.as_ref(), hint.reply.as_ref()), now) {
            Ok(c) => c,
            Err(InsertError::Taken) => return None,
            Err(InsertError::ReplyTaken | InsertError::Full) => {
                *meta = new_packet_metadata(key);
                return Some(PacketEdit::Nothing);
            }
        };
        let earlier = if action.nat.is_none() {
            EarlierLookUp::of(c.handle, false, false)
        } else {
            EarlierLookUp::default()
        };
        *meta = Metadata { mark: contents.mark, label: contents.label, earlier, ..new_packet_metadata(key) };
        let mut edit = PacketEdit::Nothing;
        if let Some((reply, side)) = contents.reply {
            meta.state |= translated_bit(side, false);
            let pending = PendingTranslation { handle: c.handle, side, reply: false, related: false };
            edit = match !key.v6 && matches!(key.proto, ipproto::TCP | ipproto::UDP) {
                true => {
                    PacketEdit::Endpoints(Endpoints4::of_replies(reply.address_word(), reply.port_word()))
                }
                false => PacketEdit::Translation(pending),
            };
        }
        if contents.helper_word != 0 {
            self.write_helper_state(&c, false, edit != PacketEdit::Nothing, meta);
        }
        Some(edit)
    }

    /// Adds a connection that the limits have admitted. If that fails, the connection no longer counts towards the limits.
    fn add(
        &self,
        contents: &mut RecordContents,
        (nat, first): (Option<&Nat>, Option<&FirstReply>),
        now: Millis,
    ) -> Result<Connection<'_>, InsertError> {
        let added = match (nat.and_then(|nat| Some((nat, nat.side?))), contents.reply.is_some()) {
            (Some(nat), _) => self.add_translated(contents, (nat, first), now),
            // An announced connection: its reply key follows from its control connection.
            (None, true) => {
                let reservation = self.table().reserve_reply(contents, now);
                reservation.and_then(|reservation| self.table().insert_reserved(reservation, contents, now))
            }
            (None, false) => self.table().insert(contents, now),
        };
        match added {
            Ok((handle, _)) => {
                if self.table().take_memory_request(handle) {
                    self.memory_request.send();
                }
            }
            Err(_) => {
                self.limits.release(CountedIn { zone: contents.key.zone, count_id: contents.zone_count_id });
            }
        }
        added.map(|(handle, record)| Connection { handle, record })
    }

    /// Adds a translated connection, whose reply key must differ from the reply keys of all other connections. The first reply key that is
    /// tried is reserved at once if it is free, so most connections search the index once for each key. `first`: the likely reply key, with
    /// its hash.
    fn add_translated(
        &self,
        contents: &mut RecordContents,
        ((nat, side), first): ((&Nat, Side), Option<&FirstReply>),
        now: Millis,
    ) -> Result<(Handle, &Record), InsertError> {
        let table = self.table();
        let random = RandomSource { secret: self.secret, draws: &self.random_draws };
        let key = contents.key;
        let mut reservation = None;
        let free = |reply: &Key| {
            let known = first.filter(|first| first.is_of(reply));
            contents.hashes[1] = known.map_or_else(|| reply.hash(&self.key_hash), |first| first.hash);
            contents.reply = Some((*reply, side));
            // If the first key was taken, later keys often are, too: they are searched without a lock before they are reserved.
            if reservation.is_some() && table.is_taken(contents.hashes[1], reply, now) {
                return false;
            }
            let result = table.reserve_reply(contents, now);
            reservation = Some(result);
            !matches!(result, Err(InsertError::ReplyTaken))
        };
        let chosen = nat.choose(&key, random, free);
        match reservation {
            Some(result) if chosen.is_some() => table.insert_reserved(result?, contents, now),
            // No reply key was tried, because the address range is of the other address family.
            None => Err(InsertError::Full),
            Some(_) => {
                self.nat_exhausted.fetch_add(1, Ordering::Relaxed);
                Err(InsertError::Full)
            }
        }
    }

    /// Counts a new connection towards the limits of the table and the zone. If the table is full, evicts a
    /// connection first. Returns the id of the zone count that includes the new connection. `None`: a limit
    /// is reached.
    fn admit(&self, zone: u16, now: Millis) -> Option<u32> {
        match self.limits.admit(zone) {
            Admission::Counted(number) => return Some(number),
            Admission::ZoneFull => return None,
            Admission::Full => {}
        }
        self.limits.admit_instead(zone, self.evict_one(now)?)
    }

    /// Returns and resets the number of connections that could not begin because no address and port was free
    /// for their translation.
    pub fn take_exhausted(&self) -> u64 {
        self.nat_exhausted.swap(0, Ordering::Relaxed)
    }
}
