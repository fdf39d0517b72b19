//! Limits of megaflows and other datapath settings in `Open_vSwitch.other_config`.

use crate::switch::Switch;
use config::Desired;
use flowcache::{CacheParams, Kind};
use settings::root::{
    BUNDLE_IDLE_TIMEOUT, EMC_INSERT_INV_PROB, FLOW_CACHE, FLOW_LIMIT, MAX_IDLE, MEGAFLOW_MEMORY,
    SHADOW_CHECK, SMC_ENABLE, TX_FLUSH_INTERVAL, VLAN_LIMIT,
};
use std::collections::BTreeMap;
use units::Millis;

/// `other_config:bundle-idle-timeout`, which is in seconds; `None` if it is not set.
pub(crate) fn bundle_idle(config: &Desired) -> Option<Millis> {
    let secs = BUNDLE_IDLE_TIMEOUT.opt_number(&config.other_config)?;
    Some(Millis::from_secs(secs as u64))
}

/// The chosen flow cache (`flow-cache`) and its settings. Settings that the chosen cache does not use are left out, so
/// that a change of them does not replace the cache.
fn flow_cache(config: &BTreeMap<String, String>) -> CacheParams {
    let kind = Kind::parse(FLOW_CACHE.word(config)).unwrap_or_default();
    match kind {
        Kind::Unified => CacheParams::default(),
        _ => CacheParams {
            kind,
            emc_insert_inv_prob: EMC_INSERT_INV_PROB.number(config) as u32,
            smc: kind == Kind::Ovs && SMC_ENABLE.flag_of(config),
        },
    }
}

impl Switch {
    /// Applies changes of `other_config`.
    pub(crate) fn configure_limits(&mut self, desired: &Desired) {
        let config = &desired.other_config;
        self.limits.idle = Millis(MAX_IDLE.number(config) as u64);
        self.limits.flows = FLOW_LIMIT.opt_number(config).map(|n| n as usize);
        self.limits.bytes = (MEGAFLOW_MEMORY.number(config) as usize) << 20;
        self.limits.cache = flow_cache(config);
        self.limits.shadow_check = SHADOW_CHECK.number(config) as u32;
        self.limits.tx_flush_interval_us = TX_FLUSH_INTERVAL.number(config) as u32;
        self.configure_vlans(config);
        self.configure_polling(config);
        for backer in self.datapaths.with_bridges() {
            self.limits.apply_flow_limits(backer);
            backer.datapath.set_flow_cache(self.limits.cache);
            backer.datapath.set_shadow_check(self.limits.shadow_check);
            backer.datapath.set_tx_flush_interval(self.limits.tx_flush_interval_us);
        }
    }

    /// Applies `vlan-limit`, the number of VLAN tags that are parsed in a packet. It applies to all bridges.
    fn configure_vlans(&mut self, config: &BTreeMap<String, String>) {
        let all = flow::flow::VLANS_MAX as u8;
        let vlans = match VLAN_LIMIT.number(config) {
            asked @ 1.. => u8::try_from(asked).map_or(all, |n| n.min(all)),
            _ => all,
        };
        if vlans != self.limits.vlans {
            self.limits.vlans = vlans;
            let now = self.clock.now();
            for backer in self.datapaths.with_bridges() {
                backer.datapath.set_vlan_limit(vlans);
                backer.datapath.flow_flush(now);
            }
        }
    }
}
