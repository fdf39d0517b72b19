//! `Conntrack`: packets are tracked, connections that are too old go.
//!
//! **Threads**: any; a packet takes the lock of one of [`SHARDS`] shards, for as long as a look-up and a change of state
//! take. Shards are made when the first packet is tracked: who never does has none.

use crate::connection::{Connection, masked_label, masked_mark};
use crate::dump::{Entry, Filter};
use crate::key::{Key, Tuple};
use crate::limits::{Limits, ZoneLimit};
use crate::protocol::{Protocol, Update};
use crate::shard::Shard;
use crate::subject::{self, Subject};
use flow::flow::ct_state::{ESTABLISHED, INVALID, NEW, RELATED, REPLY_DIR, TRACKED};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use units::Millis;

/// How many shards there are: enough that 16 workers that all begin connections seldom meet.
pub const SHARDS: usize = 1 << SHARD_BITS;
const SHARD_BITS: u32 = 10;

/// What `ct` is asked to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    /// Zone.
    pub zone: u16,
    /// Keep the connection.
    pub commit: bool,
    /// A connection of the opposite direction is forgotten first.
    pub force: bool,
    /// Mark to write: value, mask.
    pub mark: Option<(u32, u32)>,
    /// Label to write: value, mask; most significant half first.
    pub label: Option<([u64; 2], [u64; 2])>,
}

/// A packet to be tracked.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Ethernet type.
    pub ethertype: u16,
    /// From the network header on; padding may follow.
    pub l3: &'a [u8],
    /// Its checksums are finished, and are to be right.
    pub verify: bool,
}

/// What is known of a packet's connection.
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
    /// The first packet of the connection.
    pub tuple: Tuple,
    /// Its connection, in that zone, has counted this packet already.
    pub counted: bool,
}

/// On lines of its own, as other workers take its neighbours' locks.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Apart(Mutex<Shard>);

/// See the module.
#[derive(Debug)]
pub struct Conntrack {
    secret: [u64; 2],
    shards: OnceLock<Box<[Apart]>>,
    limits: Limits,
    strict: AtomicBool,
    /// Milliseconds in which every shard is swept once.
    sweep_interval: AtomicU32,
    sweep: Mutex<Sweep>,
}

/// How far the present round has got.
#[derive(Debug, Default)]
struct Sweep {
    at: usize,
    last: Option<Millis>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Conntrack {
    /// Without connections. `seed` is random and secret.
    pub fn new(seed: u64) -> Conntrack {
        Conntrack {
            secret: [seed, seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15],
            shards: OnceLock::new(),
            limits: Limits::default(),
            strict: AtomicBool::new(true),
            sweep_interval: AtomicU32::new(20_000),
            sweep: Mutex::default(),
        }
    }

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        let shards = self.shards.get_or_init(|| (0..SHARDS).map(|_| Apart::default()).collect());
        lock(&shards[(hash >> (64 - SHARD_BITS)) as usize].0)
    }

    /// The shards that there are, one after another.
    fn shards(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.get().into_iter().flatten().map(|apart| lock(&apart.0))
    }

    /// Finds the connection of a packet, which it moves on, or begins one; `meta` says what is known of it afterwards.
    pub fn track(&self, packet: &Packet<'_>, meta: &mut Metadata, action: &Action, now: Millis) {
        // What another zone says of a packet is nothing to this one.
        if meta.zone != action.zone {
            (meta.state, meta.counted) = (0, false);
        }
        meta.zone = action.zone;
        let found = subject::read(packet.ethertype, packet.l3, action.zone, packet.verify);
        let Some(subject) = found else {
            *meta = Metadata { state: INVALID | TRACKED, zone: action.zone, ..Metadata::default() };
            return;
        };
        let hash = subject.key.ordered().hash(self.secret);
        let mut shard = self.shard(hash);
        let place = self.place(&mut shard, hash, &subject, meta, action, now);
        meta.state |= TRACKED;
        match place.and_then(|index| shard.get_mut(index)) {
            Some(connection) => {
                (meta.mark, meta.label) = (connection.mark, connection.label);
                (meta.tuple, meta.counted) = (connection.key.tuple(), true);
                if let Some(mark) = action.mark {
                    meta.mark = masked_mark(meta.mark, mark);
                    connection.mark = meta.mark;
                }
                if let Some(label) = action.label {
                    meta.label = masked_label(meta.label, label);
                    connection.label = meta.label;
                }
            }
            None => {
                (meta.mark, meta.label) = (0, [0; 2]);
                (meta.tuple, meta.counted) = (subject.key.tuple(), false);
            }
        }
    }

    /// The slot of the packet's connection, if it has one afterwards; its state is changed, and the packet's.
    fn place(
        &self,
        shard: &mut Shard,
        hash: u64,
        subject: &Subject,
        meta: &mut Metadata,
        action: &Action,
        now: Millis,
    ) -> Option<u32> {
        if let Some(index) = shard.find(hash, subject.key.ordered())
            && let Some(connection) = shard.get_mut(index)
        {
            let reply = connection.key != subject.key;
            if connection.is_over(now) || action.force && reply {
                shard.remove(index);
            } else if meta.counted && !action.force || self.advance(connection, subject, reply, meta, now) {
                return Some(index);
            } else {
                shard.remove(index);
            }
        }
        if subject.related {
            meta.state = INVALID;
            return None;
        }
        let Some((protocol, timeout)) = Protocol::begin(&subject.content) else {
            meta.state = INVALID;
            return None;
        };
        meta.state = NEW;
        let admission = action.commit.then(|| self.limits.admit(subject.key.zone))??;
        let expires = timeout.after(now);
        let (mark, label) = (0, [0; 2]);
        let connection =
            Connection { key: subject.key, expires, protocol, mark, label, _admission: admission };
        Some(shard.insert(hash, connection))
    }

