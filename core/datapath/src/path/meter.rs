//! Meter: passes the packets of a group through a meter; packets that exceed its bands are dropped or marked.

use crate::action::set_field;
use crate::batch::BATCH;
use crate::engine::Engine;
use crate::engine::groups::Group;
use crate::engine::metering::{AdvanceTokens, Scratch};
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
    if meter.meter_packets(&scratch.lens, now, &mut scratch.verdicts) {
        let mut kept = engine.free_lists.packet_list();
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
        engine.free_lists.return_list(kept);
    }
    engine.metering = scratch;
}

/// Result of a meter that was applied to frames.
pub(super) enum MeterResult {
    /// All frames that are left have passed the meter.
    Passed,
    /// The meter marks packets, which needs their metadata: nothing was done.
    NeedsPackets,
}

/// As [`run`], for bare frames.
pub(super) fn run_frames(engine: &mut Engine, id: u32, group: &mut Group) -> MeterResult {
    if pass_frames(engine, id, &group.frames) {
        return MeterResult::Passed;
    }
    settle(engine);
    let Some(meter) = engine.view.meters.get(&id).cloned() else { return MeterResult::Passed };
    if !meter.only_drops() {
        return MeterResult::NeedsPackets;
    }
    let mut scratch = std::mem::take(&mut engine.metering);
    scratch.lens.clear();
    scratch.lens.extend(group.frames.iter().map(|frame| frame.len() as u32));
    let now = engine.clocks.fine.read(engine.now);
    if meter.meter_packets(&scratch.lens, now, &mut scratch.verdicts) {
        group.drop_marked(
            engine,
            |i| scratch.verdicts.get(i).is_some_and(|band| *band != NO_BAND),
            DropReason::Meter,
        );
    }
    engine.metering = scratch;
    MeterResult::Passed
}

/// Takes the tokens for all frames. Returns `false` and takes none if there are too few.
///
/// Groups of a batch often use the same meter. The second consecutive group with the same meter takes tokens for the
/// complete batch in advance, and the groups after it spend the rest. So an iteration costs a few atomic
/// operations, not a few for each group. Unused tokens are returned at the end of the iteration.
fn pass_frames(engine: &mut Engine, id: u32, frames: &[Frame]) -> bool {
    let (packets, bytes) = (frames.len() as u64, frames.iter().map(|frame| frame.len() as u64).sum());
    if let Some(advance) = engine.metering.advance.as_mut().filter(|advance| advance.id == id)
        && advance.spend(packets, bytes)
    {
        return true;
    }
    settle(engine);
    let Some(meter) = engine.view.meters.get(&id) else { return true };
    let now = engine.clocks.fine.read(engine.now);
    let Scratch { advance, last, .. } = &mut engine.metering;
    let again = last.replace(id) == Some(id);
    let batch = (BATCH as u64, engine.batch.bytes);
    if again && batch.0 >= packets && batch.1 >= bytes && meter.take_all(batch, now) {
        let mut taken = AdvanceTokens { id, meter: Arc::clone(meter), left: batch, spent: (0, 0) };
        let enough = taken.spend(packets, bytes);
        *advance = Some(taken);
        return enough;
    }
    if !meter.take_all((packets, bytes), now) {
        return false;
    }
    meter.count((packets, bytes));
    true
}

/// A meter's number, and the packets and bytes to charge to it.
pub(super) type Charge = (u32, (u64, u64));

/// Charges these meters, which must all be different. Returns `false` and charges nothing if one of them has too few
/// tokens.
pub(super) fn charge(engine: &mut Engine, charges: &[Charge]) -> bool {
    settle(engine);
    let now = engine.clocks.fine.read(engine.now);
    let meters = &engine.view.meters;
    let passes = |charge: &&Charge| meters.get(&charge.0).is_none_or(|meter| meter.take_all(charge.1, now));
    let taken = charges.iter().take_while(passes).count();
    for (id, amount) in &charges[..taken] {
        match meters.get(id) {
            Some(meter) if taken == charges.len() => meter.count(*amount),
            Some(meter) => meter.return_all(*amount),
            None => {}
        }
    }
    taken == charges.len()
}

/// Returns tokens that were taken in advance and not used. Called at the end of an iteration.
#[inline]
pub(crate) fn settle(engine: &mut Engine) {
    if let Some(advance) = engine.metering.advance.take() {
        advance.settle();
    }
}

/// Increases the drop precedence of an assured-forwarding packet (RFC 2597 §6). Other packets have no drop precedence
/// and are not changed.
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

/// Returns the TOS byte with the DSCP of the same class and a higher drop precedence, without ECN bits; `None` if the
/// TOS byte belongs to no class.
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
