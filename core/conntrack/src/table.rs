//! All connections: records, and the index that finds records by the keys of both directions.
//!
//! A translated connection has two index entries, one for each key. Any other connection has one, because a key and its reverse have the
//! same hash. Look-ups take no lock. Insertions and removals hold the lock of one shard at a time. Insertions of translated connections
//! first reserve the reply key, so that the connection is live only when both keys find its record.

use crate::atomic::AtomicU64;
use crate::index::{Bucket, Index, RECORDS_MAX, SHARDS, ShardIndex, Vacancy, shard_of};
use crate::key::Key;
use crate::numbers::SlotNumbers;
use crate::record::{Addresses, ConnectionMatch, Ipv6AddressPair, Meta, Phase, Record, RecordContents};
use crate::slab::{Slab, half_ahead};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::Millis;

/// A shard's lock, in a cache line of its own, because other workers use the neighbouring locks.
#[repr(align(64))]
#[derive(Debug, Default)]
struct ShardLock(Mutex<Shard>);

/// What the lock of a shard protects.
#[derive(Debug, Default)]
struct Shard {
    index: ShardIndex,
    /// Numbers of unused records that belong to this shard.
    free: Vec<u32>,
    /// Numbers of unused IPv6 address slots that belong to this shard.
    free_addresses: Vec<u32>,
    /// Number of connections whose key has a hash of this shard.
    connections: usize,
}

/// The table of all connections.
#[derive(Debug)]
pub(crate) struct Table {
    index: Index,
    records: Slab<Record>,
    addresses: Slab<Addresses>,
    record_numbers: SlotNumbers,
    address_numbers: SlotNumbers,
    shards: Box<[ShardLock]>,
    /// A worker that uses a record with this number or a larger one requests more memory in advance.
    request_memory_at: AtomicU32,
}

/// Identifies a connection that a look-up has found. The connection may have been removed since; then the generation differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle {
    pub(crate) record: u32,
    pub(crate) generation: u32,
}

/// Result of a look-up: a connection and the direction of the key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FoundConnection<'a> {
    pub(crate) handle: Handle,
    pub(crate) record: &'a Record,
    /// The key that was looked up is the reply key.
    pub(crate) reply: bool,
}

/// A record that is reserved for a new connection: its reply key is in the index, its original key is not yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reservation<'a> {
    handle: Handle,
    record: &'a Record,
}

/// The reason why a connection was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InsertError {
    /// Another connection has its key.
    Taken,
    /// Another connection has its reply key.
    ReplyTaken,
    /// Out of memory, all record numbers are used, or no reply key is free for the translation.
    Full,
}

impl Default for Table {
    fn default() -> Table {
        Table {
            index: Index::default(),
            records: Slab::default(),
            addresses: Slab::default(),
            record_numbers: SlotNumbers::new(RECORDS_MAX),
            address_numbers: SlotNumbers::new(RECORDS_MAX),
            shards: (0..SHARDS).map(|_| ShardLock::default()).collect(),
            request_memory_at: AtomicU32::new(0),
        }
    }
}

