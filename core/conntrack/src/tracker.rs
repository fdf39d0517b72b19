//! `Conntrack`: tracks packets and owns all connections.
//!
//! **Threads**: any. A packet of a known connection takes no lock; one that begins or ends a connection takes
//! the lock of one of [`SHARDS`](crate::SHARDS) shards at a time. The table is allocated when the first
//! packet is tracked, so it costs nothing where `ct` is not used.

use crate::helper::{self, Control, Helper, Helpers};
use crate::index::Bucket;
use crate::key::{Key, Tuple};
use crate::limits::Limits;
use crate::nat::{Nat, Translation};
use crate::packet_fields::{Content, PacketFields};
use crate::packet_words::Translated;
use crate::protocol::Protocol;
use crate::record::{Record, Side};
use crate::table::{Found, Handle, Table};
use crate::timeout::Policies;
use crate::update::Update;
use cpu::Chain;
use flow::flow::ct_state::{DST_NAT, ESTABLISHED, INVALID, NEW, RELATED, REPLY_DIR, SRC_NAT, TRACKED};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use units::Millis;

/// The parameters of `ct`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// Zone.
    pub zone: u16,
    /// Commit the connection.
    pub commit: bool,
    /// Remove an existing connection of the opposite direction first.
    pub force: bool,
    /// Mark to write: value, mask.
    pub mark: Option<(u32, u32)>,
    /// Label to write: value, mask; most significant half first.
    pub label: Option<([u64; 2], [u64; 2])>,
    /// Translate addresses and ports.
    pub nat: Option<Nat>,
    /// Timeout policy of the connection, if `commit` is set; 0: none.
    pub timeout: u16,
    /// Helper of the connection, if `commit` is set.
    pub helper: Option<Helper>,
}

impl Action {
    /// Tracks in zone 0, and does nothing else.
    pub const TRACK: Action = Action {
        zone: 0,
        commit: false,
        force: false,
        mark: None,
        label: None,
        nat: None,
        timeout: 0,
        helper: None,
    };
}

/// Connection tracking metadata of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metadata {
    /// Bits of `flow::flow::ct_state`.
    pub state: u8,
    /// Zone.
    pub zone: u16,
    /// Mark.
    pub mark: u32,
    /// Label.
    pub label: [u64; 2],
    /// The tuple of the connection's first packet.
    pub tuple: Tuple,
    /// Its connection, if this packet has updated it already.
    pub known: Known,
    /// The packet belongs to a control connection: pass it to [`Conntrack::inspect`].
    pub control: Option<Control>,
}

/// The result of an earlier `ct` of a packet in the same zone, as long as addresses and ports are unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known(KnownState);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum KnownState {
    #[default]
    Unknown,
    /// Its connection, which is not looked up again.
    Connection(Seen),
    /// It has no connection. Its checksums are right, and its key has this hash: upper and lower half.
    NoConnection([u32; 2]),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    handle: Handle,
    reply: bool,
    related: bool,
}

impl Known {
    #[inline(always)]
    pub(crate) fn of(handle: Handle, reply: bool, related: bool) -> Known {
        Known(KnownState::Connection(Seen { handle, reply, related }))
    }

    #[inline(always)]
    pub(crate) fn without_connection(hash: u64) -> Known {
        Known(KnownState::NoConnection([(hash >> 32) as u32, hash as u32]))
    }

    /// Whether the packet has a connection.
    pub fn has_connection(self) -> bool {
        self.seen().is_some()
    }

    #[inline(always)]
    fn seen(self) -> Option<Seen> {
        match self.0 {
            KnownState::Connection(seen) => Some(seen),
            _ => None,
        }
    }

    /// The hash of a packet that had no connection.
    #[inline(always)]
    pub(crate) fn hash(self) -> Option<u64> {
        match self.0 {
            KnownState::NoConnection([high, low]) => Some(u64::from(high) << 32 | u64::from(low)),
            _ => None,
        }
    }

    /// The same for the fragments of a packet: other fragments may complete it at the next `ct`, so its checksums are verified again.
    pub fn of_fragments(self) -> Known {
        match self.0 {
            KnownState::Connection(_) => self,
            _ => Known::default(),
        }
    }
}

/// Where the connection of a packet may be found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place<'t> {
    pub(crate) hash: u64,
    /// The bucket of the hash, if it was prefetched.
    pub(crate) bucket: Option<&'t Bucket>,
    /// The record that the hash most likely means, if it was prefetched.
    pub(crate) guess: Option<(u32, &'t Record)>,
    /// If no connection has the hash: the reply key that a translated one will most likely get.
    pub(crate) reply: Option<FirstReply>,
}

