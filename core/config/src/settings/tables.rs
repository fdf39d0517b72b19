//! Settings of `Flow_Table`, `QoS`, `Queue`, `Mirror`, and connection tracking.

use super::{I32, Setting, U32, settings};

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
    Setting::new("CT_Timeout_Policy", "timeouts", key).opt_int(0, U32)
}

const NO_STATE: &str = "no connection of this datapath is ever in this state";

settings! {
    QOS_TYPE = Setting::new("QoS", "type", "").text("").doc("How packets are queued.");
    QOS_QUEUES = Setting::new("QoS", "queues", "").rows("Queue").doc("The queues, by number.");
    QUEUE_DSCP = Setting::new("Queue", "dscp", "").opt_int(0, 63).doc("The DSCP of packets of the queue.");
    NAME = table("name").text("").doc("The table's name.");
    FLOW_LIMIT = table("flow_limit").opt_int(0, U32).doc("The most flows that it takes.");
    OVERFLOW_POLICY = table("overflow_policy").choice(&["refuse", "evict"], "refuse")
        .doc("What a full table does with a new flow.");
    GROUPS = table("groups").text("fields").doc("The fields that make groups, which are evicted from in turn.");
    PREFIXES = table("prefixes").text("fields, or none").doc("The fields whose prefixes look-ups make use of.");
}

/// Settings that the code does not read by name.
pub const OTHERS: &[Setting] = &[
    qos("max-rate").opt_int(0, i64::MAX).doc("Bits per second of all queues at most."),
    qos("cir").opt_int(0, i64::MAX).doc("Committed bytes per second of a policer."),
    qos("cbs").opt_int(0, i64::MAX).doc("Its burst in bytes."),
    qos("eir").opt_int(0, i64::MAX).doc("Excess bytes per second."),
    qos("ebs").opt_int(0, i64::MAX).doc("Their burst."),
    qos("target").opt_int(0, U32).doc("Microseconds that packets may wait (CoDel)."),
    qos("interval").opt_int(0, U32).doc("Microseconds over which that is measured."),
    qos("flows").opt_int(0, U32).doc("Queues of `linux-fq_codel`."),
    qos("perturb").opt_int(0, I32).doc("Seconds between two changes of the hash."),
    qos("quantum").opt_int(0, I32).doc("Bytes per turn."),
    qos("latency").opt_int(0, I32).doc("Microseconds by which packets are delayed."),
    qos("limit").opt_int(0, I32).doc("Packets that wait at most."),
    qos("loss").opt_int(0, 100).doc("Percent of packets that are lost."),
    qos("jitter").opt_int(0, I32).doc("Microseconds by which the delay varies."),
    queue("min-rate").opt_int(1, i64::MAX).doc("Bits per second at least."),
    queue("cir").opt_int(0, i64::MAX).doc("Committed bytes per second of a policer."),
    queue("cbs").opt_int(0, i64::MAX).doc("Its burst in bytes."),
    queue("eir").opt_int(0, i64::MAX).doc("Excess bytes per second."),
    queue("ebs").opt_int(0, i64::MAX).doc("Their burst."),
    queue("max-rate").opt_int(1, i64::MAX).doc("Bits per second at most."),
    queue("burst").opt_int(1, i64::MAX).doc("The burst in bits."),
    queue("priority").opt_int(0, U32).doc("The less, the sooner."),
    mirror("name").text("").doc("The mirror's name."),
    mirror("select_all").flag(false).doc("All packets of the bridge."),
    mirror("select_dst_port").rows("Port").doc("Packets that leave by these."),
    mirror("select_src_port").rows("Port").doc("Packets that come by these."),
    mirror("select_vlan").opt_int(0, 4095).doc("Packets of these VLANs."),
    mirror("filter").text("a flow").doc("Packets that match this."),
    mirror("output_port").rows("Port").doc("Where copies go."),
    mirror("output_vlan").opt_int(1, 4095).doc("The VLAN that copies go to."),
    mirror("snaplen").opt_int(14, 65_535).doc("Bytes of a copy at most."),
    Setting::new("Datapath", "ct_zones", "").rows("CT_Zone").doc("Zones, by number."),
    Setting::new("Datapath", "ct_zone_default_limit", "")
        .opt_int(0, U32)
        .doc("Connections of each zone that has no limit, at most."),
    Setting::new("CT_Zone", "timeout_policy", "").rows("CT_Timeout_Policy").doc("Timeouts of a zone."),
    Setting::new("CT_Zone", "limit", "").opt_int(0, U32).doc("Connections of a zone at most."),
    timeout("tcp_syn_sent").doc("Seconds in this state."),
    timeout("tcp_syn_recv").doc("Seconds in this state."),
    timeout("tcp_established").doc("Seconds in this state."),
    timeout("tcp_fin_wait").doc("Seconds in this state."),
    timeout("tcp_close_wait").none(NO_STATE).doc("Seconds in this state."),
    timeout("tcp_last_ack").none(NO_STATE).doc("Seconds in this state."),
    timeout("tcp_time_wait").doc("Seconds in this state."),
    timeout("tcp_close").doc("Seconds in this state."),
    timeout("tcp_syn_sent2").none(NO_STATE).doc("Seconds in this state."),
    timeout("tcp_retransmit").none(NO_STATE).doc("Seconds in this state."),
    timeout("tcp_unack").none(NO_STATE).doc("Seconds in this state."),
    timeout("udp_first").doc("Seconds after the first packet."),
    timeout("udp_single").doc("Seconds with packets one way."),
    timeout("udp_multiple").doc("Seconds with packets both ways."),
    timeout("icmp_first").doc("Seconds after the first packet."),
    timeout("icmp_reply").doc("Seconds after a reply."),
];
