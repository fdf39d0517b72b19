//! The commands of the table that the switch implements. The daemon offers them; the help and the shell completion of
//! the tools list them.

/// Commands that are always available.
pub const ALWAYS: &[&str] = &[
    "bfd/set-forwarding",
    "bfd/show",
    "bridge/dump-flows",
    "bridge/reconnect",
    "coverage/read-counter",
    "coverage/show",
    "dpctl/add-dp",
    "dpctl/add-flow",
    "dpctl/add-flows",
    "dpctl/add-if",
    "dpctl/ct-bkts",
    "dpctl/ct-del-limits",
    "dpctl/ct-disable-tcp-seq-chk",
    "dpctl/ct-enable-tcp-seq-chk",
    "dpctl/ct-get-limits",
    "dpctl/ct-get-maxconns",
    "dpctl/ct-get-nconns",
    "dpctl/ct-get-sweep-interval",
    "dpctl/ct-get-tcp-seq-chk",
    "dpctl/ct-set-limits",
    "dpctl/ct-set-maxconns",
    "dpctl/ct-set-sweep-interval",
    "dpctl/ct-stats-show",
    "dpctl/del-dp",
    "dpctl/del-flow",
    "dpctl/del-flows",
    "dpctl/del-if",
    "dpctl/dump-conntrack",
    "dpctl/dump-dps",
    "dpctl/dump-flows",
    "dpctl/flush-conntrack",
    "dpctl/get-flow",
    "dpctl/mod-flow",
    "dpctl/mod-flows",
    "dpctl/parse-actions",
    "dpctl/set-if",
    "dpctl/show",
    "dpif-netdev/dpif-impl-get",
    "dpif-netdev/dpif-impl-set",
    "dpif-netdev/miniflow-parser-get",
    "dpif-netdev/miniflow-parser-set",
    "dpif-netdev/pmd-perf-log-set",
    "dpif-netdev/pmd-perf-show",
    "dpif-netdev/pmd-plan",
    "dpif-netdev/pmd-rxq-rebalance",
    "dpif-netdev/pmd-rxq-show",
    "dpif-netdev/pmd-sleep-show",
    "dpif-netdev/pmd-state",
    "dpif-netdev/pmd-stats-clear",
    "dpif-netdev/pmd-stats-show",
    "dpif-netdev/pmd-txq-show",
    "dpif-netdev/subtable-lookup-info-get",
    "dpif-netdev/subtable-lookup-prio-set",
    "dpif/dump-dps",
    "dpif/dump-flows",
    "dpif/set-dp-features",
    "dpif/show",
    "dpif/show-books",
    "dpif/show-caches",
    "dpif/show-dp-features",
    "dpif/show-shadow",
    "exit",
    "fdb/add",
    "fdb/del",
    "fdb/flush",
    "fdb/show",
    "fdb/stats-clear",
    "fdb/stats-show",
    "memory/show",
    "netdev-dummy/conn-state",
    "netdev-dummy/ip4addr",
    "netdev-dummy/ip6addr",
    "netdev-dummy/receive",
    "netdev-dummy/set-admin-state",
    "ofproto/detrace",
    "ofproto/list",
    "ofproto/trace",
    "ofproto/trace-packet-out",
    "revalidator/pause",
    "revalidator/purge",
    "revalidator/resume",
    "revalidator/verify",
    "revalidator/wait",
    "time/stop",
    "time/warp",
    "upcall/disable-megaflows",
    "upcall/disable-ufid",
    "upcall/enable-megaflows",
    "upcall/enable-ufid",
    "upcall/set-flow-limit",
    "upcall/show",
    "vlog/close",
    "vlog/disable-rate-limit",
    "vlog/enable-rate-limit",
    "vlog/list",
    "vlog/list-pattern",
    "vlog/reopen",
    "vlog/set",
];

/// Commands that are available once DPDK is initialized.
pub const WITH_DPDK: &[&str] = &[
    "dpdk/get-malloc-stats",
    "dpdk/get-memzone-stats",
    "dpdk/lcore-list",
    "dpdk/log-list",
    "dpdk/log-set",
    "netdev-dpdk/detach",
    "netdev-dpdk/get-mempool-info",
    "netdev-dpdk/set-admin-state",
];

/// Whether the switch has this command, at least with DPDK.
pub fn by_switch(name: &str) -> bool {
    ALWAYS.binary_search(&name).is_ok() || WITH_DPDK.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offered_command_is_in_the_table() {
        assert!(ALWAYS.windows(2).all(|w| w[0] < w[1]));
        assert!(WITH_DPDK.windows(2).all(|w| w[0] < w[1]));
        assert!(ALWAYS.iter().chain(WITH_DPDK).all(|name| crate::find(name).is_some()));
        assert!(by_switch("dpif/show") && by_switch("dpdk/lcore-list") && !by_switch("ovsdb-server/compact"));
    }
}