/// The first reply key that is tried for a new IPv4 connection, and its hash; its bucket was prefetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstReply {
    pub(crate) addresses: u64,
    pub(crate) ports: u64,
    pub(crate) hash: u64,
}

impl FirstReply {
    /// Returns whether it is this key, which has the same protocol and zone.
    #[inline(always)]
    pub(crate) fn is_of(&self, key: &Key) -> bool {
        !key.v6 && self.addresses == key.address_word() && self.ports == key.port_word()
    }
}

/// The connections of a datapath.
#[derive(Debug)]
pub struct Conntrack {
    pub(crate) secret: [u64; 2],
    /// Hashes keys.
    pub(crate) chain: Chain,
    pub(crate) table: OnceLock<Table>,
    pub(crate) limits: Limits,
    pub(crate) policies: Policies,
    pub(crate) strict: AtomicBool,
    /// Milliseconds in which every record is visited once.
    pub(crate) sweep_interval: AtomicU32,
    pub(crate) sweep: Mutex<Sweep>,
    /// Where the search for a dispensable connection continues.
    pub(crate) evict_from: AtomicU32,
    pub(crate) draws: AtomicU64,
    pub(crate) exhausted: AtomicU64,
    pub(crate) helpers: Helpers,
}

/// State of the present round of the sweep.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// The record to visit next, and how many are due.
    pub(crate) at: u32,
    pub(crate) left: u32,
    pub(crate) last: Option<Millis>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Replaces the bits of a mask.
pub(crate) fn masked_mark(old: u32, (value, mask): (u32, u32)) -> u32 {
    value | old & !mask
}

/// As `masked_mark`, for a label.
pub(crate) fn masked_label(old: [u64; 2], (value, mask): ([u64; 2], [u64; 2])) -> [u64; 2] {
    [value[0] | old[0] & !mask[0], value[1] | old[1] & !mask[1]]
}

/// The `ct_state` bits of a packet that was translated in this zone.
pub(crate) const TRANSLATED: u8 = SRC_NAT | DST_NAT;

/// The `ct_state` bit of a translated packet. Replies are translated on the other side.
#[inline(always)]
pub(crate) fn translated_bit(side: Side, reply: bool) -> u8 {
    if (side == Side::Source) != reply { SRC_NAT } else { DST_NAT }
}

impl Conntrack {
    /// Makes a tracker without connections. `seed` is random and secret.
    pub fn new(seed: u64) -> Conntrack {
        Conntrack {
            secret: cpu::siphash_key(seed),
            chain: Chain::new(cpu::derive(seed, b"connects")),
            table: OnceLock::new(),
            limits: Limits::default(),
            policies: Policies::default(),
            strict: AtomicBool::new(true),
            sweep_interval: AtomicU32::new(20_000),
            sweep: Mutex::default(),
            evict_from: AtomicU32::new(0),
            draws: AtomicU64::new(0),
            exhausted: AtomicU64::new(0),
            helpers: Helpers::default(),
        }
    }

    #[inline]
    pub(crate) fn table(&self) -> &Table {
        self.table.get_or_init(Table::default)
    }

    /// The edits of a packet that must be translated. `None`: its connection has been removed meanwhile.
    pub fn translation(&self, translated: &Translated) -> Option<Translation> {
        let keys = self.table().keys(translated.handle)?;
        let &Translated { side, reply, related, .. } = translated;
        Some(Translation::new(&keys, side, reply, related))
    }

    /// The connection of a packet that was tracked in this zone before.
    #[inline(always)]
    pub(crate) fn known(&self, meta: &Metadata, action: &Action) -> Option<(Connection<'_>, Seen)> {
        let seen = meta.known.seen().filter(|_| meta.zone == action.zone && !action.force)?;
        let record = self.table.get()?.get(seen.handle)?;
        Some((Connection { handle: seen.handle, record }, seen))
    }

    pub(crate) fn write_known(
        &self,
        connection: &Connection<'_>,
        seen: Seen,
        meta: &mut Metadata,
        action: &Action,
    ) -> Option<Translated> {
        let mut written = None;
        if action.nat.is_some() {
            written = self.translate(connection, meta, seen.reply, seen.related);
            meta.known = Known::default();
        }
        (meta.mark, meta.label) = connection.written(action);
        meta.control = None;
        if written.is_some() {
            meta.control = Control::of(connection, seen.reply, true);
        }
        written
    }

