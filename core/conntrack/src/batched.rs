//! [`Conntrack::track`] in three steps. The datapath does each step for all packets of a batch before the next step, so that the
//! cache misses of different packets overlap.

use crate::checks::Checks;
use crate::established::Plan;
use crate::key::Key;
use crate::nat::{Translation, has_ports};
use crate::packet_fields::{self, Packet, PacketFields, VERIFIED};
use crate::packet_words::{PacketWords, Written};
use crate::recent::Recent;
use crate::tracker::{Action, Conntrack, FirstReply, Known, Metadata, Place, TRANSLATED, TrackedPacket};
use flow::flow::ct_state::{INVALID, TRACKED};
use packet::ether::ethertype;
use packet::ipproto;
use units::Millis;

/// Result of reading a packet, before its connection is looked up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Read<'t> {
    kind: PacketKind,
    place: Place<'t>,
    words: PacketWords,
    fields: Option<PacketFields>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum PacketKind {
    /// Invalid: the packet belongs to no connection.
    #[default]
    Invalid,
    /// The connection is known from an earlier `ct`: no look-up.
    Known,
    /// IPv4, to be looked up, the usual case: `words` is filled.
    Ipv4,
    /// IPv6, to be looked up: `words` is filled.
    Ipv6,
    /// Another packet to be looked up (options, fragments, ICMP and so on): `fields` is filled.
    Other,
}

impl Conntrack {
    /// Finds and updates the connection of a packet, or begins one, and updates `meta`. The caller applies
    /// the returned translation to the packet.
    pub fn track(
        &self,
        packet: &Packet<'_>,
        meta: &mut Metadata,
        action: &Action,
        now: Millis,
    ) -> Option<Translation> {
        let (mut read, mut recent, plan) = (Read::default(), Recent::default(), self.plan(action, now));
        self.read(packet, (meta, false), &plan, (&mut read, &mut Checks::default()));
        _ = self.prefetch(&mut read, Some(&plan));
        match self.track_read(&read, (meta, false), &plan, &mut recent) {
            Written::Nothing => None,
            Written::Ends(ends) => Some(ends.into()),
            Written::Translation(translated) => self.translation(&translated),
        }
    }

    /// Step 1: reads a packet and prefetches the bucket of its hash; counts the checksums that are verified. `fresh`: the packet was not
    /// tracked before; `meta` is not read.
    #[inline(always)]
    pub fn read<'t>(
        &'t self,
        packet: &Packet<'_>,
        (meta, fresh): (&Metadata, bool),
        plan: &Plan<'t>,
        (read, checks): (&mut Read<'t>, &mut Checks),
    ) {
        if !fresh && self.known(meta, plan.action).is_some() {
            read.kind = PacketKind::Known;
        } else if !fresh && meta.known.hash().is_some() && self.read_new(packet, meta, plan, read) {
        } else if packet.ethertype == ethertype::IPV4
            && read.words.read_ipv4(packet, plan.action.zone, checks).is_some()
        {
            read.kind = PacketKind::Ipv4;
            find(read.words.hash_ipv4(&self.chain), plan, read);
        } else {
            self.read_other(packet, plan, (read, checks));
        }
    }

