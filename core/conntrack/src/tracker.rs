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
use crate::protocol::Protocol;
use crate::quick::{Quick, Translated, Written};
use crate::record::{Record, Side};
use crate::subject::{self, Content, Packet, Subject};
use crate::table::{Found, Handle, Table};
use crate::timeout::Policies;
use crate::update::Update;
use cpu::Chain;
use flow::flow::ct_state::{DST_NAT, ESTABLISHED, INVALID, NEW, RELATED, REPLY_DIR, SRC_NAT, TRACKED};
use packet::ether::ethertype;
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
    /// Its connection, if that has counted this packet already.
    pub known: Known,
    /// The packet belongs to a control connection: pass it to [`Conntrack::hear`].
    pub control: Option<Control>,
}

/// The connection of a packet that was tracked before: it is not looked up again in the same zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Known(Option<Seen>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    handle: Handle,
    reply: bool,
    related: bool,
}

impl Known {
    pub(crate) fn of(handle: Handle, reply: bool, related: bool) -> Known {
        Known(Some(Seen { handle, reply, related }))
    }

    /// There is one.
    pub fn is_some(&self) -> bool {
        self.0.is_some()
    }
}

/// Result of reading a packet, before its connection is looked up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Read<'t> {
    what: What,
    place: Place<'t>,
    quick: Quick,
    subject: Option<Subject>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum What {
    /// Invalid: it belongs to no connection.
    #[default]
    Invalid,
    /// Its connection is known from an earlier `ct`.
    Known,
    /// One to be looked up, as most are: `quick` is filled, with a packet of IPv4.
    Four,
    /// The same of IPv6.
    Six,
    /// One to be looked up: `subject` is filled.
    Subject,
}

/// Where the connection of a packet may be found.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Place<'t> {
    pub(crate) hash: u64,
    /// The bucket of the hash, if it was prefetched.
    bucket: Option<&'t Bucket>,
    /// The record that the hash most likely means, if it was prefetched.
    guess: Option<(u32, &'t Record)>,
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
    pub(crate) spare_from: AtomicU32,
    pub(crate) draws: AtomicU64,
    pub(crate) exhausted: AtomicU64,
    pub(crate) helpers: Helpers,
}

/// State of the present round of the sweep.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    pub(crate) at: u32,
    pub(crate) last: Option<Millis>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Replaces the bits of a mask.
fn masked_mark(old: u32, (value, mask): (u32, u32)) -> u32 {
    value | old & !mask
}

/// As `masked_mark`, for a label.
fn masked_label(old: [u64; 2], (value, mask): ([u64; 2], [u64; 2])) -> [u64; 2] {
    [value[0] | old[0] & !mask[0], value[1] | old[1] & !mask[1]]
}

/// The bits of a state that say that the packet was translated in this zone.
pub(crate) const TRANSLATED: u8 = SRC_NAT | DST_NAT;

