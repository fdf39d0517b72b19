//! The record of a connection: 128 bytes of atomic words, and 64 more for the addresses of IPv6.
//!
//! A thread without a lock may read a record at any time, even while the record is being reused. This is safe because of the *generation*
//! in the first word, which changes with every use of the record: a reader loads the first word before and after it compares the key. The
//! state word contains bits of the generation and is changed by compare-and-swap.
//!
//! | word | contents |
//! |---|---|
//! | 0 | phase 2, IPv6 1, translation 2, 3 free, protocol 8, zone 16, generation 32 |
//! | 1 | IPv4: source and destination address of the original direction; IPv6: the slot number of the connection's [`Addresses`] |
//! | 2 | ports of the original direction |
//! | 3, 4 | addresses (IPv4) and ports of replies, if the connection is translated |
//! | 5 | state of the protocol, with 14 bits of the generation |
//! | 6 | time at which the connection expires, in milliseconds |
//! | 7 | mark 32, timeout policy 16, 16 bits of the generation |
//! | 8, 9 | TCP: sequence numbers of each endpoint |
//! | 10, 11 | label |
//! | 12, 13 | hashes of the two keys |
//! | 14 | id of the zone count that includes the connection; 0: none |
//! | 15 | helper 2, related 1, announced by a command 1, shifted sequence numbers 1, 27 free, ports of the control connection 32 |

use crate::atomic::{AtomicU64, Ordering, fence, replace};
use crate::key::{Endpoint, Key};
use crate::slab::Slab;
use units::Millis;

/// The record of a connection.
#[repr(C, align(128))]
#[derive(Debug)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[cfg_attr(loom, derive(Default))]
pub(crate) struct Record {
    meta: AtomicU64,
    addresses: AtomicU64,
    ports: AtomicU64,
    reply_addresses: AtomicU64,
    reply_ports: AtomicU64,
    state: AtomicU64,
    expires: AtomicU64,
    mark: AtomicU64,
    sequence_numbers: [AtomicU64; 2],
    label: [AtomicU64; 2],
    hashes: [AtomicU64; 2],
    zone_count_id: AtomicU64,
    helper_word: AtomicU64,
}

/// The addresses of an IPv6 connection: source and destination of the original direction, then source and destination of replies.
#[repr(C, align(64))]
#[derive(Debug)]
#[cfg_attr(not(loom), derive(zerocopy::FromZeros))]
#[cfg_attr(loom, derive(Default))]
pub(crate) struct Addresses([[AtomicU64; 2]; 4]);

/// The phase of a record's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Unused.
    Free = 0,
    /// A new connection has reserved the record: its keys count as taken, but look-ups do not find it yet.
    Reserved = 1,
    /// A connection.
    Live = 2,
    /// A connection that is being removed.
    Dead = 3,
}

/// Which address of the original direction is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The source.
    Source,
    /// The destination.
    Destination,
}

/// The first word of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta(u64);

impl Meta {
    fn new(phase: Phase, key: &Key, side: Option<Side>, generation: u32) -> Meta {
        let side = match side {
            None => 0,
            Some(Side::Source) => 1,
            Some(Side::Destination) => 2,
        };
        let meta_bits =
            u64::from(key.v6) << 2 | side << 3 | u64::from(key.proto) << 8 | u64::from(key.zone) << 16;
        Meta(phase as u64 | meta_bits | u64::from(generation) << 32)
    }

    #[inline(always)]
    pub(crate) fn phase(self) -> Phase {
        match self.0 & 3 {
            0 => Phase::Free,
            1 => Phase::Reserved,
            2 => Phase::Live,
            _ => Phase::Dead,
        }
    }

    #[inline(always)]
    pub(crate) fn v6(self) -> bool {
        self.0 & IS_IPV6 != 0
    }

    #[inline(always)]
    pub(crate) fn side(self) -> Option<Side> {
        match self.0 >> 3 & 3 {
            1 => Some(Side::Source),
            2 => Some(Side::Destination),
            _ => None,
        }
    }

    #[inline(always)]
    pub(crate) fn proto(self) -> u8 {
        (self.0 >> 8) as u8
    }

    pub(crate) fn zone(self) -> u16 {
        (self.0 >> 16) as u16
    }

    #[inline(always)]
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Returns whether the record is a live connection with the zone, protocol and address family of `meta_bits`.
    #[inline(always)]
    pub(crate) fn is_live_of(self, meta_bits: u64) -> bool {
        self.0 & 0xffff_ff07 == meta_bits | Phase::Live as u64
    }

