//! Settings of `Port`.

use crate::setting::{I32_MAX, Setting, U32_MAX, settings};

const fn oc(key: &'static str) -> Setting {
    Setting::new("Port", "other_config", key)
}

const fn column(name: &'static str) -> Setting {
    Setting::new("Port", name, "")
}

settings! {
    NAME = column("name").text("").doc("The port's name.");
    INTERFACES = column("interfaces").rows("Interface").doc("Its interfaces; two or more form a bond.");
    VLAN_MODE = column("vlan_mode")
        .choice(&["access", "trunk", "native-tagged", "native-untagged", "dot1q-tunnel"], "")
        .doc("The VLAN mode; if not set, a port with a tag is an access port, and one without is a trunk.");
    TAG = column("tag").opt_int(0, 4095).doc("The VLAN of an access port, or the native VLAN.");
    TRUNKS = column("trunks").opt_int(0, 4095).doc("The VLANs of a trunk port; all if not set.");
    CVLANS = column("cvlans").opt_int(0, 4095).doc("The customer VLANs that a dot1q-tunnel port accepts; all if not set.");
    MAC = column("mac").text("an Ethernet address")
        .doc("The port's address in the selection of the bridge's address, which is the lowest of its ports.");
    PROTECTED = column("protected").flag(false).doc("Protected ports do not exchange packets with each other.");
    QINQ_ETHTYPE = oc("qinq-ethtype").choice(&["802.1ad", "802.1q"], "802.1ad")
        .doc("The Ethernet type of the outer tag of a dot1q-tunnel port.");
    PRIORITY_TAGS = oc("priority-tags").choice(&["never", "if-nonzero", "always", "true", "false"], "never")
        .doc("Whether packets without VLAN are sent with a tag that carries only the priority.");
    MCAST_SNOOPING_FLOOD = oc("mcast-snooping-flood").flag(false)
        .doc("Sends all multicast except membership reports to the port, whether it joined the group or not.");
    MCAST_SNOOPING_FLOOD_REPORTS = oc("mcast-snooping-flood-reports").flag(false)
        .doc("Sends membership reports to the port, as to a port behind which a multicast router is.");
    BOND_MODE = column("bond_mode")
        .choice(&["balance-tcp", "balance-slb", "active-backup"], "active-backup")
        .doc("How a bond distributes traffic.");
    BOND_UPDELAY = column("bond_updelay").int(0, I32_MAX, 0).doc("Milliseconds before a link is considered up.");
    BOND_DOWNDELAY = column("bond_downdelay").int(0, I32_MAX, 0).doc("Milliseconds before a link is considered down.");
    BOND_HASH_BASIS = oc("bond-hash-basis").int(0, U32_MAX, 0).doc("Initial value of the hash that distributes traffic.");
    BOND_PRIMARY = oc("bond-primary").text("an interface").doc("The preferred link.");
    ALL_MEMBERS_ACTIVE = oc("all-members-active").flag(false)
        .doc("Whether a balance-slb bond accepts broadcasts on all links.");
    BOND_REBALANCE_INTERVAL = oc("bond-rebalance-interval").int(0, I32_MAX, 10_000)
        .doc("Milliseconds between two balancings, at least 1000; 0: none.");
    LB_OUTPUT_ACTION = oc("lb-output-action").flag(false)
        .doc("Whether balance-tcp shares in the datapath, without a second look-up.");
    LACP = column("lacp").choice(&["active", "passive", "off"], "off").doc("LACP on the port.");
    LACP_SYSTEM_ID = oc("lacp-system-id").text("an Ethernet address").doc("The LACP system id; if not set, the bridge's address.");
    LACP_SYSTEM_PRIORITY = oc("lacp-system-priority").opt_int(1, 65_535)
        .doc("The LACP system priority; if not set, 65534 for bonds and 65535 for others.");
    LACP_TIME = oc("lacp-time").choice(&["fast", "slow"], "slow").doc("The rate of messages requested from the partner: every second or every 30 seconds.");
    LACP_FALLBACK_AB = oc("lacp-fallback-ab").flag(false)
        .doc("Whether the port becomes an active-backup bond if the partner does not use LACP.");
    STP_ENABLE = oc("stp-enable").flag(true).doc("Spanning tree on the port, if its bridge uses it.");
    STP_PORT_NUM = oc("stp-port-num").opt_int(1, 255).doc("Its number in spanning tree; if not set, the first free one.");
    STP_PORT_PRIORITY = oc("stp-port-priority").int(0, 255, 0x80).doc("Its priority; lower is preferred.");
    STP_PATH_COST = oc("stp-path-cost").opt_int(0, 65_535).doc("The cost of paths through it; if not set, it depends on the speed.");
    RSTP_ENABLE = oc("rstp-enable").flag(true).doc("Rapid spanning tree on the port, if its bridge uses it.");
    RSTP_PORT_PRIORITY = oc("rstp-port-priority").int(0, 240, 0x80).doc("Its priority, in steps of 16; lower is preferred.");
    RSTP_PORT_NUM = oc("rstp-port-num").opt_int(1, 4095).doc("Its number in rapid spanning tree; if not set, the first free one.");
    RSTP_PATH_COST = oc("rstp-path-cost").opt_int(0, I32_MAX)
        .doc("The cost of paths through it, at most 200000000; if not set, it depends on the speed.");
    RSTP_PORT_ADMIN_EDGE = oc("rstp-port-admin-edge").flag(false).doc("The port connects to hosts only: it forwards at once.");
    RSTP_PORT_AUTO_EDGE = oc("rstp-port-auto-edge").flag(true).doc("Detects whether the port connects to hosts only.");
    RSTP_PORT_MCHECK = oc("rstp-port-mcheck").flag(false)
        .doc("Tries rapid spanning tree again with a neighbour that used spanning tree, each time the port is configured.");
    RSTP_ADMIN_P2P_MAC = oc("rstp-admin-p2p-mac").int(0, 2, 1)
        .doc("Whether the link is point-to-point (at most one other bridge), which RSTP needs to forward without waiting (0: no, 1: yes, \
              2: automatic, which counts as no).");
    RSTP_ADMIN_PORT_STATE = oc("rstp-admin-port-state").flag(true).doc("Whether rapid spanning tree may use the port.");
}

/// Settings that the code does not read by name.
pub const OTHERS: &[Setting] = &[
    column("qos").rows("QoS").doc("Queueing of sent packets."),
    column("bond_fake_iface")
        .flag(false)
        .without_effect("no device of the bond's name is made: address the bridge's own instead")
        .doc("Makes a device of the bond's name."),
    column("fake_bridge")
        .flag(false)
        .other_program("ovs-vsctl")
        .doc("Tools show the port as a bridge of its own."),
    oc("bond-detect-mode")
        .choice(&["carrier", "miimon"], "carrier")
        .without_effect("carrier changes are detected at once in either mode")
        .doc("How link failures are detected."),
    oc("bond-miimon-interval")
        .int(1, I32_MAX, 200)
        .without_effect("carrier changes are detected at once")
        .doc("Milliseconds between two checks of a link."),
    oc("transient").flag(false).other_program("ovs-ctl").doc("The port is removed when the host starts."),
];
