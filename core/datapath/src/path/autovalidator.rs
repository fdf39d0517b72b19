//! Autovalidator (`dpif-netdev/subtable-lookup-prio-set autovalidator`): every packet is looked up once
//! more by a linear search, and the result is compared with that of the other stages.
//!
//! It detects faults of parsing, depths, hashes, masks, caches and vector instructions. It is slow and only meant for
//! finding such faults. A megaflow that is added or removed between the two look-ups is not reported.

use super::extract::wide_key;
use super::megaflow_guard::MegaflowGuard;
use crate::batch::{BATCH, Batch, NONE};
use crate::engine::Engine;
use crate::shared::Shared;
use classifier::megaflow::{Column, Key, PortMegaflows, Rests};
use std::sync::atomic::Ordering;

/// Runs after the look-ups, and before [`hold_back`](super::park::hold_back) turns hits into misses.
#[inline]
pub(crate) fn stage(
    shared: &Shared,
    guard: &MegaflowGuard<'_>,
    port_megaflows: &PortMegaflows,
    engine: &mut Engine,
) {
    if engine.view.validate {
        every(shared, guard, port_megaflows, engine);
    }
}

#[cold]
fn every(shared: &Shared, guard: &MegaflowGuard<'_>, port_megaflows: &PortMegaflows, engine: &mut Engine) {
    engine.batch.spread_metadata();
    let batch = &engine.batch;
    for (i, frame) in batch.frames.iter().enumerate().take(batch.keys()) {
        let (key, _) = wide_key(frame.bytes(), batch.meta(i));
        let found = (batch.found[i] != NONE).then_some(batch.found[i]);
        let Some(naive) = difference(guard, port_megaflows, batch, i, found, &key) else { continue };
        shared.lookup_differences.fetch_add(1, Ordering::Relaxed);
        if let Some(handler) = &*engine.view.handler {
            let ufid = |index: Option<u32>| shared.flows().ufid_at(index?);
            handler.lookups_differ(frame.bytes(), ufid(found), ufid(naive));
        }
    }
}

/// Returns the result of the linear search, if it differs from `found`.
fn difference(
    guard: &MegaflowGuard<'_>,
    port_megaflows: &PortMegaflows,
    batch: &Batch,
    i: usize,
    found: Option<u32>,
    key: &Key,
) -> Option<Option<u32>> {
    if let Some(index) = found {
        // Megaflows may overlap, so any megaflow that matches the packet is right. A megaflow that was removed
        // meanwhile cannot be checked.
        let wrong = guard.get(index).is_some_and(|m| !m.matches_naively(key));
        return wrong.then(|| port_megaflows.find_naively(guard, key));
    }
    let misses = || find_fast(guard, port_megaflows, batch, i).is_none();
    let naive = || port_megaflows.find_naively(guard, key);
    // The megaflow may have been added after the look-up, or may be about to be removed. So the difference is reported
    // only if the linear search finds the megaflow both before and after a second miss.
    let index = naive()?;
    (misses() && naive() == Some(index)).then_some(Some(index))
}

/// Looks up the packet with the same key and the same subtables as its batch.
fn find_fast(
    guard: &MegaflowGuard<'_>,
    port_megaflows: &PortMegaflows,
    batch: &Batch,
    i: usize,
) -> Option<u32> {
    let exts: Vec<Column> = batch.exts.iter().map(|column| [column[i]; BATCH]).collect();
    let rests =
        Rests { exts: &exts, options: batch.options.get(i..).unwrap_or_default(), filled: batch.words };
    let mut found = None;
    let keys = (&batch.lines[i..=i], rests, batch.depth);
    port_megaflows.lookup_batch(guard, keys, &mut 1, |_, _, indices| found = Some(indices[0]));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::extract::read;
    use crate::program::Program;
    use classifier::megaflow::{InsertResult, KeyMask, MegaflowTable};
    use flow::Flow;

    fn tcp(nw_src: u32) -> Flow {
        Flow { in_port: 1, nw_src, ..crate::tests::tcp(1, 80) }
    }

    #[test]
    fn what_differs_is_told_and_what_came_meanwhile_is_not() {
        let (table, mut publisher) = MegaflowTable::<Program>::new(100, 8, 7);
        let mask = KeyMask::from_flow(&Flow { nw_src: u32::MAX, ..Flow::ZERO });
        let mut insert = |src| {
            let added = publisher.insert(1, &Key::from_flow(&tcp(src)), &mask, Program::compile(&[]));
            let InsertResult::New(index) = added else { panic!() };
            index
        };
        let [mine, other] = [insert(10), insert(11)];
        let (port_megaflows, mut reader) = (table.port_megaflows(1).unwrap(), table.reader());
        let guard = reader.enter();
        let bytes = flow::compose::compose(&tcp(10), b"");
        let mut pool = crate::port::FramePool::new(8);
        let mut batch = Batch { common: crate::packet::Meta::received(1), ..Batch::default() };
        batch.frames.extend(pool.frame_of(&bytes));
        read(&mut batch, port_megaflows.depth(), port_megaflows.words());
        let (key, _) = wide_key(&bytes, batch.meta(0));
        let differs = |batch: &Batch, found| difference(&guard, &port_megaflows, batch, 0, found, &key);
        assert_eq!(differs(&batch, Some(mine)), None);
        assert_eq!(differs(&batch, Some(other)), Some(Some(mine)), "another's");
        assert_eq!(differs(&batch, None), None, "it is found now");
        batch.lines[0][3] ^= 4 << 32;
        assert_eq!(differs(&batch, None), Some(Some(mine)), "parsed wrongly");
    }
}
