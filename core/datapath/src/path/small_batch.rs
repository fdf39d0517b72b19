//! Small batch: a batch of at most eight packets that a port has just received is looked up and sent by one short
//! loop.
//!
//! The stages for larger batches have a fixed cost per batch, which for one packet is most of the work. Here each
//! packet is read, looked up and verified on its own. If all packets of the batch can be sent, they are counted and
//! sent. Otherwise the batch is left unchanged, and the general stages process it from the beginning.

use super::extract::{PlainIpv4, read_plain_ipv4};
use super::inspection;
use super::megaflow_guard::MegaflowGuard;
use super::per_packet::run_on_frame;
use super::recent::{PAUSE, slot};
use crate::batch::Batch;
use crate::engine::Engine;
use crate::engine::caches::Caches;
use crate::engine::view::View;
use crate::program::{Program, Summary};
use crate::shared::Shared;
use crate::stages::PathStage;
use crate::steps::{COPIES, REWRITES};
use crate::tally::Event;
use classifier::megaflow::{Depth, Megaflow, PortMegaflows};
use cpu::{Level, Line, Secret, Stage};
use flowcache::{Cache, FlowCache};
use sync::Records;

/// Maximum number of packets of a small batch. With more packets the general stages are faster.
pub(crate) const SMALL: usize = 8;

#[cfg(test)]
std::thread_local! {
    /// How many batches this thread has sent by this stage.
    pub(crate) static SENT: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A batch of 1 to [`SMALL`] packets. The stage returns whether it has sent them.
pub(super) struct SmallBatch<'a, 'g> {
    pub(super) shared: &'a Shared,
    pub(super) guard: &'a MegaflowGuard<'g>,
    pub(super) port_megaflows: &'a PortMegaflows,
    pub(super) engine: &'a mut Engine,
}

/// The programs of the packets of a batch.
struct BatchPrograms<'g> {
    programs: [Option<&'g Program>; SMALL],
    /// The output port, if all programs do nothing but send to the same port.
    port: Option<u32>,
}

impl Stage for SmallBatch<'_, '_> {
    type Out = bool;

    #[inline(always)]
    fn run<L: Level>(self, level: L) -> bool {
        let SmallBatch { shared, guard, port_megaflows, engine } = self;
        let Some(found) = find(level, shared, guard, port_megaflows, engine) else { return false };
        inspection::stage(shared, guard, engine);
        engine.clocks.end_stage(PathStage::LookUp);
        count(engine);
        match found.port {
            Some(port) => engine.send_batch(port),
            None => send_each(engine, &found.programs),
        }
        #[cfg(test)]
        SENT.set(SENT.get() + 1);
        engine.batch.bytes = 0;
        engine.batch.clear_side_data();
        engine.clocks.end_stage(PathStage::Execute);
        true
    }
}

/// Reads all packets and finds their megaflows. Returns `None` if the general stages must process the batch because
/// of one of its packets: the packet is not IPv4 without tags and options, or is a fragment; the first flow cache
/// entry with its hash does not belong to its megaflow; or its program does more than send (the program of a single
/// packet may also rewrite and copy). The next [`PAUSE`] batches of this port then go to the general stages at once,
/// because their packets are probably of the same kind.
#[inline(always)]
fn find<'g, L: Level>(
    level: L,
    shared: &Shared,
    guard: &'g MegaflowGuard<'_>,
    port_megaflows: &PortMegaflows,
    engine: &mut Engine,
) -> Option<BatchPrograms<'g>> {
    let Engine {
        batch, caches: Caches { cache, recent, .. }, tally, view: View { validate: false, .. }, ..
    } = engine
    else {
        return None;
    };
    let (depth, mask) = port_megaflows.short()?;
    let Batch { frames, lines, tcp_flags, found, base: Some(base), own, common, .. } = &mut *batch else {
        return None;
    };
    let base: &Line = base;
    let recent = &mut recent[slot(common.in_port, common.passes)];
    if recent.skip_small != 0 || !own.is_empty() {
        recent.skip_small = recent.skip_small.saturating_sub(1);
        return None;
    }
    recent.skip_small = PAUSE;
    let (records, look_up) = (guard.records(), LookUp { mask, depth, secret: &shared.secrets.cache });
    let before = if recent.pause == 0 { records.get(recent.index) } else { None };
    let (mut all, mut port, mut other) = (0, u32::MAX, false);
    let (mut programs, mut as_before) = ([None; SMALL], 0);
    let n = frames.len().min(SMALL);
    for (i, frame) in frames[..n].iter().enumerate() {
        let line = &mut lines[i % SMALL];
        read_plain_ipv4(frame, PlainIpv4 { base, depth, level }, line, &mut tcp_flags[i % SMALL])?;
        let megaflow = match before {
            Some(megaflow) if megaflow.matches_line(line, depth) => {
                as_before += 1;
                found[i % SMALL] = recent.index;
                megaflow
            }
            _ => look_up.find(&records, cache, line, &mut found[i % SMALL])?,
        };
        let Summary::Send { port: to, op_flags } = megaflow.payload.summary else { return None };
        other |= i != 0 && to != port;
        (all, port) = (all | op_flags, to);
        programs[i % SMALL] = Some(&megaflow.payload);
    }
    // Several packets are rewritten faster together, by the general stages.
    if all & !(REWRITES | COPIES) != 0 || (all != 0 && n > 1) {
        return None;
    }
    recent.skip_small = 0;
    recent.pause = match before {
        Some(_) if as_before * 4 < n => PAUSE,
        Some(_) => 0,
        None => recent.pause.saturating_sub(1),
    };
    recent.index = found[(n - 1) % SMALL];
    (batch.depth, batch.shares_key) = (depth, false);
    if as_before != n
        && let Cache::Narrow(cache) = cache
    {
        let cached = (n - as_before) as u32;
        cache.account(batch.common.in_port, cached, cached);
    }
    tally.add(Event::CacheHit, n as u64);
    tally.add(Event::FrontHit, as_before as u64);
    // No packet of this batch has metadata of its own (checked above), so none was recirculated.
    if port_megaflows.is_by_kind() {
        tally.add(Event::SimpleHit, as_before as u64);
    }
    Some(BatchPrograms { programs, port: (all == 0 && !other).then_some(port) })
}

