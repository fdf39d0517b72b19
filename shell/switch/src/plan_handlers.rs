//! Number and cores of the handler threads of each datapath.

use crate::backer::Threads;
use crate::switch::{HandlerNeeds, Switch};
use settings::root::N_HANDLER_THREADS;
use std::collections::BTreeMap;
use translation::upcall::threads::Plan;
use units::CoreId;

/// `other_config:n-handler-threads`
fn configured_count(config: &BTreeMap<String, String>) -> Option<usize> {
    usize::try_from(N_HANDLER_THREADS.opt_number(config)?).ok()
}

impl Switch {
    /// Starts and ends handler threads as the database and the cores of PMD threads require. Must be called after
    /// either changed.
    pub(crate) fn run_handlers(&mut self) {
        let threads = self.options.threads();
        if threads == Threads::None {
            return;
        }
        let workers = self.datapaths.all().flat_map(|b| b.workers.infos());
        // If the main loop polls, the core numbers of workers are not the cores on which they run.
        let pinned = |core: &CoreId| *core != CoreId::UNPINNED && threads == Threads::PmdAndHandlers;
        let polled: Vec<u32> = workers.map(|p| p.core).filter(pinned).map(|core| core.0).collect();
        let needs = HandlerNeeds { configured: configured_count(&self.applied.other_config), polled };
        if self.poll.handlers.as_ref().is_none_or(|(of, _)| *of != needs) {
            let polled = needs.polled.iter().copied().collect();
            let plan = Plan::new(needs.configured, &self.machine.cores, &polled);
            self.poll.handlers = Some((needs, plan));
        }
        let Some((_, plan)) = &self.poll.handlers else { return };
        for backer in self.datapaths.all_mut() {
            backer.handler_threads.set(&backer.datapath, plan);
            if !plan.cores.is_empty() {
                backer.revalidator.pin_to_cores(&plan.cores);
                backer.timers.pin_to_cores(&plan.cores);
            }
        }
    }
}
