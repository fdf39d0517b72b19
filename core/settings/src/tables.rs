//! Settings of `Flow_Table`, `QoS`, `Queue`, `Mirror`, and connection tracking.

use crate::setting::{I32_MAX, Setting, U32_MAX, settings};

const fn table(name: &'static str) -> Setting {
    Setting::new("Flow_Table", name, "")
}

const fn qos(key: &'static str) -> Setting {
    Setting::new("QoS", "other_config", key)
}

const fn queue(key: &'static str) -> Setting {
    Setting::new("Queue", "other_config", key)
}

const fn mirror(name: &'static str) -> Setting {
    Setting::new("Mirror", name, "")
}

const fn timeout(key: &'static str) -> Setting {
    Setting::new("CT_Timeout_Policy", "timeouts", key).opt_int(0, U32_MAX)
}

const NO_STATE: &str = "connections of this datapath are never in this state";

settings! {
    QOS_TYPE = Setting::new("QoS", "type", "").text("").doc("Type of queueing.");
    QOS_QUEUES = Setting::new("QoS", "queues", "").rows("Queue").doc("The QoS queues, by number.");
    QUEUE_DSCP = Setting::new("Queue", "dscp", "").opt_int(0, 63).doc("The DSCP of packets of the queue.");
    NAME = table("name").text("").doc("The table's name.");
    FLOW_LIMIT = table("flow_limit").opt_int(0, U32_MAX).doc("Maximum number of flows.");
    OVERFLOW_POLICY = table("overflow_policy").choice(&["refuse", "evict"], "refuse")
        .doc("What happens to a new flow if the table is full.");
    GROUPS = table("groups").text("fields").doc("The fields that define groups of flows; eviction takes from the largest group.");
    PREFIXES = table("prefixes").text("fields, or none").doc("The fields for which lookups use prefix tries.");
}

/// Settings that the code does not read by name.
pub const OTHERS: &[Setting] = &[
    qos("max-rate").opt_int(0, i64::MAX).doc("Maximum rate of all queues in bits per second; not set: the device's speed, or 10 Gbit/s if it is unknown."),
    qos("cir").opt_int(0, i64::MAX).doc("Committed bytes per second of a policer."),
    qos("cbs").opt_int(0, i64::MAX).doc("Its burst in bytes."),
    qos("eir").opt_int(0, i64::MAX).doc("Excess bytes per second."),
    qos("ebs").opt_int(0, i64::MAX).doc("Its burst in bytes."),
    qos("target").opt_int(0, U32_MAX).doc("Target of the queueing delay in microseconds (CoDel)."),
    qos("interval").opt_int(0, U32_MAX).doc("Interval in microseconds over which the delay is measured."),
    qos("flows").opt_int(0, U32_MAX).doc("Number of queues of `linux-fq_codel`."),
    qos("perturb").opt_int(0, I32_MAX).doc("Seconds between two changes of the hash."),
    qos("quantum").opt_int(0, I32_MAX).doc("Bytes per queue and turn."),
    qos("latency").opt_int(0, I32_MAX).doc("Delay of packets in microseconds."),
    qos("limit").opt_int(0, I32_MAX).doc("Maximum number of queued packets."),
    qos("loss").opt_int(0, 100).doc("Percentage of packets to drop."),
    qos("jitter").opt_int(0, I32_MAX).doc("Variation of the delay in microseconds."),
    queue("min-rate").opt_int(0, i64::MAX).doc("Guaranteed rate in bits per second; 0: none."),
    queue("cir").opt_int(0, i64::MAX).doc("Committed bytes per second of a policer."),
    queue("cbs").opt_int(0, i64::MAX).doc("Its burst in bytes."),
    queue("eir").opt_int(0, i64::MAX).doc("Excess bytes per second."),
    queue("ebs").opt_int(0, i64::MAX).doc("Its burst in bytes."),
    queue("max-rate").opt_int(0, i64::MAX).doc("Maximum rate in bits per second; 0: that of the port."),
    queue("burst").opt_int(0, i64::MAX).doc("The burst in bits; 0: one packet."),
    queue("priority").opt_int(0, U32_MAX).doc("Priority; lower numbers are served first."),
    mirror("name").text("").doc("The mirror's name."),
    mirror("select_all").flag(false).doc("Mirrors all packets of the bridge."),
    mirror("select_dst_port").rows("Port").doc("Mirrors packets sent by these ports."),
    mirror("select_src_port").rows("Port").doc("Mirrors packets received by these ports."),
    mirror("select_vlan").opt_int(0, 4095).doc("Mirrors only packets of these VLANs."),
    mirror("filter").text("a flow").doc("Mirrors only packets that match this flow."),
    mirror("output_port").rows("Port").doc("The port to which copies are sent."),
    mirror("output_vlan").opt_int(1, 4095).doc("The VLAN to which copies are sent."),
    mirror("snaplen").opt_int(14, 65_535).doc("Maximum length of a copy in bytes."),
    Setting::new("Datapath", "ct_zones", "").rows("CT_Zone").doc("Connection tracking zones, by number."),
    Setting::new("Datapath", "ct_zone_default_limit", "")
        .opt_int(0, U32_MAX)
        .doc("Maximum number of connections in each zone without its own limit."),
    Setting::new("CT_Zone", "timeout_policy", "").rows("CT_Timeout_Policy").doc("Timeouts of a zone."),
    Setting::new("CT_Zone", "limit", "").opt_int(0, U32_MAX).doc("Maximum number of connections in the zone."),
    timeout("tcp_syn_sent").doc("Seconds in this state."),
    timeout("tcp_syn_recv").doc("Seconds in this state."),
    timeout("tcp_established").doc("Seconds in this state."),
    timeout("tcp_fin_wait").doc("Seconds in this state."),
    timeout("tcp_close_wait").without_effect(NO_STATE).doc("Seconds in this state."),
    timeout("tcp_last_ack").without_effect(NO_STATE).doc("Seconds in this state."),
    timeout("tcp_time_wait").doc("Seconds in this state."),
    timeout("tcp_close").doc("Seconds in this state."),
    timeout("tcp_syn_sent2").without_effect(NO_STATE).doc("Seconds in this state."),
    timeout("tcp_retransmit").without_effect(NO_STATE).doc("Seconds in this state."),
    timeout("tcp_unack").without_effect(NO_STATE).doc("Seconds in this state."),
    timeout("udp_first").doc("Seconds after the first packet."),
    timeout("udp_single").doc("Seconds while there are packets in one direction only."),
    timeout("udp_multiple").doc("Seconds after packets in both directions."),
    timeout("icmp_first").doc("Seconds after the first packet."),
    timeout("icmp_reply").doc("Seconds after a reply."),
];
