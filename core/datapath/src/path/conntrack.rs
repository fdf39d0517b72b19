//! `ct`: passes packets to the connection tracker, and writes the results into their keys, metadata and bytes.
//!
//! [`track_batch`] tracks the packets of a batch in place and updates their keys; [`track`] tracks packets of a group.

use super::extract;
use crate::action::{helper, nat};
use crate::batch::{BATCH, Batch};
use crate::engine::Engine;
use crate::engine::tracking::Tracking;
use crate::packet::{Meta, Packet, Rare};
use crate::port::Frame;
use crate::tally::Tally;
use crate::tracked::write_line;
use crate::verified::Verified;
use classifier::megaflow::Depth;
use conntrack::{
    Action, Checks, Conntrack, Control, Ends, Known, Metadata, Plan, Read, Recent, Tuple, UNVERIFIED,
    VERIFIED, Written,
};
use cpu::{Level, Line, Stage};
use flow::flow::ct_state::{INVALID, TRACKED};
use flow::flow::frag;
use packet::ethertype;
use packet::rx_checksums::RxChecksum;
use units::Millis;

/// Number of packets whose connections are looked up together.
const TOGETHER: usize = 16;

/// Bytes of Ethernet and IPv4 headers.
const HEADERS: usize = 34;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Returns whether an Ethernet frame may be a fragment. For IPv4 without tags, the usual case, this takes two comparisons.
#[inline]
pub(super) fn may_be_fragment(frame: &Frame) -> bool {
    match frame.head().first_chunk::<HEADERS>() {
        Some(head) if head[12..14] == ethertype::IPV4.to_be_bytes() => (head[20] & 0x3f) | head[21] != 0,
        _ => {
            let (dl_type, l3) = network(frame.bytes());
            reassembly::may_be_fragment(dl_type, l3)
        }
    }
}

/// Returns whether all packets of the batch are Ethernet and no packet is a fragment.
#[inline]
pub(super) fn are_whole(batch: &Batch) -> bool {
    let ethernet = batch.common.packet_type == 0;
    if batch.depth >= Depth::L3 {
        let keys = &batch.lines[..batch.keys().min(BATCH)];
        return ethernet && keys.iter().fold(0, |bits, line| bits | line[4]) & u64::from(frag::ANY) == 0;
    }
    ethernet && !batch.frames.iter().any(may_be_fragment)
}

/// The Ethernet type of a frame behind its tags, and the packet from its network header on.
#[inline(always)]
fn network(data: &[u8]) -> (u16, &[u8]) {
    if let Some((head, l3)) = data.split_at_checked(ETHERNET) {
        let dl_type = u16::from_be_bytes([head[12], head[13]]);
        if matches!(dl_type, ethertype::IPV4 | ethertype::IPV6) {
            return (dl_type, l3);
        }
    }
    tagged(data)
}

#[cold]
fn tagged(data: &[u8]) -> (u16, &[u8]) {
    let layout = crate::layout::Layout::of(data, 0);
    (layout.dl_type, data.get(usize::from(layout.l3)..).unwrap_or_default())
}

/// What is known of the checksums of a packet with this `ct_state`: an earlier `ct` has verified them, or what a device stated.
#[inline(always)]
fn sums_of(frame: &Frame, state: u8) -> [RxChecksum; 2] {
    if state & (TRACKED | INVALID) == TRACKED {
        VERIFIED
    } else if frame.has_offload_state() {
        frame.stated()
    } else {
        UNVERIFIED
    }
}

/// Counts the verifications of checksums.
#[inline]
fn count(tally: &mut Tally, checks: &Checks) {
    let &Checks { ip, ip_wrong, transport, transport_wrong } = checks;
    let counts = [
        (Verified::TrackedIp, ip),
        (Verified::TrackedIpWrong, ip_wrong),
        (Verified::TrackedTransport, transport),
        (Verified::TrackedTransportWrong, transport_wrong),
    ];
    counts.into_iter().for_each(|(what, n)| tally.verify(what, n));
}

/// The actions of the packets of a batch.
pub(super) trait Actions {
    /// The action of packet `i`.
    fn of(&self, i: usize) -> Option<&Action>;
    /// The action of all packets, if it is the same.
    fn same(&self) -> Option<&Action>;
    /// The first action.
    fn first(&self) -> Option<&Action>;
}

