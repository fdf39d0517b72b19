//! `ct`: passes packets to the connection tracker, and writes the results into their keys, metadata and bytes.
//!
//! [`track_batch`] tracks the packets of a batch in place and updates their keys; [`track`] tracks packets of a group.

use super::extract;
use crate::action::{helper, nat};
use crate::batch::{BATCH, Batch};
use crate::checksum_counters::ChecksumCounter;
use crate::engine::Engine;
use crate::engine::tracking::Tracking;
use crate::packet::{Meta, Packet, Rare};
use crate::port::Frame;
use crate::tally::Tally;
use crate::tracked::write_line;
use classifier::megaflow::Depth;
use conntrack::{
    Action, ChecksumCounts, ConnectionCache, Conntrack, ControlPacket, EarlierLookUp, Endpoints4, Metadata,
    PacketEdit, PreparedAction, ReadPacket, Tuple, UNVERIFIED, VERIFIED,
};
use cpu::{Level, Line, Stage};
use flow::flow::ct_state::{INVALID, TRACKED};
use flow::flow::frag;
use packet::ethertype;
use packet::rx_checksums::RxChecksum;
use units::Millis;

/// Number of packets whose connections are looked up together, so that the cache misses of their look-ups overlap.
const TOGETHER: usize = 16;

/// Bytes of Ethernet and IPv4 headers.
const HEADERS: usize = 34;
/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Returns whether an Ethernet frame may be a fragment. For IPv4 without tags, the usual case, this costs two
/// comparisons.
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
pub(super) fn are_unfragmented(batch: &Batch) -> bool {
    let ethernet = batch.common.packet_type == 0;
    if batch.depth >= Depth::L3 {
        let keys = &batch.lines[..batch.keys().min(BATCH)];
        return ethernet && keys.iter().fold(0, |bits, line| bits | line[4]) & u64::from(frag::ANY) == 0;
    }
    ethernet && !batch.frames.iter().any(may_be_fragment)
}

/// Returns the Ethernet type of a frame after its tags, and the bytes from the network header on.
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
    let offsets = crate::header_offsets::HeaderOffsets::of(data, 0);
    (offsets.dl_type, data.get(usize::from(offsets.l3)..).unwrap_or_default())
}

/// Returns what is known about the checksums of a packet with this `ct_state`: an earlier `ct` has verified them, or
/// a device has reported on them, or nothing.
#[inline(always)]
fn sums_of(frame: &Frame, state: u8) -> [RxChecksum; 2] {
    if state & (TRACKED | INVALID) == TRACKED {
        VERIFIED
    } else if frame.has_offload_state() {
        frame.checksum_states()
    } else {
        UNVERIFIED
    }
}

