//! The NetFlow exporters of all bridges.

use crate::collectors::Collectors;
use crate::settings::Netflow;
use exporter::Now;
use exporter::netflow::{Delta, Exporter, Key};
use runtime::{Module, RateLimit};
use std::collections::HashMap;
use units::Millis;

static LOG: Module = Module::new("netflow");
static LIMIT: RateLimit = RateLimit::new(1, 1);

/// The exporters by bridge.
#[derive(Default)]
pub(crate) struct Netflows(HashMap<u32, (Exporter, Collectors)>);

impl Netflows {
    pub(crate) fn configure(&mut self, bridge: u32, settings: Option<&Netflow>, now: Now) {
        let Some(settings) = settings else {
            self.0.remove(&bridge);
            return;
        };
        let fresh = || (Exporter::new(settings.exporter, now), Collectors::default());
        let (exporter, collectors) = self.0.entry(bridge).or_insert_with(fresh);
        exporter.configure(settings.exporter, now);
        if !collectors.serves(&settings.targets) {
            // There is no default port.
            *collectors = Collectors::open(&settings.targets, 0);
        }
    }

    pub(crate) fn update(&mut self, bridge: u32, (key, output): (Key, u16), delta: Delta, now: Now) {
        if let Some((exporter, _)) = self.0.get_mut(&bridge) {
            exporter.update(key, output, delta, now);
        }
    }

    pub(crate) fn end_flow(&mut self, bridge: u32, key: Key, now: Now) {
        if let Some((exporter, _)) = self.0.get_mut(&bridge) {
            exporter.end_flow(key, now);
        }
    }

    /// Runs timers and sends complete datagrams.
    pub(crate) fn run(&mut self, now: Now) {
        for (exporter, collectors) in self.0.values_mut() {
            exporter.run(now);
            collectors.send(&exporter.take());
            for bytes in exporter.take_impossible() {
                runtime::warn_rl!(LOG, LIMIT, "impossible byte counter {bytes}");
            }
        }
    }

    pub(crate) fn deadline(&self) -> Option<Millis> {
        self.0.values().filter_map(|(exporter, _)| exporter.deadline()).min()
    }
}
