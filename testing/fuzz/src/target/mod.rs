//! The targets.

mod bfd;
mod bpdu;
mod conntrack;
mod control;
mod flow_text;
mod fragments;
mod ftp;
mod http;
mod json_rpc;
mod lldp;
mod membership;
mod odp_text;
mod offload;
mod openflow;
mod ovsdb_log;
mod ovsdb_operations;
mod ovsdb_sample;
mod packet;
mod pcapng;
mod same;
mod settings;
mod tunnel;
mod vhost_rings;

/// A fuzz target.
#[derive(Clone, Copy)]
pub struct Target {
    /// The name, which is also that of its directory in `corpus/`.
    pub name: &'static str,
    /// Runs the code under test with these bytes. Panics if it finds a fault.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "bfd", run: bfd::run },
    Target { name: "bpdu", run: bpdu::run },
    Target { name: "conntrack", run: conntrack::run },
    Target { name: "control", run: control::run },
    Target { name: "flow-text", run: flow_text::flow },
    Target { name: "fragments", run: fragments::run },
    Target { name: "ftp", run: ftp::run },
    Target { name: "group-text", run: flow_text::group },
    Target { name: "http", run: http::run },
    Target { name: "json-rpc", run: json_rpc::run },
    Target { name: "lldp", run: lldp::run },
    Target { name: "membership", run: membership::run },
    Target { name: "odp-text", run: odp_text::run },
    Target { name: "offload", run: offload::run },
    Target { name: "openflow10", run: openflow::v10 },
    Target { name: "openflow11", run: openflow::v11 },
    Target { name: "openflow12", run: openflow::v12 },
    Target { name: "openflow13", run: openflow::v13 },
    Target { name: "openflow14", run: openflow::v14 },
    Target { name: "openflow15", run: openflow::v15 },
    Target { name: "ovsdb-log", run: ovsdb_log::run },
    Target { name: "ovsdb-operations", run: ovsdb_operations::run },
    Target { name: "packet", run: packet::run },
    Target { name: "pcapng", run: pcapng::run },
    Target { name: "settings", run: settings::run },
    Target { name: "tunnel", run: tunnel::run },
    Target { name: "vhost-rings", run: vhost_rings::run },
];