impl Actions for Action {
    #[inline(always)]
    fn of(&self, _: usize) -> Option<&Action> {
        Some(self)
    }

    #[inline(always)]
    fn same(&self) -> Option<&Action> {
        Some(self)
    }

    fn first(&self) -> Option<&Action> {
        Some(self)
    }
}

impl Actions for [Option<&Action>; BATCH] {
    #[inline(always)]
    fn of(&self, i: usize) -> Option<&Action> {
        self[i % BATCH]
    }

    #[inline(always)]
    fn same(&self) -> Option<&Action> {
        None
    }

    fn first(&self) -> Option<&Action> {
        self.iter().flatten().next().copied()
    }
}

/// Tracks the packets of the batch that have an action, in order. The packets must [be whole](are_whole) and share their metadata.
pub(super) fn track_batch(engine: &mut Engine, actions: &impl Actions) {
    let Engine { batch, tracking: Tracking { conntrack, connections, .. }, now, tally, .. } = engine;
    let (conntrack, mut checks): (&Conntrack, _) = (conntrack, Checks::default());
    let Some(plan) = actions.first().map(|action| conntrack.plan(action, *now)) else { return };
    batch.tell_apart();
    let mut tracked = std::mem::take(&mut batch.tracked);
    let (known, fresh) = tracked.open(batch.len().min(BATCH));
    let looks = fresh && actions.same().is_some() && plan.is_plain() && connections.begin();
    let (mut first, mut found, mut reads) = (0, 0, None);
    while first < known.len() {
        if looks {
            let n = cpu::stage(TrackCached {
                batch,
                conntrack,
                recent: connections,
                checks: &mut checks,
                plan: &plan,
                known: &mut *known,
                first,
            });
            (first, found) = (first + n, found + n);
        }
        let end = known.len().min(first + TOGETHER);
        if first < end {
            let known = &mut known[first..end];
            let (recent, reads) = (&mut *connections, reads.get_or_insert_default());
            cpu::stage(Track {
                batch,
                conntrack,
                recent,
                checks: &mut checks,
                reads,
                plan,
                now: *now,
                known,
                fresh,
                actions,
                first,
            });
        }
        first = end;
    }
    connections.end(known.len(), found);
    count(tally, &checks);
    batch.tracked = tracked;
    batch.fill_connections();
}

/// Tracks packets from `first` on, as long as their connections are in the worker's cache; returns how many.
struct TrackCached<'b, 'p> {
    batch: &'b mut Batch,
    conntrack: &'b Conntrack,
    recent: &'b Recent,
    checks: &'b mut Checks,
    plan: &'b Plan<'p>,
    known: &'b mut [Metadata],
    first: usize,
}

impl Stage for TrackCached<'_, '_> {
    type Out = usize;

    #[inline(always)]
    fn run<L: Level>(self, _: L) -> usize {
        let TrackCached { batch, conntrack, recent, checks, plan, known, first } = self;
        let Batch { frames, lines, .. } = batch;
        let mut n = 0;
        for ((frame, line), known) in frames[first..].iter().zip(&mut lines[first..]).zip(&mut known[first..])
        {
            let (ethertype, l3) = network(frame.bytes());
            let packet = conntrack::Packet { ethertype, l3, sums: sums_of(frame, 0) };
            if !conntrack.track_remembered(&packet, known, plan, (recent, &mut *checks)) {
                break;
            }
            write_line(line, known);
            n += 1;
        }
        n
    }
}

/// Tracks packets from `first` on, one for each element of `known`.
struct Track<'b, 'p, A> {
    batch: &'b mut Batch,
    conntrack: &'p Conntrack,
    recent: &'b mut Recent,
    checks: &'b mut Checks,
    /// Memory for the result of reading each packet.
    reads: &'b mut [Read<'p>; TOGETHER],
    /// The plan of the first action.
    plan: Plan<'p>,
    now: Millis,
    /// The connection tracking metadata of each packet. `fresh`: no packet was tracked before; the values are not read.
    known: &'b mut [Metadata],
    fresh: bool,
    actions: &'p A,
    first: usize,
}