    /// Tracks a packet whose headers identify a connection: the general path.
    pub(crate) fn track_fields(&self, packet: &TrackedPacket<'_>, meta: &mut Metadata) -> Option<Translated> {
        let &TrackedPacket { fields, action, .. } = packet;
        let LookUp { connection, key, reply } = self.look_up(packet, meta);
        let (mut written, mut parent) = (None, None);
        let connection = match connection {
            Some(c) if self.advance(&c, packet, reply, meta) => {
                if action.nat.is_some() {
                    written = self.translate(&c, meta, reply, fields.related);
                }
                Some(c)
            }
            None if fields.related => {
                meta.state = INVALID;
                None
            }
            old => {
                old.map(|c| self.remove(c.handle));
                parent = self.expected(&key);
                let begun = self.begin(packet, &key, parent.as_ref(), meta);
                written = begun.as_ref().and_then(|c| self.translate(c, meta, false, false));
                begun
            }
        };
        meta.state |= TRACKED;
        meta.control = None;
        match connection {
            Some(c) => {
                (meta.mark, meta.label) = c.written(action);
                let helper_word = c.record.helper_word();
                meta.tuple = self.original(&c, &key, reply).tuple();
                if helper_word != 0 {
                    self.write_helper_state(&c, reply, written.is_some(), meta);
                }
                if action.nat.is_none() {
                    meta.known = Known::of(c.handle, reply, fields.related);
                }
            }
            None => {
                (meta.mark, meta.label) = (0, [0; 2]);
                meta.tuple = key.tuple();
                if let Some(parent) = parent.filter(|_| meta.state & RELATED != 0) {
                    (meta.mark, meta.label) = (parent.mark, parent.label);
                    meta.tuple = helper::tuple_of(&parent.ends);
                }
            }
        }
        written
    }

    /// The key of the original direction, from the key of a packet in one of the directions.
    #[inline(always)]
    fn original(&self, c: &Connection<'_>, key: &Key, reply: bool) -> Key {
        match c.record.meta().side() {
            None if reply => key.reverse(),
            None => *key,
            Some(_) => self.table().keys(c.handle).map_or(*key, |[original, _]| original),
        }
    }

    /// Finds the connection of a packet. A packet that was translated in this zone has the reverse of the
    /// other direction's key, or else the tuple identifies its connection.
    #[inline(always)]
    fn look_up<'a>(&'a self, packet: &TrackedPacket<'a>, meta: &Metadata) -> LookUp<'a> {
        let &TrackedPacket { fields, place, action, now } = packet;
        let translated = meta.state & TRANSLATED != 0;
        let wanted = if translated { fields.key.reverse() } else { fields.key };
        let guessed = place.guess.and_then(|record| self.table().verify(record, &wanted, now));
        let found = guessed.or_else(|| self.table().find(place.hash, &wanted, now));
        let Some(found) = found.filter(|found| self.is_to_be_used(found, action, translated, now)) else {
            let by_tuple = translated && action.nat.is_none() && meta.tuple.proto != 0;
            let connection = by_tuple.then(|| self.look_up_tuple(&fields.key, &meta.tuple, now)).flatten();
            return LookUp { connection, key: fields.key, reply: false };
        };
        let reply = found.reply != translated;
        let connection = Connection { handle: found.handle, record: found.record };
        let keys = translated.then(|| self.table().keys(found.handle)).flatten();
        let key = keys.map_or(fields.key, |keys| keys[usize::from(reply)]);
        LookUp { connection: Some(connection), key, reply }
    }

