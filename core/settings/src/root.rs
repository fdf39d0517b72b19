//! Settings of table `Open_vSwitch`, which apply to the whole switch.

use crate::not_built::HW_OFFLOAD;
use crate::setting::{I32_MAX, Setting, U32_MAX, settings};

const fn oc(key: &'static str) -> Setting {
    Setting::new("Open_vSwitch", "other_config", key)
}

const fn column(name: &'static str) -> Setting {
    Setting::new("Open_vSwitch", name, "")
}

const ONE_REVALIDATOR: &str =
    "each datapath has one revalidator thread, which works when something has changed";

settings! {
    BRIDGES = column("bridges").rows("Bridge").doc("The bridges of the switch.");
    SSL = column("ssl").rows("SSL").doc("Key, certificate and CA for TLS connections.");
    MANAGER_OPTIONS = column("manager_options").rows("Manager")
        .doc("The remotes of the database server; the switch itself does not use them.");
    NEXT_CFG = column("next_cfg").int(0, i64::MAX, 0)
        .doc("Incremented by tools at each change; cur_cfg follows when the change is applied.");
    STATS_UPDATE_INTERVAL = oc("stats-update-interval").clamped(5000, I32_MAX, 5000)
        .doc("Milliseconds between two updates of port statistics in the database.");
    FLOW_LIMIT = oc("flow-limit").opt_int(0, U32_MAX)
        .doc("Maximum number of megaflows of a datapath; if not set, only megaflow-memory limits them.");
    MAX_IDLE = oc("max-idle").clamped(500, U32_MAX, 10_000)
        .doc("Milliseconds without a packet after which a megaflow is removed.");
    VLAN_LIMIT = oc("vlan-limit").clamped(0, I32_MAX, 1)
        .doc("Maximum number of VLAN tags that are parsed to find the type of a packet; 0: as many as supported.");
    FLOW_RESTORE_WAIT = oc("flow-restore-wait").flag(false)
        .doc("While true after the start, packets without a megaflow are dropped and no controller is connected, so \
              that flows can be restored first; ignored after it has been false once.");
    BUNDLE_IDLE_TIMEOUT = oc("bundle-idle-timeout").opt_int(1, U32_MAX)
        .doc("Seconds without a message after which an open OpenFlow bundle is discarded; if not set, 10.");
    N_HANDLER_THREADS = oc("n-handler-threads").opt_int(1, U32_MAX)
        .doc("Number of handler threads; if not set, it depends on the number of cores.");
    DPDK_INIT = oc("dpdk-init").choice(&["false", "true", "try"], "false")
        .doc("Starts DPDK, which then runs until the daemon ends.");
    DPDK_LCORE_MASK = oc("dpdk-lcore-mask").text("a hexadecimal mask of cores").restart()
        .doc("The cores of DPDK's own threads; those of PMD threads are in pmd-cpu-mask.");
    DPDK_ALLOC_MEM = oc("dpdk-alloc-mem").text("megabytes").restart()
        .doc("Memory that DPDK allocates at start, on any NUMA node.");
    DPDK_SOCKET_MEM = oc("dpdk-socket-mem").text("megabytes per NUMA node, with commas").restart()
        .doc("Memory that DPDK allocates at start on each NUMA node.");
    DPDK_SOCKET_LIMIT = oc("dpdk-socket-limit").text("megabytes per NUMA node, with commas").restart()
        .doc("Maximum memory of DPDK on each NUMA node; 0: no limit.");
    DPDK_HUGEPAGE_DIR = oc("dpdk-hugepage-dir").text("a directory").restart()
        .doc("The hugetlbfs mount that DPDK uses.");
    DPDK_EXTRA = oc("dpdk-extra").text("words of DPDK's command line").restart()
        .doc("Further arguments for DPDK, which take precedence over the other settings.");
    VHOST_SOCK_DIR = oc("vhost-sock-dir").text("a directory below the run directory").restart()
        .doc("Directory of the sockets of dpdkvhostuser ports.");
    VHOST_IOMMU_SUPPORT = oc("vhost-iommu-support").flag(false).restart()
        .doc("Offers an IOMMU to guests on vhost-user client ports.");
    VHOST_POSTCOPY_SUPPORT = oc("vhost-postcopy-support").flag(false).restart()
        .doc("Supports post-copy migration of guests on vhost-user client ports.");
    VHOST_BACKEND = oc("vhost-backend").choice(&["dpdk", "own"], "own").restart()
        .doc("Which vhost-user implementation serves guests while DPDK is in use: that of the switch (own), which is also used \
              without DPDK, or DPDK's library (dpdk), which is the default with vhost-postcopy-support.");
    PER_PORT_MEMORY = oc("per-port-memory").flag(false).restart()
        .doc("Allocates a memory pool for each DPDK port instead of one for all ports of an MTU.");
    USERSPACE_TSO_ENABLE = oc("userspace-tso-enable").flag(true).restart()
        .doc("Uses TCP and UDP segmentation offload of DPDK devices; that of guests and kernel devices is always used.");
    SHARED_MEMPOOL_CONFIG = oc("shared-mempool-config").text("MTU[:NODE], with commas").restart()
        .doc("The MTUs of shared memory pools, so that ports with similar MTUs share one.");
    PMD_CPU_MASK = oc("pmd-cpu-mask").text("a hexadecimal mask of cores")
        .doc("The cores of PMD threads; if not set, one core of each NUMA node that has a polled port.");
    PMD_RXQ_ASSIGN = oc("pmd-rxq-assign").text_or("cycles, roundrobin or group", "cycles")
        .doc("How rx queues are assigned to PMD threads.");
    PMD_RXQ_ISOLATE = oc("pmd-rxq-isolate").flag(true)
        .doc("Whether a core with a pinned rx queue gets no other queues; false requires pmd-rxq-assign=group.");
    PMD_SLEEP_MAX = oc("pmd-sleep-max").text_or("microseconds 0 to 10000, or CORE:MICROSECONDS with commas", "0")
        .doc("Maximum sleep of a PMD thread with low load.");
    PMD_LATENCY_TARGET = oc("pmd-latency-target").text_or("microseconds 0 to 10000, or CORE:MICROSECONDS with commas", "0")
        .doc("Maximum time that a packet may wait for a sleeping PMD thread; it bounds sleeps regardless of pmd-sleep-max.");
    PMD_AUTO_LB = oc("pmd-auto-lb").flag(false)
        .doc("Reassigns rx queues if a PMD thread is overloaded.");
    PMD_AUTO_LB_POLICY = oc("pmd-auto-lb-policy").choice(&["predictive", "variance"], "predictive")
        .doc("How pmd-auto-lb decides: by a forecast every second with as few moves as possible, or as Open vSwitch does.");
    PMD_AUTO_LB_REBAL_INTERVAL = oc("pmd-auto-lb-rebal-interval").int(0, 20_000, 1)
        .doc("Minutes between two checks of policy variance; 0 means 1.");
    PMD_AUTO_LB_LOAD_THRESHOLD = oc("pmd-auto-lb-load-threshold").int(0, 100, 95)
        .doc("Load of a PMD thread, in percent, above which it is overloaded; if not set, 99 for policy predictive.");
    PMD_AUTO_LB_IMPROVEMENT_THRESHOLD = oc("pmd-auto-lb-improvement-threshold").int(0, 100, 25)
        .doc("Reduction of the variance of loads, in percent, that policy variance requires for a reassignment.");
    PMD_PERF_METRICS = oc("pmd-perf-metrics").flag(false).doc("Enables detailed counters of PMD threads.");
    MEGAFLOW_MEMORY = oc("megaflow-memory").int(1, 1 << 20, 1024)
        .doc("Maximum memory of a datapath's megaflows in mebibytes, by the size of their data; above it those unused for longest are evicted.");
    SHADOW_CHECK = oc("shadow-check").int(0, U32_MAX, 0)
        .doc("Translates one of this many packets that match a megaflow again and compares the result (dpif/show-shadow); 0: none.");
    TX_FLUSH_INTERVAL = oc("tx-flush-interval").int(0, 1_000_000, 0)
        .doc("Maximum microseconds that a PMD thread holds packets to send more of them at once; 0: until the end of the iteration.");
    METRICS_LISTEN = oc("metrics-listen").text("ADDRESS:PORT, as in 127.0.0.1:9310 or [::]:9310")
        .doc("Where metrics and the web page are served by TCP, without encryption or password; not set: only at a Unix socket.");
    METRICS_HOSTS = oc("metrics-hosts").text("names, separated by spaces or commas")
        .doc("Host names with a dot that are accepted in HTTP requests to metrics-listen (header Host); addresses and names without a \
              dot are always accepted.");
    FLOW_CACHE = oc("flow-cache")
        .choice(&["unified", "ovs", "emc1", "emc1-16k", "emc2", "emc2-16k", "dfc", "cd", "smc"], "unified")
        .doc("The flow cache: Sluice's own, that of Open vSwitch, or one for comparison.");
    EMC_INSERT_INV_PROB = oc("emc-insert-inv-prob").int(0, U32_MAX, 100)
        .doc("One of this many flows is inserted into the exact match cache, if flow-cache has one; 0: none.");
    SMC_ENABLE = oc("smc-enable").flag(false)
        .doc("Enables the signature match cache, if flow-cache is ovs.");
    RX_POOL_SIZE = oc("rx-pool-size").int(512, 65_536, 4096)
        .doc("Buffers of a pool that rx queues with rx-pool=spp share; a change moves these queues to new pools at once.");
    RX_POOL_QUEUES = oc("rx-pool-queues").int(1, 256, 16)
        .doc("Rx queues that share a pool; more queues get another pool.");
    RX_POOL_BASIC_QUEUES = oc("rx-pool-basic-queues").int(1, 128, 1)
        .doc("Rx queues that all ports of a datapath with rx-pool=basic share; packets on the way are lost when it changes.");
    RX_POOL_BASIC_HASH = oc("rx-pool-basic-hash").choice(&["flow", "port"], "flow")
        .doc("Whether a packet's flow selects one of these queues, or its port.");
    RX_POOL_BASIC_PMD = oc("rx-pool-basic-pmd").flag(false)
        .doc("PMD threads poll these queues (port rx-shared in pmd-rxq-show), and not the thread of kernel ports.");
    PMD_MAXSLEEP = oc("pmd-maxsleep").text("microseconds 0 to 10000")
        .doc("The former name of pmd-sleep-max.");
    EXPLICIT_SAMPLED_DROPS = oc("explicit-sampled-drops").flag(false)
        .doc("Packets that are only sampled, not sent, are dropped by an action, which counts them.");
}