/// How packets of a port are looked up in the flow cache.
struct LookUp<'a> {
    mask: &'a Line,
    depth: Depth,
    secret: &'a Secret,
}

impl LookUp<'_> {
    /// Returns the megaflow of the packet with this line, and stores its index in `found`.
    #[inline(always)]
    fn find<'g>(
        &self,
        records: &Records<'g, Megaflow<Program>>,
        cache: &mut Cache,
        line: &Line,
        found: &mut u32,
    ) -> Option<&'g Megaflow<Program>> {
        let Cache::Narrow(cache) = cache else { return None };
        let index = cache.candidate(cpu::hash_line(line, self.mask, self.secret))?;
        *found = index;
        records.get(index).filter(|megaflow| megaflow.matches_line(line, self.depth))
    }
}

/// Counts each packet for its megaflow.
#[inline(always)]
fn count(engine: &mut Engine) {
    let Engine { batch, lane, now, .. } = engine;
    for (i, frame) in batch.frames.iter().enumerate() {
        let (index, tcp_flags) = (batch.found[i % SMALL], batch.tcp_flags[i % SMALL]);
        lane.count(index, 1, frame.len() as u64, now.0 as u32, tcp_flags);
    }
}

/// Executes the program of each packet.
#[inline(never)]
fn send_each(engine: &mut Engine, programs: &[Option<&Program>; SMALL]) {
    let mut frames = std::mem::take(&mut engine.batch.frames);
    for (i, (frame, program)) in frames.drain(..).zip(programs.iter().flatten()).enumerate() {
        run_on_frame(engine, &program.ops, i, frame);
    }
    engine.batch.frames = frames;
}
