//! `Open_vSwitch.other_config` as far as it concerns megaflows, and a word about the rest.

use crate::reconfigure::LOG;
use crate::switch::Switch;
use config::Desired;
use config::row::map_int;
use std::collections::BTreeMap;
use units::Millis;

/// Settings that Open vSwitch has and that have no effect here, or not yet.
const WITHOUT_EFFECT: &[&str] = &[
    "emc-insert-inv-prob",
    "smc-enable",
    "tx-flush-interval",
    "userspace-tso-enable",
    "hw-offload",
    "hw-offload-priority",
    "n-revalidator-threads",
    "max-revalidator",
    "min-revalidate-pps",
    "tc-policy",
    "ct-size",
    "flow-restore-wait",
];

/// The default of `max-idle` (milliseconds), and its least value.
const IDLE_DEFAULT: i64 = 10_000;
const IDLE_MIN: i64 = 500;

/// `other_config:bundle-idle-timeout`, in seconds.
pub(crate) fn bundle_idle(config: &Desired) -> Option<Millis> {
    let secs = config.other_config.get("bundle-idle-timeout")?.parse().ok().filter(|s| *s > 0)?;
    Some(Millis::from_secs(secs))
}

impl Switch {
    /// Applies what changed in `other_config`; settings without effect are told once, when they appear or change.
    pub(crate) fn configure_limits(&mut self, desired: &Desired) {
        let config = &desired.other_config;
        let limit = map_int(config, "flow-limit", (0, i64::from(u32::MAX)), 200_000);
        let idle = map_int(config, "max-idle", (0, i64::from(u32::MAX)), IDLE_DEFAULT).max(IDLE_MIN);
        self.limits.idle = Millis(idle as u64);
        self.limits.flows = limit as usize;
        self.configure_vlans(config);
        self.configure_polling(config);
        for backer in self.backers.values() {
            backer.datapath.set_flow_limit(limit as usize);
        }
        for key in WITHOUT_EFFECT.iter().filter(|k| config.get(**k) != self.applied.other_config.get(**k)) {
            if config.contains_key(*key) {
                runtime::info!(LOG, "other_config:{key} has no effect in this version of Sluice");
            }
        }
    }

    /// `vlan-limit`: how many tags a packet's type is looked for behind. Megaflows know only one such number.
    fn configure_vlans(&mut self, config: &BTreeMap<String, String>) {
        let all = flow::flow::VLANS_MAX as u8;
        let vlans = match map_int(config, "vlan-limit", (i64::MIN, i64::MAX), 1) {
            asked @ 1.. => u8::try_from(asked).map_or(all, |n| n.min(all)),
            _ => all,
        };
        if vlans != self.limits.vlans {
            self.limits.vlans = vlans;
            let now = self.clock.now();
            for backer in self.backers.values() {
                backer.datapath.set_vlan_limit(vlans);
                backer.datapath.flow_flush(now);
            }
        }
    }
}
