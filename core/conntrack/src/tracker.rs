//! `Conntrack`: tracks packets and owns all connections.
//!
//! **Threads**: any. A packet of an existing connection takes no lock, except for a connection with a timeout
//! policy (read lock of the policies) and for a control connection (locks of the helpers). A packet that
//! begins or ends a connection takes the lock of one of [`SHARDS`](crate::SHARDS) shards at a time. The table
//! is allocated when the first packet is tracked, so an unused `ct` costs no memory.

use crate::helper::{self, ControlPacket, Helper, Helpers};
use crate::index::Bucket;
use crate::key::{Key, Tuple};
use crate::limits::{CountedIn, Limits};
use crate::memory_request::MemoryRequest;
use crate::nat::{Nat, Translation};
use crate::packet_fields::{Content, PacketFields};
use crate::packet_words::PendingTranslation;
use crate::protocol::Protocol;
use crate::record::{Record, Side};
use crate::table::{FoundConnection, Handle, Table};
use crate::timeout::Policies;
use crate::update::Update;
use cpu::KeyedHash64;
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
    /// If the packet is a reply of an existing connection, remove that connection first.
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
    /// Tracks in zone 0 without any option.
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
    /// Result of the look-up by an earlier `ct` in the same zone.
    pub earlier: EarlierLookUp,
    /// Set if the packet belongs to a control connection: then pass the packet to [`Conntrack::inspect`].
    pub control: Option<ControlPacket>,
}

/// Result of the look-up by an earlier `ct` of the same packet in the same zone. Valid as long as addresses and ports are unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EarlierLookUp(EarlierLookUpState);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum EarlierLookUpState {
    #[default]
    Unknown,
    /// The earlier `ct` found this connection and updated it: it is neither looked up nor updated again.
    Connection(EarlierConnection),
    /// The earlier `ct` found no connection. The packet's checksums are right, and its key has this hash: upper and lower half.
    NoConnection([u32; 2]),
}

/// A connection that an earlier `ct` has found, with the packet's direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EarlierConnection {
    handle: Handle,
    reply: bool,
    related: bool,
}

impl EarlierLookUp {
    #[inline(always)]
    pub(crate) fn of(handle: Handle, reply: bool, related: bool) -> EarlierLookUp {
        EarlierLookUp(EarlierLookUpState::Connection(EarlierConnection { handle, reply, related }))
    }

    #[inline(always)]
    pub(crate) fn without_connection(hash: u64) -> EarlierLookUp {
        EarlierLookUp(EarlierLookUpState::NoConnection([(hash >> 32) as u32, hash as u32]))
    }

    /// Returns whether the earlier `ct` found a connection.
    pub fn has_connection(self) -> bool {
        self.found_earlier().is_some()
    }

    #[inline(always)]
    fn found_earlier(self) -> Option<EarlierConnection> {
        match self.0 {
            EarlierLookUpState::Connection(found_earlier) => Some(found_earlier),
            _ => None,
        }
    }

    /// The hash of the packet's key, if the earlier `ct` found no connection.
    #[inline(always)]
    pub(crate) fn hash(self) -> Option<u64> {
        match self.0 {
            EarlierLookUpState::NoConnection([high, low]) => Some(u64::from(high) << 32 | u64::from(low)),
            _ => None,
        }
    }

    /// The part of the result that stays valid when the packet is split into its fragments: at the next `ct` other fragments may complete
    /// the packet, so its checksums are verified again.
    pub fn of_fragments(self) -> EarlierLookUp {
        match self.0 {
            EarlierLookUpState::Connection(_) => self,
            _ => EarlierLookUp::default(),
        }
    }
}

/// Where a packet's connection may be found: results of the steps read and prefetch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IndexHint<'t> {
    pub(crate) hash: u64,
    /// The bucket of the hash, if it was prefetched.
    pub(crate) bucket: Option<&'t Bucket>,
    /// The record whose index entry is the first one with the hash, if it was prefetched. The key was not compared.
    pub(crate) guess: Option<(u32, &'t Record)>,
    /// If no connection has the hash: the reply key that a new translated connection will most likely get.
    pub(crate) reply: Option<FirstReply>,
}

