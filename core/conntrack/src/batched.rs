//! [`Conntrack::track`] in three steps: read, prefetch, track. The datapath does each step for all packets of a batch before the next step,
//! so that the cache misses of different packets overlap.

use crate::checks::ChecksumCounts;
use crate::connection_cache::ConnectionCache;
use crate::established::PreparedAction;
use crate::key::Key;
use crate::nat::{Translation, has_ports};
use crate::packet_fields::{self, Packet, PacketFields, VERIFIED};
use crate::packet_words::{PacketEdit, PacketWords};
use crate::tracker::{
    Action, Conntrack, EarlierLookUp, FirstReply, IndexHint, Metadata, TRANSLATED, TrackedPacket,
};
use flow::flow::ct_state::{INVALID, TRACKED};
use packet::ether::ethertype;
use packet::ipproto;
use units::Millis;

/// Result of step 1: a packet's fields, and where its connection may be found.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadPacket<'t> {
    kind: PacketKind,
    hint: IndexHint<'t>,
    words: PacketWords,
    fields: Option<PacketFields>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PacketKind {
    /// The packet is invalid: it belongs to no connection.
    #[default]
    Invalid,
    /// An earlier `ct` of the same zone has found the connection, so the packet needs no look-up.
    LookedUp,
    /// TCP or UDP over IPv4 without options, the most frequent kind. The packet must be looked up; `words` is filled.
    Ipv4,
    /// TCP or UDP over IPv6 without extension headers. The packet must be looked up; `words` is filled.
    Ipv6,
    /// Another packet that must be looked up (options, ICMP, SYN and so on); `fields` is filled.
    Other,
}

impl Conntrack {
    /// Tracks one packet: finds and updates its connection, or begins one, and updates `meta`. The caller applies the returned translation
    /// to the packet.
    pub fn track(
        &self,
        packet: &Packet<'_>,
        meta: &mut Metadata,
        action: &Action,
        now: Millis,
    ) -> Option<Translation> {
        let (mut read, mut cache, prepared) =
            (ReadPacket::default(), ConnectionCache::default(), self.prepare(action, now));
        self.read(packet, (meta, false), &prepared, (&mut read, &mut ChecksumCounts::default()));
        _ = self.prefetch(&mut read, Some(&prepared));
        match self.track_read(&read, (meta, false), &prepared, &mut cache) {
            PacketEdit::Nothing => None,
            PacketEdit::Endpoints(ends) => Some(ends.into()),
            PacketEdit::Translation(translated) => self.translation(&translated),
        }
    }

    /// Step 1: reads a packet, prefetches the bucket of its hash, and counts the checksums that it verifies. `fresh`: the packet was not
    /// tracked before, so `meta` is not read.
    #[inline(always)]
    pub fn read<'t>(
        &'t self,
        packet: &Packet<'_>,
        (meta, fresh): (&Metadata, bool),
        prepared: &PreparedAction<'t>,
        (read, checks): (&mut ReadPacket<'t>, &mut ChecksumCounts),
    ) {
        if !fresh && self.earlier_connection(meta, prepared.action).is_some() {
            read.kind = PacketKind::LookedUp;
        } else if !fresh
            && meta.earlier.hash().is_some()
            && self.read_without_connection(packet, meta, prepared, read)
        {
        } else if packet.ethertype == ethertype::IPV4
            && read.words.read_ipv4(packet, prepared.action.zone, checks).is_some()
        {
            read.kind = PacketKind::Ipv4;
            prefetch_bucket(read.words.hash_ipv4(&self.key_hash), prepared, read);
        } else {
            self.read_other(packet, prepared, (read, checks));
        }
    }

