//! A worker's cache of the connections of recent IPv4 packets. A packet that hits the cache needs neither the keyed hash nor the index.
//!
//! An entry contains the addresses and ports of a packet, the number of its connection's record, and the first word of that record. As long
//! as the record's first word is unchanged, the record holds the same connection, so the packet's key is not compared with the record's
//! key. The hash of the cache has no random key: a sender whose packets collide in one entry only causes look-ups in the index.

use crate::checks::ChecksumCounts;
use crate::established::PreparedAction;
use crate::packet_fields::Packet;
use crate::packet_words::PacketWords;
use crate::record::{CachedConnection, Meta};
use crate::tracker::{Conntrack, Metadata};
use packet::ether::ethertype;

/// Number of entries: 512 entries of 32 bytes, so 16 KiB per worker. With few connections, only few of these cache lines are touched, so
/// the cache does not fill the L1 data cache.
const ENTRIES: usize = 1 << ENTRY_BITS;
const ENTRY_BITS: u32 = 9;
/// If less than half of the packets of a batch hit the cache, this many following batches do not use the cache, because the misses cost
/// more than the hits save.
const PAUSE: u8 = 32;

/// The cache of one worker; no other thread uses it.
#[derive(Debug, Default)]
pub struct ConnectionCache {
    /// Empty until the first batch is tracked.
    entries: Box<[Entry]>,
    /// The present batch uses the cache.
    is_used: bool,
    /// Number of following batches that do not use the cache.
    pause: u8,
}

/// The connection of the latest packet with these addresses and ports.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Entry {
    addresses: u64,
    ports: u64,
    meta: Meta,
    /// Number of the record; bit 31: the packet is a reply.
    record: u32,
}

/// The bit of [`Entry::record`] that marks a reply.
const REPLY: u32 = 1 << 31;

/// The index of a packet's entry, by Fibonacci hashing.
#[inline(always)]
fn entry_of(packet: &PacketWords) -> usize {
    const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (packet.addresses ^ packet.ports.rotate_left(13)).wrapping_mul(GOLDEN_RATIO);
    (mixed >> (64 - ENTRY_BITS)) as usize
}

impl ConnectionCache {
    /// Begins a batch and allocates the cache at the first batch. Returns whether the batch uses the cache.
    #[inline]
    pub fn begin(&mut self) -> bool {
        if self.entries.is_empty() {
            self.entries = vec![Entry::default(); ENTRIES].into_boxed_slice();
        }
        self.is_used = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        self.is_used
    }

    /// Ends a batch of `packets` packets, of which `hits` hit the cache.
    #[inline]
    pub fn end(&mut self, packets: usize, hits: usize) {
        if self.is_used && hits * 2 < packets {
            self.pause = PAUSE;
        }
        self.is_used = false;
    }

    /// The cached connection of an IPv4 packet.
    #[inline(always)]
    fn find(&self, packet: &PacketWords) -> Option<CachedConnection> {
        let entry = self.entries.get(entry_of(packet))?;
        let same = entry.addresses == packet.addresses
            && entry.ports == packet.ports
            && entry.meta.is_live_of(packet.meta_bits);
        let &Entry { record, meta, .. } = entry;
        same.then_some(CachedConnection { record: record & !REPLY, reply: record & REPLY != 0, meta })
    }

    /// Stores the connection of an IPv4 packet.
    #[inline(always)]
    pub(crate) fn insert(&mut self, packet: &PacketWords, of: &CachedConnection) {
        if self.is_used
            && let Some(entry) = self.entries.get_mut(entry_of(packet))
        {
            let record = of.record | if of.reply { REPLY } else { 0 };
            *entry = Entry { addresses: packet.addresses, ports: packet.ports, meta: of.meta, record };
        }
    }
}