    /// Returns whether protocol, zone and address family are those of a key.
    #[inline(always)]
    fn is_of(self, key: &Key) -> bool {
        let wanted = u64::from(key.v6) << 2 | u64::from(key.proto) << 8 | u64::from(key.zone) << 16;
        self.0 & 0xffff_ff04 == wanted
    }
}

/// The bit of the first word for IPv6.
pub(crate) const IS_IPV6: u64 = 4;

/// Source and destination address of IPv6, each with its most significant half first.
pub(crate) type Ipv6AddressPair = [[u64; 2]; 2];

/// A live connection that was found by the key of a packet. `A`: a source and a destination address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionMatch<A> {
    /// The first word of the record.
    pub(crate) meta: Meta,
    /// The packet is a reply.
    pub(crate) reply: bool,
    /// Addresses and ports of packets in the original direction.
    pub(crate) original: (A, u64),
    /// Addresses and ports of packets in the reply direction, before their translation.
    pub(crate) replies: (A, u64),
}

/// A connection that a worker has cached (`connection_cache.rs`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CachedConnection {
    pub(crate) record: u32,
    pub(crate) reply: bool,
    pub(crate) meta: Meta,
}

impl ConnectionMatch<u64> {
    /// The cache entry for this connection, whose record has number `record`.
    #[inline(always)]
    pub(crate) fn cached(&self, record: u32) -> CachedConnection {
        CachedConnection { record, reply: self.reply, meta: self.meta }
    }
}

/// The contents of a new record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordContents {
    pub(crate) key: Key,
    /// The reply key and the translated side; `None` without translation.
    pub(crate) reply: Option<(Key, Side)>,
    /// Hashes of the key and of the reply key.
    pub(crate) hashes: [u64; 2],
    pub(crate) expires: Millis,
    pub(crate) words: StateWords,
    pub(crate) policy: u16,
    /// Id of the zone count that includes the connection; 0: none.
    pub(crate) zone_count_id: u32,
    pub(crate) mark: u32,
    pub(crate) label: [u64; 2],
    /// The helper word; see [`helper_word_of`](crate::helper::helper_word_of).
    pub(crate) helper_word: u64,
}

/// The protocol state as records store it: the state word, then for TCP one word of sequence numbers for each endpoint.
pub(crate) type StateWords = [u64; 3];

/// A connection may expire earlier than its timeout says, by less than this number of milliseconds. Each packet renews the expiry time of
/// its connection. Without this bound, each packet would write the record. The record's cache line, and the neighbours that processors
/// prefetch with it, would then move between the cores that track packets.
const EXPIRY_PRECISION: u64 = 64;

/// Bits of the state word that are available to the protocol.
pub(crate) const STATE_BITS: u32 = 50;

/// The low 14 bits of the generation, at their position in the state word.
fn stamp(generation: u32) -> u64 {
    u64::from(generation) << STATE_BITS
}

/// The low 16 bits of the generation, at their position in word 7.
fn mark_stamp(generation: u32) -> u64 {
    u64::from(generation) << 48
}

fn store(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Relaxed);
}

#[inline(always)]
fn load(word: &AtomicU64) -> u64 {
    word.load(Ordering::Relaxed)
}

