//! The commands of `list-commands` of Open vSwitch 3.7, and Sluice's own commands: names, arguments, the programs that offer
//! them, and help. The table is sorted by name. It is the only list of commands; handlers refer to commands by the constants
//! in [`names`].

use crate::command::{Command, OfferedBy};

const MANY: usize = usize::MAX;
const SWITCH: OfferedBy = OfferedBy::SWITCH;
const WITH_DPDK: OfferedBy = OfferedBy::SWITCH_WITH_DPDK;
const WITH_DUMMIES: OfferedBy = OfferedBy::SWITCH_WITH_DUMMIES;
const WITH_PANIC: OfferedBy = OfferedBy::SWITCH_WITH_PANIC;
const DATABASE: OfferedBy = OfferedBy::DATABASE;
const BOTH: OfferedBy = SWITCH.union(DATABASE);

const fn command(name: &'static str, usage: &'static str, min: usize, max: usize) -> Command {
    Command {
        name,
        usage,
        min_args: min,
        max_args: max,
        listed: true,
        offered_by: OfferedBy::empty(),
        help: "",
        common: false,
    }
}

/// A command that `list-commands` does not show: one of Sluice's own commands, a command for tests, or a
/// command that Open vSwitch hides, too.
const fn hidden(name: &'static str, args: usize) -> Command {
    command(name, "", args, args).unlisted()
}

/// A hidden command with any number of arguments.
const fn hidden_words(name: &'static str) -> Command {
    command(name, "", 0, MANY).unlisted()
}

impl Command {
    const fn by(self, by: OfferedBy) -> Command {
        Command { offered_by: by, ..self }
    }

    const fn help(self, help: &'static str) -> Command {
        Command { help, ..self }
    }

    /// Marks a command that `list-commands` does not show.
    const fn unlisted(self) -> Command {
        Command { listed: false, ..self }
    }

    /// Marks a command that the manual page of `sluice appctl` lists.
    const fn common(self) -> Command {
        Command { common: true, ..self }
    }
}

macro_rules! commands {
    ($($id:ident: $command:expr;)*) => {
        /// Sorted by name.
        pub(crate) const COMMANDS: &[Command] = &[$($command),*];

        /// The names of all commands, for the code that handles them.
        pub mod names {
            use super::{BOTH, DATABASE, MANY, SWITCH, WITH_DPDK, WITH_DUMMIES, WITH_PANIC, command, hidden, hidden_words};

            $(
                #[doc = concat!("The name of the command ", stringify!($id), ".")]
                pub const $id: &str = $command.name;
            )*
        }
    };
}

