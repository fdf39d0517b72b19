//! All connections: records, and the index that finds them by the keys of both directions.
//!
//! A translated connection has two entries in the index, one for each key. Any other connection has one,
//! because a key and its reverse have the same hash. Look-ups take no lock. Insertions and removals hold the
//! lock of one shard at a time, that of the reply key first, so that a record is found by both keys or by
//! neither.

use crate::atomic::AtomicU64;
use crate::index::{Bucket, Index, RECORDS_MAX, SHARDS, ShardIndex, Vacancy, shard_of};
use crate::key::Key;
use crate::numbers::Numbers;
use crate::record::{Addresses, Filling, Matched, Meta, Pair, Phase, Record};
use crate::slab::Slab;
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::Millis;

/// A shard's lock, in a cache line of its own, because other workers take the neighbouring locks.
#[repr(align(64))]
#[derive(Debug, Default)]
struct ShardLock(Mutex<Shard>);

/// What the lock of a shard protects.
#[derive(Debug, Default)]
struct Shard {
    index: ShardIndex,
    /// Unused records and addresses.
    free: Vec<u32>,
    free_addresses: Vec<u32>,
    connections: usize,
}

/// The table of all connections.
#[derive(Debug)]
pub(crate) struct Table {
    index: Index,
    records: Slab<Record>,
    addresses: Slab<Addresses>,
    record_numbers: Numbers,
    address_numbers: Numbers,
    shards: Box<[ShardLock]>,
}

/// Names a connection that a look-up has found; it may have been removed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) record: u32,
    pub(crate) generation: u32,
}

/// A connection that has been found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found<'a> {
    pub(crate) handle: Handle,
    pub(crate) record: &'a Record,
    /// The key is the reply key.
    pub(crate) reply: bool,
}

/// A record that is reserved for a connection by its reply key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserved<'a> {
    handle: Handle,
    record: &'a Record,
}

/// The reason why a connection was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Another connection has its key.
    Taken,
    /// Another connection has its reply key.
    ReplyTaken,
    /// Out of memory, or all record numbers are used.
    Full,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            index: Index::default(),
            records: Slab::default(),
            addresses: Slab::default(),
            record_numbers: Numbers::new(RECORDS_MAX),
            address_numbers: Numbers::new(RECORDS_MAX),
            shards: (0..SHARDS).map(|_| ShardLock::default()).collect(),
        }
    }
}

/// The place of an entry, or the reason why there is none.
#[inline(always)]
fn vacant(vacancy: Vacancy<'_>, taken: Refused) -> Result<&AtomicU64, Refused> {
    match vacancy {
        Vacancy::At(place) => Ok(place),
        Vacancy::Taken => Err(taken),
        Vacancy::Full => Err(Refused::Full),
    }
}

