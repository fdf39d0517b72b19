//! Settings of `Bridge`.

use crate::setting::{Setting, U32_MAX, settings};

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
        .doc("Disables in-band control: the bridge has no hidden flows for connections to controllers and managers.");
    IN_BAND_QUEUE = oc("in-band-queue").opt_int(0, U32_MAX).doc("The QoS queue of the hidden flows of in-band control.");
    MAC_AGING_TIME = oc("mac-aging-time").clamped_or_default(15, 3600, 300)
        .doc("Seconds without a packet after which a learned address is removed.");
    MAC_TABLE_SIZE = oc("mac-table-size").clamped_or_default(10, 1_000_000, 8192).doc("Maximum number of learned addresses.");
    STP_ENABLE = column("stp_enable").flag(false).doc("Spanning tree: ports that would close a loop do not forward.");
    RSTP_ENABLE = column("rstp_enable").flag(false)
        .doc("Rapid spanning tree, which replaces a lost link within seconds; it takes precedence over spanning tree.");
    STP_SYSTEM_ID = oc("stp-system-id").text("an Ethernet address")
        .doc("The bridge's id for spanning tree; if not set, the bridge's address.");
    STP_PRIORITY = oc("stp-priority").int(0, 65_535, 0x8000)
        .doc("Its priority in the election of the root; lower is preferred.");
    STP_HELLO_TIME = oc("stp-hello-time").clamped(1, 10, 2).doc("Seconds between two hello messages.");
    STP_MAX_AGE = oc("stp-max-age").clamped(6, 40, 20).doc("Seconds after which received information expires.");
    STP_FORWARD_DELAY = oc("stp-forward-delay").clamped(4, 30, 15)
        .doc("Seconds that a port listens, and then learns, before it forwards.");
    RSTP_ADDRESS = oc("rstp-address").text("an Ethernet address")
        .doc("The bridge's id for rapid spanning tree; if not set, the bridge's address.");
    RSTP_PRIORITY = oc("rstp-priority").int(0, 61_440, 0x8000)
        .doc("Its priority in the election of the root, in steps of 4096; lower is preferred.");
    RSTP_FORCE_PROTOCOL_VERSION = oc("rstp-force-protocol-version").int(0, 2, 2)
        .doc("0: sends STP messages and uses the waiting times of STP; 2: RSTP.");
    RSTP_MAX_AGE = oc("rstp-max-age").int(6, 40, 20)
        .doc("Seconds after which received information expires; ignored if it is more than twice the forward delay less 2.");
    RSTP_FORWARD_DELAY = oc("rstp-forward-delay").int(4, 30, 15)
        .doc("Seconds that a port waits for a neighbour with spanning tree before it learns, and before it forwards.");
    RSTP_TRANSMIT_HOLD_COUNT = oc("rstp-transmit-hold-count").int(1, 10, 6)
        .doc("Maximum number of messages that a port sends per second.");
    MCAST_SNOOPING_AGING_TIME = oc("mcast-snooping-aging-time").clamped_or_default(15, 3600, 300)
        .doc("Seconds after which a port that does not renew its membership leaves a multicast group.");
    MCAST_SNOOPING_TABLE_SIZE = oc("mcast-snooping-table-size").clamped_or_default(10, 1_000_000, 2048)
        .doc("Maximum number of multicast groups.");
    MCAST_SNOOPING_DISABLE_FLOOD_UNREGISTERED = oc("mcast-snooping-disable-flood-unregistered").flag(false)
        .doc("Sends multicast of groups that no port joined only to multicast routers, instead of flooding it.");
}

/// Settings that the code does not read by name.
pub const OTHERS: &[Setting] = &[
    column("mirrors").rows("Mirror").doc("The bridge's mirrors."),
    column("netflow").rows("NetFlow").doc("Reports flows as NetFlow."),
    column("sflow").rows("sFlow").doc("Reports samples as sFlow."),
    column("ipfix").rows("IPFIX").doc("Reports flows as IPFIX."),
    column("auto_attach")
        .rows("AutoAttach")
        .doc("Attaches to a fabric by LLDP (auto-attach), on ports with `lldp:enable=true`."),
    column("mcast_snooping_enable")
        .flag(false)
        .doc("Multicast snooping: sends multicast only to ports that requested it."),
    oc("rstp-ageing-time")
        .int(10, 1_000_000, 300)
        .without_effect("learned addresses are removed at once when the tree changes")
        .doc("Seconds after which learned addresses expire."),
];
