//! Mirrors of a bridge: derives the snapshot's view of them from database rows, and writes their counters to the rows.
//!
//! A mirror keeps its counters as long as its row exists. **Threads**: the main loop; the threads that collect flow
//! statistics add to the counters.

use crate::log::LOG;
use crate::row_values::RowValues;
use bridge::VlanSet;
use config::{BridgeConfig, MirrorConfig};
use flow::Flow;
use openflow_service::{Bridge, BridgeMirror, Names};
use ovsdb::Datum;
use runtime::Module;
use std::sync::Arc;
use xlate::{Mirror, MirrorOutput};

static FILTER: Module = Module::new("ofproto_dpif_mirror");

/// Applies the mirrors in a bridge's row.
pub(crate) fn configure(bridge: &mut Bridge, old: &BridgeConfig) {
    // When a port is added or removed, the mirrors are checked again, because their output may have appeared or
    // disappeared.
    if bridge.configured
        && old.mirrors == bridge.config.mirrors
        && (old.mirrors.is_empty() || old.ports.keys().eq(bridge.config.ports.keys()))
    {
        return;
    }
    let wanted = &bridge.config.mirrors;
    if let Some(one) = wanted.get(xlate::MIRRORS_MAX) {
        let max = xlate::MIRRORS_MAX;
        runtime::warn!(LOG, "maximum of {max} port mirrors reached, cannot create {}", one.name);
    }
    let mut mirrors = Vec::new();
    for config in wanted.iter().take(xlate::MIRRORS_MAX) {
        let known = bridge.mirrors.iter().find(|m| m.row == config.uuid);
        let tally = known.map(|m| Arc::clone(&m.tally)).unwrap_or_default();
        let filter = filter(bridge, config);
        if filter.is_err() {
            runtime::err!(LOG, "bridge {}: mirror {} configuration is invalid", bridge.name, config.name);
        }
        let usable = has_output(bridge, config) && filter.is_ok();
        mirrors.push(BridgeMirror { row: config.uuid, filter: filter.unwrap_or_default(), tally, usable });
    }
    bridge.mirrors = mirrors;
}

/// Whether the mirror has a usable output. If not, the reason is logged.
fn has_output(bridge: &Bridge, config: &MirrorConfig) -> bool {
    let (name, mirror) = (&bridge.name, &config.name);
    match (&config.output_port, config.output_vlan) {
        (None, None) => {
            runtime::err!(LOG, "bridge {name}: mirror {mirror} does not specify output; ignoring");
            false
        }
        (None, Some(_)) => true,
        (Some(port), _) if !bridge.config.ports.contains_key(port) => {
            runtime::err!(LOG, "bridge {name}: mirror {mirror} outputs to port not on bridge");
            false
        }
        (Some(_), vlan) => {
            if vlan.is_some() {
                runtime::err!(
                    LOG,
                    "bridge {name}: mirror {mirror} specifies both output port and output vlan; ignoring output vlan"
                );
            }
            true
        }
    }
}

/// The flow and the mask of column `filter`. An error is logged.
fn filter(bridge: &Bridge, config: &MirrorConfig) -> Result<Option<Arc<(Flow, Flow)>>, ()> {
    let Some(text) = &config.filter else { return Ok(None) };
    match flow::text::parse_exact_flow(text, &Names(bridge), bridge.ofproto.tlv().layout()) {
        Ok((_, mask)) if mask.in_port != 0 => {
            runtime::warn!(FILTER, "filter is invalid due to in_port field.");
            Err(())
        }
        Ok((flow, mask)) => Ok(Some(Arc::new((flow, mask)))),
        Err(e) => {
            runtime::warn!(FILTER, "filter is invalid: {e}");
            Err(())
        }
    }
}

/// The mirrors of a bridge in the form that translations read.
pub(crate) fn view(bridge: &mut Bridge) -> Vec<Mirror> {
    if bridge.config.mirrors.is_empty() {
        return Vec::new();
    }
    let all: Vec<String> = bridge.config.ports.keys().cloned().collect();
    let configs = bridge.config.mirrors.clone();
    let mut out = Vec::new();
    for config in &configs {
        let Some(mirror) = bridge.mirrors.iter().find(|m| m.row == config.uuid && m.usable) else { continue };
        let (filter, tally) = (mirror.filter.clone(), Arc::clone(&mirror.tally));
        let to = match (&config.output_port, config.output_vlan) {
            (Some(port), _) => MirrorOutput::Port(bridge.bundle_id(port)),
            (None, Some(vlan)) => MirrorOutput::Vlan(vlan),
            (None, None) => continue,
        };
        let mut ids = |some: &[String]| {
            let names = if config.select_all { &all } else { some };
            names.iter().map(|name| bridge.bundle_id(name)).collect()
        };
        out.push(Mirror {
            src_ports: ids(&config.from),
            dst_ports: ids(&config.to),
            vlans: (!config.vlans.is_empty()).then(|| config.vlans.iter().copied().collect::<VlanSet>()),
            filter,
            out: to,
            snaplen: config.snaplen,
            tally,
        });
    }
    out
}

/// Adds the counters of mirrors for column `statistics` to `wanted`.
pub(crate) fn rows(bridge: &Bridge, wanted: &mut Vec<RowValues>) {
    for mirror in &bridge.mirrors {
        let mut row = RowValues::new("Mirror", mirror.row);
        let (packets, bytes) = mirror.tally.get();
        let pairs =
            if mirror.usable { vec![("tx_bytes", bytes), ("tx_packets", packets)] } else { Vec::new() };
        row.set("statistics", Datum::map(pairs.into_iter().map(|(k, v)| (k, v as i64))));
        wanted.push(row);
    }
}
