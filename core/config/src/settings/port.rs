//! Settings of `Port`.

use super::{I32, Setting, U32, settings};
use crate::not_built::{RSTP, SNOOPING, STP};

const fn oc(key: &'static str) -> Setting {
    Setting::new("Port", "other_config", key)
}

const fn column(name: &'static str) -> Setting {
    Setting::new("Port", name, "")
}

settings! {
    NAME = column("name").text("").doc("The port's name.");
    INTERFACES = column("interfaces").rows("Interface").doc("Its devices; two or more are a bond.");
    VLAN_MODE = column("vlan_mode")
        .choice(&["access", "trunk", "native-tagged", "native-untagged", "dot1q-tunnel"], "")
        .doc("What the port does with tags; if not set, a port with a tag is an access port and others trunk.");
    TAG = column("tag").opt_int(0, 4095).doc("The VLAN of an access port, or the native one.");
    TRUNKS = column("trunks").opt_int(0, 4095).doc("The VLANs that it trunks; all if not set.");
    CVLANS = column("cvlans").opt_int(0, 4095).doc("The customer VLANs that a tunnel port takes; all if not set.");
    MAC = column("mac").text("an Ethernet address")
        .doc("The address that stands for the port when its bridge takes the least address of its ports.");
    PROTECTED = column("protected").flag(false).doc("Protected ports of a bridge do not reach each other.");
    QINQ_ETHTYPE = oc("qinq-ethtype").choice(&["802.1ad", "802.1q"], "802.1ad")
        .doc("The Ethernet type of the outer tag of a tunnel port.");
    PRIORITY_TAGS = oc("priority-tags").choice(&["never", "if-nonzero", "always", "true", "false"], "never")
        .doc("Whether untagged packets leave with a tag that only holds their priority.");
    BOND_MODE = column("bond_mode")
        .choice(&["balance-tcp", "balance-slb", "active-backup"], "active-backup")
        .doc("How a bond shares its traffic.");
    BOND_UPDELAY = column("bond_updelay").int(0, I32, 0).doc("Milliseconds until a link counts as up.");
    BOND_DOWNDELAY = column("bond_downdelay").int(0, I32, 0).doc("Milliseconds until a link counts as down.");
    BOND_HASH_BASIS = oc("bond-hash-basis").int(0, U32, 0).doc("Varies the hash that shares traffic.");
    BOND_PRIMARY = oc("bond-primary").text("an interface").doc("The link that is preferred.");
    ALL_MEMBERS_ACTIVE = oc("all-members-active").flag(false)
        .doc("Whether a balance-slb bond receives broadcasts by all links.");
    BOND_REBALANCE_INTERVAL = oc("bond-rebalance-interval").int(0, I32, 10_000)
        .doc("Milliseconds between two balancings, at least 1000; 0: none.");
    LACP = column("lacp").choice(&["active", "passive", "off"], "off").doc("LACP on the port.");
    LACP_SYSTEM_ID = oc("lacp-system-id").text("an Ethernet address").doc("The system's id; the bridge's address if not set.");
    LACP_SYSTEM_PRIORITY = oc("lacp-system-priority").opt_int(1, 65_535)
        .doc("The system's priority; 65534 for bonds and 65535 for others if not set.");
    LACP_TIME = oc("lacp-time").choice(&["fast", "slow"], "slow").doc("How often messages are asked for.");
    LACP_FALLBACK_AB = oc("lacp-fallback-ab").flag(false)
        .doc("Whether the port becomes an active-backup bond where the other end does not speak LACP.");
}

/// Settings that the code does not read by name.
pub const OTHERS: &[Setting] = &[
    column("qos").rows("QoS").doc("How packets that leave are queued."),
    column("bond_fake_iface")
        .flag(false)
        .none("no device of the bond's name is made: address the bridge's own instead")
        .doc("Makes a device of the bond's name."),
    column("fake_bridge")
        .flag(false)
        .elsewhere("ovs-vsctl")
        .doc("Tools show the port as a bridge of its own."),
    oc("lb-output-action")
        .flag(false)
        .none("connections are shared by a second look-up")
        .doc("Whether balance-tcp shares in the datapath, without a second look-up."),
    oc("bond-detect-mode")
        .choice(&["carrier", "miimon"], "carrier")
        .none("the carrier of a link is known at once, whatever tells of it")
        .doc("How a failed link is found."),
    oc("bond-miimon-interval")
        .int(1, I32, 200)
        .none("the carrier of a link is known at once")
        .doc("Milliseconds between two looks at a link."),
    oc("stp-enable").flag(true).detail_of(STP).doc("Spanning tree on the port."),
    oc("stp-port-num").opt_int(1, 255).detail_of(STP).doc("Its number."),
    oc("stp-port-priority").int(0, 255, 0x80).detail_of(STP).doc("Its priority."),
    oc("stp-path-cost").opt_int(0, 65_535).detail_of(STP).doc("Its cost; follows the speed if not set."),
    oc("rstp-enable").flag(true).detail_of(RSTP).doc("Rapid spanning tree on the port."),
    oc("rstp-port-priority").int(0, 240, 0x80).detail_of(RSTP).doc("Its priority."),
    oc("rstp-port-num").opt_int(1, 4095).detail_of(RSTP).doc("Its number."),
    oc("rstp-path-cost").opt_int(0, I32).detail_of(RSTP).doc("Its cost; follows the speed if not set."),
    oc("rstp-port-admin-edge").flag(false).detail_of(RSTP).doc("The port has hosts behind it only."),
    oc("rstp-port-auto-edge").flag(true).detail_of(RSTP).doc("Finds out whether it has."),
    oc("rstp-port-mcheck")
        .flag(false)
        .detail_of(RSTP)
        .doc("Tries rapid spanning tree with an old neighbour again."),
    oc("mcast-snooping-flood").flag(false).detail_of(SNOOPING).doc("Floods multicast to the port."),
    oc("mcast-snooping-flood-reports").flag(false).detail_of(SNOOPING).doc("Floods reports to the port."),
    oc("transient").flag(false).elsewhere("ovs-ctl").doc("The port is removed when the host starts."),
];
