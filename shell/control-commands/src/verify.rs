//! `revalidator/verify`: translates every megaflow again and compares the results, when nothing is changing.
//!
//! Sluice's own command. A difference is a bug of the switch (a dependency that a translation does not record), or a
//! megaflow that was changed by `dpctl/mod-flow`. Nothing is repaired, so that it can be examined. Tests end with this
//! command.
//!
//! The megaflows are compared in steps, one per iteration of the main loop, so that the loop is not blocked.

use dpif::DpFlow;
use dpif::text::{NoNames, actions_text, ufid_text};
use std::collections::BTreeMap;
use switch::{Backer, Switch};
use translation::compare;

/// Indices of megaflows per step: at some 5 µs per translation a step takes 20 ms at most.
const STEP: u32 = 4096;
/// Megaflows that are listed for each datapath; all are counted.
const LISTED: usize = 20;

/// Progress of the comparison.
#[derive(Default)]
pub struct Verify {
    /// The current datapath, in the order of types, and the next index there.
    datapath: usize,
    next: u32,
    found: BTreeMap<String, Found>,
}

/// Differences in a datapath.
#[derive(Default)]
struct Found {
    right: u64,
    wrong: u64,
    lines: String,
}

impl Verify {
    /// Does one step; returns the reply when all megaflows were compared.
    pub(crate) fn step(mut self, switch: &mut Switch) -> Result<String, Verify> {
        switch.publish_changes();
        if !switch.paused && switch.datapaths.of_bridges().any(Backer::is_unsettled) {
            return Err(self);
        }
        let Some(backer) = switch.datapaths.of_bridges().nth(self.datapath) else { return Ok(self.text()) };
        let found = self.found.entry(backer.name()).or_default();
        let mut step = Found::default();
        for flow in backer.datapath.flows_at(self.next..self.next + STEP) {
            step.compare_one(backer, &flow);
        }
        if step.wrong > 0 && !switch.paused && backer.is_unsettled() {
            // A station moved meanwhile: compare the same megaflows again when that change is complete.
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
    fn compare_one(&mut self, backer: &Backer, flow: &DpFlow) {
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
