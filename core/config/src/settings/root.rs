//! Settings of `Open_vSwitch`: the whole switch.

use super::{I32, Setting, U32, settings};
use crate::not_built::HW_OFFLOAD;

const fn oc(key: &'static str) -> Setting {
    Setting::new("Open_vSwitch", "other_config", key)
}

const fn column(name: &'static str) -> Setting {
    Setting::new("Open_vSwitch", name, "")
}

const NO_REVALIDATORS: &str = "the main loop revalidates flows, there are no threads for it";

settings! {
    BRIDGES = column("bridges").rows("Bridge").doc("The bridges of the switch.");
    SSL = column("ssl").rows("SSL").doc("Key, certificate and CA for TLS connections.");
    MANAGER_OPTIONS = column("manager_options").rows("Manager")
        .doc("The remotes of the database server, which obeys them; the switch itself does not use them.");
    NEXT_CFG = column("next_cfg").int(0, i64::MAX, 0)
        .doc("Counted up by tools at each change; cur_cfg follows it when the change is in force.");
    STATS_UPDATE_INTERVAL = oc("stats-update-interval").held(5000, I32, 5000)
        .doc("Milliseconds between two writings of port statistics to the database.");
    FLOW_LIMIT = oc("flow-limit").opt_int(0, U32)
        .doc("The most flows that a datapath holds; if not set, megaflow-memory alone bounds them.");
    MAX_IDLE = oc("max-idle").held(500, U32, 10_000)
        .doc("Milliseconds without a packet after which a datapath flow is removed.");
    VLAN_LIMIT = oc("vlan-limit").held(0, I32, 1)
        .doc("The VLAN tags behind which the type of a packet is looked for; 0 is as many as there can be.");
    FLOW_RESTORE_WAIT = oc("flow-restore-wait").flag(false)
        .doc("From the start until it is false for the first time packets without a datapath flow are dropped, and no \
              controller is connected to: flows are restored first.");
    BUNDLE_IDLE_TIMEOUT = oc("bundle-idle-timeout").opt_int(1, U32)
        .doc("Seconds without a message after which an open OpenFlow bundle is discarded; 10 if not set.");
    N_HANDLER_THREADS = oc("n-handler-threads").opt_int(1, U32)
        .doc("Threads that translate packets without a flow; if not set, it follows the number of cores.");
    DPDK_INIT = oc("dpdk-init").choice(&["false", "true", "try"], "false")
        .doc("Starts DPDK; once started it runs until the daemon ends.");
    DPDK_LCORE_MASK = oc("dpdk-lcore-mask").text("a hexadecimal mask of cores").restart()
        .doc("The cores of DPDK's own threads; poll threads have pmd-cpu-mask.");
    DPDK_ALLOC_MEM = oc("dpdk-alloc-mem").text("megabytes").restart()
        .doc("Memory that DPDK takes at its start, wherever it is.");
    DPDK_SOCKET_MEM = oc("dpdk-socket-mem").text("megabytes per NUMA node, with commas").restart()
        .doc("Memory that DPDK takes at its start on each NUMA node.");
    DPDK_SOCKET_LIMIT = oc("dpdk-socket-limit").text("megabytes per NUMA node, with commas").restart()
        .doc("The most memory that DPDK takes on each NUMA node; 0 is no limit.");
    DPDK_HUGEPAGE_DIR = oc("dpdk-hugepage-dir").text("a directory").restart()
        .doc("The mount of huge pages that DPDK uses.");
    DPDK_EXTRA = oc("dpdk-extra").text("words of DPDK's command line").restart()
        .doc("Further arguments for DPDK; they win over the other settings.");
    VHOST_SOCK_DIR = oc("vhost-sock-dir").text("a directory below the run directory").restart()
        .doc("Where the sockets of dpdkvhostuser ports are made.");
    VHOST_IOMMU_SUPPORT = oc("vhost-iommu-support").flag(false).restart()
        .doc("Lets guests put an IOMMU before vhost-user client ports.");
    VHOST_POSTCOPY_SUPPORT = oc("vhost-postcopy-support").flag(false).restart()
        .doc("Lets guests with vhost-user client ports migrate by post-copy.");
    PER_PORT_MEMORY = oc("per-port-memory").flag(false).restart()
        .doc("Gives each DPDK port a memory pool of its own instead of sharing by MTU.");
    USERSPACE_TSO_ENABLE = oc("userspace-tso-enable").flag(true).restart()
        .doc("Leaves cutting TCP into segments to DPDK devices that can; guests and kernel devices do it in any case.");
    SHARED_MEMPOOL_CONFIG = oc("shared-mempool-config").text("MTU[:NODE], with commas").restart()
        .doc("The sizes of shared memory pools, so that ports of near MTUs share one.");
    PMD_CPU_MASK = oc("pmd-cpu-mask").text("a hexadecimal mask of cores")
        .doc("The cores that poll ports; if not set, one core of each NUMA node that has such a port.");
    PMD_RXQ_ASSIGN = oc("pmd-rxq-assign").text_or("cycles, roundrobin or group", "cycles")
        .doc("How receive queues are given to poll threads.");
    PMD_RXQ_ISOLATE = oc("pmd-rxq-isolate").flag(true)
        .doc("Whether a core to which a queue is pinned gets no other queue; false needs pmd-rxq-assign=group.");
    PMD_SLEEP_MAX = oc("pmd-sleep-max").text_or("microseconds 0 to 10000, or CORE:MICROSECONDS with commas", "0")
        .doc("The longest sleep of a poll thread with little to do.");
    PMD_LATENCY_TARGET = oc("pmd-latency-target").text_or("microseconds 0 to 10000, or CORE:MICROSECONDS with commas", "0")
        .doc("How long a packet may wait for a sleeping poll thread; it sleeps as this allows, whatever pmd-sleep-max says.");
    PMD_AUTO_LB = oc("pmd-auto-lb").flag(false)
        .doc("Gives receive queues out anew when a poll thread has too much to do.");
    PMD_AUTO_LB_POLICY = oc("pmd-auto-lb-policy").choice(&["predictive", "variance"], "predictive")
        .doc("What pmd-auto-lb decides by: a forecast each second and as few moves as possible, or what Open vSwitch does.");
    PMD_AUTO_LB_REBAL_INTERVAL = oc("pmd-auto-lb-rebal-interval").int(0, 20_000, 1)
        .doc("Minutes between two looks of policy variance; 0 is 1.");
    PMD_AUTO_LB_LOAD_THRESHOLD = oc("pmd-auto-lb-load-threshold").int(0, 100, 95)
        .doc("Percent of its time for which a poll thread has to be busy; 99 where policy predictive is not told.");
    PMD_AUTO_LB_IMPROVEMENT_THRESHOLD = oc("pmd-auto-lb-improvement-threshold").int(0, 100, 25)
        .doc("Percent of variance of the loads that policy variance wants to gain.");
    PMD_PERF_METRICS = oc("pmd-perf-metrics").flag(false).doc("Keeps detailed counters of poll threads.");
    MEGAFLOW_MEMORY = oc("megaflow-memory").int(1, 1 << 20, 1024)
        .doc("Mebibytes that the flows of a datapath may take, by the sizes of what is kept for each; beyond that those unused for longest go.");
    SHADOW_CHECK = oc("shadow-check").int(0, U32, 0)
        .doc("Of so many packets that a megaflow answers one is translated again and compared (dpif/show-shadow); 0: none.");
    TX_FLUSH_INTERVAL = oc("tx-flush-interval").int(0, 1_000_000, 0)
        .doc("Microseconds that a poll thread holds packets for more of their port to come; 0: until it has looked at all its queues.");
    FLOW_CACHE = oc("flow-cache")
        .choice(&["unified", "ovs", "emc1", "emc1-16k", "emc2", "emc2-16k", "dfc", "cd", "smc"], "unified")
        .doc("The cache in front of the classifier: Sluice's own, that of Open vSwitch, or one to compare with.");
    EMC_INSERT_INV_PROB = oc("emc-insert-inv-prob").int(0, U32, 100)
        .doc("One in so many flows enters the exact match cache, where flow-cache asks for one; 0: there is none.");
    SMC_ENABLE = oc("smc-enable").flag(false)
        .doc("Whether there is a signature match cache, where flow-cache is ovs.");
    PMD_MAXSLEEP = oc("pmd-maxsleep").text("microseconds 0 to 10000")
        .doc("The old name of pmd-sleep-max.");
}

