//! Settings of `Bridge`.

use crate::not_built::{AUTO_ATTACH, IPFIX, NETFLOW, RSTP, SFLOW, SNOOPING, STP};
use crate::setting::{Setting, U32, settings};

const fn oc(key: &'static str) -> Setting {
    Setting::new("Bridge", "other_config", key)
}

const fn column(name: &'static str) -> Setting {
    Setting::new("Bridge", name, "")
}

settings! {
    NAME = column("name").text("").doc("The bridge's name, and that of its local port.");
    PORTS = column("ports").rows("Port").doc("Its ports.");
    CONTROLLER = column("controller").rows("Controller").doc("Its OpenFlow controllers.");
    FLOW_TABLES = column("flow_tables").rows("Flow_Table").doc("Configuration of its OpenFlow tables, by number.");
    FLOOD_VLANS = column("flood_vlans").int(0, 4095, 0).doc("VLANs in which packets are flooded and addresses are not learned.");
    FAIL_MODE = column("fail_mode").choice(&["standalone", "secure"], "standalone")
        .doc("Whether the bridge forwards as a learning switch while no controller is connected.");
    PROTOCOLS = column("protocols").text("OpenFlow10 to OpenFlow15")
        .doc("The allowed OpenFlow versions; all if not set.");
    DATAPATH_TYPE = column("datapath_type").choice(&["system", "netdev"], "system")
        .doc("The datapath type; both types are datapaths of this daemon.");
    DATAPATH_ID = oc("datapath-id").text("16 hexadecimal digits, or 0x and up to 16")
        .doc("The bridge's OpenFlow datapath id; if not set, it is derived from the bridge's address.");
    DP_DESC = oc("dp-desc").text("").doc("A description shown to controllers.");
    DP_SN = oc("dp-sn").text("").doc("A serial number shown to controllers.");
    HWADDR = oc("hwaddr").text("an Ethernet address").doc("The bridge's address; if not set, the lowest address of its ports.");
    FORWARD_BPDU = oc("forward-bpdu").flag(false).doc("Forwards frames to the reserved link-local addresses.");
    CONTROLLER_QUEUE_SIZE = oc("controller-queue-size").int(1, 512, 100)
        .doc("Maximum number of packet-ins queued for a controller that reads slowly; further ones are dropped.");
    DISABLE_IN_BAND = oc("disable-in-band").flag(false)
        .doc("No hidden flows let connections to controllers and managers pass.");
    IN_BAND_QUEUE = oc("in-band-queue").opt_int(0, U32).doc("The queue that these flows use.");
    MAC_AGING_TIME = oc("mac-aging-time").held(15, 3600, 300)
        .doc("Seconds without a packet after which a learned address is removed.");
    MAC_TABLE_SIZE = oc("mac-table-size").held(10, 1_000_000, 8192).doc("Maximum number of learned addresses.");
}

/// Settings that the code does not read by name.
pub const OTHERS: &[Setting] = &[
    column("mirrors").rows("Mirror").doc("The bridge's mirrors."),
    column("netflow").rows("NetFlow").asks_for(NETFLOW).doc("Reports flows as NetFlow."),
    column("sflow").rows("sFlow").asks_for(SFLOW).doc("Reports samples as sFlow."),
    column("ipfix").rows("IPFIX").asks_for(IPFIX).doc("Reports flows as IPFIX."),
    column("auto_attach").rows("AutoAttach").asks_for(AUTO_ATTACH).doc("Attaches to a fabric by LLDP."),
    column("stp_enable").flag(false).asks_for(STP).doc("Spanning tree."),
    column("rstp_enable").flag(false).asks_for(RSTP).doc("Rapid spanning tree."),
    column("mcast_snooping_enable")
        .flag(false)
        .asks_for(SNOOPING)
        .doc("Multicast snooping: sends multicast only to ports that requested it."),
    oc("stp-system-id").text("an Ethernet address").detail_of(STP).doc("The bridge's id for spanning tree."),
    oc("stp-priority")
        .int(0, 65_535, 0x8000)
        .detail_of(STP)
        .doc("Its priority in the election of the root; lower is preferred."),
    oc("stp-hello-time").int(1, 10, 2).detail_of(STP).doc("Seconds between two hello messages."),
    oc("stp-max-age").int(6, 40, 20).detail_of(STP).doc("Seconds after which received information expires."),
    oc("stp-forward-delay").int(4, 30, 15).detail_of(STP).doc("Seconds until a port starts to forward."),
    oc("rstp-address")
        .text("an Ethernet address")
        .detail_of(RSTP)
        .doc("The bridge's id for rapid spanning tree."),
    oc("rstp-priority")
        .int(0, 61_440, 0x8000)
        .detail_of(RSTP)
        .doc("Its priority in the election of the root; lower is preferred."),
    oc("rstp-ageing-time")
        .int(10, 1_000_000, 300)
        .detail_of(RSTP)
        .doc("Seconds after which learned addresses expire."),
    oc("rstp-force-protocol-version")
        .int(0, 2, 2)
        .detail_of(RSTP)
        .doc("0: use spanning tree instead of rapid spanning tree."),
    oc("rstp-max-age")
        .int(6, 40, 20)
        .detail_of(RSTP)
        .doc("Seconds after which received information expires."),
    oc("rstp-forward-delay").int(4, 30, 15).detail_of(RSTP).doc("Seconds until a port starts to forward."),
    oc("rstp-transmit-hold-count")
        .int(1, 10, 6)
        .detail_of(RSTP)
        .doc("Maximum number of messages sent per second."),
    oc("mcast-snooping-aging-time")
        .held(15, 3600, 300)
        .detail_of(SNOOPING)
        .doc("Seconds after which a group expires."),
    oc("mcast-snooping-table-size")
        .held(10, 1_000_000, 2048)
        .detail_of(SNOOPING)
        .doc("Maximum number of groups."),
    oc("mcast-snooping-disable-flood-unregistered")
        .flag(false)
        .detail_of(SNOOPING)
        .doc("Drops multicast of groups that no port requested, instead of flooding it."),
];