    /// Reads a packet that had no connection at an earlier `ct` of the same zone. Its checksums are not verified again, and its key is not
    /// hashed again. `false`: nothing was read, because the earlier `ct` was of another zone or the packet is invalid; use the other read functions.
    #[inline(never)]
    fn read_without_connection<'t>(
        &'t self,
        packet: &Packet<'_>,
        meta: &Metadata,
        prepared: &PreparedAction<'t>,
        read: &mut ReadPacket<'t>,
    ) -> bool {
        let zone = prepared.action.zone;
        let Some(hash) = meta.earlier.hash().filter(|_| meta.zone == zone) else { return false };
        if meta.tuple.proto == ipproto::UDP {
            read.words.read_tuple(&meta.tuple, zone);
            read.kind = if meta.tuple.v6 { PacketKind::Ipv6 } else { PacketKind::Ipv4 };
        } else {
            read.fields = packet_fields::read(
                &Packet { sums: VERIFIED, ..*packet },
                zone,
                &mut ChecksumCounts::default(),
            );
            if read.fields.is_none() {
                return false;
            }
            read.kind = PacketKind::Other;
        }
        prefetch_bucket(hash, prepared, read);
        true
    }

    /// [`read`](Self::read) for all packets that [`PacketWords::read_ipv4`] does not handle. Not inlined, because its code would take
    /// registers from the IPv4 code.
    #[inline(never)]
    fn read_other<'t>(
        &'t self,
        packet: &Packet<'_>,
        prepared: &PreparedAction<'t>,
        (read, checks): (&mut ReadPacket<'t>, &mut ChecksumCounts),
    ) {
        let zone = prepared.action.zone;
        if packet.ethertype == ethertype::IPV6 && read.words.read_ipv6(packet, zone, checks).is_some() {
            read.kind = PacketKind::Ipv6;
            return prefetch_bucket(read.words.hash_ipv6(&self.key_hash), prepared, read);
        }
        read.fields = packet_fields::read(packet, zone, checks);
        read.kind = PacketKind::Invalid;
        if let Some(fields) = &read.fields {
            read.kind = PacketKind::Other;
            prefetch_bucket(fields.key.hash(&self.key_hash), prepared, read);
        }
    }

    /// Step 2: prefetches the record that most likely holds the packet's connection. If the index has no entry for the packet and `prepared`
    /// commits, prefetches what the insertion of a connection accesses. `prepared`: the action that the packet was read with; `None`: this
    /// prefetch is omitted. Returns `true` if the packet is IPv6: then call [`prefetch_addresses`](Self::prefetch_addresses), too.
    #[inline(always)]
    pub fn prefetch<'t>(&'t self, read: &mut ReadPacket<'t>, prepared: Option<&PreparedAction<'t>>) -> bool {
        if let Some(bucket) = read.hint.bucket {
            let table = self.table();
            if let Some(number) = table.guess(bucket, read.hint.hash) {
                read.hint.guess = table.prefetch_record(number);
            } else if let Some(prepared) = prepared.filter(|prepared| prepared.action.commit) {
                self.prefetch_insertion(read, prepared);
            }
        }
        read.kind == PacketKind::Ipv6
    }

    /// Prefetches what the insertion of a new connection reads and writes: index buckets and shard locks of both keys. Computes the reply
    /// key that will most likely be chosen.
    #[inline(never)]
    fn prefetch_insertion<'t>(&'t self, read: &mut ReadPacket<'t>, prepared: &PreparedAction<'t>) {
        prepared.table.prefetch_insertion(read.hint.hash);
        let Some(usual) = prepared.fixed_nat else { return };
        let (meta_bits, addresses, ports) = match (read.kind, &read.fields) {
            (PacketKind::Ipv4, _) => (read.words.meta_bits, read.words.addresses, read.words.ports),
            (PacketKind::Other, Some(PacketFields { key, related: false, .. }))
                if !key.v6 && has_ports(key.proto) =>
            {
                (key.meta_bits(), key.address_word(), key.port_word())
            }
            _ => return,
        };
        let (addresses, ports) = usual.reply(addresses, ports);
        let hash = Key::hash_ipv4(meta_bits, addresses, ports, &self.key_hash);
        prepared.table.prefetch_insertion(hash);
        read.hint.reply = Some(FirstReply { addresses, ports, hash });
    }

    /// Prefetches the IPv6 addresses of the connection, which are outside its record.
    #[inline(always)]
    pub fn prefetch_addresses(&self, read: &ReadPacket<'_>) {
        if let (PacketKind::Ipv6, Some((_, record))) = (read.kind, read.hint.guess) {
            self.table().prefetch_addresses(record);
        }
    }

    /// Step 3: finds and updates the connection, or begins one. `fresh` and `prepared` must be the values that the packet was read with.
    #[inline(always)]
    pub fn track_read(
        &self,
        read: &ReadPacket<'_>,
        (meta, fresh): (&mut Metadata, bool),
        prepared: &PreparedAction<'_>,
        cache: &mut ConnectionCache,
    ) -> PacketEdit {
        // `ct_state` bits that another zone has set do not count in this zone.
        let state = if fresh || meta.zone != prepared.action.zone { 0 } else { meta.state };
        // No closure here: a closure that is not inlined is compiled without the vector instructions of its caller.
        if let Some((number, record)) = read.hint.guess {
            let edit = match read.kind {
                PacketKind::Ipv4 => {
                    let packet = &read.words;
                    match record.match_ipv4(packet.meta_bits, packet.addresses, packet.ports) {
                        Some(found) => {
                            // What `track_cached` looks up: connections of packets that were not tracked before, with an action that only tracks.
                            if fresh && prepared.is_tracking_only() {
                                cache.insert(packet, &found.cached(number));
                                if self.track_only(packet, &found, (number, record), meta, prepared) {
                                    return PacketEdit::Nothing;
                                }
                            }
                            self.track_matched(packet, &found, (number, record), (state, meta), prepared)
                        }
                        None => None,
                    }
                }
                PacketKind::Ipv6 => self.track_ipv6(&read.words, (number, record), (state, meta), prepared),
                _ => None,
            };
            if let Some(edit) = edit {
                return edit;
            }
        } else if state & TRANSLATED == 0
            && let Some(edit) = self.track_absent(read, meta, prepared)
        {
            return edit;
        }
        if fresh {
            *meta = Metadata::default();
        }
        self.track_general(read, meta, prepared)
    }

    /// Step 3 for packets for which the index has found no connection.
    #[inline(never)]
    fn track_absent(
        &self,
        read: &ReadPacket<'_>,
        meta: &mut Metadata,
        prepared: &PreparedAction<'_>,
    ) -> Option<PacketEdit> {
        let fields = match read.kind {
            PacketKind::Ipv4 | PacketKind::Ipv6 => read.words.fields(),
            PacketKind::Other => read.fields?,
            PacketKind::LookedUp | PacketKind::Invalid => return None,
        };
        self.begin_absent(&fields, &read.hint, meta, prepared)
    }

    /// Step 3 for packets that the fast path does not handle.
    #[inline(never)]
    fn track_general(
        &self,
        read: &ReadPacket<'_>,
        meta: &mut Metadata,
        prepared: &PreparedAction<'_>,
    ) -> PacketEdit {
        let &PreparedAction { action, now, .. } = prepared;
        let earlier =
            if read.kind == PacketKind::LookedUp { self.earlier_connection(meta, action) } else { None };
        if let Some((found, seen)) = earlier {
            return self.track_again(&found, seen, meta, action).into();
        }
        if meta.zone != action.zone {
            meta.state = 0;
        }
        (meta.earlier, meta.control) = (EarlierLookUp::default(), None);
        meta.zone = action.zone;
        let fields = match read.kind {
            PacketKind::Ipv4 | PacketKind::Ipv6 => Some(read.words.fields()),
            PacketKind::Other => read.fields,
            PacketKind::LookedUp | PacketKind::Invalid => None,
        };
        match &fields {
            Some(fields) => {
                self.track_fields(&TrackedPacket { fields, hint: read.hint, action, now }, meta).into()
            }
            // Another thread has removed the connection since the packet was read. The packet keeps its `ct_state` from the earlier `ct`.
            None if read.kind == PacketKind::LookedUp => {
                (meta.mark, meta.label) = (0, [0; 2]);
                PacketEdit::Nothing
            }
            None => {
                *meta = Metadata { state: INVALID | TRACKED, zone: action.zone, ..Metadata::default() };
                PacketEdit::Nothing
            }
        }
    }
}