/// Settings that the code does not read by name.
pub const OTHERS: &[Setting] = &[
    column("datapaths").rows("Datapath").doc("Datapaths by type."),
    oc("max-revalidator")
        .int(100, U32, 500)
        .none(NO_REVALIDATORS)
        .doc("Milliseconds that a revalidator waits at most."),
    oc("min-revalidate-pps")
        .int(0, U32, 5)
        .none("each flow is revalidated")
        .doc("Packets per second below which a flow is removed rather than revalidated under load."),
    oc("n-revalidator-threads").opt_int(1, U32).none(NO_REVALIDATORS).doc("Threads that revalidate flows."),
    oc("offloaded-stats-delay")
        .int(0, U32, 2000)
        .detail_of(HW_OFFLOAD)
        .doc("Milliseconds that counters of offloaded flows lag behind at most."),
    oc("hw-offload").flag(false).restart().asks_for(HW_OFFLOAD).doc("Offloads flows to hardware."),
    oc("hw-offload-priority")
        .text("")
        .restart()
        .detail_of(HW_OFFLOAD)
        .doc("The order in which ways to offload are tried."),
    oc("n-offload-threads").int(1, 10, 1).restart().detail_of(HW_OFFLOAD).doc("Threads that offload flows."),
    oc("offload-rebalance")
        .flag(false)
        .detail_of(HW_OFFLOAD)
        .doc("Prefers busy flows when hardware is full."),
    oc("tc-policy")
        .choice(&["none", "skip_sw", "skip_hw"], "none")
        .none("flows are not given to the kernel's traffic control")
        .doc("Where the kernel's traffic control keeps flows."),
    oc("explicit-sampled-drops")
        .flag(false)
        .none("dropped packets are not sampled")
        .doc("Samples packets that are dropped by error."),
    oc("enable-statistics")
        .flag(false)
        .none("column statistics is not written")
        .doc("Writes load, memory and processes of the host to column statistics."),
    oc("ct-size")
        .text("")
        .none("connections take room as they come; `dpctl/ct-set-maxconns` limits them")
        .doc("The size of connection tables."),
    oc("private_key").text("a file").elsewhere("ovs-monitor-ipsec").doc("The key for IPsec tunnels."),
    oc("certificate").text("a file").elsewhere("ovs-monitor-ipsec").doc("The certificate for IPsec tunnels."),
    oc("ca_cert").text("a file").elsewhere("ovs-monitor-ipsec").doc("The CA for IPsec tunnels."),
    oc("ipsec_skb_mark").text("VALUE[/MASK]").elsewhere("ovs-monitor-ipsec").doc("Marks packets for IPsec."),
];
