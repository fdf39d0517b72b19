//! Selects the megaflows that are translated again, and the time for it.
//!
//! - **After a change**: the megaflows that it may affect, at once. A change that affects very many is treated as a
//!   change of everything, so that it does not delay other changes.
//! - **After a change of everything**: all megaflows, step by step; other changes are handled between steps.
//! - **Sweep**: all megaflows over and over, slowly enough to cost nothing. A wrong megaflow found by it was missed by
//!   the above: it is repaired, counted and logged with what is needed to find the reason. This should not happen.

use super::check::{CheckResult, compare, repair};
use super::history::History;
use crate::changes::Changes;
use crate::published::Published;
use crate::shared_state::SharedState;
use crate::upcall::handler::Handler;
use datapath::{AffectedMatches, Datapath};
use runtime::coverage::Counter;
use runtime::{Module, RateLimit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Millis, Ufid};

static LOG: Module = Module::new("ofproto_dpif_upcall");
static LIMIT: RateLimit = RateLimit::new(1, 5);
/// Wrong megaflows that only the sweep found.
static REPAIRED: Counter = Counter::new("revalidate_repaired");
/// Megaflows that a change may have affected.
static AFFECTED: Counter = Counter::new("revalidate_concerned");

/// Indices of megaflows that are searched in one step for those that changes affect.
const SEARCH_STEP: u32 = 8192;
/// A change that affects more megaflows than this is treated as a change of everything.
const AFFECTED_MAX: usize = 4096;
/// Megaflows translated in one step of a pass over all.
const STEP: u32 = 256;
/// Megaflows in one step of expiry: statistics are collected, idle megaflows removed.
const IDLE_STEP: u32 = 1024;
/// Steps of one sweep over all megaflows.
const SWEEP_STEPS: u32 = 600;
/// Pairs of a change and a set of dependencies to compare. Beyond that, translating all megaflows again is faster.
const PAIRS_MAX: usize = 20_000;

/// Pending work and its progress.
pub(super) struct Passes {
    datapath: Arc<Datapath>,
    shared: Arc<SharedState>,
    handler: Arc<Handler>,
    name: String,
    /// Indices that the pass over all still has to check, and the next one.
    left: u32,
    next: u32,
    /// The next index of the expiry pass; `None`: the pass is complete.
    idle: Option<u32>,
    /// The next index of the sweep, and megaflows that seemed wrong to it although no change was pending.
    sweep_at: u32,
    suspects: Vec<Ufid>,
    /// The switch ends: no further megaflow is translated.
    stop: Arc<AtomicBool>,
    history: History,
}

impl Passes {
    pub(super) fn new(
        name: &str,
        datapath: &Arc<Datapath>,
        shared: &Arc<SharedState>,
        handler: &Arc<Handler>,
    ) -> Passes {
        // Registered at the start so that it is shown as 0.
        REPAIRED.register();
        Passes {
            datapath: Arc::clone(datapath),
            shared: Arc::clone(shared),
            handler: Arc::clone(handler),
            name: name.to_owned(),
            left: 0,
            next: 0,
            idle: None,
            sweep_at: 0,
            suspects: Vec::new(),
            stop: Arc::default(),
            history: History::default(),
        }
    }

    /// A flag by which another thread ends the current step between two megaflows: a step may have thousands of them,
    /// and a translation may take some ten milliseconds if tables loop.
    pub(super) fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Wakes the main loop.
    pub(super) fn wake(&self) {
        self.shared.wake();
    }

    /// Whether a pass over all is in progress.
    pub(super) fn is_under_way(&self) -> bool {
        self.left != 0
    }

    /// Takes over published changes.
    pub(super) fn take(&mut self, changes: &Changes, now: Millis) {
        if changes.is_empty() {
            return;
        }
        self.history.note(changes, now);
        match self.affected_matches(changes) {
            Some(matches) => self.check_affected(&matches, now),
            None => self.begin(0),
        }
        self.datapath.reclaim(now);
    }

    /// Begins a pass over all.
    fn begin(&mut self, next: u32) {
        let end = self.datapath.flow_end();
        (self.left, self.next) = (end, if next < end { next } else { 0 });
    }

    /// The megaflows that the changes affect, as matches; `None`: all.
    fn affected_matches(&self, changes: &Changes) -> Option<AffectedMatches> {
        let dependency_sets = self.shared.dependency_sets();
        if changes.is_all() || changes.list().len() * dependency_sets.len() > PAIRS_MAX {
            return None;
        }
        let mut affected = AffectedMatches::default();
        for (number, dependencies) in dependency_sets {
            let matches = changes.list().iter().flat_map(|change| dependencies.concerned_by(change));
            affected.add(number, &matches.collect::<Vec<_>>());
        }
        Some(affected)
    }

