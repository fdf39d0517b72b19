//! Settings of `Interface`, except its column `options`.

use crate::setting::{I32_MAX, Setting, settings};

const fn oc(key: &'static str) -> Setting {
    Setting::new("Interface", "other_config", key)
}

const fn column(name: &'static str) -> Setting {
    Setting::new("Interface", name, "")
}

const fn bfd(key: &'static str) -> Setting {
    Setting::new("Interface", "bfd", key)
}

settings! {
    NAME = column("name").text("").doc("The device's name.");
    TYPE = column("type").text("").doc("Its type; system if not set.");
    OPTIONS = column("options").text("").doc("Settings of its type.");
    OFPORT_REQUEST = column("ofport_request").opt_int(1, 65_279).doc("The requested OpenFlow port number.");
    MTU_REQUEST = column("mtu_request").opt_int(1, I32_MAX).doc("The requested MTU.");
    MAC = column("mac").text("an Ethernet address").doc("The address of an internal port.");
    PMD_RXQ_AFFINITY = oc("pmd-rxq-affinity").text("QUEUE:CORE, with commas")
        .doc("The cores of PMD threads to which rx queues are pinned.");
    TX_STEERING = oc("tx-steering").choice(&["thread", "hash"], "thread")
        .doc("Whether the tx queue is selected by thread or by the hash of the packet.");
    RX_POOL = oc("rx-pool").choice(&["none", "basic", "spp"], "none")
        .doc("Receive buffers: rings of its own, a receive queue shared with other ports, or adjustable rings over a shared pool.");
    RX_POOL_ALPHA = oc("rx-pool-alpha").text_or("a number from 0.015625 to 64", "1")
        .doc("With rx-pool=spp, how many times the pool's free buffers a queue may hold beyond its reserve.");
    RX_POOL_RESERVE = oc("rx-pool-reserve").int(32, 1024, 128)
        .doc("With rx-pool=spp, buffers that each rx queue is certain to get.");
    RX_POOL_DRAIN = oc("rx-pool-drain").flag(false)
        .doc("With rx-pool=spp, multiplies rx-pool-alpha by 1/8 to 2, according to the share of its backlog that a poll takes.");
    LACP_PORT_ID = oc("lacp-port-id").opt_int(1, 65_535)
        .doc("The link's number in LACP; the OpenFlow port number if not set.");
    LACP_PORT_PRIORITY = oc("lacp-port-priority").int(1, 65_535, 65_535).doc("Its priority in LACP.");
    LACP_AGGREGATION_KEY = oc("lacp-aggregation-key").int(0, 65_535, 0)
        .doc("Its key in LACP; 0: the number of the port's first link.");
    BFD_ENABLE = bfd("enable").flag(false).doc("Enables bidirectional forwarding detection.");
    BFD_MIN_RX = bfd("min_rx").clamped(1, I32_MAX, 1000)
        .doc("Minimum milliseconds between two received messages.");
    BFD_MIN_TX = bfd("min_tx").clamped(1, I32_MAX, 100).doc("Minimum milliseconds between two sent messages.");
    BFD_DECAY_MIN_RX = bfd("decay_min_rx").int(0, I32_MAX, 0)
        .doc("Replaces min_rx while there is no traffic; 0: min_rx is used.");
    BFD_FORWARDING_IF_RX = bfd("forwarding_if_rx").flag(false)
        .doc("Received traffic counts as reachability, as long as one message arrives within 100 times min_rx.");
    BFD_CPATH_DOWN = bfd("cpath_down").flag(false).doc("Tells the peer not to use the path.");
    BFD_CHECK_TNL_KEY = bfd("check_tnl_key").flag(false).doc("Accepts only messages with tunnel key 0.");
    BFD_LOCAL_SRC_MAC = bfd("bfd_local_src_mac").text("an Ethernet address")
        .doc("Source address of messages; if not set, the port's address.");
    BFD_LOCAL_DST_MAC = bfd("bfd_local_dst_mac").text_or("an Ethernet address", "00:23:20:00:00:01")
        .doc("Destination address of messages.");
    BFD_REMOTE_DST_MAC = bfd("bfd_remote_dst_mac").text("an Ethernet address")
        .doc("Destination address that received messages must have; any if not set.");
    BFD_SRC_IP = bfd("bfd_src_ip").text_or("an IPv4 address", "169.254.1.1")
        .doc("Source IP address of messages; unless it is the default, only messages sent to it are accepted.");
    BFD_DST_IP = bfd("bfd_dst_ip").text_or("an IPv4 address", "169.254.1.0")
        .doc("Destination IP address of messages.");
    BFD_OAM = bfd("oam").flag(false).doc("Sets the OAM flag of tunnels that have one.");
    CFM_MPID = column("cfm_mpid").opt_int(1, i64::MAX)
        .doc("The port's id in connectivity fault management (CFM), at most 8191 unless extended; enables CFM.");
    CFM_INTERVAL = oc("cfm_interval").int(1, I32_MAX, 1000)
        .doc("Milliseconds between two CFM messages; one of 3, 10, 100, 1000, 10000, 60000, 600000 unless extended.");
    CFM_EXTENDED = oc("cfm_extended").flag(false)
        .doc("Extended mode of CFM: any id and interval, and the operational state.");
    CFM_DEMAND = oc("cfm_demand").flag(false).doc("In extended mode, received traffic counts as a CFM message.");
    CFM_OPSTATE = oc("cfm_opstate").choice(&["up", "down"], "up")
        .doc("In extended mode, the operational state that CFM messages carry.");
    CFM_CCM_VLAN = oc("cfm_ccm_vlan").text("1 to 4095, or random").doc("The VLAN of CFM messages.");
    CFM_CCM_PCP = oc("cfm_ccm_pcp").int(0, 7, 0).doc("The priority of CFM messages.");
    LLDP_ENABLE = Setting::new("Interface", "lldp", "enable").flag(false)
        .doc("LLDP on the port: sends a message every 30 seconds, and stores those of neighbours (`lldp/show`).");
    INGRESS_POLICING_RATE = column("ingress_policing_rate").int(0, I32_MAX, 0)
        .doc("Maximum rate of received packets in kilobits per second, without Ethernet headers; 0: no limit.");
    INGRESS_POLICING_BURST = column("ingress_policing_burst").int(0, I32_MAX, 0).doc("Its burst in kilobits; 0: 8000.");
    INGRESS_POLICING_KPKTS_RATE = column("ingress_policing_kpkts_rate").int(0, I32_MAX, 0)
        .doc("Maximum rate of received packets in thousands per second; 0: no limit.");
    INGRESS_POLICING_KPKTS_BURST = column("ingress_policing_kpkts_burst").int(0, I32_MAX, 0)
        .doc("Its burst in thousands of packets; 0: 16.");
    BFD_MULT = bfd("mult").int(1, 255, 3).doc("Number of missed messages after which the session is down.");
}

/// Settings that the code does not read by name.
pub const OTHERS: &[Setting] = &[
    oc("emc-enable")
        .flag(true)
        .without_effect("flow-cache selects the cache for all ports")
        .doc("Uses the exact match cache for packets of this port."),
    oc("hw-offload-priority")
        .text("")
        .without_effect("flows are not offloaded to hardware")
        .doc("Preference of offload methods."),
];