    /// Reads a packet that had no connection at an earlier `ct` of the same zone. Its checksums are not verified again, and its key is
    /// not hashed again. `false`, and nothing done: it is another packet.
    #[inline(never)]
    fn read_new<'t>(
        &'t self,
        packet: &Packet<'_>,
        meta: &Metadata,
        plan: &Plan<'t>,
        read: &mut Read<'t>,
    ) -> bool {
        let zone = plan.action.zone;
        let Some(hash) = meta.known.hash().filter(|_| meta.zone == zone) else { return false };
        if meta.tuple.proto == ipproto::UDP {
            read.words.read_tuple(&meta.tuple, zone);
            read.kind = if meta.tuple.v6 { PacketKind::Ipv6 } else { PacketKind::Ipv4 };
        } else {
            read.fields =
                packet_fields::read(&Packet { sums: VERIFIED, ..*packet }, zone, &mut Checks::default());
            if read.fields.is_none() {
                return false;
            }
            read.kind = PacketKind::Other;
        }
        find(hash, plan, read);
        true
    }

    /// [`read`](Self::read) for all packets but plain IPv4. Not inlined: it would take registers from the IPv4 code.
    #[inline(never)]
    fn read_other<'t>(
        &'t self,
        packet: &Packet<'_>,
        plan: &Plan<'t>,
        (read, checks): (&mut Read<'t>, &mut Checks),
    ) {
        let zone = plan.action.zone;
        if packet.ethertype == ethertype::IPV6 && read.words.read_ipv6(packet, zone, checks).is_some() {
            read.kind = PacketKind::Ipv6;
            return find(read.words.hash_ipv6(&self.chain), plan, read);
        }
        read.fields = packet_fields::read(packet, zone, checks);
        read.kind = PacketKind::Invalid;
        if let Some(fields) = &read.fields {
            read.kind = PacketKind::Other;
            find(fields.key.hash(&self.chain), plan, read);
        }
    }

    /// Step 2: prefetches the record that the packet's connection most likely has, or what its insertion needs. `plan`: that of the
    /// packet, if it is at hand. `true`: the packet is IPv6, so call [`prefetch_addresses`](Self::prefetch_addresses) too.
    #[inline(always)]
    pub fn prefetch<'t>(&'t self, read: &mut Read<'t>, plan: Option<&Plan<'t>>) -> bool {
        if let Some(bucket) = read.place.bucket {
            let table = self.table();
            if let Some(number) = table.guess(bucket, read.place.hash) {
                read.place.guess = table.prefetch_record(number);
            } else if let Some(plan) = plan.filter(|plan| plan.action.commit) {
                self.prefetch_insertion(read, plan);
            }
        }
        read.kind == PacketKind::Ipv6
    }

    /// Prefetches what the insertion of a new connection writes.
    #[inline(never)]
    fn prefetch_insertion<'t>(&'t self, read: &mut Read<'t>, plan: &Plan<'t>) {
        plan.table.prefetch_insertion(read.place.hash);
        let Some(usual) = plan.usual_nat else { return };
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
        let hash = Key::hash_ipv4(meta_bits, addresses, ports, &self.chain);
        plan.table.prefetch_insertion(hash);
        read.place.reply = Some(FirstReply { addresses, ports, hash });
    }

    /// Prefetches the IPv6 addresses of the connection; they are outside its record.
    #[inline(always)]
    pub fn prefetch_addresses(&self, read: &Read<'_>) {
        if let (PacketKind::Ipv6, Some((_, record))) = (read.kind, read.place.guess) {
            self.table().prefetch_addresses(record);
        }
    }

    /// Step 3: finds and updates the connection. `fresh` and `plan` are those that the packet was read with.
    #[inline(always)]
    pub fn track_read(
        &self,
        read: &Read<'_>,
        (meta, fresh): (&mut Metadata, bool),
        plan: &Plan<'_>,
        recent: &mut Recent,
    ) -> Written {
        // The state that another zone has set does not count in this zone.
        let state = if fresh || meta.zone != plan.action.zone { 0 } else { meta.state };
        // Not a closure: a closure that is not inlined is compiled without the caller's vector instructions.
        if let Some((number, record)) = read.place.guess {
            let written = match read.kind {
                PacketKind::Ipv4 => {
                    let packet = &read.words;
                    match record.match_ipv4(packet.meta_bits, packet.addresses, packet.ports) {
                        Some(found) => {
                            // Only the packets of such plans are looked for among recent connections.
                            if fresh && plan.is_plain() {
                                recent.remember(packet, &found.remembered(number));
                                if self.track_plain(packet, &found, (number, record), meta, plan) {
                                    return Written::Nothing;
                                }
                            }
                            self.track_matched(packet, &found, (number, record), (state, meta), plan)
                        }
                        None => None,
                    }
                }
                PacketKind::Ipv6 => self.track_ipv6(&read.words, (number, record), (state, meta), plan),
                _ => None,
            };
            if let Some(written) = written {
                return written;
            }
        } else if state & TRANSLATED == 0
            && let Some(written) = self.track_absent(read, meta, plan)
        {
            return written;
        }
        if fresh {
            *meta = Metadata::default();
        }
        self.track_general(read, meta, plan)
    }

    /// Step 3 for packets of which the index has found no connection.
    #[inline(never)]
    fn track_absent(&self, read: &Read<'_>, meta: &mut Metadata, plan: &Plan<'_>) -> Option<Written> {
        let fields = match read.kind {
            PacketKind::Ipv4 | PacketKind::Ipv6 => read.words.fields(),
            PacketKind::Other => read.fields?,
            PacketKind::Known | PacketKind::Invalid => return None,
        };
        self.begin_absent(&fields, &read.place, meta, plan)
    }

    /// Step 3 for packets that the fast path does not handle.
    #[inline(never)]
    fn track_general(&self, read: &Read<'_>, meta: &mut Metadata, plan: &Plan<'_>) -> Written {
        let &Plan { action, now, .. } = plan;
        let known = if read.kind == PacketKind::Known { self.known(meta, action) } else { None };
        if let Some((found, seen)) = known {
            return self.write_known(&found, seen, meta, action).into();
        }
        if meta.zone != action.zone {
            meta.state = 0;
        }
        (meta.known, meta.control) = (Known::default(), None);
        meta.zone = action.zone;
        let fields = match read.kind {
            PacketKind::Ipv4 | PacketKind::Ipv6 => Some(read.words.fields()),
            PacketKind::Other => read.fields,
            PacketKind::Known | PacketKind::Invalid => None,
        };
        match &fields {
            Some(fields) => {
                self.track_fields(&TrackedPacket { fields, place: read.place, action, now }, meta).into()
            }
            // Another thread has removed the connection since the packet was read.
            None if read.kind == PacketKind::Known => {
                (meta.mark, meta.label) = (0, [0; 2]);
                Written::Nothing
            }
            None => {
                *meta = Metadata { state: INVALID | TRACKED, zone: action.zone, ..Metadata::default() };
                Written::Nothing
            }
        }
    }
}

