//! `lb_output`: a hash of the packet selects a bucket of the bond, and the packet is sent by the link that has this
//! bucket.
//!
//! The hash is that of `hash_l4`, which balance-tcp uses if it recirculates packets. So a connection keeps its link
//! when a bond is switched between the two methods (`lb-output-action`).

use super::megaflow_guard::MegaflowGuard;
use super::output::output;
use crate::action::hash;
use crate::batch::{BATCH, Batch};
use crate::bonds::OwnBond;
use crate::engine::Engine;
use crate::engine::groups::Group;
use crate::packet::Packet;
use crate::port::Frame;
use crate::program::Summary;
use cpu::{Level, Line, Stage};
use dpif::DropReason;

/// Returns the bond by which all packets are sent, if each packet has a megaflow and all these megaflows only send by
/// this bond.
#[inline(always)]
pub(super) fn one_bond(guard: &MegaflowGuard<'_>, batch: &Batch) -> Option<u32> {
    let (records, found) = (guard.records(), &batch.found[..batch.len().min(BATCH)]);
    let summary = records.get(*found.first()?)?.payload.summary;
    let Summary::LbOutput(bond) = summary else { return None };
    let same = found.iter().all(|&index| records.get(index).is_some_and(|m| m.payload.summary == summary));
    (same && batch.needs_only_frames()).then_some(bond)
}

/// Hashes keys that were read at least to layer 4. The stage returns a bit for each key that is not hashed, because its
/// addresses are not in its line.
struct HashAll<'b> {
    lines: &'b [Line],
    basis: u32,
    hashes: &'b mut [u32; BATCH],
}

impl Stage for HashAll<'_> {
    type Out = u64;

    #[inline(always)]
    fn run<L: Level>(self, _: L) -> u64 {
        let mut left = 0;
        for (i, (line, out)) in self.lines.iter().zip(self.hashes).enumerate() {
            match hash::one_way_of_line(line, self.basis) {
                Some(hash) => *out = hash,
                None => left |= 1 << (i % BATCH),
            }
        }
        left
    }
}

/// Sends all packets of the batch. They must be [plain](Batch::needs_only_frames).
pub(super) fn all(engine: &mut Engine, bond: u32) {
    let mut frames = std::mem::take(&mut engine.batch.frames);
    match engine.bonds.take(bond) {
        Some(mut own) => {
            let hashes = hashes(&engine.batch, &frames, own.map.basis);
            send_each(engine, &mut own, frames.drain(..).zip(hashes));
            engine.bonds.give_back(own);
        }
        None => {
            for (i, frame) in frames.drain(..).enumerate() {
                let packet = engine.batch.packet(i, frame);
                engine.drop_packet(packet, DropReason::InvalidBond);
            }
        }
    }
    engine.batch.frames = frames;
}

/// Returns the hashes of all packets of the batch.
fn hashes(batch: &Batch, frames: &[Frame], basis: u32) -> [u32; BATCH] {
    let (mut hashes, mut left) = ([0; BATCH], u64::MAX);
    if batch.key_to_ports(Some(0)).is_some() {
        let lines = &batch.lines[..frames.len().min(BATCH)];
        left = cpu::stage(HashAll { lines, basis, hashes: &mut hashes });
    }
    for (i, (frame, hash)) in frames.iter().zip(&mut hashes).enumerate().filter(|(i, _)| left >> i & 1 != 0) {
        let key = batch.key_to_ports(Some(i as u8));
        *hash = hash::of_frame(frame, batch.meta(i), key, false, basis);
    }
    hashes
}

/// Sends the packets of a group. They must be [plain](Batch::needs_only_frames).
pub(super) fn group(engine: &mut Engine, bond: u32, group: &mut Group) {
    let Some(mut own) = engine.bonds.take(bond) else {
        let mut packets = group.packets(engine);
        packets.drain(..).for_each(|p| engine.drop_packet(p, DropReason::InvalidBond));
        return engine.free_lists.return_list(packets);
    };
    let (mut hashes, batch, basis) = ([0; BATCH], &engine.batch, own.map.basis);
    for (i, (frame, hash)) in group.frames.iter().zip(&mut hashes).enumerate() {
        let key = batch.key_to_ports(group.numbers.get(i).copied());
        *hash = hash::of_frame(frame, group.own.get(i).unwrap_or(&batch.common), key, false, basis);
    }
    send_each(engine, &mut own, group.frames.drain(..).zip(hashes));
    engine.bonds.give_back(own);
    engine.drop_metas(&mut group.own);
    group.numbers.clear();
}

/// Sends a packet.
pub(super) fn one(engine: &mut Engine, bond: u32, p: Packet) {
    let Some(mut own) = engine.bonds.take(bond) else {
        return engine.drop_packet(p, DropReason::InvalidBond);
    };
    let key = engine.batch.key_to_ports(p.number);
    let hash = hash::of_frame(&p.frame, &p.meta, key, false, own.map.basis);
    own.count(hash, p.frame.len().saturating_sub(p.meta.cut) as u64);
    output(engine, own.map.port(hash), p);
    engine.bonds.give_back(own);
}

/// Sends frames, each with its hash.
fn send_each(engine: &mut Engine, own: &mut OwnBond, frames: impl Iterator<Item = (Frame, u32)>) {
    for (frame, hash) in frames {
        own.count(hash, frame.len() as u64);
        engine.add_to_burst(own.map.port(hash), frame);
    }
}