impl Conntrack {
    /// Tracks a packet that was not tracked before, if its connection is in the cache and the packet changes only the expiry time and TCP
    /// windows. `prepared` must be [tracking only](PreparedAction::is_tracking_only). `false`: nothing was changed; use [`read`](Self::read),
    /// [`prefetch`](Self::prefetch) and [`track_read`](Self::track_read).
    #[inline(always)]
    pub fn track_cached(
        &self,
        packet: &Packet<'_>,
        meta: &mut Metadata,
        prepared: &PreparedAction<'_>,
        (cache, checks): (&ConnectionCache, &mut ChecksumCounts),
    ) -> bool {
        let (mut words, mut verified) = (PacketWords::default(), ChecksumCounts::default());
        if packet.ethertype != ethertype::IPV4
            || words.read_ipv4(packet, prepared.action.zone, &mut verified).is_none()
        {
            return false;
        }
        let Some(cached) = cache.find(&words) else { return false };
        let number = cached.record;
        let Some(record) = prepared.table.record(number) else { return false };
        let Some(found) = record.match_cached(cached.meta, cached.reply, words.addresses_and_ports()) else {
            return false;
        };
        let is_tracked = self.track_only(&words, &found, (number, record), meta, prepared);
        // On a miss the caller reads the packet again, which counts its checksums.
        if is_tracked {
            checks.ip += verified.ip;
            checks.transport += verified.transport;
        }
        is_tracked
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::tracker::Action;
    use flow::Flow;
    use flow::compose::compose;
    use packet::ipproto;
    use proptest::prelude::*;
    use units::Millis;

    /// Bytes of an Ethernet header.
    const ETHERNET: usize = 14;
    const COMMIT: Action = Action { zone: 5, commit: true, ..Action::TRACK };

    /// A packet of connection `n`, from its network header on.
    fn packet(n: u16, tcp: bool, reply: bool, flags: u16, seq: u32) -> Vec<u8> {
        let (client, server) = ((0x0a00_0001, 1024 + n), (0x1400_0001, 80));
        let (src, dst) = if reply { (server, client) } else { (client, server) };
        let flow = Flow {
            dl_type: ethertype::IPV4,
            nw_proto: if tcp { ipproto::TCP } else { ipproto::UDP },
            nw_ttl: 64,
            nw_src: src.0,
            nw_dst: dst.0,
            tp_src: src.1,
            tp_dst: dst.1,
            tcp_flags: flags,
            ..Flow::ZERO
        };
        let mut l3 = compose(&flow, &[7; 20]).split_off(ETHERNET);
        if tcp {
            l3[24..28].copy_from_slice(&seq.to_be_bytes());
        }
        l3
    }

    /// Tracks a packet that was not tracked before, without the cache.
    fn track(ct: &Conntrack, l3: &[u8], now: Millis) -> Metadata {
        let mut meta = Metadata::default();
        ct.track(&Packet { ethertype: ethertype::IPV4, l3, sums: crate::VERIFIED }, &mut meta, &COMMIT, now);
        meta
    }

    proptest! {
        /// A worker with the cache and one without give each packet the same metadata, and have the same connections afterwards, while
        /// connections begin, change, expire and are removed.
        #[test]
        fn cached_connections_equal_those_looked_up(
            steps in prop::collection::vec((0..4u16, any::<bool>(), any::<bool>(), 0..6u8, 0..3u32, 0..20_000u64), 1..120),
        ) {
            let (with_cache, without_cache) = (Conntrack::new(1), Conntrack::new(1));
            let (mut cache, mut now, mut again) = (ConnectionCache::default(), Millis(0), 0);
            for (n, tcp, reply, what, seq, later) in steps {
                now = Millis(now.0 + if later > 19_000 { later * 3 } else { later / 100 });
                if what == 5 && later % 7 == 0 {
                    with_cache.flush(None, &crate::Filter::default());
                    without_cache.flush(None, &crate::Filter::default());
                }
                let flags = match what { 0 => 2, 1 => 0x11, 2 => 4, _ => 0x10 };
                let l3 = packet(n, tcp, reply, flags, seq * 100);
                let packet = Packet { ethertype: ethertype::IPV4, l3: &l3, sums: crate::VERIFIED };
                let (mut meta, prepared) = (Metadata::default(), with_cache.prepare(&COMMIT, now));
                prop_assert!(cache.begin());
                let found = with_cache.track_cached(&packet, &mut meta, &prepared, (&cache, &mut ChecksumCounts::default()));
                again += u32::from(found);
                if !found {
                    let mut read = crate::ReadPacket::default();
                    with_cache.read(&packet, (&meta, true), &prepared, (&mut read, &mut ChecksumCounts::default()));
                    with_cache.prefetch(&mut read, Some(&prepared));
                    with_cache.track_read(&read, (&mut meta, true), &prepared, &mut cache);
                }
                cache.end(1, 1);
                prop_assert_eq!(meta, track(&without_cache, &l3, now));
                prop_assert_eq!(with_cache.dump(None, now), without_cache.dump(None, now));
            }
            prop_assume!(again > 0);
        }
    }

    #[test]
    fn misses_pause_the_cache() {
        let mut cache = ConnectionCache::default();
        assert!(cache.begin());
        cache.end(64, 10);
        assert_eq!((0..PAUSE).filter(|_| cache.begin()).count(), 0);
        assert!(cache.begin());
    }
}