/// The first reply key that is tried for a new IPv4 connection, and its hash. The bucket of the hash was prefetched.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FirstReply {
    pub(crate) addresses: u64,
    pub(crate) ports: u64,
    pub(crate) hash: u64,
}

impl FirstReply {
    /// Returns whether this is the reply key `key`, which must have the same protocol and zone.
    #[inline(always)]
    pub(crate) fn is_of(&self, key: &Key) -> bool {
        !key.v6 && self.addresses == key.address_word() && self.ports == key.port_word()
    }
}

/// The connections of a datapath.
#[derive(Debug)]
pub struct Conntrack {
    /// Key of the hash that selects translated addresses and ports.
    pub(crate) secret: [u64; 2],
    /// The keyed hash function for connection keys.
    pub(crate) key_hash: KeyedHash64,
    /// Allocated when the first packet is tracked.
    pub(crate) table: OnceLock<Table>,
    pub(crate) limits: Limits,
    pub(crate) policies: Policies,
    /// TCP sequence numbers are checked.
    pub(crate) strict: AtomicBool,
    /// Time in which the connection sweep visits every record once, in milliseconds.
    pub(crate) sweep_interval: AtomicU32,
    pub(crate) sweep: Mutex<Sweep>,
    /// Record number from which the next eviction searches a dispensable connection.
    pub(crate) evict_from: AtomicU32,
    /// Number of random numbers that were drawn for translations.
    pub(crate) random_draws: AtomicU64,
    /// Number of connections that did not begin because all reply keys that [`Nat::choose`] tried were taken;
    /// [`Conntrack::take_exhausted`] resets it.
    pub(crate) nat_exhausted: AtomicU64,
    pub(crate) helpers: Helpers,
    pub(crate) memory_request: MemoryRequest,
}

/// Progress of the connection sweep.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// Number of the record to visit next.
    pub(crate) next: u32,
    /// Number of records that are due.
    pub(crate) due: u32,
    /// Time up to which due records were computed.
    pub(crate) computed_at: Option<Millis>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Replaces the bits of `old` that `mask` selects by those of `value`.
pub(crate) fn masked_mark(old: u32, (value, mask): (u32, u32)) -> u32 {
    value | old & !mask
}

/// [`masked_mark`] for a label.
pub(crate) fn masked_label(old: [u64; 2], (value, mask): ([u64; 2], [u64; 2])) -> [u64; 2] {
    [value[0] | old[0] & !mask[0], value[1] | old[1] & !mask[1]]
}

/// The `ct_state` bits that mark a packet as translated in this zone; a translated packet has exactly one of them.
pub(crate) const TRANSLATED: u8 = SRC_NAT | DST_NAT;

/// The `ct_state` bit of a translated packet. `side`: the side that is translated in the original direction; replies are translated on the
/// other side.
#[inline(always)]
pub(crate) fn translated_bit(side: Side, reply: bool) -> u8 {
    if (side == Side::Source) != reply { SRC_NAT } else { DST_NAT }
}

impl Conntrack {
    /// Makes a tracker without connections. `seed` must be random and secret.
    pub fn new(seed: u64) -> Conntrack {
        Conntrack {
            secret: cpu::siphash_key(seed),
            key_hash: KeyedHash64::new(cpu::derive(seed, b"connects")),
            table: OnceLock::new(),
            limits: Limits::default(),
            policies: Policies::default(),
            strict: AtomicBool::new(true),
            sweep_interval: AtomicU32::new(20_000),
            sweep: Mutex::default(),
            evict_from: AtomicU32::new(0),
            random_draws: AtomicU64::new(0),
            nat_exhausted: AtomicU64::new(0),
            helpers: Helpers::default(),
            memory_request: MemoryRequest::default(),
        }
    }

    #[inline]
    pub(crate) fn table(&self) -> &Table {
        self.table.get_or_init(Table::default)
    }