/// Settings that the code does not read by name.
pub const OTHERS: &[Setting] = &[
    column("datapaths").rows("Datapath").doc("Datapaths by type."),
    oc("max-revalidator")
        .int(100, U32_MAX, 500)
        .without_effect(ONE_REVALIDATOR)
        .doc("Maximum milliseconds between two revalidations."),
    oc("min-revalidate-pps")
        .int(0, U32_MAX, 5)
        .without_effect("every megaflow is revalidated")
        .doc("Packets per second below which a megaflow is removed rather than revalidated under load."),
    oc("n-revalidator-threads")
        .opt_int(1, U32_MAX)
        .without_effect(ONE_REVALIDATOR)
        .doc("Number of threads that revalidate megaflows."),
    oc("offloaded-stats-delay")
        .int(0, U32_MAX, 2000)
        .detail_of(HW_OFFLOAD)
        .doc("Maximum delay of counters of offloaded flows in milliseconds."),
    oc("hw-offload").flag(false).restart().needs(HW_OFFLOAD).doc("Offloads flows to hardware."),
    oc("hw-offload-priority").text("").restart().detail_of(HW_OFFLOAD).doc("Preference of offload methods."),
    oc("n-offload-threads")
        .int(1, 10, 1)
        .restart()
        .detail_of(HW_OFFLOAD)
        .doc("Number of threads that offload flows."),
    oc("offload-rebalance")
        .flag(false)
        .detail_of(HW_OFFLOAD)
        .doc("Prefers flows with high rates if the hardware is full."),
    oc("tc-policy")
        .choice(&["none", "skip_sw", "skip_hw"], "none")
        .without_effect("flows are not offloaded to the kernel's traffic control")
        .doc("Whether the kernel's traffic control keeps flows in software, in hardware or both."),
    oc("enable-statistics")
        .flag(false)
        .without_effect("the column `statistics` is not written")
        .doc("Writes load, memory and processes of the host to the column `statistics`."),
    oc("ct-size")
        .text("")
        .without_effect(
            "memory for connections is allocated on demand; `dpctl/ct-set-maxconns` limits their number",
        )
        .doc("Size of connection tables."),
    oc("private_key")
        .text("a file")
        .other_program("ovs-monitor-ipsec")
        .doc("The private key for IPsec tunnels."),
    oc("certificate")
        .text("a file")
        .other_program("ovs-monitor-ipsec")
        .doc("The certificate for IPsec tunnels."),
    oc("ca_cert").text("a file").other_program("ovs-monitor-ipsec").doc("The CA for IPsec tunnels."),
    oc("ipsec_skb_mark")
        .text("VALUE[/MASK]")
        .other_program("ovs-monitor-ipsec")
        .doc("Marks packets for IPsec."),
];
