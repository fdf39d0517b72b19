//! A worker's cache of the connections of recent IPv4 packets. A packet that hits it needs neither the keyed hash nor the index.
//!
//! An entry of the cache contains the addresses and ports of a packet, the number of its connection's record, and the first word of that
//! record. As long as this word is unchanged, the record holds the same connection, so the packet's key is not compared with the
//! record's. A sender that makes its packets collide in one entry only causes look-ups in the index.

use crate::checks::Checks;
use crate::established::Plan;
use crate::packet_fields::Packet;
use crate::packet_words::PacketWords;
use crate::record::{Meta, Remembered};
use crate::tracker::{Conntrack, Metadata};
use packet::ether::ethertype;

/// Number of entries: 512 of 32 bytes, so 16 KiB for each worker. Few connections use few of these cache lines.
const ENTRIES: usize = 1 << ENTRY_BITS;
const ENTRY_BITS: u32 = 9;
/// Number of batches that do not use the cache after a batch of which less than half of the packets hit it: in such a batch the misses
/// cost more than the hits save.
const PAUSE: u8 = 32;

/// The cache of one worker; no other thread uses it.
#[derive(Debug, Default)]
pub struct Recent {
    /// Empty until the first batch is tracked.
    entries: Box<[Entry]>,
    is_used: bool,
    pause: u8,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Entry {
    addresses: u64,
    ports: u64,
    meta: Meta,
    /// Number of the record; bit 31: the packet is a reply.
    record: u32,
}

const REPLY: u32 = 1 << 31;

/// The index of a packet's entry.
#[inline(always)]
fn entry_of(packet: &PacketWords) -> usize {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let mixed = (packet.addresses ^ packet.ports.rotate_left(13)).wrapping_mul(ODD);
    (mixed >> (64 - ENTRY_BITS)) as usize
}

impl Recent {
    /// Begins a batch. Returns whether its packets are looked up in the cache.
    #[inline]
    pub fn begin(&mut self) -> bool {
        if self.entries.is_empty() {
            self.entries = vec![Entry::default(); ENTRIES].into_boxed_slice();
        }
        self.is_used = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        self.is_used
    }

    /// Ends a batch of `packets` packets, of which `found` were found in the cache.
    #[inline]
    pub fn end(&mut self, packets: usize, found: usize) {
        if self.is_used && found * 2 < packets {
            self.pause = PAUSE;
        }
        self.is_used = false;
    }

    /// The cached connection of an IPv4 packet.
    #[inline(always)]
    fn find(&self, packet: &PacketWords) -> Option<Remembered> {
        let entry = self.entries.get(entry_of(packet))?;
        let same = entry.addresses == packet.addresses
            && entry.ports == packet.ports
            && entry.meta.is_live_of(packet.meta_bits);
        let &Entry { record, meta, .. } = entry;
        same.then_some(Remembered { record: record & !REPLY, reply: record & REPLY != 0, meta })
    }

    /// Stores the connection of an IPv4 packet.
    #[inline(always)]
    pub(crate) fn remember(&mut self, packet: &PacketWords, of: &Remembered) {
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
    /// windows. The plan must be [plain](Plan::is_plain). `false`: nothing was changed; take the three steps of `batched.rs`.
    #[inline(always)]
    pub fn track_remembered(
        &self,
        packet: &Packet<'_>,
        meta: &mut Metadata,
        plan: &Plan<'_>,
        (recent, checks): (&Recent, &mut Checks),
    ) -> bool {
        let (mut words, mut verified) = (PacketWords::default(), Checks::default());
        if packet.ethertype != ethertype::IPV4
            || words.read_ipv4(packet, plan.action.zone, &mut verified).is_none()
        {
            return false;
        }
        let Some(remembered) = recent.find(&words) else { return false };
        let number = remembered.record;
        let Some(record) = plan.table.record(number) else { return false };
        let Some(found) = record.match_remembered(remembered.meta, remembered.reply, words.words()) else {
            return false;
        };
        let is_tracked = self.track_plain(&words, &found, (number, record), meta, plan);
        // Otherwise the packet is read again.
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
        /// A worker with the cache and one that looks up every packet give each packet the same metadata, and have the same
        /// connections afterwards, while connections begin, change, expire and are removed.
        #[test]
        fn cached_connections_equal_those_looked_up(
            steps in prop::collection::vec((0..4u16, any::<bool>(), any::<bool>(), 0..6u8, 0..3u32, 0..20_000u64), 1..120),
        ) {
            let (remembers, looks_up) = (Conntrack::new(1), Conntrack::new(1));
            let (mut recent, mut now, mut again) = (Recent::default(), Millis(0), 0);
            for (n, tcp, reply, what, seq, later) in steps {
                now = Millis(now.0 + if later > 19_000 { later * 3 } else { later / 100 });
                if what == 5 && later % 7 == 0 {
                    remembers.flush(None, &crate::Filter::default());
                    looks_up.flush(None, &crate::Filter::default());
                }
                let flags = match what { 0 => 2, 1 => 0x11, 2 => 4, _ => 0x10 };
                let l3 = packet(n, tcp, reply, flags, seq * 100);
                let packet = Packet { ethertype: ethertype::IPV4, l3: &l3, sums: crate::VERIFIED };
                let (mut meta, plan) = (Metadata::default(), remembers.plan(&COMMIT, now));
                prop_assert!(recent.begin());
                let found = remembers.track_remembered(&packet, &mut meta, &plan, (&recent, &mut Checks::default()));
                again += u32::from(found);
                if !found {
                    let mut read = crate::Read::default();
                    remembers.read(&packet, (&meta, true), &plan, (&mut read, &mut Checks::default()));
                    remembers.prefetch(&mut read, Some(&plan));
                    remembers.track_read(&read, (&mut meta, true), &plan, &mut recent);
                }
                recent.end(1, 1);
                prop_assert_eq!(meta, track(&looks_up, &l3, now));
                prop_assert_eq!(remembers.dump(None, now), looks_up.dump(None, now));
            }
            prop_assume!(again > 0);
        }
    }

    #[test]
    fn misses_pause_the_cache() {
        let mut recent = Recent::default();
        assert!(recent.begin());
        recent.end(64, 10);
        assert_eq!((0..PAUSE).filter(|_| recent.begin()).count(), 0);
        assert!(recent.begin());
    }
}
