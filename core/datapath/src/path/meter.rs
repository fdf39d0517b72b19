//! Meter: passes the packets of a group through a meter; packets that exceed its bands are dropped or marked.

use crate::action::set_field;
use crate::batch::BATCH;
use crate::engine::Engine;
use crate::engine::groups::Group;
use crate::engine::metering::{Lease, Scratch};
use crate::meter::NO_BAND;
use crate::packet::Packet;
use crate::port::Frame;
use dpif::{DropReason, Ipv4Key, Ipv6Key, Masked, SetField};
use std::sync::Arc;

/// Executes a meter. A meter that does not exist lets all packets pass.
pub(super) fn run(engine: &mut Engine, id: u32, group: &mut Vec<Packet>) {
    settle(engine);
    let Some(meter) = engine.view.meters.get(&id).cloned() else { return };
    let mut scratch = std::mem::take(&mut engine.metering);
    scratch.lens.clear();
    scratch.lens.extend(group.iter().map(|p| p.frame.len() as u32));
    let now = engine.clocks.fine.read(engine.now);
    if meter.judge(&scratch.lens, now, &mut scratch.verdicts) {
        let mut kept = engine.kept.list();
        for (mut p, &band) in group.drain(..).zip(&scratch.verdicts) {
            match meter.remark(band) {
                None if band != NO_BAND => {
                    engine.drop_packet(p, DropReason::Meter);
                    continue;
                }
                Some(steps) => remark(&mut p, steps),
                None => {}
            }
            kept.push(p);
        }
        std::mem::swap(group, &mut kept);
        engine.kept.give_back(kept);
    }
    engine.metering = scratch;
}

/// What a meter did with frames.
pub(super) enum Metered {
    /// All that are left have passed it.
    Passed,
    /// Nothing: some packets would be marked.
    NeedsPackets,
}

/// As `run`, for frames.
pub(super) fn run_frames(engine: &mut Engine, id: u32, group: &mut Group) -> Metered {
    if pass_frames(engine, id, &group.frames) {
        return Metered::Passed;
    }
    settle(engine);
    let Some(meter) = engine.view.meters.get(&id).cloned() else { return Metered::Passed };
    if !meter.only_drops() {
        return Metered::NeedsPackets;
    }
    let mut scratch = std::mem::take(&mut engine.metering);
    scratch.lens.clear();
    scratch.lens.extend(group.frames.iter().map(|frame| frame.len() as u32));
    let now = engine.clocks.fine.read(engine.now);
    if meter.judge(&scratch.lens, now, &mut scratch.verdicts) {
        group.drop_marked(
            engine,
            |i| scratch.verdicts.get(i).is_some_and(|band| *band != NO_BAND),
            DropReason::Meter,
        );
    }
    engine.metering = scratch;
    Metered::Passed
}

/// Takes the tokens of all frames. Returns `false` and takes none if there are too few.
///
/// Groups of a batch often use the same meter. The second group in a row takes tokens for the whole batch,
/// and the groups after it use the rest, so that an iteration costs a few atomic operations instead of a few
/// for each group. Unused tokens are returned at the end of the iteration.
fn pass_frames(engine: &mut Engine, id: u32, frames: &[Frame]) -> bool {
    let (packets, bytes) = (frames.len() as u64, frames.iter().map(|frame| frame.len() as u64).sum());
    if let Some(lease) = engine.metering.lease.as_mut().filter(|lease| lease.id == id)
        && lease.spend(packets, bytes)
    {
        return true;
    }
    settle(engine);
    let Some(meter) = engine.view.meters.get(&id) else { return true };
    let now = engine.clocks.fine.read(engine.now);
    let Scratch { lease, last, .. } = &mut engine.metering;
    let again = last.replace(id) == Some(id);
    let batch = (BATCH as u64, engine.batch.bytes);
    if again && batch.0 >= packets && batch.1 >= bytes && meter.take_all(batch, now) {
        let mut taken = Lease { id, meter: Arc::clone(meter), left: batch, spent: (0, 0) };
        let enough = taken.spend(packets, bytes);
        *lease = Some(taken);
        return enough;
    }
    if !meter.take_all((packets, bytes), now) {
        return false;
    }
    meter.count((packets, bytes));
    true
}

/// Tokens of a meter: its number, packets and bytes.
pub(super) type Charge = (u32, (u64, u64));

/// Charges these meters, which are all different. Returns `false` and takes nothing if one of them has too
/// few tokens.
pub(super) fn charge(engine: &mut Engine, charges: &[Charge]) -> bool {
    settle(engine);
    let now = engine.clocks.fine.read(engine.now);
    let meters = &engine.view.meters;
    let passes = |charge: &&Charge| meters.get(&charge.0).is_none_or(|meter| meter.take_all(charge.1, now));
    let taken = charges.iter().take_while(passes).count();
    for (id, amount) in &charges[..taken] {
        match meters.get(id) {
            Some(meter) if taken == charges.len() => meter.count(*amount),
            Some(meter) => meter.give_all(*amount),
            None => {}
        }
    }
    taken == charges.len()
}

/// Returns tokens that were taken and not used. Called at the end of an iteration.
#[inline]
pub(crate) fn settle(engine: &mut Engine) {
    if let Some(lease) = engine.metering.lease.take() {
        lease.settle();
    }
}

/// Increases the drop precedence of an assured-forwarding packet (RFC 2597 §6). Other packets have none.
fn remark(p: &mut Packet, steps: u8) {
    let flow = p.flow();
    let Some(tos) = raised(flow.nw_tos, steps) else { return };
    let field = match flow.dl_type {
        0x0800 => {
            let (key, mask) =
                (Ipv4Key { tos, ..Ipv4Key::default() }, Ipv4Key { tos: 0xfc, ..Ipv4Key::default() });
            SetField::Ipv4(Masked::new(key, mask))
        }
        0x86dd => {
            let key = Ipv6Key { tclass: tos, ..Ipv6Key::default() };
            SetField::Ipv6(Box::new(Masked::new(key, Ipv6Key { tclass: 0xfc, ..Ipv6Key::default() })))
        }
        _ => return,
    };
    set_field::set(p, &field);
}

/// The TOS byte with the DSCP of the same class and a higher drop precedence, without ECN; `None` if it
/// belongs to no class.
fn raised(tos: u8, steps: u8) -> Option<u8> {
    let (class, precedence) = (tos >> 5, tos >> 3 & 3);
    if !(1..=4).contains(&class) || precedence == 0 || tos & 4 != 0 {
        return None;
    }
    Some(class << 5 | precedence.saturating_add(steps).min(3) << 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn precedence_rises_within_its_class() {
        // AF11, AF12, AF13 and AF43 as TOS bytes; best effort and expedited forwarding have no class.
        assert_eq!(
            [raised(10 << 2, 1), raised(10 << 2, 2), raised(12 << 2, 9)],
            [Some(12 << 2), Some(14 << 2), Some(14 << 2)]
        );
        assert_eq!([raised(38 << 2, 1), raised(0, 1), raised(46 << 2, 1)], [Some(38 << 2), None, None]);
    }
}