impl<A: Actions> Stage for Track<'_, '_, A> {
    type Out = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Track { batch, conntrack, recent, checks, reads, mut plan, now, known, fresh, actions, first } =
            self;
        let frames = &batch.frames[first..];
        for (n, (read, (frame, known))) in reads.iter_mut().zip(frames.iter().zip(&*known)).enumerate() {
            let Some(action) = actions.of(first + n) else { continue };
            let plan = plan_of(actions, &mut plan, (conntrack, action, now));
            let (ethertype, l3) = network(frame.bytes());
            let sums = sums_of(frame, if fresh { 0 } else { known.state });
            conntrack.read(
                &conntrack::Packet { ethertype, l3, sums },
                (known, fresh),
                plan,
                (read, &mut *checks),
            );
        }
        let together = actions.same().map(|_| &plan);
        prefetch((conntrack, together), &mut reads[..known.len().min(TOGETHER)]);
        for (n, (read, known)) in reads.iter().zip(known).enumerate() {
            let i = (first + n) % BATCH;
            let Some(action) = actions.of(i) else {
                if fresh {
                    *known = Metadata::default();
                }
                continue;
            };
            let plan = plan_of(actions, &mut plan, (conntrack, action, now));
            let written = conntrack.track_read(read, (&mut *known, fresh), plan, recent);
            apply((&mut *batch, conntrack), i, written, known);
        }
    }
}

/// Returns the plan for a packet with this action. `plan` is replaced if its action is another one, so consecutive packets share a plan.
#[inline(always)]
fn plan_of<'a, 'p, A: Actions>(
    actions: &A,
    plan: &'a mut Plan<'p>,
    (conntrack, action, now): (&'p Conntrack, &'p Action, Millis),
) -> &'a Plan<'p> {
    if actions.same().is_none() && !plan.is_of(action) {
        *plan = conntrack.plan(action, now);
    }
    plan
}

/// Prefetches the records of the connections that the packets most likely have. `plan`: that of all packets, if it is one.
#[inline(always)]
fn prefetch<'t>((conntrack, plan): (&'t Conntrack, Option<&Plan<'t>>), reads: &mut [Read<'t>]) {
    let mut any_ipv6 = false;
    for read in reads.iter_mut() {
        any_ipv6 |= conntrack.prefetch(read, plan);
    }
    if any_ipv6 {
        for read in reads.iter() {
            conntrack.prefetch_addresses(read);
        }
    }
}

/// Writes the result of tracking into packet `i` of the batch: its key, and its bytes if it is translated.
#[inline(always)]
fn apply((batch, conntrack): (&mut Batch, &Conntrack), i: usize, written: Written, known: &mut Metadata) {
    let Batch { frames, lines, depth, .. } = batch;
    write_line(&mut lines[i], known);
    match written {
        Written::Nothing if known.control.is_none() => {}
        Written::Ends(ends) if nat::write_ends(&mut frames[i], &ends) => {
            write_ends_to_key(&mut lines[i], *depth, &ends);
        }
        written => edit_packet((batch, conntrack), i, written, known),
    }
}

/// Writes the new addresses and ports of an IPv4 packet into its key, as deep as the key was read.
#[inline(always)]
fn write_ends_to_key(line: &mut Line, depth: Depth, ends: &Ends) {
    if depth >= Depth::L3 {
        line[3] = ends.addresses;
    }
    if depth >= Depth::L4 {
        line[4] = line[4] & 0xffff_ffff | u64::from(ends.ports) << 32;
    }
}

/// Applies the edits that are not a plain IPv4 translation to packet `i` of the batch, and reads its key again.
#[cold]
fn edit_packet(
    (batch, conntrack): (&mut Batch, &Conntrack),
    i: usize,
    written: Written,
    known: &mut Metadata,
) {
    let (packet_type, vlan_limit) = (batch.common.packet_type, batch.common.vlan_limit);
    let frame = batch.frames.swap_remove(i);
    let mut p = Packet::new(frame, Meta { packet_type, vlan_limit, ..Meta::default() });
    write(conntrack, &mut p, written);
    if let Some(control) = &known.control
        && !inspect(conntrack, control, &mut p)
    {
        known.state |= INVALID;
    }
    let frames = &mut batch.frames;
    frames.push(p.frame);
    let last = frames.len() - 1;
    frames.swap(i, last);
    extract::renew_one(batch, i);
    write_line(&mut batch.lines[i % BATCH], known);
}

/// Applies the edits of tracking to a packet.
fn write(conntrack: &Conntrack, p: &mut Packet, written: Written) {
    match written {
        Written::Nothing => {}
        Written::Ends(ends) if p.meta.packet_type == 0 && nat::write_ends(&mut p.frame, &ends) => {
            p.number = None;
        }
        Written::Ends(ends) => nat::write(p, &ends.into()),
        Written::Translation(translated) => {
            let translation = conntrack.translation(&translated);
            translation.into_iter().for_each(|translation| nat::write(p, &translation));
        }
    }
}