/// Writes `new` if it differs from `old`. `false`: another thread has changed the word meanwhile.
#[inline(always)]
fn swap(word: &AtomicU64, old: u64, new: u64) -> bool {
    old == new || word.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// Writes a value only if it changes the word, so that the cache line can stay in the caches of several cores.
#[inline(always)]
fn store_if_changed(word: &AtomicU64, value: u64) {
    if load(word) != value {
        store(word, value);
    }
}

impl Addresses {
    fn store(&self, from: usize, key: &Key) {
        for (slot, end) in self.0[from..].iter().zip([key.src, key.dst]) {
            slot.iter().zip(end.address).for_each(|(word, half)| store(word, half));
        }
    }

    #[inline(always)]
    fn pair(&self, from: usize) -> Ipv6AddressPair {
        [0, 1].map(|n| [load(&self.0[from + n][0]), load(&self.0[from + n][1])])
    }
}

impl Record {
    #[inline(always)]
    pub(crate) fn meta(&self) -> Meta {
        Meta(self.meta.load(Ordering::Acquire))
    }

    /// Returns whether the connection of this generation is live.
    #[inline(always)]
    pub(crate) fn is_live(&self, generation: u32) -> bool {
        let meta = self.meta();
        meta.phase() == Phase::Live && meta.generation() == generation
    }

    /// Fills a free record for a new connection, makes it reserved, and returns its generation. `addresses`: slot number and slot of the
    /// IPv6 addresses.
    pub(crate) fn reserve(&self, f: &RecordContents, addresses: Option<(u32, &Addresses)>) -> u32 {
        let generation = self.meta().generation().wrapping_add(1);
        let side = f.reply.map(|(_, side)| side);
        // The generation changes before any other word, so that readers of the previous connection notice the change.
        self.meta.store(Meta::new(Phase::Reserved, &f.key, side, generation).0, Ordering::Relaxed);
        fence(Ordering::Release);
        match addresses {
            None => {
                store(&self.addresses, f.key.address_word());
                store(&self.reply_addresses, f.reply.map_or(0, |(key, _)| key.address_word()));
            }
            Some((number, addresses)) => {
                store(&self.addresses, number.into());
                addresses.store(0, &f.key);
                if let Some((key, _)) = &f.reply {
                    addresses.store(2, key);
                }
            }
        }
        store(&self.ports, f.key.port_word());
        store(&self.reply_ports, f.reply.map_or(0, |(key, _)| key.port_word()));
        store(&self.expires, f.expires.0);
        replace(&self.mark, u64::from(f.mark) | u64::from(f.policy) << 32 | mark_stamp(generation));
        self.label.iter().zip(f.label).for_each(|(word, half)| store(word, half));
        self.hashes.iter().zip(f.hashes).for_each(|(word, hash)| store(word, hash));
        store(&self.zone_count_id, f.zone_count_id.into());
        store(&self.helper_word, f.helper_word);
        let [state, first, second] = f.words;
        replace(&self.state, state | stamp(generation));
        self.sequence_numbers.iter().zip([first, second]).for_each(|(word, end)| store(word, end));
        generation
    }

    /// Makes the reserved record a live connection.
    pub(crate) fn publish(&self) {
        let meta = load(&self.meta);
        self.meta.store(meta & !3 | Phase::Live as u64, Ordering::Release);
    }

    /// Marks the record as free.
    pub(crate) fn free(&self) {
        let meta = load(&self.meta);
        self.meta.store(meta & !3 | Phase::Free as u64, Ordering::Release);
    }

    /// Begins the removal of the connection with this generation. Returns true to only one caller, which then must remove the connection.
    pub(crate) fn claim(&self, generation: u32) -> bool {
        let live = self.meta();
        let dead = live.0 | Phase::Dead as u64;
        live.phase() == Phase::Live
            && live.generation() == generation
            && self.meta.compare_exchange(live.0, dead, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Hashes of the key and of the reply key.
    pub(crate) fn hashes(&self) -> [u64; 2] {
        [load(&self.hashes[0]), load(&self.hashes[1])]
    }

    /// Slot number of the IPv6 addresses.
    #[inline(always)]
    pub(crate) fn addresses(&self) -> u32 {
        load(&self.addresses) as u32
    }

    /// If `key` is one of the record's two keys, returns the first word and the direction (`true`: reply). The record may be in any phase.
    #[inline(always)]
    pub(crate) fn matches(&self, key: &Key, addresses: &Slab<Addresses>) -> Option<(Meta, bool)> {
        loop {
            let meta = self.meta();
            if !meta.is_of(key) {
                return None;
            }
            let reply = match meta.v6() {
                false => self.direction_v4(meta, key),
                true => self.direction_v6(meta, key, addresses),
            }?;
            // The addresses that were read may belong to another connection if the record's first word has changed since.
            fence(Ordering::Acquire);
            if load(&self.meta) == meta.0 {
                return Some((meta, reply));
            }
            // Perhaps only the phase has changed, for example from reserved to live. Compare again, because `None` would make the key look
            // free.
        }
    }

    /// Returns the connection if it is live and one of its two keys has these IPv4 addresses and ports. `meta_bits`: zone, protocol and
    /// address family, at their bits in the first word.
    #[inline(always)]
    pub(crate) fn match_ipv4(
        &self,
        meta_bits: u64,
        addresses: u64,
        ports: u64,
    ) -> Option<ConnectionMatch<u64>> {
        let read = |reply: bool| Some(load(if reply { &self.reply_addresses } else { &self.addresses }));
        self.match_key(meta_bits, (addresses, ports), |addresses| addresses.rotate_left(32), read)
    }

    /// Returns the connection of a packet that a worker's cache has assigned to this record, if the first word still is `meta`: then the
    /// record still holds the same connection. `reply`: the packet's direction; `wanted`: its addresses and ports.
    #[inline(always)]
    pub(crate) fn match_cached(
        &self,
        meta: Meta,
        reply: bool,
        wanted: (u64, u64),
    ) -> Option<ConnectionMatch<u64>> {
        let turned = (wanted.0.rotate_left(32), wanted.1.rotate_left(32));
        let mut by_direction = if reply { [turned, wanted] } else { [wanted, turned] };
        if meta.side().is_some() {
            by_direction = [
                (load(&self.addresses), load(&self.ports)),
                (load(&self.reply_addresses), load(&self.reply_ports)),
            ];
            fence(Ordering::Acquire);
        }
        (self.meta() == meta).then_some(ConnectionMatch {
            meta,
            reply,
            original: by_direction[0],
            replies: by_direction[1],
        })
    }

    /// As [`match_ipv4`](Self::match_ipv4), for IPv6.
    #[inline(always)]
    pub(crate) fn match_ipv6(
        &self,
        meta_bits: u64,
        addresses: Ipv6AddressPair,
        ports: u64,
        slab: &Slab<Addresses>,
    ) -> Option<ConnectionMatch<Ipv6AddressPair>> {
        let read = |reply: bool| Some(slab.get(self.addresses())?.pair(if reply { 2 } else { 0 }));
        self.match_key(meta_bits, (addresses, ports), |[src, dst]| [dst, src], read)
    }

    #[inline(always)]
    fn match_key<A: Copy + PartialEq>(
        &self,
        meta_bits: u64,
        wanted: (A, u64),
        turn: impl Fn(A) -> A,
        read: impl Fn(bool) -> Option<A>,
    ) -> Option<ConnectionMatch<A>> {
        let meta = self.meta();
        if !meta.is_live_of(meta_bits) {
            return None;
        }
        let original = (read(false)?, load(&self.ports));
        let replies = match meta.side() {
            None => (turn(original.0), original.1.rotate_left(32)),
            Some(_) => (read(true)?, load(&self.reply_ports)),
        };
        let reply = original != wanted;
        if reply && replies != wanted {
            return None;
        }
        // As in `matches`. If the record has changed meanwhile, the general path looks up the packet again.
        fence(Ordering::Acquire);
        let unchanged = load(&self.meta) == meta.0;
        unchanged.then_some(ConnectionMatch { meta, reply, original, replies })
    }

    #[inline(always)]
    fn direction_v4(&self, meta: Meta, key: &Key) -> Option<bool> {
        let (addresses, ports) = (key.address_word(), key.port_word());
        if load(&self.addresses) == addresses && load(&self.ports) == ports {
            return Some(false);
        }
        let reply = match meta.side() {
            None => [load(&self.addresses).rotate_left(32), load(&self.ports).rotate_left(32)],
            Some(_) => [load(&self.reply_addresses), load(&self.reply_ports)],
        };
        (reply == [addresses, ports]).then_some(true)
    }

    #[inline(always)]
    fn direction_v6(&self, meta: Meta, key: &Key, slab: &Slab<Addresses>) -> Option<bool> {
        let all = slab.get(self.addresses())?;
        let (wanted, ports) = ([key.src.address, key.dst.address], key.port_word());
        let original = all.pair(0);
        if load(&self.ports) == ports && original == wanted {
            return Some(false);
        }
        let (reply, reply_ports) = match meta.side() {
            None => ([original[1], original[0]], load(&self.ports).rotate_left(32)),
            Some(_) => (all.pair(2), load(&self.reply_ports)),
        };
        (reply_ports == ports && reply == wanted).then_some(true)
    }

    /// The keys of the original and the reply direction. The keys belong to the generation of `meta` only if the first word is still `meta`
    /// afterwards.
    pub(crate) fn keys(&self, meta: Meta, slab: &Slab<Addresses>) -> [Key; 2] {
        let key = |[src, dst]: Ipv6AddressPair, ports: u64| Key {
            zone: meta.zone(),
            v6: meta.v6(),
            proto: meta.proto(),
            src: Endpoint { address: src, port: (ports >> 32) as u32 },
            dst: Endpoint { address: dst, port: ports as u32 },
        };
        let addresses = slab.get(self.addresses()).filter(|_| meta.v6());
        let pair = |word: &AtomicU64, from: usize| match addresses {
            Some(addresses) => addresses.pair(from),
            None => [[0, load(word) >> 32], [0, load(word) & 0xffff_ffff]],
        };
        let original = key(pair(&self.addresses, 0), load(&self.ports));
        let reply = match meta.side() {
            None => original.reverse(),
            Some(_) => key(pair(&self.reply_addresses, 2), load(&self.reply_ports)),
        };
        [original, reply]
    }

    /// The protocol state, if the record has this generation.
    #[inline(always)]
    pub(crate) fn state_words(&self, generation: u32) -> Option<StateWords> {
        self.state(generation)
            .map(|state| [state, load(&self.sequence_numbers[0]), load(&self.sequence_numbers[1])])
    }

    /// The state word, if the record has this generation.
    #[inline(always)]
    pub(crate) fn state(&self, generation: u32) -> Option<u64> {
        let state = load(&self.state);
        let own = (state ^ stamp(generation)) >> STATE_BITS == 0;
        own.then_some(state & ((1 << STATE_BITS) - 1))
    }

    /// Changes the state word from `old` to `new`. `false`: another thread has changed the state word meanwhile.
    #[inline(always)]
    pub(crate) fn exchange_state(&self, generation: u32, old: u64, new: u64) -> bool {
        swap(&self.state, old | stamp(generation), new | stamp(generation))
    }

    /// Changes the protocol state from `old` to `new`. `false`: another thread has changed the state word meanwhile.
    ///
    /// The sequence numbers of each endpoint are written separately, and only if they are unchanged. So if two packets in opposite
    /// directions are processed at the same time, one of them may lose its update of a window; the next packet repeats the update.
    #[inline(always)]
    pub(crate) fn exchange_state_words(&self, generation: u32, old: StateWords, new: StateWords) -> bool {
        if !self.exchange_state(generation, old[0], new[0]) {
            return false;
        }
        swap(&self.sequence_numbers[0], old[1], new[1]);
        swap(&self.sequence_numbers[1], old[2], new[2]);
        true
    }

    #[inline(always)]
    pub(crate) fn expires(&self) -> Millis {
        Millis(load(&self.expires))
    }

    /// Sets the expiry time, unless the new time is less than [`EXPIRY_PRECISION`] after the old one.
    #[inline(always)]
    pub(crate) fn set_expires(&self, at: Millis) {
        let later_by = at.0.wrapping_sub(load(&self.expires));
        if later_by >= EXPIRY_PRECISION {
            store(&self.expires, at.0);
        }
    }

    #[inline(always)]
    pub(crate) fn mark(&self) -> u32 {
        load(&self.mark) as u32
    }

    /// Sets the mark, unless the record has another generation. The generation is checked because the calling thread may be interrupted
    /// after it has found the connection: flows match marks, so the mark must not reach the next connection of the record.
    pub(crate) fn set_mark(&self, generation: u32, mark: u32) {
        loop {
            let word = load(&self.mark);
            let own = (word ^ mark_stamp(generation)) >> 48 == 0;
            if !own || swap(&self.mark, word, word >> 32 << 32 | u64::from(mark)) {
                return;
            }
        }
    }

    /// Number of the timeout policy; 0: none.
    #[inline(always)]
    pub(crate) fn policy(&self) -> u16 {
        (load(&self.mark) >> 32) as u16
    }

    #[inline(always)]
    pub(crate) fn label(&self) -> [u64; 2] {
        [load(&self.label[0]), load(&self.label[1])]
    }

    /// Sets the label if the connection with this generation is live. The check and the write are two steps: if the thread is interrupted
    /// between them, the label may reach the next connection of the record.
    pub(crate) fn set_label(&self, generation: u32, label: [u64; 2]) {
        if self.is_live(generation) {
            self.label.iter().zip(label).for_each(|(word, half)| store_if_changed(word, half));
        }
    }

    /// The helper word: 0 except for control connections and the connections that they announce.
    #[inline(always)]
    pub(crate) fn helper_word(&self) -> u64 {
        load(&self.helper_word)
    }

    pub(crate) fn add_helper_bits(&self, bits: u64) {
        self.helper_word.fetch_or(bits, Ordering::Relaxed);
    }

    /// Id of the zone count that includes the connection; 0: none.
    pub(crate) fn zone_count_id(&self) -> u32 {
        load(&self.zone_count_id) as u32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// The size of a connection, without its index entries.
    #[test]
    fn records_have_the_documented_size() {
        assert_eq!((size_of::<Record>(), size_of::<Addresses>()), (128, 64));
    }
}