    /// Computes the edits of a packet that must be translated. `None`: its connection has been removed meanwhile.
    pub fn translation(&self, translated: &PendingTranslation) -> Option<Translation> {
        let keys = self.table().keys(translated.handle)?;
        let &PendingTranslation { side, reply, related, .. } = translated;
        Some(Translation::new(&keys, side, reply, related))
    }

    /// Returns the connection that an earlier `ct` in this zone has found for the packet, if it still exists.
    #[inline(always)]
    pub(crate) fn earlier_connection(
        &self,
        meta: &Metadata,
        action: &Action,
    ) -> Option<(Connection<'_>, EarlierConnection)> {
        let found_earlier =
            meta.earlier.found_earlier().filter(|_| meta.zone == action.zone && !action.force)?;
        let record = self.table.get()?.get(found_earlier.handle)?;
        Some((Connection { handle: found_earlier.handle, record }, found_earlier))
    }

    /// Applies the action to a packet whose connection an earlier `ct` has found: translation, mark and label.
    pub(crate) fn track_again(
        &self,
        connection: &Connection<'_>,
        found_earlier: EarlierConnection,
        meta: &mut Metadata,
        action: &Action,
    ) -> Option<PendingTranslation> {
        let mut edit = None;
        if action.nat.is_some() {
            edit = self.translate(connection, meta, found_earlier.reply, found_earlier.related);
            meta.earlier = EarlierLookUp::default();
        }
        (meta.mark, meta.label) = connection.write_mark_and_label(action);
        meta.control = None;
        if edit.is_some() {
            meta.control = ControlPacket::of(connection, found_earlier.reply, true);
        }
        edit
    }

    /// The general path: tracks a packet whose headers identify a connection.
    pub(crate) fn track_fields(
        &self,
        packet: &TrackedPacket<'_>,
        meta: &mut Metadata,
    ) -> Option<PendingTranslation> {
        let &TrackedPacket { fields, action, .. } = packet;
        let LookUp { connection, key, reply } = self.look_up(packet, meta);
        let (mut edit, mut parent) = (None, None);
        let connection = match connection {
            Some(c) if self.update_for_packet(&c, packet, reply, meta) => {
                if action.nat.is_some() {
                    edit = self.translate(&c, meta, reply, fields.related);
                }
                Some(c)
            }
            None if fields.related => {
                meta.state = INVALID;
                None
            }
            old => {
                old.map(|c| self.remove(c.handle));
                parent = self.find_parent(&key);
                let begun = self.begin(packet, &key, parent.as_ref(), meta);
                edit = begun.as_ref().and_then(|c| self.translate(c, meta, false, false));
                begun
            }
        };
        meta.state |= TRACKED;
        meta.control = None;
        match connection {
            Some(c) => {
                (meta.mark, meta.label) = c.write_mark_and_label(action);
                let helper_word = c.record.helper_word();
                meta.tuple = self.original(&c, &key, reply).tuple();
                if helper_word != 0 {
                    self.write_helper_state(&c, reply, edit.is_some(), meta);
                }
                if action.nat.is_none() {
                    meta.earlier = EarlierLookUp::of(c.handle, reply, fields.related);
                }
            }
            None => {
                (meta.mark, meta.label) = (0, [0; 2]);
                meta.tuple = key.tuple();
                if let Some(parent) = parent.filter(|_| meta.state & RELATED != 0) {
                    (meta.mark, meta.label) = (parent.mark, parent.label);
                    meta.tuple = helper::tuple_of(&parent.endpoints);
                }
            }
        }
        edit
    }

    /// The key of the original direction. `key`: the key of a packet of the connection in either direction.
    #[inline(always)]
    fn original(&self, c: &Connection<'_>, key: &Key, reply: bool) -> Key {
        match c.record.meta().side() {
            None if reply => key.reverse(),
            None => *key,
            Some(_) => self.table().keys(c.handle).map_or(*key, |[original, _]| original),
        }
    }

