//! Number and cores of the handler threads of each datapath.

use crate::backer::Threads;
use crate::switch::Switch;
use settings::root::N_HANDLER_THREADS;
use std::collections::BTreeMap;
use translation::upcall::threads::Plan;
use units::CoreId;

/// `other_config:n-handler-threads`
fn asked(config: &BTreeMap<String, String>) -> Option<usize> {
    usize::try_from(N_HANDLER_THREADS.opt_number(config)?).ok()
}

impl Switch {
    /// Starts and ends handler threads as the database and the PMD threads' cores require. To be called after these
    /// changed.
    pub(crate) fn run_handlers(&mut self) {
        let threads = self.options.threads();
        if threads == Threads::None {
            return;
        }
        let places = self.datapaths.all().flat_map(|b| b.workers.places());
        // If the main loop polls, the cores of workers are nominal only.
        let pinned = |core: &CoreId| *core != CoreId::UNPINNED && threads == Threads::Real;
        let polled = places.map(|p| p.core).filter(pinned).map(|core| core.0).collect();
        let plan = Plan::new(asked(&self.applied.other_config), &self.machine.cores, &polled);
        for backer in self.datapaths.all_mut() {
            backer.handlers.set(&backer.datapath, &plan);
            if !plan.cores.is_empty() {
                backer.revalidator.stay_on(&plan.cores);
                backer.timers.stay_on(&plan.cores);
            }
        }
    }
}