    /// Finds the connection of a packet that was translated and then changed by another action.
    #[cold]
    fn look_up_tuple(&self, key: &Key, tuple: &Tuple, now: Millis) -> Option<Connection<'_>> {
        let original = Key::of_tuple(tuple, key);
        let found = self.table().find(original.hash(&self.chain), &original, now)?;
        (found.record.expires() > now).then_some(Connection { handle: found.handle, record: found.record })
    }

    /// Removes an expired connection, or one of the opposite direction if `force` is set.
    #[inline(always)]
    fn is_to_be_used(&self, found: &Found<'_>, action: &Action, translated: bool, now: Millis) -> bool {
        let stays = found.record.expires() > now && !(action.force && found.reply != translated);
        if !stays {
            self.remove(found.handle);
        }
        stays
    }

    /// Updates a connection for one of its packets or for a related one. `false`: the packet begins another
    /// connection.
    #[inline(always)]
    fn advance(
        &self,
        c: &Connection<'_>,
        packet: &TrackedPacket<'_>,
        reply: bool,
        meta: &mut Metadata,
    ) -> bool {
        let &TrackedPacket { fields, now, .. } = packet;
        let direction = if reply { REPLY_DIR } else { 0 };
        if fields.related {
            meta.state |= RELATED | direction;
            return true;
        }
        meta.state |= helper::state_of(c.record.helper_word());
        let state = self.update_connection(c, (fields.key.proto, &fields.content), reply, now, meta.state);
        meta.state = state.unwrap_or(meta.state);
        state.is_some()
    }

    /// Updates a connection's protocol state for one of its packets. Returns the packet's `ct_state`; see
    /// [`ct_state_of`](Self::ct_state_of).
    pub(crate) fn update_connection(
        &self,
        c: &Connection<'_>,
        (proto, content): (u8, &Content),
        reply: bool,
        now: Millis,
        state: u8,
    ) -> Option<u8> {
        let strict = self.strict.load(Ordering::Relaxed);
        let (record, generation) = (c.record, c.handle.generation);
        let update = loop {
            // Another thread is removing the connection: treat the packet as if it had arrived before.
            let Some(words) = record.words(generation) else { break Update::Valid(None) };
            let (after, update) = Protocol::step(proto, words, content, reply, strict);
            if record.exchange(generation, words, after) {
                break update;
            }
        };
        self.ct_state_of(c.record, update, reply, now, state)
    }

    /// Computes a packet's `ct_state` from its previous one and the result of the protocol's check, and extends the lifetime of the
    /// connection. `None`: the packet begins another connection.
    #[inline(always)]
    pub(crate) fn ct_state_of(
        &self,
        record: &Record,
        update: Update,
        reply: bool,
        now: Millis,
        state: u8,
    ) -> Option<u8> {
        let direction = if reply { REPLY_DIR } else { 0 };
        let (state, timeout) = match update {
            Update::Restart => return None,
            Update::Invalid => (INVALID, None),
            Update::New(timeout) => (state | NEW, Some(timeout)),
            Update::Valid(timeout) => (state & !NEW | ESTABLISHED | direction, timeout),
        };
        if let Some(timeout) = timeout {
            record.set_expires(self.policies.after(record.policy(), timeout, now));
        }
        Some(state)
    }

    /// Returns the translation of a packet, unless it was translated in this zone before.
    fn translate(
        &self,
        c: &Connection<'_>,
        meta: &mut Metadata,
        reply: bool,
        related: bool,
    ) -> Option<Translated> {
        let side = c.record.meta().side()?;
        if meta.state & TRANSLATED != 0 {
            return None;
        }
        meta.state |= translated_bit(side, reply);
        Some(Translated { handle: c.handle, side, reply, related })
    }

    /// Removes a connection.
    pub(crate) fn remove(&self, handle: Handle) -> bool {
        self.forget_control(handle);
        let gone = self.table.get().and_then(|table| table.remove(handle));
        if let Some((zone, counted)) = gone {
            self.limits.leave(zone, counted);
        }
        gone.is_some()
    }
}

/// A packet while it is tracked on the general path.
pub(crate) struct TrackedPacket<'a> {
    pub(crate) fields: &'a PacketFields,
    pub(crate) place: Place<'a>,
    pub(crate) action: &'a Action,
    pub(crate) now: Millis,
}

/// The connection of a packet.
pub(crate) struct Connection<'a> {
    pub(crate) handle: Handle,
    pub(crate) record: &'a Record,
}

/// Result of a look-up.
struct LookUp<'a> {
    connection: Option<Connection<'a>>,
    /// The key of the packet before it was translated.
    key: Key,
    reply: bool,
}

impl Connection<'_> {
    /// Mark and label for the packet, including what the action writes.
    #[inline(always)]
    pub(crate) fn written(&self, action: &Action) -> (u32, [u64; 2]) {
        let (mut mark, mut label) = (self.record.mark(), self.record.label());
        if let Some(new) = action.mark {
            mark = masked_mark(mark, new);
            self.record.set_mark(self.handle.generation, mark);
        }
        if let Some(new) = action.label {
            label = masked_label(label, new);
            self.record.set_label(self.handle.generation, label);
        }
        (mark, label)
    }
}