/// Counts verified checksums.
#[inline]
fn count(tally: &mut Tally, checks: &ChecksumCounts) {
    let &ChecksumCounts { ip, ip_wrong, transport, transport_wrong } = checks;
    let counts = [
        (ChecksumCounter::TrackedIp, ip),
        (ChecksumCounter::TrackedIpWrong, ip_wrong),
        (ChecksumCounter::TrackedTransport, transport),
        (ChecksumCounter::TrackedTransportWrong, transport_wrong),
    ];
    counts.into_iter().for_each(|(what, n)| tally.count_verified(what, n));
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

/// Tracks the packets of the batch that have an action, in order. No packet may be a [fragment](are_unfragmented), and the
/// packets must share their metadata.
pub(super) fn track_batch(engine: &mut Engine, actions: &impl Actions) {
    let Engine { batch, tracking: Tracking { conntrack, connections, .. }, now, tally, .. } = engine;
    let (conntrack, mut checks): (&Conntrack, _) = (conntrack, ChecksumCounts::default());
    let Some(prepared) = actions.first().map(|action| conntrack.prepare(action, *now)) else { return };
    batch.unshare_key();
    let mut tracked = std::mem::take(&mut batch.tracked);
    let (metadata, fresh) = tracked.metadata_of(batch.len().min(BATCH));
    let looks = fresh && actions.same().is_some() && prepared.is_tracking_only() && connections.begin();
    let (mut first, mut found, mut reads) = (0, 0, None);
    while first < metadata.len() {
        if looks {
            let n = cpu::stage(TrackCached {
                batch,
                conntrack,
                cache: connections,
                checks: &mut checks,
                prepared: &prepared,
                metadata: &mut *metadata,
                first,
            });
            (first, found) = (first + n, found + n);
        }
        let end = metadata.len().min(first + TOGETHER);
        if first < end {
            let metadata = &mut metadata[first..end];
            let (cache, reads) = (&mut *connections, reads.get_or_insert_default());
            cpu::stage(Track {
                batch,
                conntrack,
                cache,
                checks: &mut checks,
                reads,
                prepared,
                now: *now,
                metadata,
                fresh,
                actions,
                first,
            });
        }
        first = end;
    }
    connections.end(metadata.len(), found);
    count(tally, &checks);
    batch.tracked = tracked;
    batch.fill_connections();
}

/// Tracks packets from `first` on, as long as their connections are in the worker's cache. The stage returns how many
/// packets it has tracked.
struct TrackCached<'b, 'p> {
    batch: &'b mut Batch,
    conntrack: &'b Conntrack,
    cache: &'b ConnectionCache,
    checks: &'b mut ChecksumCounts,
    prepared: &'b PreparedAction<'p>,
    metadata: &'b mut [Metadata],
    first: usize,
}

impl Stage for TrackCached<'_, '_> {
    type Out = usize;

    #[inline(always)]
    fn run<L: Level>(self, _: L) -> usize {
        let TrackCached { batch, conntrack, cache, checks, prepared, metadata, first } = self;
        let Batch { frames, lines, .. } = batch;
        let mut n = 0;
        for ((frame, line), metadata) in
            frames[first..].iter().zip(&mut lines[first..]).zip(&mut metadata[first..])
        {
            let (ethertype, l3) = network(frame.bytes());
            let packet = conntrack::Packet { ethertype, l3, sums: sums_of(frame, 0) };
            if !conntrack.track_cached(&packet, metadata, prepared, (cache, &mut *checks)) {
                break;
            }
            write_line(line, metadata);
            n += 1;
        }
        n
    }
}

/// Tracks packets from `first` on, one for each element of `metadata`.
struct Track<'b, 'p, A> {
    batch: &'b mut Batch,
    conntrack: &'p Conntrack,
    cache: &'b mut ConnectionCache,
    checks: &'b mut ChecksumCounts,
    /// Memory for the result of reading each packet.
    reads: &'b mut [ReadPacket<'p>; TOGETHER],
    /// The first action, prepared.
    prepared: PreparedAction<'p>,
    now: Millis,
    /// The connection tracking metadata of each packet. `fresh`: no packet was tracked before, so the values are
    /// stale and are not read.
    metadata: &'b mut [Metadata],
    fresh: bool,
    actions: &'p A,
    first: usize,
}

impl<A: Actions> Stage for Track<'_, '_, A> {
    type Out = ();

    #[inline(always)]
    fn run<L: Level>(self, _: L) {
        let Track {
            batch,
            conntrack,
            cache,
            checks,
            reads,
            mut prepared,
            now,
            metadata,
            fresh,
            actions,
            first,
        } = self;
        let frames = &batch.frames[first..];
        for (n, (read, (frame, metadata))) in reads.iter_mut().zip(frames.iter().zip(&*metadata)).enumerate()
        {
            let Some(action) = actions.of(first + n) else { continue };
            let prepared = prepare_if_new(actions, &mut prepared, (conntrack, action, now));
            let (ethertype, l3) = network(frame.bytes());
            let sums = sums_of(frame, if fresh { 0 } else { metadata.state });
            conntrack.read(
                &conntrack::Packet { ethertype, l3, sums },
                (metadata, fresh),
                prepared,
                (read, &mut *checks),
            );
        }
        let together = actions.same().map(|_| &prepared);
        prefetch((conntrack, together), &mut reads[..metadata.len().min(TOGETHER)]);
        for (n, (read, metadata)) in reads.iter().zip(metadata).enumerate() {
            let i = (first + n) % BATCH;
            let Some(action) = actions.of(i) else {
                if fresh {
                    *metadata = Metadata::default();
                }
                continue;
            };
            let prepared = prepare_if_new(actions, &mut prepared, (conntrack, action, now));
            let edit = conntrack.track_read(read, (&mut *metadata, fresh), prepared, cache);
            apply((&mut *batch, conntrack), i, edit, metadata);
        }
    }
}

