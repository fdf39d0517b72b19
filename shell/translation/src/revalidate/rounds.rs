//! Decides which megaflows are revalidated, and when.
//!
//! - **After a change**: the megaflows that the change may affect, at once. A change that affects very many megaflows is
//!   treated as a change of everything, so that it does not delay other changes.
//! - **After a change of everything**: a round over all megaflows, in steps. Other changes are handled between the steps.
//! - **Sweep**: all megaflows again and again, in steps that are small enough to cost nearly no time. If the sweep finds a
//!   wrong megaflow, the search for affected megaflows has a bug: the megaflow is repaired and counted, and the log line
//!   contains the data for finding the bug.
//!
//! Expiry rounds collect statistics and remove idle megaflows, in steps as well.

use super::affected;
use super::check::{CheckResult, compare, repair};
use super::history::History;
use crate::changes::Changes;
use crate::published::PublishedState;
use crate::shared_state::SharedState;
use crate::upcall::translator::UpcallTranslator;
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
/// Megaflows that were found to be affected by a change, including those of a search that ended in a round over all megaflows.
static AFFECTED: Counter = Counter::new("revalidate_affected");

/// Number of megaflow indices that one step searches for affected megaflows.
const SEARCH_STEP: u32 = 8192;
/// A change that affects more megaflows than this is treated as a change of everything.
const AFFECTED_MAX: usize = 4096;
/// Number of megaflow indices that one step of a round over all megaflows checks.
const ROUND_STEP: u32 = 256;
/// Number of megaflow indices in one step of expiry.
const EXPIRY_STEP: u32 = 1024;
/// Number of steps of one sweep over all megaflows: at 10 steps a second a sweep takes a minute.
const SWEEP_STEPS: u32 = 600;
/// Maximum number of comparisons (changes × sets of dependencies). With more, translating all megaflows again is faster.
const COMPARISONS_MAX: usize = 20_000;

/// The state of revalidation, expiry and sweep.
pub(super) struct Rounds {
    datapath: Arc<Datapath>,
    shared: Arc<SharedState>,
    translator: Arc<UpcallTranslator>,
    name: String,
    /// Number of indices that the round over all megaflows still has to check; 0: no round is in progress.
    round_left: u32,
    /// The next index of the round.
    round_next: u32,
    /// The next index of the expiry round; `None`: no expiry round is in progress.
    expiry_next: Option<u32>,
    /// The next index of the sweep.
    sweep_next: u32,
    /// Megaflows that the last step of the sweep found wrong although no change was pending.
    sweep_suspects: Vec<Ufid>,
    /// Set when the revalidator ends: no further megaflow is translated.
    stop_flag: Arc<AtomicBool>,
    history: History,
}

impl Rounds {
    pub(super) fn new(
        name: &str,
        datapath: &Arc<Datapath>,
        shared: &Arc<SharedState>,
        translator: &Arc<UpcallTranslator>,
    ) -> Rounds {
        // Registered at the start, so that the counter is shown although it is 0.
        REPAIRED.register();
        Rounds {
            datapath: Arc::clone(datapath),
            shared: Arc::clone(shared),
            translator: Arc::clone(translator),
            name: name.to_owned(),
            round_left: 0,
            round_next: 0,
            expiry_next: None,
            sweep_next: 0,
            sweep_suspects: Vec::new(),
            stop_flag: Arc::default(),
            history: History::default(),
        }
    }

