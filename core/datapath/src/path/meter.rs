//! Meter: the packets of a group pass a meter; what exceeds its bands is dropped or marked.

use super::frames::Group;
use crate::action::set_field;
use crate::engine::Engine;
use crate::meter::NO_BAND;
use crate::packet::Packet;
use dpif::{DropReason, Ipv4Key, Ipv6Key, Masked, SetField};

/// A meter that is not there (any more) lets everything pass.
pub(super) fn run(engine: &mut Engine, id: u32, group: &mut Vec<Packet>) {
    let Some(meter) = engine.meters.get(&id).cloned() else { return };
    let mut scratch = std::mem::take(&mut engine.metering);
    scratch.lens.clear();
    scratch.lens.extend(group.iter().map(|p| p.frame.len() as u32));
    let now = engine.fine.read(engine.now);
    if meter.judge(&scratch.lens, now, &mut scratch.verdicts) {
        let mut kept = engine.list();
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
        engine.give_back(kept);
    }
    engine.metering = scratch;
}

/// The same of packets that are frames. `false`, and nothing done: some packets would be dropped or marked.
pub(super) fn run_frames(engine: &mut Engine, id: u32, group: &mut Group) -> bool {
    let Some(meter) = engine.meters.get(&id) else { return true };
    let now = engine.fine.read(engine.now);
    let bytes = group.frames.iter().map(|frame| frame.len() as u64).sum();
    meter.pass_all(group.frames.len() as u64, bytes, now)
}

/// Lengths and verdicts of a group, whose memory is used again.
#[derive(Default)]
pub(crate) struct Scratch {
    lens: Vec<u32>,
    verdicts: Vec<u8>,
}

/// Raises the drop precedence of a packet of assured forwarding (RFC 2597 §6). Others have none.
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

/// The TOS byte with the DSCP of the same class and a higher drop precedence, without ECN; `None`: it is of no class.
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