    /// A packet of a connection, or one that is related to it. `false`: it is the first of another one.
    fn advance(
        &self,
        connection: &mut Connection,
        subject: &Subject,
        reply: bool,
        meta: &mut Metadata,
        now: Millis,
    ) -> bool {
        let direction = if reply { REPLY_DIR } else { 0 };
        if subject.related {
            meta.state |= RELATED | direction;
            return true;
        }
        let strict = self.strict.load(Ordering::Relaxed);
        match connection.protocol.update(&subject.content, reply, strict) {
            Update::Again => return false,
            Update::Invalid => meta.state = INVALID,
            Update::New(timeout) => {
                meta.state |= NEW;
                connection.expires = timeout.after(now);
            }
            Update::Valid(timeout) => {
                meta.state = meta.state & !NEW | ESTABLISHED | direction;
                if let Some(timeout) = timeout {
                    connection.expires = timeout.after(now);
                }
            }
        }
        true
    }

    /// Removes some of the connections whose time is over: every shard has its turn once in the sweep interval.
    pub fn sweep(&self, now: Millis) {
        let mut sweep = lock(&self.sweep);
        let since = now.since(sweep.last.unwrap_or(now));
        let interval = u64::from(self.sweep_interval().max(1));
        let due = (SHARDS as u64).min(since.0 * SHARDS as u64 / interval) as usize;
        if due == 0 && sweep.last.is_some() {
            return;
        }
        sweep.last = Some(now);
        let Some(shards) = self.shards.get() else { return };
        for _ in 0..due {
            lock(&shards[sweep.at].0).remove_if(|c| c.is_over(now));
            sweep.at = (sweep.at + 1) % SHARDS;
        }
    }

    /// The connections that there are, by zone.
    pub fn dump(&self, zone: Option<u16>, now: Millis) -> Vec<Entry> {
        let mut entries = Vec::new();
        for shard in self.shards() {
            let there = shard.iter().filter(|c| !c.is_over(now) && zone.is_none_or(|z| c.key.zone == z));
            entries.extend(there.map(|c| Entry::new(c, now)));
        }
        let order = |key: &Key| (key.zone, key.v6, key.proto, key.src, key.dst);
        entries.sort_by_key(|e| order(&e.original));
        entries
    }

    /// How many connections each shard has.
    pub fn shard_lens(&self) -> Vec<usize> {
        let lens: Vec<usize> = self.shards().map(|shard| shard.len()).collect();
        if lens.is_empty() { vec![0; SHARDS] } else { lens }
    }

    /// Forgets the connections of a zone (`None`: of all) that the filter says; how many.
    pub fn flush(&self, zone: Option<u16>, filter: &Filter) -> usize {
        let mut gone = 0;
        for mut shard in self.shards() {
            let before = shard.len();
            shard.remove_if(|c| zone.is_none_or(|z| c.key.zone == z) && filter.matches(c));
            gone += before - shard.len();
        }
        gone
    }

    /// How many connections there are, those that are to be swept included.
    pub fn count(&self) -> u32 {
        self.limits.count()
    }

    /// How many there may be.
    pub fn max(&self) -> u32 {
        self.limits.total()
    }

    /// No connection is begun where there are so many.
    pub fn set_max(&self, max: u32) {
        self.limits.set_total(max);
    }

    /// TCP sequence numbers count, or not.
    pub fn is_strict(&self) -> bool {
        self.strict.load(Ordering::Relaxed)
    }

    /// From now on they do, or not.
    pub fn set_strict(&self, strict: bool) {
        self.strict.store(strict, Ordering::Relaxed);
    }

    /// In how many milliseconds a connection whose time is over is removed, at most.
    pub fn sweep_interval(&self) -> u32 {
        self.sweep_interval.load(Ordering::Relaxed)
    }

    /// See [`Conntrack::sweep_interval`].
    pub fn set_sweep_interval(&self, millis: u32) {
        self.sweep_interval.store(millis, Ordering::Relaxed);
    }

    /// Limits a zone, or (`None`) each zone that has no limit of its own; there 0 is no limit. Whether it counted
    /// its connections before.
    pub fn set_limit(&self, zone: Option<u16>, limit: u32) -> bool {
        self.limits.set(zone, limit)
    }

    /// Removes a limit; whether there was one.
    pub fn remove_limit(&self, zone: Option<u16>) -> bool {
        self.limits.remove(zone)
    }

    /// The limit that a zone is held to, and how many connections count towards it.
    pub fn limit(&self, zone: Option<u16>) -> ZoneLimit {
        self.limits.get(zone)
    }

    /// The default limit, then those of zones that have their own.
    pub fn limits(&self) -> Vec<ZoneLimit> {
        self.limits.all()
    }
}