/// Returns the prepared action of a packet. If `prepared` belongs to another action it is replaced, so consecutive
/// packets with the same action share it.
#[inline(always)]
fn prepare_if_new<'a, 'p, A: Actions>(
    actions: &A,
    prepared: &'a mut PreparedAction<'p>,
    (conntrack, action, now): (&'p Conntrack, &'p Action, Millis),
) -> &'a PreparedAction<'p> {
    if actions.same().is_none() && !prepared.is_for_action(action) {
        *prepared = conntrack.prepare(action, now);
    }
    prepared
}

/// Prefetches the connection records that the packets most likely need. `prepared`: the action of all packets, if they have
/// the same.
#[inline(always)]
fn prefetch<'t>(
    (conntrack, prepared): (&'t Conntrack, Option<&PreparedAction<'t>>),
    reads: &mut [ReadPacket<'t>],
) {
    let mut any_ipv6 = false;
    for read in reads.iter_mut() {
        any_ipv6 |= conntrack.prefetch(read, prepared);
    }
    if any_ipv6 {
        for read in reads.iter() {
            conntrack.prefetch_addresses(read);
        }
    }
}

/// Writes the result of tracking into packet `i` of the batch: into its key, and into its bytes if NAT changes the
/// packet.
#[inline(always)]
fn apply((batch, conntrack): (&mut Batch, &Conntrack), i: usize, edit: PacketEdit, metadata: &mut Metadata) {
    let Batch { frames, lines, depth, .. } = batch;
    write_line(&mut lines[i], metadata);
    match edit {
        PacketEdit::Nothing if metadata.control.is_none() => {}
        PacketEdit::Endpoints(endpoints) if nat::write_endpoints(&mut frames[i], &endpoints) => {
            write_endpoints_to_key(&mut lines[i], *depth, &endpoints);
        }
        edit => edit_packet((batch, conntrack), i, edit, metadata),
    }
}

/// Writes the new addresses and ports of an IPv4 packet into its key, to the depth to which the key was read.
#[inline(always)]
fn write_endpoints_to_key(line: &mut Line, depth: Depth, endpoints: &Endpoints4) {
    if depth >= Depth::L3 {
        line[3] = endpoints.addresses;
    }
    if depth >= Depth::L4 {
        line[4] = line[4] & 0xffff_ffff | u64::from(endpoints.ports) << 32;
    }
}

/// Applies edits other than a plain IPv4 translation to packet `i` of the batch, and reads the packet's key again.
#[cold]
fn edit_packet(
    (batch, conntrack): (&mut Batch, &Conntrack),
    i: usize,
    edit: PacketEdit,
    metadata: &mut Metadata,
) {
    let (packet_type, vlan_limit) = (batch.common.packet_type, batch.common.vlan_limit);
    let frame = batch.frames.swap_remove(i);
    let mut p = Packet::new(frame, Meta { packet_type, vlan_limit, ..Meta::default() });
    write(conntrack, &mut p, edit);
    if let Some(control) = &metadata.control
        && !inspect(conntrack, control, &mut p)
    {
        metadata.state |= INVALID;
    }
    let frames = &mut batch.frames;
    frames.push(p.frame);
    let last = frames.len() - 1;
    frames.swap(i, last);
    extract::reread_one(batch, i);
    write_line(&mut batch.lines[i % BATCH], metadata);
}

/// Applies the edits of tracking to a packet.
fn write(conntrack: &Conntrack, p: &mut Packet, edit: PacketEdit) {
    match edit {
        PacketEdit::Nothing => {}
        PacketEdit::Endpoints(endpoints)
            if p.meta.packet_type == 0 && nat::write_endpoints(&mut p.frame, &endpoints) =>
        {
            p.number = None;
        }
        PacketEdit::Endpoints(endpoints) => nat::write(p, &endpoints.into()),
        PacketEdit::Translation(translated) => {
            let translation = conntrack.translation(&translated);
            translation.into_iter().for_each(|translation| nat::write(p, &translation));
        }
    }
}