/// Stores the hash of a packet's connection, and requests the cache line of its bucket.
#[inline(always)]
fn prefetch_bucket<'t>(hash: u64, prepared: &PreparedAction<'t>, read: &mut ReadPacket<'t>) {
    read.hint = IndexHint { hash, bucket: prepared.table.prefetch(hash), guess: None, reply: None };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{ConnectionCache, Nat, Side, Transport, UNVERIFIED};
    use flow::Flow;
    use flow::compose::compose;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr};

    /// Length of an Ethernet header in bytes.
    const ETHERNET: usize = 14;

    /// A packet between two of a few endpoints, IPv4 or IPv6: UDP, TCP, ICMP or another protocol. `wrong`: the packet has a wrong checksum.
    fn packet(v6: bool, proto: u8, (from, to): (u8, u8), flags: u16, wrong: bool) -> (u16, Vec<u8>) {
        let is_icmp = proto == ipproto::ICMP;
        let flow = Flow {
            dl_type: if v6 { ethertype::IPV6 } else { ethertype::IPV4 },
            nw_proto: if is_icmp && v6 { ipproto::ICMPV6 } else { proto },
            nw_ttl: 64,
            nw_src: 0x0a00_0000 + u32::from(from),
            nw_dst: 0x0a00_0000 + u32::from(to),
            ipv6_src: [from; 16],
            ipv6_dst: [to; 16],
            tp_src: match (is_icmp, v6) {
                (true, false) => 8,
                (true, true) => 128,
                _ => 1000 + u16::from(from),
            },
            tp_dst: if is_icmp { 0 } else { 1000 + u16::from(to) },
            tcp_flags: flags,
            ..Flow::ZERO
        };
        let mut l3 = compose(&flow, b"eight by").split_off(ETHERNET);
        let last = l3.len() - 1;
        l3[last] ^= u8::from(wrong);
        (flow.dl_type, l3)
    }

    /// The actions of the test: without and with commit, without and with translation.
    fn actions() -> [Action; 7] {
        let nat = |last, ports| {
            let address = |n| IpAddr::V4(Ipv4Addr::new(30, 0, 0, n));
            let addresses = Some((address(1), address(last)));
            Some(Nat { side: Some(Side::Source), addresses, ports, ..Nat::default() })
        };
        let commit = Action { zone: 5, commit: true, ..Action::TRACK };
        [
            Action { zone: 5, ..Action::TRACK },
            Action { zone: 5, nat: Some(Nat::default()), ..Action::TRACK },
            commit,
            Action { mark: Some((3, 7)), label: Some(([1, 2], [1, 3])), ..commit },
            Action { nat: nat(1, None), ..commit },
            Action { nat: nat(2, Some((7000, 7002))), mark: Some((9, 9)), ..commit },
            Action { force: true, ..commit },
        ]
    }

    /// Tracks a packet on the general path only.
    fn track_generally(
        ct: &Conntrack,
        packet: &Packet<'_>,
        meta: &mut Metadata,
        action: &Action,
        now: Millis,
    ) -> PacketEdit {
        let (mut read, prepared) = (ReadPacket::default(), ct.prepare(action, now));
        if meta.earlier.hash().is_some() {
            meta.earlier = EarlierLookUp::default();
        }
        ct.read(packet, (meta, false), &prepared, (&mut read, &mut ChecksumCounts::default()));
        ct.track_general(&read, meta, &prepared)
    }

    /// The translation of a packet. For TCP and UDP over IPv4 it always has all addresses and ports, because the fast path returns all of
    /// them and the general path only those that change.
    fn translation(ct: &Conntrack, l3: &[u8], edit: PacketEdit) -> Option<Translation> {
        let mut t: Translation = match edit {
            PacketEdit::Nothing => return None,
            PacketEdit::Endpoints(ends) => ends.into(),
            PacketEdit::Translation(translated) => ct.translation(&translated)?,
        };
        if !t.v6 && matches!(l3[9], ipproto::TCP | ipproto::UDP) {
            let word = |at: usize| u16::from_be_bytes([l3[at], l3[at + 1]]);
            let address = |at: usize| Some([0, u64::from(word(at)) << 16 | u64::from(word(at + 2))]);
            (t.src, t.dst) = (t.src.or(address(12)), t.dst.or(address(16)));
            if t.transport == Transport::Same {
                t.transport = Transport::Ports(word(20), word(22));
            }
        }
        Some(t)
    }

    /// Two packets are read before either is tracked. The second one belongs to the connection that the first one begins, even if this
    /// connection takes the only port or fills the zone.
    #[test]
    fn a_second_packet_of_a_batch_finds_the_connection_of_the_first() {
        let (ethertype, l3) = packet(false, ipproto::UDP, (1, 2), 0, false);
        let packet = Packet { ethertype, l3: &l3, sums: UNVERIFIED };
        let one_port = Nat { ports: Some((7000, 7000)), ..actions()[5].nat.expect("it translates") };
        let one_port = Nat { addresses: one_port.addresses.map(|(first, _)| (first, first)), ..one_port };
        for action in [actions()[2], actions()[4], Action { nat: Some(one_port), ..actions()[2] }] {
            let (ct, mut cache) = (Conntrack::new(1), ConnectionCache::default());
            ct.set_limit(Some(5), 1);
            let (prepared, mut reads) = (ct.prepare(&action, Millis(0)), [ReadPacket::default(); 2]);
            for read in &mut reads {
                ct.read(
                    &packet,
                    (&Metadata::default(), true),
                    &prepared,
                    (read, &mut ChecksumCounts::default()),
                );
                ct.prefetch(read, Some(&prepared));
            }
            let tracked = reads.map(|read| {
                let mut meta = Metadata::default();
                let edit = ct.track_read(&read, (&mut meta, true), &prepared, &mut cache);
                (meta.state, meta.earlier, translation(&ct, &l3, edit))
            });
            assert_eq!(tracked[0], tracked[1]);
            assert_eq!((ct.count(), ct.take_exhausted()), (1, 0));
        }
    }

    proptest! {
        /// Fast path and general path give packets that begin connections the same metadata, and leave the same connections behind: with
        /// one and with two `ct` actions, with a full table or zone, and after other packets of the same connection.
        #[test]
        fn connections_begin_the_same_in_both_ways(
            steps in prop::collection::vec(
                ((any::<bool>(), prop::sample::select(vec![17, 17, 6, 1, 47, 132]), (0..5u8, 0..5u8),
                  prop::sample::select(vec![2u16, 0x10, 0x12, 4]), 0..9u8), 0..7usize, 0..7usize, 0..3u32),
                1..60,
            ),
            most in 3..20u32,
            limit in 2..20u32,
        ) {
            let (fast, general) = (Conntrack::new(1), Conntrack::new(1));
            for ct in [&fast, &general] {
                ct.set_max(most);
                ct.set_limit(Some(5), limit);
            }
            let (actions, mut cache, mut now) = (actions(), ConnectionCache::default(), Millis(0));
            for ((v6, proto, ends, flags, wrong), first, second, later) in steps {
                now = Millis(now.0 + u64::from(later) * 20_000);
                let (ethertype, l3) = packet(v6, proto, ends, flags, wrong == 0);
                let packet = Packet { ethertype, l3: &l3, sums: UNVERIFIED };
                let (mut meta, mut meta_general) = (Metadata::default(), Metadata::default());
                for action in [&actions[first], &actions[second]] {
                    let (mut read, prepared) = (ReadPacket::default(), fast.prepare(action, now));
                    fast.read(&packet, (&meta, false), &prepared, (&mut read, &mut ChecksumCounts::default()));
                    fast.prefetch(&mut read, Some(&prepared));
                    let edit = fast.track_read(&read, (&mut meta, false), &prepared, &mut cache);
                    let other = track_generally(&general, &packet, &mut meta_general, action, now);
                    let (a, b) = (translation(&fast, &l3, edit), translation(&general, &l3, other));
                    prop_assert_eq!(a, b);
                    let told = |m: &Metadata| (m.state, m.zone, m.mark, m.label, m.tuple);
                    prop_assert_eq!(told(&meta), told(&meta_general));
                    prop_assert_eq!((fast.count(), fast.dump(None, now)), (general.count(), general.dump(None, now)));
                    // A translated packet would have other addresses at the second `ct`.
                    if a.is_some() {
                        break;
                    }
                }
            }
        }
    }
}
