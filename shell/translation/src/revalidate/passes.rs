//! Which megaflows are translated again.
//!
//! * **Of a change**: those that it may concern, at once. A change that turns out to concern very many is treated as one of
//!   everything from there on, so that other changes are not held up.
//! * **Of everything**: all of them, some at a time; changes come between.
//! * **To be safe**: all of them, over and over, so slowly that it costs nothing. What is found wrong there has escaped the
//!   above: it is repaired, counted and logged with what is needed to find the reason, and should not happen.

use super::check::{Verdict, compare, repair};
use super::history::History;
use crate::changes::Changes;
use crate::published::Published;
use crate::shared_state::SharedState;
use crate::upcall::handler::Handler;
use datapath::{Concerns, Datapath};
use runtime::coverage::Counter;
use runtime::{Module, RateLimit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use units::{Millis, Ufid};

static LOG: Module = Module::new("ofproto_dpif_upcall");
static LIMIT: RateLimit = RateLimit::new(1, 5);
/// Megaflows that were wrong although nothing had said so.
static REPAIRED: Counter = Counter::new("revalidate_repaired");
/// Megaflows that a change may have concerned.
static CONCERNED: Counter = Counter::new("revalidate_concerned");

/// Indices that are searched for concerned megaflows in one go.
const SEARCH: u32 = 8192;
/// A change that concerns more than so many megaflows is everything's.
const VERY_MANY: usize = 4096;
/// Megaflows translated in a step of a pass over all.
const STEP: u32 = 256;
/// Megaflows whose statistics are taken, and which go if they are idle, in a step of the look for those.
const IDLE_STEP: u32 = 1024;
/// The slow pass is once round after so many of its steps.
const SAFETY_STEPS: u32 = 600;
/// Pairs of a change and a set of dependencies. To compare more takes longer than to translate all megaflows again.
const PAIRS: usize = 20_000;

/// What is to be done, and how far it is.
pub(super) struct Passes {
    datapath: Arc<Datapath>,
    shared: Arc<SharedState>,
    handler: Arc<Handler>,
    name: String,
    /// Indices that a pass over all has still to look at, and where it goes on.
    left: u32,
    next: u32,
    /// Where the look for idle megaflows goes on; `None`: it has been round.
    idle: Option<u32>,
    /// Where the slow pass goes on, and which megaflows seemed wrong to it when all was settled.
    safety: u32,
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
        // That it is 0 can be asked from the start.
        REPAIRED.register();
        Passes {
            datapath: Arc::clone(datapath),
            shared: Arc::clone(shared),
            handler: Arc::clone(handler),
            name: name.to_owned(),
            left: 0,
            next: 0,
            idle: None,
            safety: 0,
            suspects: Vec::new(),
            stop: Arc::default(),
            history: History::default(),
        }
    }

    /// Set by another thread, it ends a step between two megaflows: a step may have thousands of them, and a translation
    /// may take some ten milliseconds where tables loop.
    pub(super) fn stop(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends the main loop's sleep.
    pub(super) fn wake(&self) {
        self.shared.wake();
    }

    /// A pass over all has not come to its end.
    pub(super) fn is_under_way(&self) -> bool {
        self.left != 0
    }

    /// Takes changes on that have been published.
    pub(super) fn take(&mut self, changes: &Changes, now: Millis) {
        if changes.is_empty() {
            return;
        }
        self.history.note(changes, now);
        match self.concerns(changes) {
            Some(concerns) => self.look_at(&concerns, now),
            None => self.begin(0),
        }
        self.datapath.reclaim(now);
    }

    /// All are to be looked at.
    fn begin(&mut self, next: u32) {
        let end = self.datapath.flow_end();
        (self.left, self.next) = (end, if next < end { next } else { 0 });
    }

    /// The megaflows that the changes concern; `None`: all.
    fn concerns(&self, changes: &Changes) -> Option<Concerns> {
        let dependency_sets = self.shared.dependency_sets();
        if changes.is_all() || changes.list().len() * dependency_sets.len() > PAIRS {
            return None;
        }
        let mut concerns = Concerns::default();
        for (number, dependencies) in dependency_sets {
            let matches = changes.list().iter().flat_map(|change| dependencies.concerned_by(change));
            concerns.add(number, &matches.collect::<Vec<_>>());
        }
        Some(concerns)
    }

    fn look_at(&mut self, concerns: &Concerns, now: Millis) {
        let published = self.shared.published();
        let (mut from, mut found) = (0, 0);
        while from < self.datapath.flow_end() {
            for flow in self.datapath.flows_concerned(concerns, from..from + SEARCH) {
                if self.is_stopped() {
                    return;
                }
                self.check(&published, &flow, now);
                found += 1;
            }
            from += SEARCH;
            if found > VERY_MANY {
                return self.begin(from);
            }
        }
        CONCERNED.add(found as u64);
    }

    fn check(&self, published: &Published, flow: &dpif::DpFlow, now: Millis) -> Verdict {
        let finding = compare(&self.handler, published, flow);
        repair(&self.datapath, &self.name, flow, finding, now)
    }

    /// Some more of a pass over all.
    pub(super) fn go_on(&mut self, now: Millis) {
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
            self.tidy();
        }
    }

    /// A pass over all, to its end.
    pub(super) fn finish(&mut self, now: Millis) {
        while self.is_under_way() {
            self.go_on(now);
        }
    }

    /// All megaflows are to be looked at for idleness.
    pub(super) fn begin_expiry(&mut self) {
        self.idle.get_or_insert(0);
    }

    /// That has not come to its end.
    pub(super) fn is_expiring(&self) -> bool {
        self.idle.is_some()
    }

    /// Steps that are left of it.
    pub(super) fn expiry_steps(&self) -> u32 {
        self.idle.map_or(0, |from| self.datapath.flow_end().saturating_sub(from).div_ceil(IDLE_STEP))
    }

    /// Of some more megaflows statistics are taken, and those that no packet has used for this long go.
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

    /// The same of all.
    pub(super) fn expire(&self, idle: Millis, now: Millis) {
        self.datapath.expire(now.since(idle), now);
        self.datapath.tidy(now);
    }

    /// Forgets sets of dependencies that no megaflow has, if there are many.
    fn tidy(&self) {
        if self.shared.has_many_dependency_sets() {
            self.shared.retain_dependency_sets(&self.datapath.dependency_sets());
        }
    }

    /// A step of the slow pass. `settled`: this version of the tables has been dealt with; nothing is said of another.
    pub(super) fn be_safe(&mut self, settled: u64, now: Millis) {
        let published = self.shared.published();
        let quiet = || published.version == settled && !self.shared.live.is_ahead();
        // A second look, so that what was just changing when the first one fell on it is not taken for a fault.
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
        let step = end.div_ceil(SAFETY_STEPS);
        for flow in self.datapath.flows_at(self.safety..self.safety + step) {
            if self.is_stopped() {
                return;
            }
            if compare(&self.handler, &published, &flow).is_wrong() && quiet() {
                self.suspects.push(flow.ufid);
            }
        }
        self.safety = if self.safety + step < end { self.safety + step } else { 0 };
    }
}