/// The bit that says so of a packet: the addresses of replies are translated on the other side.
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
            spare_from: AtomicU32::new(0),
            draws: AtomicU64::new(0),
            exhausted: AtomicU64::new(0),
            helpers: Helpers::default(),
        }
    }

    #[inline]
    pub(crate) fn table(&self) -> &Table {
        self.table.get_or_init(Table::default)
    }

    /// Finds and updates the connection of a packet, or begins one, and updates `meta`. The caller applies
    /// the returned translation to the packet.
    pub fn track(
        &self,
        packet: &Packet<'_>,
        meta: &mut Metadata,
        action: &Action,
        now: Millis,
    ) -> Option<Translation> {
        let mut read = Read::default();
        self.read(packet, meta, action, &mut read);
        _ = self.prefetch(&mut read);
        match self.track_read(&read, meta, action, now) {
            Written::Nothing => None,
            Written::Ends(ends) => Some(ends.into()),
            Written::Translation(translated) => self.translation(&translated),
        }
    }

    /// What is written into a packet. `None`: its connection has been removed meanwhile.
    pub fn translation(&self, translated: &Translated) -> Option<Translation> {
        let keys = self.table().keys(translated.handle)?;
        let &Translated { side, reply, related, .. } = translated;
        Some(Translation::new(&keys, side, reply, related))
    }

    /// The first step of [`Conntrack::track`]: reads a packet, and has what its hash means fetched. Of the packets of a
    /// batch each step is done for all before the next one, so their memory accesses overlap.
    #[inline(always)]
    pub fn read<'t>(&'t self, packet: &Packet<'_>, meta: &Metadata, action: &Action, read: &mut Read<'t>) {
        if self.known(meta, action).is_some() {
            read.what = What::Known;
        } else if packet.ethertype == ethertype::IPV4 && read.quick.fill_four(packet, action.zone).is_some() {
            read.what = What::Four;
            self.find(read.quick.hash_four(&self.chain), read);
        } else {
            self.read_other(packet, action, read);
        }
    }

    /// Not inlined, so that it takes no registers from IPv4.
    #[inline(never)]
    fn read_other<'t>(&'t self, packet: &Packet<'_>, action: &Action, read: &mut Read<'t>) {
        if packet.ethertype == ethertype::IPV6 && read.quick.fill_six(packet, action.zone).is_some() {
            read.what = What::Six;
            return self.find(read.quick.hash_six(&self.chain), read);
        }
        read.subject = subject::read(packet.ethertype, packet.l3, action.zone, packet.verify);
        read.what = What::Invalid;
        if let Some(subject) = &read.subject {
            read.what = What::Subject;
            self.find(subject.key.hash(&self.chain), read);
        }
    }

    #[inline(always)]
    fn find<'t>(&'t self, hash: u64, read: &mut Read<'t>) {
        read.place = Place { hash, bucket: self.table().prefetch(hash), guess: None };
    }

    /// The second step: has the record fetched of the connection that the packet most likely is of. `true`:
    /// [`prefetch_addresses`](Self::prefetch_addresses) helps.
    #[inline(always)]
    pub fn prefetch<'t>(&'t self, read: &mut Read<'t>) -> bool {
        if let Some(bucket) = read.place.bucket {
            read.place.guess = self.table().prefetch_record(bucket, read.place.hash);
        }
        read.what == What::Six
    }

    /// Has the addresses of IPv6 fetched, which are not in the record of a connection.
    #[inline(always)]
    pub fn prefetch_addresses(&self, read: &Read<'_>) {
        if let (What::Six, Some((_, record))) = (read.what, read.place.guess) {
            self.table().prefetch_addresses(record);
        }
    }

    /// The third step: the rest. Metadata and action are those that the packet was read with.
    #[inline(always)]
    pub fn track_read(&self, read: &Read<'_>, meta: &mut Metadata, action: &Action, now: Millis) -> Written {
        // What another zone says of a packet is nothing to this one.
        if let What::Four | What::Six = read.what {
            if meta.zone != action.zone {
                (meta.state, meta.zone) = (0, action.zone);
            }
            meta.known = Known::default();
            // No closure: one that is not inlined is compiled without the vector instructions.
            if let Some(guess) = read.place.guess {
                let written = match read.what {
                    What::Four => self.pass_four(&read.quick, guess, meta, (action, now)),
                    _ => self.pass_six(&read.quick, guess, meta, (action, now)),
                };
                if let Some(written) = written {
                    return written;
                }
            }
        }
        self.track_any(read, meta, action, now)
    }

    /// The third step in the general way.
    #[inline(never)]
    fn track_any(&self, read: &Read<'_>, meta: &mut Metadata, action: &Action, now: Millis) -> Written {
        let known = if read.what == What::Known { self.known(meta, action) } else { None };
        if let Some((found, seen)) = known {
            return self.write_known(&found, seen, meta, action).into();
        }
        if meta.zone != action.zone {
            meta.state = 0;
        }
        (meta.known, meta.control) = (Known::default(), None);
        meta.zone = action.zone;
        let subject = match read.what {
            What::Four | What::Six => Some(read.quick.subject()),
            What::Subject => read.subject,
            What::Known | What::Invalid => None,
        };
        match &subject {
            Some(subject) => self.pass(&Visit { subject, place: read.place, action, now }, meta).into(),
            // Another thread has removed it since the packet was read.
            None if read.what == What::Known => {
                (meta.mark, meta.label) = (0, [0; 2]);
                Written::Nothing
            }
            None => {
                *meta = Metadata { state: INVALID | TRACKED, zone: action.zone, ..Metadata::default() };
                Written::Nothing
            }
        }
    }

    /// The connection of a packet that was tracked in this zone before.
    #[inline(always)]
    fn known(&self, meta: &Metadata, action: &Action) -> Option<(Connection<'_>, Seen)> {
        let seen = meta.known.0.filter(|_| meta.zone == action.zone && !action.force)?;
        let record = self.table.get()?.get(seen.handle)?;
        Some((Connection { handle: seen.handle, record }, seen))
    }

    fn write_known(
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
        connection.write(meta, action);
        meta.control = None;
        if written.is_some() {
            meta.control = Control::of(connection, seen.reply, true);
        }
        written
    }

    /// A packet that says of which connection it is.
    fn pass(&self, visit: &Visit<'_>, meta: &mut Metadata) -> Option<Translated> {
        let &Visit { subject, action, .. } = visit;
        let Looked { connection, key, reply } = self.look_up(visit, meta);
        let (mut written, mut parent) = (None, None);
        let connection = match connection {
            Some(c) if self.advance(&c, visit, reply, meta) => {
                if action.nat.is_some() {
                    written = self.translate(&c, meta, reply, subject.related);
                }
                Some(c)
            }
            None if subject.related => {
                meta.state = INVALID;
                None
            }
            old => {
                old.map(|c| self.remove(c.handle));
                parent = self.expected(&key);
                let begun = self.begin(visit, &key, parent.as_ref(), meta);
                written = begun.as_ref().and_then(|c| self.translate(c, meta, false, false));
                begun
            }
        };
        meta.state |= TRACKED;
        meta.control = None;
        match connection {
            Some(c) => {
                c.write(meta, action);
                let special = c.record.special();
                meta.tuple = self.original(&c, &key, reply).tuple();
                if special != 0 {
                    self.write_special(&c, reply, written.is_some(), meta);
                }
                if action.nat.is_none() {
                    meta.known = Known(Some(Seen { handle: c.handle, reply, related: subject.related }));
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
    fn look_up<'a>(&'a self, visit: &Visit<'a>, meta: &Metadata) -> Looked<'a> {
        let &Visit { subject, place, action, now } = visit;
        let translated = meta.state & TRANSLATED != 0;
        let wanted = if translated { subject.key.reverse() } else { subject.key };
        let guessed = place.guess.and_then(|record| self.table().verify(record, &wanted, now));
        let found = guessed.or_else(|| self.table().find(place.hash, &wanted, now));
        let Some(found) = found.filter(|found| self.is_to_be_used(found, action, translated, now)) else {
            let by_tuple = translated && action.nat.is_none() && meta.tuple.proto != 0;
            let connection = by_tuple.then(|| self.look_up_tuple(&subject.key, &meta.tuple, now)).flatten();
            return Looked { connection, key: subject.key, reply: false };
        };
        let reply = found.reply != translated;
        let connection = Connection { handle: found.handle, record: found.record };
        let keys = translated.then(|| self.table().keys(found.handle)).flatten();
        let key = keys.map_or(subject.key, |keys| keys[usize::from(reply)]);
        Looked { connection: Some(connection), key, reply }
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
    fn advance(&self, c: &Connection<'_>, visit: &Visit<'_>, reply: bool, meta: &mut Metadata) -> bool {
        let &Visit { subject, now, .. } = visit;
        let direction = if reply { REPLY_DIR } else { 0 };
        if subject.related {
            meta.state |= RELATED | direction;
            return true;
        }
        meta.state |= helper::state_of(c.record.special());
        self.move_on(c, (subject.key.proto, &subject.content), reply, now, meta)
    }

    /// The state of a connection after a packet of it, of this protocol and with this content. `false`: as
    /// [`advance`](Self::advance).
    pub(crate) fn move_on(
        &self,
        c: &Connection<'_>,
        (proto, content): (u8, &Content),
        reply: bool,
        now: Millis,
        meta: &mut Metadata,
    ) -> bool {
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
        self.learn(c.record, update, reply, now, meta)
    }

    /// What a packet is to its connection. `false`: as [`advance`](Self::advance).
    #[inline(always)]
    pub(crate) fn learn(
        &self,
        record: &Record,
        update: Update,
        reply: bool,
        now: Millis,
        meta: &mut Metadata,
    ) -> bool {
        let direction = if reply { REPLY_DIR } else { 0 };
        let timeout = match update {
            Update::Again => return false,
            Update::Invalid => {
                meta.state = INVALID;
                None
            }
            Update::New(timeout) => {
                meta.state |= NEW;
                Some(timeout)
            }
            Update::Valid(timeout) => {
                meta.state = meta.state & !NEW | ESTABLISHED | direction;
                timeout
            }
        };
        if let Some(timeout) = timeout {
            record.set_expires(self.policies.after(record.policy(), timeout, now));
        }
        true
    }

    /// What is to be written into a packet of a connection: nothing if it was written in this zone before.
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

/// A packet being tracked.
pub(crate) struct Visit<'a> {
    pub(crate) subject: &'a Subject,
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
struct Looked<'a> {
    connection: Option<Connection<'a>>,
    /// The key of the packet before it was translated.
    key: Key,
    reply: bool,
}

impl Connection<'_> {
    /// Mark and label for the packet, including what the action writes.
    #[inline(always)]
    pub(crate) fn write(&self, meta: &mut Metadata, action: &Action) {
        (meta.mark, meta.label) = (self.record.mark(), self.record.label());
        if let Some(mark) = action.mark {
            meta.mark = masked_mark(meta.mark, mark);
            self.record.set_mark(self.handle.generation, meta.mark);
        }
        if let Some(label) = action.label {
            meta.label = masked_label(meta.label, label);
            self.record.set_label(self.handle.generation, meta.label);
        }
    }
}