    /// A flag by which another thread ends the current step between two megaflows. A step may check thousands of megaflows,
    /// and one translation may take about 10 ms if the tables resubmit in a loop.
    pub(super) fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop_flag)
    }

    fn is_stopped(&self) -> bool {
        self.stop_flag.load(Ordering::Relaxed)
    }

    /// Wakes the main thread.
    pub(super) fn wake(&self) {
        self.shared.wake();
    }

    /// Whether a round over all megaflows is in progress.
    pub(super) fn round_in_progress(&self) -> bool {
        self.round_left != 0
    }

    /// Records changes that affected no megaflow.
    pub(super) fn note_without_effect(&mut self, changes: &Changes, now: Millis) {
        if !changes.is_empty() {
            self.history.note(changes, now);
        }
    }

    /// Revalidates the megaflows that published changes affect, or begins a round over all megaflows.
    pub(super) fn handle_changes(&mut self, changes: &Changes, now: Millis) {
        if changes.is_empty() {
            return;
        }
        self.history.note(changes, now);
        match affected::matches(&self.shared, changes, COMPARISONS_MAX) {
            Some(matches) => self.check_affected(&matches, now),
            None => self.begin_round(0),
        }
        self.datapath.reclaim(now);
    }

    /// Begins a round over all megaflows, at index `next`.
    fn begin_round(&mut self, next: u32) {
        let end = self.datapath.flow_end();
        (self.round_left, self.round_next) = (end, if next < end { next } else { 0 });
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
                AFFECTED.add(found as u64);
                return self.begin_round(from);
            }
        }
        AFFECTED.add(found as u64);
    }

    fn check(&self, published: &PublishedState, flow: &dpif::DpFlow, now: Millis) -> CheckResult {
        let comparison = compare(&self.translator, published, flow);
        repair(&self.datapath, &self.name, flow, comparison, now)
    }

    /// Does the next step of a round over all megaflows.
    pub(super) fn continue_round(&mut self, now: Millis) {
        let published = self.shared.published();
        let step = ROUND_STEP.min(self.round_left);
        for flow in self.datapath.flows_at(self.round_next..self.round_next + step) {
            if self.is_stopped() {
                return;
            }
            self.check(&published, &flow, now);
        }
        self.round_left -= step;
        self.round_next =
            if self.round_next + step < self.datapath.flow_end() { self.round_next + step } else { 0 };
        if self.round_left == 0 {
            self.datapath.reclaim(now);
            self.remove_unused_dependency_sets();
        }
    }

    /// Completes the round over all megaflows.
    pub(super) fn complete_round(&mut self, now: Millis) {
        while self.round_in_progress() {
            self.continue_round(now);
        }
    }

    /// Begins an expiry round, unless one is in progress.
    pub(super) fn begin_expiry(&mut self) {
        self.expiry_next.get_or_insert(0);
    }

    /// Whether an expiry round is in progress.
    pub(super) fn is_expiring(&self) -> bool {
        self.expiry_next.is_some()
    }

    /// Number of remaining steps of the expiry round.
    pub(super) fn expiry_steps(&self) -> u32 {
        self.expiry_next.map_or(0, |from| self.datapath.flow_end().saturating_sub(from).div_ceil(EXPIRY_STEP))
    }

    /// Does a step of the expiry round: collects statistics and removes megaflows that were unused for `idle`.
    pub(super) fn expire_some(&mut self, idle: Millis, now: Millis) {
        let Some(from) = self.expiry_next else { return };
        let to = from + EXPIRY_STEP;
        self.datapath.expire_at(from..to, now.since(idle), now);
        let done = to >= self.datapath.flow_end();
        self.expiry_next = (!done).then_some(to);
        if done {
            self.datapath.tidy(now);
        }
    }

    /// Does a complete expiry round.
    pub(super) fn expire(&self, idle: Millis, now: Millis) {
        self.datapath.expire(now.since(idle), now);
        self.datapath.tidy(now);
    }

    /// If many sets of dependencies are stored, removes the sets that no megaflow has.
    fn remove_unused_dependency_sets(&self) {
        if self.shared.has_many_dependency_sets() {
            self.shared.retain_dependency_sets(&self.datapath.dependency_sets());
        }
    }

    /// Does a step of the sweep. `settled`: the version of the snapshot up to which revalidation is complete. If a newer
    /// snapshot has been published, differences are expected and not reported.
    pub(super) fn sweep(&mut self, settled: u64, now: Millis) {
        let published = self.shared.published();
        let no_change_pending =
            || published.version == settled && !self.shared.live.has_undelivered_changes();
        // The suspects of the previous step are checked a second time, so that a change that came during the first check is
        // not reported as a bug.
        let suspects = std::mem::take(&mut self.sweep_suspects);
        for flow in suspects.iter().filter_map(|ufid| self.datapath.flow_get(*ufid, now)) {
            let dependency_set = self.datapath.flow_dependency_set(flow.ufid).unwrap_or_default();
            let comparison = compare(&self.translator, &published, &flow);
            if comparison.is_wrong() && no_change_pending() {
                REPAIRED.hit();
                let described = (&flow, dependency_set);
                let line = self.history.line(&self.shared, &published, described, &comparison, now);
                runtime::warn_rl!(LOG, LIMIT, "{}: {line}", self.name);
                repair(&self.datapath, &self.name, &flow, comparison, now);
            }
        }
        let end = self.datapath.flow_end();
        let step = end.div_ceil(SWEEP_STEPS);
        for flow in self.datapath.flows_at(self.sweep_next..self.sweep_next + step) {
            if self.is_stopped() {
                return;
            }
            if compare(&self.translator, &published, &flow).is_wrong() && no_change_pending() {
                self.sweep_suspects.push(flow.ufid);
            }
        }
        self.sweep_next = if self.sweep_next + step < end { self.sweep_next + step } else { 0 };
    }
}
