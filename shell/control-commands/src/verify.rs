//! `revalidator/verify`: every megaflow is translated again and compared with what it does, when nothing is changing.
//!
//! Sluice's own command. What it finds is a fault of the switch (a dependency that a translation does not record, or a megaflow
//! that was changed by `dpctl/mod-flow`); it repairs nothing, so that it can be looked at. Tests end with it.
//!
//! A table of megaflows is looked at in steps, one in each turn of the main loop, so that the loop is not held up.

use dpif::DpFlow;
use dpif::text::{NoNames, actions_text, ufid_text};
use std::collections::BTreeMap;
use switch::{Backer, Switch};
use translation::compare;

/// Indices of megaflows in one step: at some 5 µs for each translation the loop is busy for 20 ms at most.
const STEP: u32 = 4096;
/// Megaflows that are listed for each datapath; all are counted.
const LISTED: usize = 20;

/// How far it is.
#[derive(Default)]
pub struct Verify {
    /// The datapath that is being looked at, in the order of their types, and the next index there.
    datapath: usize,
    next: u32,
    found: BTreeMap<String, Found>,
}

/// What was found in a datapath.
#[derive(Default)]
struct Found {
    right: u64,
    wrong: u64,
    lines: String,
}

impl Verify {
    /// One step; the answer, once there is nothing left.
    pub(crate) fn step(mut self, switch: &mut Switch) -> Result<String, Verify> {
        switch.publish_changes();
        if !switch.paused && switch.datapaths.of_bridges().any(Backer::is_unsettled) {
            return Err(self);
        }
        let Some(backer) = switch.datapaths.of_bridges().nth(self.datapath) else { return Ok(self.text()) };
        let found = self.found.entry(backer.name()).or_default();
        let mut step = Found::default();
        for flow in backer.datapath.flows_at(self.next..self.next + STEP) {
            step.look_at(backer, &flow);
        }
        if step.wrong > 0 && !switch.paused && backer.is_unsettled() {
            // A station moved meanwhile: the same ones again, when that has been dealt with.
            return Err(self);
        }
        found.add(step);
        self.next += STEP;
        if self.next >= backer.datapath.flow_end() {
            (self.datapath, self.next) = (self.datapath + 1, 0);
        }
        Err(self)
    }

    fn text(&self) -> String {
        let one = |(name, found): (&String, &Found)| {
            format!(
                "{name}: {} megaflows as the tables say, {} not\n{}",
                found.right, found.wrong, found.lines
            )
        };
        self.found.iter().map(one).collect()
    }
}

impl Found {
    fn look_at(&mut self, backer: &Backer, flow: &DpFlow) {
        let finding = compare(&backer.handler, &backer.shared.published(), flow);
        if !finding.is_wrong() {
            self.right += 1;
            return;
        }
        self.wrong += 1;
        let did = actions_text(&flow.actions, &NoNames);
        self.lines += &format!("  {}: does {did}, should do {}\n", ufid_text(flow.ufid), finding.wanted());
    }

    fn add(&mut self, step: Found) {
        let room = LISTED.saturating_sub(self.lines.lines().count());
        self.lines.extend(step.lines.split_inclusive('\n').take(room));
        (self.right, self.wrong) = (self.right + step.right, self.wrong + step.wrong);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_counted_and_some_are_listed() {
        let mut verify = Verify::default();
        let found = verify.found.entry("dummy@ovs-dummy".to_owned()).or_default();
        for _ in 0..2 {
            let lines = "  x\n".repeat(15);
            found.add(Found { right: 2, wrong: 15, lines });
        }
        let text = verify.text();
        assert!(text.starts_with("dummy@ovs-dummy: 4 megaflows as the tables say, 30 not\n  x\n"), "{text}");
        assert_eq!(text.lines().count(), 1 + LISTED);
    }
}