    fn check_affected(&mut self, matches: &AffectedMatches, now: Millis) {
        let published = self.shared.published();
        let (mut from, mut found) = (0, 0);
        while from < self.datapath.flow_end() {
            for flow in self.datapath.affected_flows(matches, from..from + SEARCH_STEP) {
                if self.is_stopped() {
                    return;
                }
                self.check(&published, &flow, now);
                found += 1;
            }
            from += SEARCH_STEP;
            if found > AFFECTED_MAX {
                return self.begin(from);
            }
        }
        AFFECTED.add(found as u64);
    }

    fn check(&self, published: &Published, flow: &dpif::DpFlow, now: Millis) -> CheckResult {
        let finding = compare(&self.handler, published, flow);
        repair(&self.datapath, &self.name, flow, finding, now)
    }

    /// Does the next step of a pass over all.
    pub(super) fn continue_pass(&mut self, now: Millis) {
        let published = self.shared.published();
        let step = STEP.min(self.left);
        for flow in self.datapath.flows_at(self.next..self.next + step) {
            if self.is_stopped() {
                return;
            }
            self.check(&published, &flow, now);
        }
        self.left -= step;
        self.next = if self.next + step < self.datapath.flow_end() { self.next + step } else { 0 };
        if self.left == 0 {
            self.datapath.reclaim(now);
            self.remove_unused_dependency_sets();
        }
    }

    /// Completes a pass over all.
    pub(super) fn complete_pass(&mut self, now: Millis) {
        while self.is_under_way() {
            self.continue_pass(now);
        }
    }

    /// Begins an expiry pass.
    pub(super) fn begin_expiry(&mut self) {
        self.idle.get_or_insert(0);
    }

    /// Whether an expiry pass is in progress.
    pub(super) fn is_expiring(&self) -> bool {
        self.idle.is_some()
    }

    /// Remaining steps of the expiry pass.
    pub(super) fn expiry_steps(&self) -> u32 {
        self.idle.map_or(0, |from| self.datapath.flow_end().saturating_sub(from).div_ceil(IDLE_STEP))
    }

    /// Does a step of expiry: collects statistics and removes megaflows that were unused for `idle`.
    pub(super) fn expire_some(&mut self, idle: Millis, now: Millis) {
        let Some(from) = self.idle else { return };
        let to = from + IDLE_STEP;
        self.datapath.expire_at(from..to, now.since(idle), now);
        let done = to >= self.datapath.flow_end();
        self.idle = (!done).then_some(to);
        if done {
            self.datapath.tidy(now);
        }
    }

    /// Does expiry for all megaflows.
    pub(super) fn expire(&self, idle: Millis, now: Millis) {
        self.datapath.expire(now.since(idle), now);
        self.datapath.tidy(now);
    }

    /// If there are many sets of dependencies, removes those that no megaflow has.
    fn remove_unused_dependency_sets(&self) {
        if self.shared.has_many_dependency_sets() {
            self.shared.retain_dependency_sets(&self.datapath.dependency_sets());
        }
    }

    /// Does a step of the sweep. `settled`: the version for which revalidation is complete; with another version
    /// nothing is reported.
    pub(super) fn sweep(&mut self, settled: u64, now: Millis) {
        let published = self.shared.published();
        let quiet = || published.version == settled && !self.shared.live.is_ahead();
        // Checks suspects a second time, so that a change during the first check is not taken for a bug.
        let suspects = std::mem::take(&mut self.suspects);
        for flow in suspects.iter().filter_map(|ufid| self.datapath.flow_get(*ufid, now)) {
            let dependency_set = self.datapath.flow_dependency_set(flow.ufid).unwrap_or_default();
            let finding = compare(&self.handler, &published, &flow);
            if finding.is_wrong() && quiet() {
                REPAIRED.hit();
                let told = (&flow, dependency_set);
                let line = self.history.line(&self.shared, &published, told, &finding, now);
                runtime::warn_rl!(LOG, LIMIT, "{}: {line}", self.name);
                repair(&self.datapath, &self.name, &flow, finding, now);
            }
        }
        let end = self.datapath.flow_end();
        let step = end.div_ceil(SWEEP_STEPS);
        for flow in self.datapath.flows_at(self.sweep_at..self.sweep_at + step) {
            if self.is_stopped() {
                return;
            }
            if compare(&self.handler, &published, &flow).is_wrong() && quiet() {
                self.suspects.push(flow.ufid);
            }
        }
        self.sweep_at = if self.sweep_at + step < end { self.sweep_at + step } else { 0 };
    }
}
