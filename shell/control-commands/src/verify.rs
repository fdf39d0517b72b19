//! `revalidator/verify`: while no change is pending, translates every megaflow again, and compares the results with the
//! megaflows.
//!
//! Sluice's own command. A difference is a bug of the switch (a translation did not record a dependency), or a megaflow
//! that `dpctl/mod-flow` changed. Nothing is repaired, so that the difference can be examined. Tests run this
//! command at their end.
//!
//! The megaflows are compared in steps, one per turn of the main loop, so that the loop is not blocked.

use dpif::DpFlow;
use dpif::text::{NoNames, actions_text, ufid_text};
use std::collections::BTreeMap;
use switch::{Backer, Switch};
use translation::compare;

/// Number of megaflow indices per step: at about 5 µs per translation, a step takes about 20 ms.
const STEP: u32 = 4096;
/// Maximum number of wrong megaflows that are listed for each datapath; all of them are counted.
const LISTED: usize = 20;

/// Progress of the comparison.
#[derive(Default)]
pub struct Verify {
    /// The index of the current datapath, in the order of `datapath_type`.
    datapath: usize,
    /// The next megaflow index in that datapath.
    next: u32,
    found: BTreeMap<String, Comparison>,
}

/// The result of the comparison for one datapath.
#[derive(Default)]
struct Comparison {
    right: u64,
    wrong: u64,
    lines: String,
}

impl Verify {
    /// Runs one step. Returns the reply when all megaflows were compared, otherwise the state for the next step, as `Err`.
    pub(crate) fn step(mut self, switch: &mut Switch) -> Result<String, Verify> {
        switch.publish_changes();
        if !switch.revalidation_paused && switch.datapaths.with_bridges().any(Backer::has_pending_changes) {
            return Err(self);
        }
        let Some(backer) = switch.datapaths.with_bridges().nth(self.datapath) else { return Ok(self.text()) };
        let found = self.found.entry(backer.name()).or_default();
        let mut step = Comparison::default();
        for flow in backer.datapath.flows_at(self.next..self.next + STEP) {
            step.compare_one(backer, &flow);
        }
        if step.wrong > 0 && !switch.revalidation_paused && backer.has_pending_changes() {
            // A learned address may have moved during the step: compare the same megaflows again when the
            // megaflows that depend on it have been revalidated.
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
        let one = |(name, found): (&String, &Comparison)| {
            format!("{name}: {} megaflows correct, {} wrong\n{}", found.right, found.wrong, found.lines)
        };
        self.found.iter().map(one).collect()
    }
}

impl Comparison {
    fn compare_one(&mut self, backer: &Backer, flow: &DpFlow) {
        let result = compare(&backer.upcall_translator, &backer.shared.published(), flow);
        if !result.is_wrong() {
            self.right += 1;
            return;
        }
        self.wrong += 1;
        let did = actions_text(&flow.actions, &NoNames);
        self.lines += &format!("  {}: actions: {did}, expected: {}\n", ufid_text(flow.ufid), result.wanted());
    }

    fn add(&mut self, step: Comparison) {
        let lines_left = LISTED.saturating_sub(self.lines.lines().count());
        self.lines.extend(step.lines.split_inclusive('\n').take(lines_left));
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
            found.add(Comparison { right: 2, wrong: 15, lines });
        }
        let text = verify.text();
        assert!(text.starts_with("dummy@ovs-dummy: 4 megaflows correct, 30 wrong\n  x\n"), "{text}");
        assert_eq!(text.lines().count(), 1 + LISTED);
    }
}