/// The free position of a vacancy, or the reason why there is none. `taken`: the error if the key is taken.
#[inline(always)]
fn vacant(vacancy: Vacancy<'_>, taken: InsertError) -> Result<&AtomicU64, InsertError> {
    match vacancy {
        Vacancy::At(place) => Ok(place),
        Vacancy::Taken => Err(taken),
        Vacancy::Full => Err(InsertError::Full),
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

    /// Prefetches the buckets and the shard lock that the insertion of an entry with this hash accesses.
    #[inline(always)]
    pub(crate) fn prefetch_insertion(&self, hash: u64) {
        self.index.prefetch_insertion(hash);
        cpu::prefetch_lines(&self.shards[shard_of(hash)]);
    }

    /// Prefetches the buckets and the shard locks that the removal of a connection accesses.
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
        addresses: Ipv6AddressPair,
        ports: u64,
    ) -> Option<ConnectionMatch<Ipv6AddressPair>> {
        record.match_ipv6(meta_bits, addresses, ports, &self.addresses)
    }

    /// Returns the connection of a key, if this record holds the connection and it is not expired at `now`.
    pub(crate) fn verify<'t>(
        &'t self,
        (number, record): (u32, &'t Record),
        key: &Key,
        now: Millis,
    ) -> Option<FoundConnection<'t>> {
        let (meta, reply) = record.matches(key, &self.addresses)?;
        let handle = Handle { record: number, generation: meta.generation() };
        let alive = meta.phase() == Phase::Live && record.expires() > now;
        alive.then_some(FoundConnection { handle, record, reply })
    }

    /// Returns the connection of a key: one that is not expired at `now` if there is one, otherwise an expired one.
    pub(crate) fn find(&self, hash: u64, key: &Key, now: Millis) -> Option<FoundConnection<'_>> {
        let mut over = None;
        let alive = self.index.find(hash, |number| {
            let record = self.records.get(number)?;
            let (meta, reply) = record.matches(key, &self.addresses)?;
            let handle = Handle { record: number, generation: meta.generation() };
            let found = FoundConnection { handle, record, reply };
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

    /// Returns whether no connection has a key with this hash. `false` does not mean that a connection has the key: the key is not
    /// compared.
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
    pub(crate) fn insert(
        &self,
        contents: &RecordContents,
        now: Millis,
    ) -> Result<(Handle, &Record), InsertError> {
        let [hash, _] = contents.hashes;
        let mut shard = self.lock(hash);
        let is_taken = |other| self.is_live_with(other, &contents.key, now);
        let Reservation { handle, record } =
            self.reserve_at(&mut shard, (hash, is_taken), contents, InsertError::Taken)?;
        record.publish();
        shard.connections += 1;
        Ok((handle, record))
    }

    /// Reserves a record for a translated connection, and adds the index entry of its reply key. Reserved keys count as taken, so if two
    /// threads choose the same reply key, one of them is refused. The caller passes the reservation to
    /// [`insert_reserved`](Self::insert_reserved).
    pub(crate) fn reserve_reply(
        &self,
        contents: &RecordContents,
        now: Millis,
    ) -> Result<Reservation<'_>, InsertError> {
        let (Some((key, _)), [_, hash]) = (&contents.reply, contents.hashes) else {
            return Err(InsertError::Full);
        };
        let is_taken = |other| self.is_taken_by(other, key, now).is_some();
        self.reserve_at(&mut self.lock(hash), (hash, is_taken), contents, InsertError::ReplyTaken)
    }

    /// Reserves a record and adds an index entry for it with a hash of this shard. Returns `taken` as an error if `is_taken` is true for a
    /// record with the same hash.
    #[inline(always)]
    fn reserve_at(
        &self,
        shard: &mut Shard,
        (hash, is_taken): (u64, impl FnMut(u32) -> bool),
        contents: &RecordContents,
        taken: InsertError,
    ) -> Result<Reservation<'_>, InsertError> {
        let place = vacant(self.index.vacancy(&mut shard.index, hash, is_taken), taken)?;
        let (number, record, generation) = self.reserve(shard, contents).ok_or(InsertError::Full)?;
        self.index.fill(&mut shard.index, place, hash, number);
        Ok(Reservation { handle: Handle { record: number, generation }, record })
    }

    /// Adds the index entry of the original key and makes the reserved record a live connection. If that key is taken or memory is missing,
    /// frees the record.
    pub(crate) fn insert_reserved<'t>(
        &self,
        reservation: Reservation<'t>,
        contents: &RecordContents,
        now: Millis,
    ) -> Result<(Handle, &'t Record), InsertError> {
        let ([hash, reply_hash], Reservation { handle, record }) = (contents.hashes, reservation);
        let inserted = {
            let mut shard = self.lock(hash);
            let vacancy = self.index.vacancy(&mut shard.index, hash, |other| {
                other != handle.record && self.is_live_with(other, &contents.key, now)
            });
            vacant(vacancy, InsertError::Taken).map(|place| {
                self.index.fill(&mut shard.index, place, hash, handle.record);
                record.publish();
                shard.connections += 1;
            })
        };
        if let Err(refused) = inserted {
            let mut shard = self.lock(reply_hash);
            self.index.remove(&mut shard.index, reply_hash, handle.record);
            self.free(&mut shard, handle.record, record);
            return Err(refused);
        }
        Ok((handle, record))
    }

    /// Returns whether a record is a live connection with this key that is not expired at `now`.
    fn is_live_with(&self, number: u32, key: &Key, now: Millis) -> bool {
        let record = self.records.get(number);
        let found = record.and_then(|record| Some((record, record.matches(key, &self.addresses)?)));
        found.is_some_and(|(record, (meta, _))| meta.phase() == Phase::Live && record.expires() > now)
    }

    /// Returns `Some` if a record is a connection with this key that is not expired at `now`, or is reserved with this key.
    fn is_taken_by(&self, number: u32, key: &Key, now: Millis) -> Option<()> {
        let record = self.records.get(number)?;
        let (meta, _) = record.matches(key, &self.addresses)?;
        match meta.phase() {
            Phase::Reserved => Some(()),
            Phase::Live => (record.expires() > now).then_some(()),
            Phase::Free | Phase::Dead => None,
        }
    }

    /// Allocates a record, and for IPv6 an address slot, and fills them. Returns number, record and generation. `None`: out of memory.
    fn reserve(&self, shard: &mut Shard, contents: &RecordContents) -> Option<(u32, &Record, u32)> {
        let number = self.record_numbers.allocate(&mut shard.free)?;
        if let Some(next) = shard.free.last().and_then(|next| self.records.get(*next)) {
            cpu::prefetch_write_lines(next);
        }
        let Some(record) = self.records.get_or_allocate(number) else {
            shard.free.push(number);
            return None;
        };
        let addresses = match contents.key.v6 {
            false => None,
            true => {
                let taken = self.address_numbers.allocate(&mut shard.free_addresses);
                let made = taken.and_then(|n| self.addresses.get_or_allocate(n).map(|made| (n, made)));
                if made.is_none() {
                    shard.free.push(number);
                    shard.free_addresses.extend(taken);
                    return None;
                }
                made
            }
        };
        Some((number, record, record.reserve(contents, addresses)))
    }

    /// Frees a record and its IPv6 addresses. No index entry may refer to the record any more.
    fn free(&self, shard: &mut Shard, number: u32, record: &Record) {
        if record.meta().v6() {
            self.address_numbers.release(&mut shard.free_addresses, record.addresses());
        }
        record.free();
        self.record_numbers.release(&mut shard.free, number);
    }

    /// Removes a connection; returns its zone and the id of the zone count that includes it. `None`: another
    /// thread has removed it.
    pub(crate) fn remove(&self, handle: Handle) -> Option<(u16, u32)> {
        let record = self.records.get(handle.record)?;
        if !record.claim(handle.generation) {
            return None;
        }
        let (meta, counted) = (record.meta(), record.zone_count_id());
        let [hash, reply_hash] = record.hashes();
        let mut shard = self.lock(hash);
        self.index.remove(&mut shard.index, hash, handle.record);
        shard.connections -= 1;
        if meta.side().is_some() {
            drop(shard);
            shard = self.lock(reply_hash);
            self.index.remove(&mut shard.index, reply_hash, handle.record);
        }
        self.free(&mut shard, handle.record, record);
        Some((meta.zone(), counted))
    }

    /// Calls `each` for the live connections in at most `most` records, from number `first` on. Returns the record number to continue from;
    /// 0: there are no more records.
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

    /// Number of records that were ever used: all record numbers in use are below it.
    pub(crate) fn used(&self) -> u32 {
        self.record_numbers.used()
    }

    /// Allocates some memory that new connections will need soon. Returns false if enough is allocated.
    ///
    /// **Thread**: one at a time.
    pub(crate) fn allocate_ahead(&self) -> bool {
        let used = self.used();
        let more = self.records.allocate_ahead(used)
            | self.addresses.allocate_ahead(self.address_numbers.used())
            | self.index.allocate_ahead();
        if !more {
            self.request_memory_at.store(half_ahead(used), Ordering::Relaxed);
        }
        more
    }

    /// Returns true once if the record of a new connection is one of the last half of the records that were allocated in advance.
    #[inline(always)]
    pub(crate) fn take_memory_request(&self, handle: Handle) -> bool {
        let is_low = handle.record >= self.request_memory_at.load(Ordering::Relaxed);
        if is_low {
            self.request_memory_at.store(u32::MAX, Ordering::Relaxed);
        }
        is_low
    }

    /// Number of connections of each shard.
    pub(crate) fn lens(&self) -> Vec<usize> {
        let len = |apart: &ShardLock| apart.0.lock().unwrap_or_else(PoisonError::into_inner).connections;
        self.shards.iter().map(len).collect()
    }
}
