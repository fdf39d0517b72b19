//! [`Conntrack::track`] in three steps. The datapath does each step for all packets of a batch before the next step, so that the
//! cache misses of different packets overlap.

use crate::established::Plan;
use crate::nat::Translation;
use crate::packet_words::{PacketWords, Written};
use crate::recent::Recent;
use crate::subject::{self, Packet, Subject};
use crate::tracker::{Action, Conntrack, Known, Metadata, Place, TrackedPacket};
use flow::flow::ct_state::{INVALID, TRACKED};
use packet::ether::ethertype;
use units::Millis;

/// Result of reading a packet, before its connection is looked up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Read<'t> {
    kind: PacketKind,
    place: Place<'t>,
    words: PacketWords,
    subject: Option<Subject>,
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
    /// Another packet to be looked up (options, fragments, ICMP and so on): `subject` is filled.
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
        self.read(packet, (meta, false), &plan, &mut read);
        _ = self.prefetch(&mut read);
        match self.track_read(&read, (meta, false), &plan, &mut recent) {
            Written::Nothing => None,
            Written::Ends(ends) => Some(ends.into()),
            Written::Translation(translated) => self.translation(&translated),
        }
    }

    /// Step 1: reads a packet and prefetches the bucket of its hash. `fresh`: the packet was not tracked before; `meta` is not read.
    #[inline(always)]
    pub fn read<'t>(
        &'t self,
        packet: &Packet<'_>,
        (meta, fresh): (&Metadata, bool),
        plan: &Plan<'t>,
        read: &mut Read<'t>,
    ) {
        if !fresh && self.known(meta, plan.action).is_some() {
            read.kind = PacketKind::Known;
        } else if packet.ethertype == ethertype::IPV4
            && read.words.read_ipv4(packet, plan.action.zone).is_some()
        {
            read.kind = PacketKind::Ipv4;
            find(read.words.hash_ipv4(&self.chain), plan, read);
        } else {
            self.read_other(packet, plan, read);
        }
    }

    /// [`read`](Self::read) for all packets but plain IPv4. Not inlined: it would take registers from the IPv4 code.
    #[inline(never)]
    fn read_other<'t>(&'t self, packet: &Packet<'_>, plan: &Plan<'t>, read: &mut Read<'t>) {
        let zone = plan.action.zone;
        if packet.ethertype == ethertype::IPV6 && read.words.read_ipv6(packet, zone).is_some() {
            read.kind = PacketKind::Ipv6;
            return find(read.words.hash_ipv6(&self.chain), plan, read);
        }
        read.subject = subject::read(packet.ethertype, packet.l3, zone, packet.verify);
        read.kind = PacketKind::Invalid;
        if let Some(subject) = &read.subject {
            read.kind = PacketKind::Other;
            find(subject.key.hash(&self.chain), plan, read);
        }
    }

    /// Step 2: prefetches the record that the packet's connection most likely has. `true`: the packet is IPv6, so call
    /// [`prefetch_addresses`](Self::prefetch_addresses) too.
    #[inline(always)]
    pub fn prefetch<'t>(&'t self, read: &mut Read<'t>) -> bool {
        if let Some(bucket) = read.place.bucket
            && let Some(number) = bucket.guess(read.place.hash)
        {
            read.place.guess = self.table().prefetch_record(number);
        }
        read.kind == PacketKind::Ipv6
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
                            recent.remember(packet, &found.remembered(number));
                            if fresh
                                && plan.is_plain()
                                && self.track_plain(packet, &found, (number, record), meta, plan)
                            {
                                return Written::Nothing;
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
        }
        if fresh {
            *meta = Metadata::default();
        }
        self.track_general(read, meta, plan)
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
        let subject = match read.kind {
            PacketKind::Ipv4 | PacketKind::Ipv6 => Some(read.words.subject()),
            PacketKind::Other => read.subject,
            PacketKind::Known | PacketKind::Invalid => None,
        };
        match &subject {
            Some(subject) => {
                self.track_subject(&TrackedPacket { subject, place: read.place, action, now }, meta).into()
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
    read.place = Place { hash, bucket: plan.table.prefetch(hash), guess: None };
}