commands! {
    AUTOATTACH_SHOW_ISID: command("autoattach/show-isid", "[bridge]", 0, 1).by(SWITCH);
    AUTOATTACH_STATISTICS: command("autoattach/statistics", "[bridge]", 0, 1).by(SWITCH);
    AUTOATTACH_STATUS: command("autoattach/status", "[bridge]", 0, 1).by(SWITCH);
    BFD_SET_FORWARDING: command("bfd/set-forwarding", "[interface] normal|false|true", 1, 2).by(SWITCH);
    BFD_SHOW: command("bfd/show", "[interface]", 0, 1).by(SWITCH).help("prints BFD sessions").common();
    BOND_DISABLE_MEMBER: command("bond/disable-member", "port member", 2, 2).by(SWITCH);
    BOND_DISABLE_SLAVE: hidden("bond/disable-slave", 2).by(SWITCH);
    BOND_ENABLE_MEMBER: command("bond/enable-member", "port member", 2, 2).by(SWITCH);
    BOND_ENABLE_SLAVE: hidden("bond/enable-slave", 2).by(SWITCH);
    BOND_HASH: command("bond/hash", "mac [vlan] [basis]", 1, 3).by(SWITCH);
    BOND_LIST: command("bond/list", "", 0, 0).by(SWITCH).help("lists the bonds").common();
    BOND_MIGRATE: command("bond/migrate", "port hash member", 3, 3).by(SWITCH);
    BOND_SET_ACTIVE_MEMBER: command("bond/set-active-member", "port member", 2, 2).by(SWITCH);
    BOND_SET_ACTIVE_SLAVE: hidden("bond/set-active-slave", 2).by(SWITCH);
    BOND_SHOW: command("bond/show", "[port]", 0, 1).by(SWITCH).help("prints a bond: its mode, its members, the active member").common();
    BRIDGE_DUMP_FLOWS: command("bridge/dump-flows", "[--offload-stats] bridge", 1, 2).by(SWITCH).help("prints all flows of a bridge, including hidden ones").common();
    BRIDGE_RECONNECT: command("bridge/reconnect", "[bridge]", 0, 1).by(SWITCH);
    CAPTURE_SHOW: hidden("capture/show", 0).by(SWITCH);
    CAPTURE_START: hidden_words("capture/start").by(SWITCH);
    CFM_SET_FAULT: command("cfm/set-fault", "[interface] normal|false|true", 1, 2).by(SWITCH);
    CFM_SHOW: command("cfm/show", "[interface]", 0, 1).by(SWITCH).help("prints CFM sessions").common();
    COVERAGE_READ_COUNTER: command("coverage/read-counter", "COUNTER", 1, 1).by(BOTH);
    COVERAGE_SHOW: command("coverage/show", "", 0, 0).by(BOTH).help("prints event counters of the program").common();
    DPCTL_ADD_DP: command("dpctl/add-dp", "dp [iface...]", 1, MANY).by(SWITCH).help("creates a datapath, with ports");
    DPCTL_ADD_FLOW: command("dpctl/add-flow", "[dp] flow actions", 2, 3).by(SWITCH).help("adds a flow");
    DPCTL_ADD_FLOWS: command("dpctl/add-flows", "[dp] file", 1, 2).by(SWITCH).help("adds the flows in a file");
    DPCTL_ADD_IF: command("dpctl/add-if", "dp iface...", 2, MANY).by(SWITCH).help("adds ports to a datapath");
    DPCTL_CACHE_GET_SIZE: command("dpctl/cache-get-size", "[dp]", 0, 1).by(SWITCH).help("prints the sizes of a datapath's caches");
    DPCTL_CACHE_SET_SIZE: command("dpctl/cache-set-size", "dp cache <size>", 3, 3).by(SWITCH).help("sets the size of a cache");
    DPCTL_CT_BKTS: command("dpctl/ct-bkts", "[dp] [gt=N]", 0, 2).by(SWITCH).help("prints the number of connections per hash bucket");
    DPCTL_CT_DEL_LIMITS: command("dpctl/ct-del-limits", "[dp] [default] [zone=N1[,N2]...]", 1, 3).by(SWITCH).help("removes connection limits of zones");
    DPCTL_CT_DISABLE_TCP_SEQ_CHK: command("dpctl/ct-disable-tcp-seq-chk", "[dp]", 0, 1).by(SWITCH).help("disables the check of TCP sequence numbers");
    DPCTL_CT_ENABLE_TCP_SEQ_CHK: command("dpctl/ct-enable-tcp-seq-chk", "[dp]", 0, 1).by(SWITCH).help("enables the check of TCP sequence numbers");
    DPCTL_CT_GET_LIMITS: command("dpctl/ct-get-limits", "[dp] [zone=N1[,N2]...]", 0, 2).by(SWITCH).help("prints connection limits of zones");
    DPCTL_CT_GET_MAXCONNS: command("dpctl/ct-get-maxconns", "[dp]", 0, 1).by(SWITCH).help("prints the maximum number of tracked connections");
    DPCTL_CT_GET_NCONNS: command("dpctl/ct-get-nconns", "[dp]", 0, 1).by(SWITCH).help("prints the number of tracked connections");
    DPCTL_CT_GET_SWEEP_INTERVAL: command("dpctl/ct-get-sweep-interval", "[dp]", 0, 1).by(SWITCH).help("prints the interval of the sweep for expired connections");
    DPCTL_CT_GET_TCP_SEQ_CHK: command("dpctl/ct-get-tcp-seq-chk", "[dp]", 0, 1).by(SWITCH).help("prints whether TCP sequence numbers are checked");
    DPCTL_CT_SET_LIMITS: command("dpctl/ct-set-limits", "[dp] [default=L] [zone=N,limit=L]...", 1, MANY).by(SWITCH).help("sets connection limits of zones");
    DPCTL_CT_SET_MAXCONNS: command("dpctl/ct-set-maxconns", "[dp] maxconns", 1, 2).by(SWITCH).help("sets the maximum number of tracked connections");
    DPCTL_CT_SET_SWEEP_INTERVAL: command("dpctl/ct-set-sweep-interval", "[dp] ms", 1, 2).by(SWITCH).help("sets the interval of the sweep for expired connections");
    DPCTL_CT_STATS_SHOW: command("dpctl/ct-stats-show", "[dp] [zone=N]", 0, 3).by(SWITCH).help("counts tracked connections by protocol");
    DPCTL_DEL_DP: command("dpctl/del-dp", "dp", 1, 1).by(SWITCH).help("deletes a datapath");
    DPCTL_DEL_FLOW: command("dpctl/del-flow", "[dp] flow", 1, 2).by(SWITCH).help("deletes a flow");
    DPCTL_DEL_FLOWS: command("dpctl/del-flows", "[dp] [file]", 0, 2).by(SWITCH).help("deletes all flows, or those in a file");
    DPCTL_DEL_IF: command("dpctl/del-if", "dp iface...", 2, MANY).by(SWITCH).help("deletes ports from a datapath");
    DPCTL_DUMP_CONNTRACK: command("dpctl/dump-conntrack", "[-m] [-s] [dp] [zone=N]", 0, 4).by(SWITCH).help("prints tracked connections").common();
    DPCTL_DUMP_CONNTRACK_EXP: command("dpctl/dump-conntrack-exp", "[dp] [zone=N]", 0, 2).by(SWITCH).help("prints expected connections");
    DPCTL_DUMP_DPS: command("dpctl/dump-dps", "", 0, 0).by(SWITCH).help("lists the datapaths");
    DPCTL_DUMP_FLOWS: command("dpctl/dump-flows", "[-m] [--names] [dp] [filter=..] [type=..] [pmd=..]", 0, 6).by(SWITCH).help("prints the flows of a datapath").common();
    DPCTL_FLUSH_CONNTRACK: command("dpctl/flush-conntrack", "[dp] [zone=N] [mark=X[/M]] [labels=Y[/N]] [ct-orig-tuple [ct-reply-tuple]]", 0, 6).by(SWITCH).help("removes tracked connections");
    DPCTL_GET_FLOW: command("dpctl/get-flow", "[dp] ufid", 1, 2).by(SWITCH).help("prints the flow with this identifier");
    DPCTL_IPF_GET_STATUS: command("dpctl/ipf-get-status", "[dp]", 0, 1).by(SWITCH).help("prints the state of fragment reassembly");
    DPCTL_IPF_SET_DISABLED: command("dpctl/ipf-set-disabled", "[dp] v4|v6", 1, 2).by(SWITCH).help("disables fragment reassembly");
    DPCTL_IPF_SET_ENABLED: command("dpctl/ipf-set-enabled", "[dp] v4|v6", 1, 2).by(SWITCH).help("enables fragment reassembly");
    DPCTL_IPF_SET_MAX_NFRAGS: command("dpctl/ipf-set-max-nfrags", "[dp] maxfrags", 1, 2).by(SWITCH).help("sets the maximum number of waiting fragments");
    DPCTL_IPF_SET_MIN_FRAG: command("dpctl/ipf-set-min-frag", "[dp] v4|v6 minfragment", 2, 3).by(SWITCH).help("sets the minimum size of a fragment");
    DPCTL_LIST_COMMANDS: command("dpctl/list-commands", "", 0, MANY).by(SWITCH).help("lists the commands");
    DPCTL_MOD_FLOW: command("dpctl/mod-flow", "[dp] flow actions", 2, 3).by(SWITCH).help("changes a flow's actions");
    DPCTL_MOD_FLOWS: command("dpctl/mod-flows", "[dp] file", 1, 2).by(SWITCH).help("changes the flows in a file");
    DPCTL_NORMALIZE_ACTIONS: command("dpctl/normalize-actions", "actions", 2, MANY).help("prints actions in a normalized order");
    DPCTL_OFFLOAD_STATS_SHOW: command("dpctl/offload-stats-show", "[dp]", 0, 1).by(SWITCH).help("counts offloaded flows");
    DPCTL_PARSE_ACTIONS: command("dpctl/parse-actions", "actions", 1, MANY).by(SWITCH).help("checks the syntax of actions");
    DPCTL_SET_IF: command("dpctl/set-if", "dp iface...", 2, MANY).by(SWITCH).help("changes options of datapath ports");
    DPCTL_SHOW: command("dpctl/show", "[-s] [dp...]", 0, MANY).by(SWITCH).help("prints datapaths, their ports and counters").common();
    DPDK_GET_MALLOC_STATS: command("dpdk/get-malloc-stats", "", 0, 0).by(WITH_DPDK);
    DPDK_GET_MEMZONE_STATS: command("dpdk/get-memzone-stats", "", 0, 0).by(WITH_DPDK);
    DPDK_LCORE_LIST: command("dpdk/lcore-list", "", 0, 0).by(WITH_DPDK);
    DPDK_LOG_LIST: command("dpdk/log-list", "", 0, 0).by(WITH_DPDK);
    DPDK_LOG_SET: command("dpdk/log-set", "{level | pattern:level}", 0, MANY).by(WITH_DPDK);
    DPIF_DUMMY_CHANGE_PORT_NUMBER: command("dpif-dummy/change-port-number", "dp port new-number", 3, 3).by(WITH_DUMMIES);
    DPIF_NETDEV_BOND_SHOW: command("dpif-netdev/bond-show", "[dp]", 0, 1).by(SWITCH);
    DPIF_NETDEV_DPIF_IMPL_GET: command("dpif-netdev/dpif-impl-get", "", 0, 0).by(SWITCH);
    DPIF_NETDEV_DPIF_IMPL_SET: command("dpif-netdev/dpif-impl-set", "dpif_implementation_name", 1, 1).by(SWITCH);
    DPIF_NETDEV_MINIFLOW_PARSER_GET: command("dpif-netdev/miniflow-parser-get", "", 0, 0).by(SWITCH);
    DPIF_NETDEV_MINIFLOW_PARSER_SET: command("dpif-netdev/miniflow-parser-set", "[-pmd core] miniflow_implementation_name [study_pkt_cnt]", 1, 5).by(SWITCH);
    DPIF_NETDEV_PMD_PERF_LOG_SET: command("dpif-netdev/pmd-perf-log-set", "on|off [-b before] [-a after] [-e|-ne] [-us usec] [-q qlen]", 0, 10).by(SWITCH);
    DPIF_NETDEV_PMD_PERF_SHOW: command("dpif-netdev/pmd-perf-show", "[-nh] [-it iter-history-len] [-ms ms-history-len] [-pmd core] [dp]", 0, 8).by(SWITCH).help("prints how PMD threads spend their time").common();
    DPIF_NETDEV_PMD_PLAN: hidden("dpif-netdev/pmd-plan", 0).by(SWITCH);
    DPIF_NETDEV_PMD_RXQ_REBALANCE: command("dpif-netdev/pmd-rxq-rebalance", "[dp]", 0, 1).by(SWITCH);
    DPIF_NETDEV_PMD_RXQ_SHOW: command("dpif-netdev/pmd-rxq-show", "[-pmd core] [-secs secs] [dp]", 0, 5).by(SWITCH).help("prints the assignment of rx queues to PMD threads").common();
    DPIF_NETDEV_PMD_SLEEP_SHOW: command("dpif-netdev/pmd-sleep-show", "[dp]", 0, 1).by(SWITCH);
    DPIF_NETDEV_PMD_STATE: hidden("dpif-netdev/pmd-state", 0).by(SWITCH);
    DPIF_NETDEV_PMD_STATS_CLEAR: command("dpif-netdev/pmd-stats-clear", "[-pmd core] [dp]", 0, 3).by(SWITCH);
    DPIF_NETDEV_PMD_STATS_SHOW: command("dpif-netdev/pmd-stats-show", "[-pmd core] [dp]", 0, 3).by(SWITCH).help("prints the counters of PMD threads").common();
    DPIF_NETDEV_PMD_TXQ_SHOW: command("dpif-netdev/pmd-txq-show", "[dp]", 0, 1).unlisted().by(SWITCH);
    DPIF_NETDEV_SUBTABLE_LOOKUP_INFO_GET: command("dpif-netdev/subtable-lookup-info-get", "", 0, 0).by(SWITCH);
    DPIF_NETDEV_SUBTABLE_LOOKUP_PRIO_GET: hidden("dpif-netdev/subtable-lookup-prio-get", 0).by(SWITCH);
    DPIF_NETDEV_SUBTABLE_LOOKUP_PRIO_SET: command("dpif-netdev/subtable-lookup-prio-set", "[lookup_func] [prio]", 2, 2).by(SWITCH);
    DPIF_NETLINK_DISPATCH_MODE: command("dpif-netlink/dispatch-mode", "", 0, 0);
    DPIF_DUMP_DPS: command("dpif/dump-dps", "", 0, 0).by(SWITCH);
    DPIF_DUMP_FLOWS: command("dpif/dump-flows", "[-m] [--names | --no-names] bridge", 1, MANY).by(SWITCH);
    DPIF_OFFLOAD_SHOW: command("dpif/offload/show", "", 0, 0);
    DPIF_SET_DP_FEATURES: command("dpif/set-dp-features", "[--force] bridge [feature [value]]", 1, 4).by(SWITCH);
    DPIF_SHOW: command("dpif/show", "", 0, 0).by(SWITCH).help("prints bridges and ports of the datapath").common();
    DPIF_SHOW_ACCOUNTING: hidden("dpif/show-accounting", 0).by(SWITCH);
    DPIF_SHOW_CACHES: hidden("dpif/show-caches", 0).by(SWITCH);
    DPIF_SHOW_DP_FEATURES: command("dpif/show-dp-features", "bridge", 1, 1).by(SWITCH);
    DPIF_SHOW_DROPS: hidden_words("dpif/show-drops").by(SWITCH);
    DPIF_SHOW_SHADOW: hidden("dpif/show-shadow", 0).by(SWITCH);
    DPIF_TOP: hidden_words("dpif/top").by(SWITCH);
    EXIT: command("exit", "[--cleanup]", 0, 1).by(BOTH);
    FDB_ADD: command("fdb/add", "bridge port vlan mac", 4, 4).by(SWITCH);
    FDB_DEL: command("fdb/del", "bridge vlan mac", 3, 3).by(SWITCH);
    FDB_FLUSH: command("fdb/flush", "[bridge]", 0, 1).by(SWITCH).help("removes learned MAC addresses").common();
    FDB_SHOW: command("fdb/show", "bridge", 1, 1).by(SWITCH).help("prints learned MAC addresses").common();
    FDB_STATS_CLEAR: command("fdb/stats-clear", "[bridge]", 0, 1).by(SWITCH);
    FDB_STATS_SHOW: command("fdb/stats-show", "bridge", 1, 1).by(SWITCH);
    LACP_SHOW: command("lacp/show", "[port]", 0, 1).by(SWITCH);
    LACP_SHOW_STATS: command("lacp/show-stats", "[port]", 0, 1).by(SWITCH);
    LIST_COMMANDS: command("list-commands", "", 0, 0).help("lists the commands of the daemon").common();
    LLDP_SHOW: command("lldp/show", "[interface]", 0, 1).unlisted().by(SWITCH);
    LOCK: command("lock", "LOCK", 1, 1);
    MDB_FLUSH: command("mdb/flush", "[bridge]", 0, 1).by(SWITCH).help("removes learned multicast groups and routers").common();
    MDB_SHOW: command("mdb/show", "bridge", 1, 1).by(SWITCH).help("prints learned multicast groups and routers").common();
    MEMORY_SHOW: command("memory/show", "", 0, 0).by(BOTH).help("prints memory use").common();
    NETDEV_DPDK_DETACH: command("netdev-dpdk/detach", "pci address of device", 1, 1).by(WITH_DPDK);
    NETDEV_DPDK_GET_MEMPOOL_INFO: command("netdev-dpdk/get-mempool-info", "[netdev]", 0, 1).by(WITH_DPDK);
    NETDEV_DPDK_SET_ADMIN_STATE: command("netdev-dpdk/set-admin-state", "[netdev] up|down", 1, 2).by(WITH_DPDK);
    NETDEV_DUMMY_CONN_STATE: command("netdev-dummy/conn-state", "[netdev]", 0, 1).by(WITH_DUMMIES);
    NETDEV_DUMMY_IP4ADDR: command("netdev-dummy/ip4addr", "[netdev] ipaddr/mask-prefix-len", 2, 2).by(WITH_DUMMIES);
    NETDEV_DUMMY_IP6ADDR: command("netdev-dummy/ip6addr", "[netdev] ip6addr", 2, 2).by(WITH_DUMMIES);
    NETDEV_DUMMY_RECEIVE: command("netdev-dummy/receive", "name [--qid queue_id] packet|flow [--len packet_len]", 2, MANY).by(WITH_DUMMIES);
    NETDEV_DUMMY_SET_ADMIN_STATE: command("netdev-dummy/set-admin-state", "[netdev] up|down", 1, 2).by(WITH_DUMMIES);
    ODP_EXECUTE_ACTION_IMPL_SET: command("odp-execute/action-impl-set", "name", 1, 1).by(SWITCH);
    ODP_EXECUTE_ACTION_IMPL_SHOW: command("odp-execute/action-impl-show", "", 0, 0).by(SWITCH);
    OFPROTO_DETRACE: command("ofproto/detrace", "UFID [pmd=PMD-ID]", 1, 2).by(SWITCH).help("prints the OpenFlow flows and groups of a datapath flow").common();
    OFPROTO_LIST: command("ofproto/list", "", 0, 0).by(SWITCH).help("lists the bridges").common();
    OFPROTO_LIST_TUNNELS: command("ofproto/list-tunnels", "", 0, 0).by(SWITCH).help("lists the tunnel ports of the datapath").common();
    OFPROTO_TRACE: command("ofproto/trace", "{[dp_name] odp_flow | bridge br_flow} [OPTIONS...] [-generate|packet]", 1, MANY).by(SWITCH).help("traces a packet through the flow tables").common();
    OFPROTO_TRACE_PACKET_OUT: command("ofproto/trace-packet-out", "[-consistent] {[dp_name] odp_flow | bridge br_flow} [OPTIONS...] [-generate|packet] actions", 2, MANY).by(SWITCH);
    OFPROTO_WHY: hidden_words("ofproto/why").by(SWITCH);
    OVS_ROUTE_ADD: command("ovs/route/add", "ip/plen dev [gw] [pkt_mark=mark] [src=src_ip] [table=id]", 2, 6).by(SWITCH);
    OVS_ROUTE_DEL: command("ovs/route/del", "ip/plen [pkt_mark=mark] [table=id]", 1, 3).by(SWITCH);
    OVS_ROUTE_LOOKUP: command("ovs/route/lookup", "ip_addr [pkt_mark=mark] [src=src_ip]", 1, 3).by(SWITCH);
    OVS_ROUTE_RULE_ADD: command("ovs/route/rule/add", "[-6] [not] from=all|ip/plen [prio=num] table=local|main|default|id", 2, 5).by(SWITCH);
    OVS_ROUTE_RULE_DEL: command("ovs/route/rule/del", "[-6] [not] from=all|ip/plen [prio=num] table=local|main|default|id", 2, 5).by(SWITCH);
    OVS_ROUTE_RULE_SHOW: command("ovs/route/rule/show", "[-6]", 0, 1).by(SWITCH);
    OVS_ROUTE_SHOW: command("ovs/route/show", "[table=all|id]", 0, 1).by(SWITCH);
    OVSDB_CLIENT_BLOCK: command("ovsdb-client/block", "", 0, 0);
    OVSDB_CLIENT_COND_CHANGE: command("ovsdb-client/cond_change", "TABLE COND", 2, 2);
    OVSDB_CLIENT_UNBLOCK: command("ovsdb-client/unblock", "", 0, 0);
    OVSDB_SERVER_ADD_DB: command("ovsdb-server/add-db", "DB", 1, 1).by(DATABASE);
    OVSDB_SERVER_ADD_REMOTE: command("ovsdb-server/add-remote", "REMOTE", 1, 1).by(DATABASE);
    OVSDB_SERVER_COMPACT: command("ovsdb-server/compact", "", 0, 1).by(DATABASE);
    OVSDB_SERVER_CONNECT_ACTIVE_OVSDB_SERVER: command("ovsdb-server/connect-active-ovsdb-server", "", 0, 0).by(DATABASE);
    OVSDB_SERVER_DISCONNECT_ACTIVE_OVSDB_SERVER: command("ovsdb-server/disconnect-active-ovsdb-server", "", 0, 0).by(DATABASE);
    OVSDB_SERVER_GET_ACTIVE_OVSDB_SERVER: command("ovsdb-server/get-active-ovsdb-server", "", 0, 0).by(DATABASE);
    OVSDB_SERVER_GET_SYNC_EXCLUDE_TABLES: command("ovsdb-server/get-sync-exclude-tables", "", 0, 0).by(DATABASE);
    OVSDB_SERVER_LIST_DBS: command("ovsdb-server/list-dbs", "", 0, 0).by(DATABASE);
    OVSDB_SERVER_LIST_REMOTES: command("ovsdb-server/list-remotes", "", 0, 0).by(DATABASE);
    OVSDB_SERVER_MEMORY_TRIM_ON_COMPACTION: command("ovsdb-server/memory-trim-on-compaction", "on|off", 1, 1).by(DATABASE);
    OVSDB_SERVER_PERF_COUNTERS_CLEAR: command("ovsdb-server/perf-counters-clear", "", 0, 0).by(DATABASE);
    OVSDB_SERVER_PERF_COUNTERS_SHOW: command("ovsdb-server/perf-counters-show", "", 0, 0).by(DATABASE);
    OVSDB_SERVER_RECONNECT: command("ovsdb-server/reconnect", "", 0, 0).by(DATABASE);
    OVSDB_SERVER_RELOAD: command("ovsdb-server/reload", "", 0, 0).by(DATABASE);
    OVSDB_SERVER_REMOVE_DB: command("ovsdb-server/remove-db", "DB", 1, 1).by(DATABASE);
    OVSDB_SERVER_REMOVE_REMOTE: command("ovsdb-server/remove-remote", "REMOTE", 1, 1).by(DATABASE);
    OVSDB_SERVER_SET_ACTIVE_OVSDB_SERVER: command("ovsdb-server/set-active-ovsdb-server", "", 1, 1).by(DATABASE);
    OVSDB_SERVER_SET_ACTIVE_OVSDB_SERVER_PROBE_INTERVAL: command("ovsdb-server/set-active-ovsdb-server-probe-interval", "", 1, 1).by(DATABASE);
    OVSDB_SERVER_SET_RELAY_SOURCE_PROBE_INTERVAL: command("ovsdb-server/set-relay-source-probe-interval", "", 1, 1);
    OVSDB_SERVER_SET_SYNC_EXCLUDE_TABLES: command("ovsdb-server/set-sync-exclude-tables", "", 0, 1).by(DATABASE);
    OVSDB_SERVER_SYNC_STATUS: command("ovsdb-server/sync-status", "", 0, 0).by(DATABASE);
    PANIC: hidden("panic", 1).by(WITH_PANIC);
    QOS_SHOW: command("qos/show", "interface", 1, 1).by(SWITCH).help("prints a port's QoS type and the counters of its QoS queues");
    QOS_SHOW_TYPES: command("qos/show-types", "interface", 1, 1).by(SWITCH).help("prints the QoS types that a port supports");
    REVALIDATOR_PAUSE: hidden("revalidator/pause", 0).by(SWITCH);
    REVALIDATOR_PURGE: command("revalidator/purge", "", 0, 0).by(SWITCH);
    REVALIDATOR_RESUME: hidden("revalidator/resume", 0).by(SWITCH);
    REVALIDATOR_VERIFY: hidden("revalidator/verify", 0).by(SWITCH);
    REVALIDATOR_WAIT: command("revalidator/wait", "", 0, 0).by(SWITCH);
    RSTP_SHOW: command("rstp/show", "[bridge]", 0, 1).by(SWITCH).help("prints root, roles and states of ports in rapid spanning tree");
    RSTP_TCN: command("rstp/tcn", "[bridge]", 0, 1).by(SWITCH).help("acts as if the topology of rapid spanning tree had changed");
    RXPOOL_SHOW: hidden("rxpool/show", 0).by(SWITCH);
    SET_OPTIONS: command("set-options", "[--format text|json]", 1, 2);
    STEAL: command("steal", "LOCK", 1, 1);
    STP_SHOW: command("stp/show", "[bridge]", 0, 1).by(SWITCH).help("prints root, roles and states of ports in spanning tree");
    STP_TCN: command("stp/tcn", "[bridge]", 0, 1).by(SWITCH).help("acts as if the topology of spanning tree had changed");
    TIME_STOP: command("time/stop", "", 0, 0).by(WITH_DUMMIES);
    TIME_WARP: command("time/warp", "[large_msecs] msecs", 1, 2).by(WITH_DUMMIES);
    TNL_ARP_AGING: command("tnl/arp/aging", "[SECS]", 0, 1).by(SWITCH);
    TNL_ARP_FLUSH: command("tnl/arp/flush", "", 0, 0).by(SWITCH);
    TNL_ARP_SET: command("tnl/arp/set", "BRIDGE IP MAC", 3, 3).by(SWITCH);
    TNL_ARP_SHOW: command("tnl/arp/show", "", 0, 0).by(SWITCH);
    TNL_EGRESS_PORT_RANGE: command("tnl/egress_port_range", "min max", 0, 2).by(SWITCH);
    TNL_NEIGH_AGING: command("tnl/neigh/aging", "[SECS]", 0, 1).by(SWITCH);
    TNL_NEIGH_FLUSH: command("tnl/neigh/flush", "", 0, 0).by(SWITCH);
    TNL_NEIGH_SET: command("tnl/neigh/set", "BRIDGE IP MAC", 3, 3).by(SWITCH);
    TNL_NEIGH_SHOW: command("tnl/neigh/show", "", 0, 0).by(SWITCH);
    TNL_PORTS_SHOW: command("tnl/ports/show", "-v", 0, 1).by(SWITCH);
    UNLOCK: command("unlock", "LOCK", 1, 1);
    UPCALL_DISABLE_MEGAFLOWS: command("upcall/disable-megaflows", "", 0, 0).by(SWITCH);
    UPCALL_DISABLE_UFID: command("upcall/disable-ufid", "", 0, 0).by(SWITCH);
    UPCALL_ENABLE_MEGAFLOWS: command("upcall/enable-megaflows", "", 0, 0).by(SWITCH);
    UPCALL_ENABLE_UFID: command("upcall/enable-ufid", "", 0, 0).by(SWITCH);
    UPCALL_SET_FLOW_LIMIT: command("upcall/set-flow-limit", "flow-limit-number", 1, 1).by(SWITCH);
    UPCALL_SHOW: command("upcall/show", "", 0, 0).by(SWITCH).help("prints the state of flow revalidation").common();
    VERSION: command("version", "", 0, 0).help("prints the daemon's version").common();
    VLOG_CLOSE: command("vlog/close", "", 0, 0).by(BOTH);
    VLOG_DISABLE_RATE_LIMIT: command("vlog/disable-rate-limit", "[module]...", 0, MANY).by(BOTH);
    VLOG_ENABLE_RATE_LIMIT: command("vlog/enable-rate-limit", "[module]...", 0, MANY).by(BOTH);
    VLOG_LIST: command("vlog/list", "", 0, 0).by(BOTH).help("prints the log levels").common();
    VLOG_LIST_PATTERN: command("vlog/list-pattern", "", 0, 0).by(BOTH);
    VLOG_MESSAGE: hidden("vlog/message", 1).by(BOTH);
    VLOG_REOPEN: command("vlog/reopen", "", 0, 0).by(BOTH).help("reopens the log file, e.g. after rotation").common();
    VLOG_SET: command("vlog/set", "{spec | PATTERN:destination:pattern}", 0, MANY).by(BOTH).help("sets log levels: MODULE:DESTINATION:LEVEL, each optional").common();
}