/// Tracks the packets of a group and translates their addresses and ports. `reuse_verified`: checksums that an
/// earlier `ct` has verified are not verified again. This must be false for a reassembled datagram, which may contain
/// other fragments than at the earlier `ct`.
pub(super) fn track(engine: &mut Engine, action: &Action, group: &mut [Packet], reuse_verified: bool) {
    let Engine { batch, tracking: Tracking { conntrack, connections, .. }, now, tally, .. } = engine;
    let (conntrack, prepared): (&Conntrack, _) = (conntrack, conntrack.prepare(action, *now));
    let mut checks = ChecksumCounts::default();
    for group in group.chunks_mut(TOGETHER) {
        let mut reads = [ReadPacket::default(); TOGETHER];
        for (read, p) in reads.iter_mut().zip(group.iter_mut()) {
            read_one((conntrack, &prepared), (p, reuse_verified), (read, &mut checks));
        }
        prefetch((conntrack, Some(&prepared)), &mut reads[..group.len()]);
        for (read, p) in reads.iter().zip(group.iter_mut()) {
            track_one((&mut *batch, conntrack), (&prepared, &mut *connections), read, p);
        }
    }
    count(tally, &checks);
}

fn read_one<'t>(
    (conntrack, prepared): (&'t Conntrack, &PreparedAction<'t>),
    (p, reuse_verified): (&mut Packet, bool),
    read: (&mut ReadPacket<'t>, &mut ChecksumCounts),
) {
    let offsets = p.offsets();
    let packet = conntrack::Packet {
        ethertype: offsets.dl_type,
        l3: p.frame.bytes().get(usize::from(offsets.l3)..).unwrap_or_default(),
        sums: sums_of(&p.frame, if reuse_verified { p.meta.ct_state } else { 0 }),
    };
    let tuple = p.meta.rare.as_ref().map_or(Tuple::default(), |rare| rare.ct_tuple);
    let metadata =
        Metadata { zone: p.meta.ct_zone, earlier: p.meta.ct_earlier, tuple, ..Metadata::default() };
    conntrack.read(&packet, (&metadata, false), prepared, read);
}

fn track_one(
    (batch, conntrack): (&mut Batch, &Conntrack),
    (prepared, cache): (&PreparedAction<'_>, &mut ConnectionCache),
    read: &ReadPacket<'_>,
    p: &mut Packet,
) {
    let rare = p.meta.rare.get_or_insert_with(|| batch.new_rare());
    let mut metadata = Metadata {
        state: p.meta.ct_state,
        zone: p.meta.ct_zone,
        mark: p.meta.ct_mark,
        label: rare.ct_label,
        tuple: rare.ct_tuple,
        earlier: p.meta.ct_earlier,
        control: None,
    };
    let edit = conntrack.track_read(read, (&mut metadata, false), prepared, cache);
    (rare.ct_label, rare.ct_tuple) = (metadata.label, metadata.tuple);
    (p.meta.ct_state, p.meta.ct_zone, p.meta.ct_mark) = (metadata.state, metadata.zone, metadata.mark);
    p.meta.ct_earlier = metadata.earlier;
    write(conntrack, p, edit);
    if let Some(control) = &metadata.control
        && !inspect(conntrack, control, p)
    {
        p.meta.ct_state |= INVALID;
    }
}

/// Passes a packet of an FTP or TFTP control connection to its helper, because the packet may announce connections.
/// Returns `false` if the packet is invalid.
#[cold]
fn inspect(conntrack: &Conntrack, control: &ControlPacket, p: &mut Packet) -> bool {
    let offsets = p.offsets();
    let l3 = p.frame.bytes().get(usize::from(offsets.l3)..).unwrap_or_default();
    let packet = conntrack::Packet { ethertype: offsets.dl_type, l3, sums: VERIFIED };
    let inspected = conntrack.inspect(control, &packet);
    !inspected.invalid && helper::write(p, &inspected).is_some()
}

/// Executes `ct_clear`: removes all connection tracking metadata.
pub(super) fn clear(p: &mut Packet) {
    (p.meta.ct_state, p.meta.ct_zone, p.meta.ct_mark, p.meta.ct_earlier) =
        (0, 0, 0, EarlierLookUp::default());
    if let Some(rare) = &mut p.meta.rare {
        let Rare { ct_label, ct_tuple, .. } = &mut **rare;
        (*ct_label, *ct_tuple) = ([0; 2], Tuple::default());
    }
}