impl Table {
    fn lock(&self, hash: u64) -> MutexGuard<'_, Shard> {
        self.shards[shard_of(hash)].0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prefetches the bucket of a hash and returns it.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) -> Option<&Bucket> {
        self.index.prefetch(hash)
    }

    /// The record number in the first entry with this hash, in the chain of a bucket.
    #[inline(always)]
    pub(crate) fn guess(&self, first: &Bucket, hash: u64) -> Option<u32> {
        self.index.guess(first, hash)
    }

    /// The record of a number, if it is allocated.
    #[inline(always)]
    pub(crate) fn record(&self, number: u32) -> Option<&Record> {
        self.records.get(number)
    }

    /// Prefetches what the insertion of an entry with this hash reads and writes.
    #[inline(always)]
    pub(crate) fn prefetch_insertion(&self, hash: u64) {
        self.index.prefetch_insertion(hash);
        cpu::prefetch_lines(&self.shards[shard_of(hash)]);
    }

    /// Prefetches what the removal of a connection reads and writes.
    pub(crate) fn prefetch_removal(&self, record: &Record) {
        let [hash, reply_hash] = record.hashes();
        self.prefetch_insertion(hash);
        if hash != reply_hash {
            self.prefetch_insertion(reply_hash);
        }
    }

    /// Prefetches a record; returns it with its number.
    #[inline(always)]
    pub(crate) fn prefetch_record(&self, number: u32) -> Option<(u32, &Record)> {
        let record = self.records.get(number)?;
        cpu::prefetch_lines(record);
        Some((number, record))
    }

    /// Prefetches the addresses of an IPv6 record.
    #[inline(always)]
    pub(crate) fn prefetch_addresses(&self, record: &Record) {
        if let Some(addresses) = self.addresses.get(record.addresses()) {
            cpu::prefetch_read(addresses);
        }
    }

    /// See [`Record::match_ipv6`].
    #[inline(always)]
    pub(crate) fn match_ipv6(
        &self,
        record: &Record,
        meta_bits: u64,
        addresses: Pair,
        ports: u64,
    ) -> Option<Matched<Pair>> {
        record.match_ipv6(meta_bits, addresses, ports, &self.addresses)
    }

    /// The connection of a key, if it is in this record and alive at `now`.
    pub(crate) fn verify<'t>(
        &'t self,
        (number, record): (u32, &'t Record),
        key: &Key,
        now: Millis,
    ) -> Option<Found<'t>> {
        let (meta, reply) = record.matches(key, &self.addresses)?;
        let handle = Handle { record: number, generation: meta.generation() };
        let alive = meta.phase() == Phase::Live && record.expires() > now;
        alive.then_some(Found { handle, record, reply })
    }

    /// The connection of a key that is not expired at `now`, or else an expired one.
    pub(crate) fn find(&self, hash: u64, key: &Key, now: Millis) -> Option<Found<'_>> {
        let mut over = None;
        let alive = self.index.find(hash, |number| {
            let record = self.records.get(number)?;
            let (meta, reply) = record.matches(key, &self.addresses)?;
            let handle = Handle { record: number, generation: meta.generation() };
            let found = Found { handle, record, reply };
            if meta.phase() != Phase::Live {
                return None;
            }
            if record.expires() > now {
                return Some(found);
            }
            over = Some(found);
            None
        });
        alive.or(over)
    }

    /// Returns whether a connection has this key or has reserved it.
    pub(crate) fn is_taken(&self, hash: u64, key: &Key, now: Millis) -> bool {
        self.index.find(hash, |number| self.is_taken_by(number, key, now)).is_some()
    }

    /// Returns whether no connection has a key with this hash. `false`: one may have.
    #[inline(always)]
    pub(crate) fn is_absent(&self, hash: u64) -> bool {
        self.index.is_absent(hash)
    }

    /// The connection of a handle, if it still exists.
    #[inline(always)]
    pub(crate) fn get(&self, handle: Handle) -> Option<&Record> {
        self.records.get(handle.record).filter(|r| r.is_live(handle.generation))
    }

    /// The keys of a connection, if it still exists.
    pub(crate) fn keys(&self, handle: Handle) -> Option<[Key; 2]> {
        let record = self.get(handle)?;
        let keys = record.keys(record.meta(), &self.addresses);
        record.is_live(handle.generation).then_some(keys)
    }

    /// Adds a connection that is not translated.
    pub(crate) fn insert(&self, filling: &Filling, now: Millis) -> Result<(Handle, &Record), Refused> {
        let [hash, _] = filling.hashes;
        let mut shard = self.lock(hash);
        let is_taken = |other| self.is_live_with(other, &filling.key, now);
        let Reserved { handle, record } =
            self.reserve_at(&mut shard, (hash, is_taken), filling, Refused::Taken)?;
        record.publish();
        shard.connections += 1;
        Ok((handle, record))
    }

    /// Reserves a record for a translated connection, and makes it known by its reply key. A reserved record counts, so if two threads
    /// choose the same key, one of them is refused. The caller passes the record to [`insert_reserved`](Self::insert_reserved).
    pub(crate) fn reserve_reply(&self, filling: &Filling, now: Millis) -> Result<Reserved<'_>, Refused> {
        let (Some((key, _)), [_, hash]) = (&filling.reply, filling.hashes) else {
            return Err(Refused::Full);
        };
        let is_taken = |other| self.is_taken_by(other, key, now).is_some();
        self.reserve_at(&mut self.lock(hash), (hash, is_taken), filling, Refused::ReplyTaken)
    }

    /// Reserves a record, and makes it known by a hash of this shard, unless a record with that hash is the taken key.
    #[inline(always)]
    fn reserve_at(
        &self,
        shard: &mut Shard,
        (hash, is_taken): (u64, impl FnMut(u32) -> bool),
        filling: &Filling,
        taken: Refused,
    ) -> Result<Reserved<'_>, Refused> {
        let place = vacant(self.index.vacancy(&mut shard.index, hash, is_taken), taken)?;
        let (number, record, generation) = self.reserve(shard, filling).ok_or(Refused::Full)?;
        self.index.fill(&mut shard.index, place, hash, number);
        Ok(Reserved { handle: Handle { record: number, generation }, record })
    }

    /// Makes a reserved record the connection of both its keys, or else frees it.
    pub(crate) fn insert_reserved<'t>(
        &self,
        reserved: Reserved<'t>,
        filling: &Filling,
        now: Millis,
    ) -> Result<(Handle, &'t Record), Refused> {
        let ([hash, reply_hash], Reserved { handle, record }) = (filling.hashes, reserved);
        let inserted = {
            let mut shard = self.lock(hash);
            let vacancy = self.index.vacancy(&mut shard.index, hash, |other| {
                other != handle.record && self.is_live_with(other, &filling.key, now)
            });
            vacant(vacancy, Refused::Taken).map(|place| {
                self.index.fill(&mut shard.index, place, hash, handle.record);
                record.publish();
                shard.connections += 1;
            })
        };
        if let Err(refused) = inserted {
            let mut shard = self.lock(reply_hash);
            self.index.remove(&mut shard.index, reply_hash, handle.record);
            self.give_back(&mut shard, handle.record, record);
            return Err(refused);
        }
        Ok((handle, record))
    }

    /// Returns whether a record is a connection with this key.
    fn is_live_with(&self, number: u32, key: &Key, now: Millis) -> bool {
        let record = self.records.get(number);
        let found = record.and_then(|record| Some((record, record.matches(key, &self.addresses)?)));
        found.is_some_and(|(record, (meta, _))| meta.phase() == Phase::Live && record.expires() > now)
    }

    /// Returns a value if a record is a connection with this key, or has reserved it.
    fn is_taken_by(&self, number: u32, key: &Key, now: Millis) -> Option<()> {
        let record = self.records.get(number)?;
        let (meta, _) = record.matches(key, &self.addresses)?;
        match meta.phase() {
            Phase::Reserved => Some(()),
            Phase::Live => (record.expires() > now).then_some(()),
            Phase::Free | Phase::Dead => None,
        }
    }

    fn reserve(&self, shard: &mut Shard, filling: &Filling) -> Option<(u32, &Record, u32)> {
        let number = self.record_numbers.take(&mut shard.free)?;
        let Some(record) = self.records.make(number) else {
            shard.free.push(number);
            return None;
        };
        let addresses = match filling.key.v6 {
            false => None,
            true => {
                let taken = self.address_numbers.take(&mut shard.free_addresses);
                let made = taken.and_then(|n| self.addresses.make(n).map(|made| (n, made)));
                if made.is_none() {
                    shard.free.push(number);
                    shard.free_addresses.extend(taken);
                    return None;
                }
                made
            }
        };
        Some((number, record, record.reserve(filling, addresses)))
    }

    /// Returns a record to the free ones, when no index entry refers to it any more.
    fn give_back(&self, shard: &mut Shard, number: u32, record: &Record) {
        if record.meta().v6() {
            self.address_numbers.give_back(&mut shard.free_addresses, record.addresses());
        }
        record.free();
        self.record_numbers.give_back(&mut shard.free, number);
    }

    /// Removes a connection and returns its zone and the number of its zone's count. `None`: it was removed
    /// already.
    pub(crate) fn remove(&self, handle: Handle) -> Option<(u16, u32)> {
        let record = self.records.get(handle.record)?;
        if !record.claim(handle.generation) {
            return None;
        }
        let (meta, counted) = (record.meta(), record.counted());
        let [hash, reply_hash] = record.hashes();
        let mut shard = self.lock(hash);
        self.index.remove(&mut shard.index, hash, handle.record);
        shard.connections -= 1;
        if meta.side().is_some() {
            drop(shard);
            shard = self.lock(reply_hash);
            self.index.remove(&mut shard.index, reply_hash, handle.record);
        }
        self.give_back(&mut shard, handle.record, record);
        Some((meta.zone(), counted))
    }

    /// Calls `each` for the live connections among the records from number `first` on, at most `most`
    /// records; returns the number to continue from.
    pub(crate) fn scan(&self, first: u32, most: u32, mut each: impl FnMut(Handle, &Record, Meta)) -> u32 {
        let used = self.record_numbers.used();
        let end = used.min(first.saturating_add(most));
        for number in first..end {
            let Some(record) = self.records.get(number) else { continue };
            let meta = record.meta();
            if meta.phase() == Phase::Live {
                each(Handle { record: number, generation: meta.generation() }, record, meta);
            }
        }
        if end == used { 0 } else { end }
    }

    /// Number of records that were ever used.
    pub(crate) fn used(&self) -> u32 {
        self.record_numbers.used()
    }

    /// Number of connections of each shard.
    pub(crate) fn lens(&self) -> Vec<usize> {
        let len = |apart: &ShardLock| apart.0.lock().unwrap_or_else(PoisonError::into_inner).connections;
        self.shards.iter().map(len).collect()
    }
}