/// Tracks the packets of a group and translates their addresses and ports. `is_known`: what an earlier `ct` has verified need not be
/// verified again. Not so for a datagram that was put together from fragments: it may contain others than at the earlier `ct`.
pub(super) fn track(engine: &mut Engine, action: &Action, group: &mut [Packet], is_known: bool) {
    let Engine { batch, tracking: Tracking { conntrack, connections, .. }, now, tally, .. } = engine;
    let (conntrack, plan): (&Conntrack, _) = (conntrack, conntrack.plan(action, *now));
    let mut checks = Checks::default();
    for group in group.chunks_mut(TOGETHER) {
        let mut reads = [Read::default(); TOGETHER];
        for (read, p) in reads.iter_mut().zip(group.iter_mut()) {
            read_one((conntrack, &plan), (p, is_known), (read, &mut checks));
        }
        prefetch((conntrack, Some(&plan)), &mut reads[..group.len()]);
        for (read, p) in reads.iter().zip(group.iter_mut()) {
            track_one((&mut *batch, conntrack), (&plan, &mut *connections), read, p);
        }
    }
    count(tally, &checks);
}

fn read_one<'t>(
    (conntrack, plan): (&'t Conntrack, &Plan<'t>),
    (p, is_known): (&mut Packet, bool),
    read: (&mut Read<'t>, &mut Checks),
) {
    let layout = p.layout();
    let packet = conntrack::Packet {
        ethertype: layout.dl_type,
        l3: p.frame.bytes().get(usize::from(layout.l3)..).unwrap_or_default(),
        sums: sums_of(&p.frame, if is_known { p.meta.ct_state } else { 0 }),
    };
    let tuple = p.meta.rare.as_ref().map_or(Tuple::default(), |rare| rare.ct_tuple);
    let known = Metadata { zone: p.meta.ct_zone, known: p.meta.ct_known, tuple, ..Metadata::default() };
    conntrack.read(&packet, (&known, false), plan, read);
}

fn track_one(
    (batch, conntrack): (&mut Batch, &Conntrack),
    (plan, recent): (&Plan<'_>, &mut Recent),
    read: &Read<'_>,
    p: &mut Packet,
) {
    let rare = p.meta.rare.get_or_insert_with(|| batch.new_rare());
    let mut known = Metadata {
        state: p.meta.ct_state,
        zone: p.meta.ct_zone,
        mark: p.meta.ct_mark,
        label: rare.ct_label,
        tuple: rare.ct_tuple,
        known: p.meta.ct_known,
        control: None,
    };
    let written = conntrack.track_read(read, (&mut known, false), plan, recent);
    (rare.ct_label, rare.ct_tuple) = (known.label, known.tuple);
    (p.meta.ct_state, p.meta.ct_zone, p.meta.ct_mark) = (known.state, known.zone, known.mark);
    p.meta.ct_known = known.known;
    write(conntrack, p, written);
    if let Some(control) = &known.control
        && !inspect(conntrack, control, p)
    {
        p.meta.ct_state |= INVALID;
    }
}

/// Passes a packet of an FTP or TFTP control connection to its helper, because it may announce connections. `false`: it is invalid.
#[cold]
fn inspect(conntrack: &Conntrack, control: &Control, p: &mut Packet) -> bool {
    let layout = p.layout();
    let l3 = p.frame.bytes().get(usize::from(layout.l3)..).unwrap_or_default();
    let packet = conntrack::Packet { ethertype: layout.dl_type, l3, sums: VERIFIED };
    let inspected = conntrack.inspect(control, &packet);
    !inspected.invalid && helper::write(p, &inspected).is_some()
}

/// Executes `ct_clear`: removes all connection tracking metadata.
pub(super) fn clear(p: &mut Packet) {
    (p.meta.ct_state, p.meta.ct_zone, p.meta.ct_mark, p.meta.ct_known) = (0, 0, 0, Known::default());
    if let Some(rare) = &mut p.meta.rare {
        let Rare { ct_label, ct_tuple, .. } = &mut **rare;
        (*ct_label, *ct_tuple) = ([0; 2], Tuple::default());
    }
}
