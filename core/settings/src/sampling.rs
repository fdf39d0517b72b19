//! Settings of `NetFlow`, `sFlow`, `IPFIX`, `Flow_Sample_Collector_Set` and `AutoAttach`.

use crate::setting::{I32_MAX, Setting, U32_MAX, settings};

const fn netflow(name: &'static str) -> Setting {
    Setting::new("NetFlow", name, "")
}

const fn sflow(name: &'static str) -> Setting {
    Setting::new("sFlow", name, "")
}

const fn ipfix(name: &'static str) -> Setting {
    Setting::new("IPFIX", name, "")
}

const fn ipfix_oc(key: &'static str) -> Setting {
    Setting::new("IPFIX", "other_config", key)
}

const fn set(name: &'static str) -> Setting {
    Setting::new("Flow_Sample_Collector_Set", name, "")
}

const fn attach(name: &'static str) -> Setting {
    Setting::new("AutoAttach", name, "")
}

settings! {
    ENABLE_TUNNEL_SAMPLING = ipfix_oc("enable-tunnel-sampling").flag(true).doc("Includes tunnel headers in samples.");
    VIRTUAL_OBS_ID = ipfix_oc("virtual_obs_id").text("").doc("An id included in each report, at most 254 bytes; with a longer one nothing is exported.");
    ENABLE_INPUT_SAMPLING = ipfix_oc("enable-input-sampling").flag(true).doc("Samples received packets.");
    ENABLE_OUTPUT_SAMPLING = ipfix_oc("enable-output-sampling").flag(true).doc("Samples sent packets.");
}

/// Settings that the code does not read by name.
pub const OTHERS: &[Setting] = &[
    netflow("targets").text("ADDRESS:PORT").doc("Collectors."),
    netflow("engine_id").opt_int(0, 255).doc("The engine's id; not set: a hash of the datapath's name, as in Open vSwitch."),
    netflow("engine_type").opt_int(0, 255).doc("The engine's type; not set: a hash of the datapath's name, as in Open vSwitch."),
    netflow("active_timeout").int(-1, I32_MAX, 0).doc("Seconds after which an active flow is reported; 0 or -1: the default, 600 seconds."),
    netflow("add_id_to_interface").flag(false).doc("Adds the engine's id to interface numbers."),
    sflow("agent").text("a device or an address").doc("The agent's address."),
    sflow("header").int(0, I32_MAX, 128).doc("Bytes of a packet to sample."),
    sflow("polling").int(0, I32_MAX, 30).doc("Seconds between two reports of counters."),
    sflow("sampling").int(0, I32_MAX, 400).doc("One of this many packets is sampled."),
    sflow("targets").text("ADDRESS:PORT").doc("Collectors."),
    ipfix("targets").text("ADDRESS:PORT").doc("Collectors."),
    ipfix("sampling").int(1, U32_MAX, 400).doc("One of this many packets is sampled."),
    ipfix("obs_domain_id").int(0, U32_MAX, 0).doc("The observation domain."),
    ipfix("obs_point_id").int(0, U32_MAX, 0).doc("The observation point."),
    ipfix("cache_active_timeout")
        .int(0, 4200, 0)
        .doc("Maximum seconds that a flow is kept in the cache before it is reported."),
    ipfix("cache_max_flows").int(0, U32_MAX, 0).doc("Maximum number of flows in the cache."),
    ipfix("stats_interval").int(1, 3600, 600).doc("Seconds between two reports of statistics."),
    ipfix("template_interval").int(1, 3600, 600).doc("Seconds between two transmissions of templates."),
    set("bridge").rows("Bridge").doc("The bridge whose `sample` actions use the set."),
    set("id").int(0, U32_MAX, 0).doc("The number of the set in `sample` actions."),
    set("ipfix").rows("IPFIX").doc("The IPFIX configuration for samples."),
    set("local_group_id")
        .opt_int(0, U32_MAX)
        .without_effect("only the kernel's datapath passes samples to a group")
        .doc("A group of the kernel that receives samples."),
    attach("system_name").text("").doc("The system name announced by LLDP."),
    attach("system_description").text("").doc("The system description announced by LLDP."),
    attach("mappings").text("").doc("Requested services (I-SIDs) and the VLANs that carry them; ports with LLDP get these VLANs as trunks."),
];
