//! Sample: copies of randomly selected packets go through a program of their own, before the operations for all
//! packets.

use super::execute;
use crate::batch::BATCH;
use crate::engine::Engine;
use crate::engine::groups::Group;
use crate::last_drop::DropPort;
use crate::packet::Packet;
use crate::program::Program;
use crate::tally::Event;
use classifier::megaflow::bits;
use dpif::DropReason;

/// Samples packets of the batch, which must share their metadata. `packets`: bit i stands for packet i.
pub(super) fn batch(engine: &mut Engine, packets: u64, share: u32, inner: &Program) {
    for i in bits(packets).take_while(|i| *i < BATCH).take(engine.batch.len()) {
        if engine.samples(share)
            && let Some(frame) = engine.batch.frames.get(i)
        {
            let copy = engine.pool.copy_of(frame);
            let packet = copy.map(|frame| Packet { number: Some(i as u8), ..engine.batch.packet(i, frame) });
            run(engine, inner, packet);
        }
    }
}

/// Samples the packets of a group.
pub(super) fn group(engine: &mut Engine, share: u32, inner: &Program, group: &Group) {
    for (i, frame) in group.frames.iter().enumerate() {
        if engine.samples(share) {
            let copy = engine.pool.copy_of(frame);
            let packet = copy.map(|frame| {
                let meta = group.own.get(i).unwrap_or(&engine.batch.common).clone();
                Packet { number: group.numbers.get(i).copied(), ..Packet::new(frame, meta) }
            });
            run(engine, inner, packet);
        }
    }
}

/// Executes the program on a copy. Without a copy (no buffer) it counts a drop.
fn run(engine: &mut Engine, inner: &Program, copy: Option<Packet>) {
    engine.tally.add(Event::Created, 1);
    let Some(packet) = copy else {
        let in_port = engine.batch.common.in_port;
        engine.tally.count_drops(DropReason::NoBuffer, 1);
        return engine.drops.ports.count(DropPort::In(in_port), DropReason::NoBuffer, 1);
    };
    let mut side = engine.free_lists.packet_list();
    side.push(packet);
    execute::run(engine, inner, &mut side);
    engine.free_lists.return_list(side);
}