    /// Finds the connection of a packet. A packet that was translated in this zone has the reverse of the other direction's key. If no
    /// connection has that key, the tuple in `meta` identifies the connection.
    #[inline(always)]
    fn look_up<'a>(&'a self, packet: &TrackedPacket<'a>, meta: &Metadata) -> LookUp<'a> {
        let &TrackedPacket { fields, hint, action, now } = packet;
        let translated = meta.state & TRANSLATED != 0;
        let wanted = if translated { fields.key.reverse() } else { fields.key };
        let guessed = hint.guess.and_then(|record| self.table().verify(record, &wanted, now));
        let found = guessed.or_else(|| self.table().find(hint.hash, &wanted, now));
        let Some(found) = found.filter(|found| self.is_usable_or_remove(found, action, translated, now))
        else {
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

    /// Finds the connection of a packet by the tuple, for packets that were translated and then changed by another action.
    #[cold]
    fn look_up_tuple(&self, key: &Key, tuple: &Tuple, now: Millis) -> Option<Connection<'_>> {
        let original = Key::of_tuple(tuple, key);
        let found = self.table().find(original.hash(&self.key_hash), &original, now)?;
        (found.record.expires() > now).then_some(Connection { handle: found.handle, record: found.record })
    }

    /// Returns whether a connection that was found is used for the packet. Otherwise removes the connection: it is expired, or the packet
    /// is a reply and the action's `force` is set.
    #[inline(always)]
    fn is_usable_or_remove(
        &self,
        found: &FoundConnection<'_>,
        action: &Action,
        translated: bool,
        now: Millis,
    ) -> bool {
        let stays = found.record.expires() > now && !(action.force && found.reply != translated);
        if !stays {
            self.remove(found.handle);
        }
        stays
    }

    /// Updates a connection for one of its packets, or for an ICMP error about one. `false`: the packet begins another connection.
    #[inline(always)]
    fn update_for_packet(
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
            // Another thread has removed the connection: treat the packet as if it had arrived before the removal.
            let Some(words) = record.state_words(generation) else { break Update::Valid(None) };
            let (after, update) = Protocol::update_words(proto, words, content, reply, strict);
            if record.exchange_state_words(generation, words, after) {
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

    /// Returns the translation of a packet and sets its `ct_state` bit. `None`: the connection is not translated, or the packet was
    /// translated in this zone before.
    fn translate(
        &self,
        c: &Connection<'_>,
        meta: &mut Metadata,
        reply: bool,
        related: bool,
    ) -> Option<PendingTranslation> {
        let side = c.record.meta().side()?;
        if meta.state & TRANSLATED != 0 {
            return None;
        }
        meta.state |= translated_bit(side, reply);
        Some(PendingTranslation { handle: c.handle, side, reply, related })
    }

    /// Removes a connection and its expectations. `false`: another thread has removed it.
    pub(crate) fn remove(&self, handle: Handle) -> bool {
        let place = self.remove_keeping_count(handle);
        if let Some(place) = place {
            self.limits.release(place);
        }
        place.is_some()
    }

    /// Removes a connection and its expectations; the connection still counts towards the limits. `None`: another thread has removed it.
    pub(crate) fn remove_keeping_count(&self, handle: Handle) -> Option<CountedIn> {
        let control = self.control_endpoints(handle);
        let (zone, count_id) = self.table.get()?.remove(handle)?;
        control.iter().for_each(|control| self.forget_control(control));
        Some(CountedIn { zone, count_id })
    }
}

/// A packet while it is tracked on the general path.
pub(crate) struct TrackedPacket<'a> {
    pub(crate) fields: &'a PacketFields,
    pub(crate) hint: IndexHint<'a>,
    pub(crate) action: &'a Action,
    pub(crate) now: Millis,
}

/// A connection: its record, and the handle by which it was found.
pub(crate) struct Connection<'a> {
    pub(crate) handle: Handle,
    pub(crate) record: &'a Record,
}

/// Result of a packet's look-up on the general path.
struct LookUp<'a> {
    connection: Option<Connection<'a>>,
    /// The key of the packet before it was translated.
    key: Key,
    reply: bool,
}

impl Connection<'_> {
    /// Writes mark and label of the connection if the action sets them. Returns mark and label for the packet.
    #[inline(always)]
    pub(crate) fn write_mark_and_label(&self, action: &Action) -> (u32, [u64; 2]) {
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
