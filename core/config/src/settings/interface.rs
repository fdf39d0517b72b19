//! Settings of `Interface`, except its column `options`.

use super::{I32, Setting, settings};
use crate::not_built::{CFM, LLDP};

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
    OFPORT_REQUEST = column("ofport_request").opt_int(1, 65_279).doc("The OpenFlow port number wanted.");
    MTU_REQUEST = column("mtu_request").opt_int(1, I32).doc("The MTU wanted.");
    MAC = column("mac").text("an Ethernet address").doc("The address of an internal port.");
    PMD_RXQ_AFFINITY = oc("pmd-rxq-affinity").text("QUEUE:CORE, with commas")
        .doc("The poll threads' cores to which receive queues are pinned.");
    TX_STEERING = oc("tx-steering").choice(&["thread", "hash"], "thread")
        .doc("Whether a send queue is chosen by thread or by the hash of the packet.");
    LACP_PORT_ID = oc("lacp-port-id").opt_int(1, 65_535)
        .doc("The link's number in LACP; the OpenFlow port number if not set.");
    LACP_PORT_PRIORITY = oc("lacp-port-priority").int(1, 65_535, 65_535).doc("Its priority in LACP.");
    LACP_AGGREGATION_KEY = oc("lacp-aggregation-key").int(0, 65_535, 0)
        .doc("Its key in LACP; 0: the number of the port's first link.");
    BFD_ENABLE = bfd("enable").flag(false).doc("Bidirectional forwarding detection.");
    BFD_MIN_RX = bfd("min_rx").held(1, I32, 1000)
        .doc("Milliseconds between two messages received at least.");
    BFD_MIN_TX = bfd("min_tx").held(1, I32, 100).doc("Milliseconds between two messages sent at least.");
    BFD_DECAY_MIN_RX = bfd("decay_min_rx").int(0, I32, 0)
        .doc("The same as min_rx when there is no traffic; 0 is no difference.");
    BFD_FORWARDING_IF_RX = bfd("forwarding_if_rx").flag(false)
        .doc("Traffic received counts as being reached, while one message in 100 times min_rx comes.");
    BFD_CPATH_DOWN = bfd("cpath_down").flag(false).doc("Tells the other end not to use the path.");
    BFD_CHECK_TNL_KEY = bfd("check_tnl_key").flag(false).doc("Takes only messages with tunnel key 0.");
    BFD_LOCAL_SRC_MAC = bfd("bfd_local_src_mac").text("an Ethernet address")
        .doc("The address messages come from; the port's if not set.");
    BFD_LOCAL_DST_MAC = bfd("bfd_local_dst_mac").text_or("an Ethernet address", "00:23:20:00:00:01")
        .doc("The address messages are sent to.");
    BFD_REMOTE_DST_MAC = bfd("bfd_remote_dst_mac").text("an Ethernet address")
        .doc("The address received messages must have; any if not set.");
    BFD_SRC_IP = bfd("bfd_src_ip").text_or("an IPv4 address", "169.254.1.1")
        .doc("The IP address messages come from; with another than the default only messages to it are taken.");
    BFD_DST_IP = bfd("bfd_dst_ip").text_or("an IPv4 address", "169.254.1.0")
        .doc("The IP address messages are sent to.");
    BFD_OAM = bfd("oam").flag(false).doc("Marks messages as such in tunnels that can.");
    INGRESS_POLICING_RATE = column("ingress_policing_rate").int(0, I32, 0)
        .doc("Kilobits received per second at most, without Ethernet headers; 0: any.");
    INGRESS_POLICING_BURST = column("ingress_policing_burst").int(0, I32, 0).doc("Its burst in kilobits; 0: 8000.");
    INGRESS_POLICING_KPKTS_RATE = column("ingress_policing_kpkts_rate").int(0, I32, 0)
        .doc("Thousands of packets received per second at most; 0: any.");
    INGRESS_POLICING_KPKTS_BURST = column("ingress_policing_kpkts_burst").int(0, I32, 0)
        .doc("Its burst in thousands of packets; 0: 16.");
    BFD_MULT = bfd("mult").int(1, 255, 3).doc("Messages that may be lost.");
}

/// Settings that the code does not read by name.
pub const OTHERS: &[Setting] = &[
    column("cfm_mpid").opt_int(1, 8191).asks_for(CFM).doc("The port's id; switches CFM on."),
    oc("emc-enable")
        .flag(true)
        .none("the flow cache here is another one and always on")
        .doc("The exact match cache of Open vSwitch for packets of this port."),
    oc("hw-offload-priority")
        .text("")
        .none("flows are not offloaded to hardware")
        .doc("Ways to offload, in order."),
    oc("cfm_interval").int(1, 65_535, 1000).detail_of(CFM).doc("Milliseconds between two heartbeats."),
    oc("cfm_extended").flag(false).detail_of(CFM).doc("Heartbeats of any interval."),
    oc("cfm_demand").flag(false).detail_of(CFM).doc("Traffic counts as heartbeat."),
    oc("cfm_opstate").choice(&["up", "down"], "up").detail_of(CFM).doc("The state that is told."),
    oc("cfm_ccm_vlan").opt_int(1, 4095).detail_of(CFM).doc("The VLAN of heartbeats."),
    oc("cfm_ccm_pcp").opt_int(1, 7).detail_of(CFM).doc("Their priority."),
    Setting::new("Interface", "lldp", "enable").flag(false).asks_for(LLDP).doc("LLDP on the port."),
];
