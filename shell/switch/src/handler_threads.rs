//! How many handler threads each datapath has, and on which cores.

use crate::backer::Threads;
use crate::switch::Switch;
use config::settings::root::N_HANDLER_THREADS;
use std::collections::BTreeMap;
use translation::upcall::threads::Plan;
use units::CoreId;

/// `other_config:n-handler-threads`
fn asked(config: &BTreeMap<String, String>) -> Option<usize> {
    usize::try_from(N_HANDLER_THREADS.opt_number(config)?).ok()
}

impl Switch {
    /// Brings the threads to what the database and the poll threads leave room for. To be called after these changed.
    pub(crate) fn run_handlers(&mut self) {
        let threads = self.options.threads();
        if threads == Threads::None {
            return;
        }
        let places = self.datapaths.all().flat_map(|b| b.workers.places());
        // Who is polled by the main loop has a core in name only.
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
