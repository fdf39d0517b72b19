//! Charge: the meters of all packets of a batch are charged together.

use super::megaflow_guard::Programs;
use super::meter;
use crate::engine::Engine;
use crate::program::Program;

/// Maximum number of different meters of a batch. Batches with more meters are grouped by megaflow instead. It is
/// small, because the list is searched for each meter of each packet.
const METERS_MAX: usize = 4;

/// Charges the meters of the program that all packets have. Returns `false` and charges nothing if some packets would
/// not pass, or if there are too many meters.
pub(super) fn all(engine: &mut Engine, program: &Program) -> bool {
    let (packets, bytes) = (engine.batch.len() as u64, engine.batch.bytes);
    let mut charges = Charges::default();
    program.meters().try_for_each(|id| charges.add(id, packets, bytes)).is_some() && charges.charge(engine)
}

/// As [`all`], for packets whose programs differ.
pub(super) fn each(engine: &mut Engine, programs: &Programs<'_>) -> bool {
    let mut charges = Charges::default();
    let mut packets = engine.batch.frames.iter().zip(programs.iter().flatten());
    let added = packets.try_for_each(|(frame, program)| {
        program.meters().try_for_each(|id| charges.add(id, 1, frame.len() as u64))
    });
    added.is_some() && charges.charge(engine)
}

/// The charges of different meters.
#[derive(Default)]
struct Charges {
    all: [meter::Charge; METERS_MAX],
    count: usize,
}

impl Charges {
    #[inline]
    fn add(&mut self, id: u32, packets: u64, bytes: u64) -> Option<()> {
        let known = self.all[..self.count].iter().position(|charge| charge.0 == id);
        let charge = self.all.get_mut(known.unwrap_or(self.count))?;
        if known.is_none() {
            (*charge, self.count) = ((id, (0, 0)), self.count + 1);
        }
        charge.1 = (charge.1.0 + packets, charge.1.1 + bytes);
        Some(())
    }

    fn charge(&self, engine: &mut Engine) -> bool {
        meter::charge(engine, &self.all[..self.count])
    }
}