#[inline(always)]
fn find<'t>(hash: u64, plan: &Plan<'t>, read: &mut Read<'t>) {
    read.place = Place { hash, bucket: plan.table.prefetch(hash), guess: None, reply: None };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Nat, Recent, Side, Transport, UNVERIFIED};
    use flow::Flow;
    use flow::compose::compose;
    use proptest::prelude::*;
    use std::net::{IpAddr, Ipv4Addr};

    /// Bytes of an Ethernet header.
    const ETHERNET: usize = 14;

    /// A packet between two of few ends, of either family: UDP, TCP, ICMP or another protocol.
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

    /// The actions of the test: looks, commits, with and without translation.
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

    /// The same with nothing but the general way.
    fn track_generally(
        ct: &Conntrack,
        packet: &Packet<'_>,
        meta: &mut Metadata,
        action: &Action,
        now: Millis,
    ) -> Written {
        let (mut read, plan) = (Read::default(), ct.plan(action, now));
        if meta.known.hash().is_some() {
            meta.known = Known::default();
        }
        ct.read(packet, (meta, false), &plan, (&mut read, &mut Checks::default()));
        ct.track_general(&read, meta, &plan)
    }

    /// What a packet becomes. Of TCP and UDP over IPv4 it has all addresses and ports, because only one of the two ways says all.
    fn translation(ct: &Conntrack, l3: &[u8], written: Written) -> Option<Translation> {
        let mut t: Translation = match written {
            Written::Nothing => return None,
            Written::Ends(ends) => ends.into(),
            Written::Translation(translated) => ct.translation(&translated)?,
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

    /// Of two packets that are read before either is tracked, the second belongs to the connection that the first begins: also if the
    /// only possible port is taken then, or if the zone is full.
    #[test]
    fn a_second_packet_of_a_batch_finds_the_connection_of_the_first() {
        let (ethertype, l3) = packet(false, ipproto::UDP, (1, 2), 0, false);
        let packet = Packet { ethertype, l3: &l3, sums: UNVERIFIED };
        let one_port = Nat { ports: Some((7000, 7000)), ..actions()[5].nat.expect("it translates") };
        let one_port = Nat { addresses: one_port.addresses.map(|(first, _)| (first, first)), ..one_port };
        for action in [actions()[2], actions()[4], Action { nat: Some(one_port), ..actions()[2] }] {
            let (ct, mut recent) = (Conntrack::new(1), Recent::default());
            ct.set_limit(Some(5), 1);
            let (plan, mut reads) = (ct.plan(&action, Millis(0)), [Read::default(); 2]);
            for read in &mut reads {
                ct.read(&packet, (&Metadata::default(), true), &plan, (read, &mut Checks::default()));
                ct.prefetch(read, Some(&plan));
            }
            let tracked = reads.map(|read| {
                let mut meta = Metadata::default();
                let written = ct.track_read(&read, (&mut meta, true), &plan, &mut recent);
                (meta.state, meta.known, translation(&ct, &l3, written))
            });
            assert_eq!(tracked[0], tracked[1]);
            assert_eq!((ct.count(), ct.take_exhausted()), (1, 0));
        }
    }

    proptest! {
        /// Packets that begin connections are the same in the fast path and in the general path, and leave the same behind: after
        /// one look and after two, where the table or a zone is full, and where another packet was first.
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
            let (actions, mut recent, mut now) = (actions(), Recent::default(), Millis(0));
            for ((v6, proto, ends, flags, wrong), first, second, later) in steps {
                now = Millis(now.0 + u64::from(later) * 20_000);
                let (ethertype, l3) = packet(v6, proto, ends, flags, wrong == 0);
                let packet = Packet { ethertype, l3: &l3, sums: UNVERIFIED };
                let (mut meta, mut meta_general) = (Metadata::default(), Metadata::default());
                for action in [&actions[first], &actions[second]] {
                    let (mut read, plan) = (Read::default(), fast.plan(action, now));
                    fast.read(&packet, (&meta, false), &plan, (&mut read, &mut Checks::default()));
                    fast.prefetch(&mut read, Some(&plan));
                    let written = fast.track_read(&read, (&mut meta, false), &plan, &mut recent);
                    let other = track_generally(&general, &packet, &mut meta_general, action, now);
                    let (a, b) = (translation(&fast, &l3, written), translation(&general, &l3, other));
                    prop_assert_eq!(a, b);
                    let told = |m: &Metadata| (m.state, m.zone, m.mark, m.label, m.tuple);
                    prop_assert_eq!(told(&meta), told(&meta_general));
                    prop_assert_eq!((fast.count(), fast.dump(None, now)), (general.count(), general.dump(None, now)));
                    // What was written changes the packet.
                    if a.is_some() {
                        break;
                    }
                }
            }
        }
    }
}
