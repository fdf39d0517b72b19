//! Flushes tracked connections on request of OpenFlow (`NXT_CT_FLUSH`) or of a command, and applies the database's connection limits and timeouts of
//! zones.
//!
//! **Thread**: the main loop.

use crate::backer::Backer;
use crate::tracking::{ConnectionFlush, step};
use config::DatapathConfig;
use conntrack::{Conntrack, Filter, TupleFilter};
use openflow::session::{CtFlush, CtTuple};
use openflow::text::ct_flush_text;
use runtime::{Module, RateLimit};
use std::collections::BTreeMap;
use units::Millis;

static LOG: Module = Module::new("ct_dpif");
static TABLE_LOG: Module = Module::new("conntrack");

static EXHAUSTED: RateLimit = RateLimit::new(5, 5);

/// Records that are visited before the clock is read again: the visit takes some microseconds, or 50 µs if all of these connections have expired.
const RECORDS_PER_CLOCK_READ: u32 = 128;

/// The requested connection does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFound;

/// The result of a request to flush connections.
pub enum FlushOutcome {
    /// The request names a single connection by the endpoints of its original direction, in zone 0 if the request names no zone. That connection
    /// was removed, or it does not exist.
    One(Result<(), NotFound>),
    /// The connections are removed in steps; the caller calls [`ConnectionFlush::run_step`].
    Many(ConnectionFlush),
}

/// Removes the connection that the request names. If it can match several, returns a flush; the caller runs its steps.
pub fn flush(backer: &Backer, wanted: &CtFlush, now: Millis) -> FlushOutcome {
    log_flush(backer, wanted);
    match names_one_connection(wanted) {
        true => FlushOutcome::One(flush_one(backer.datapath.conntrack(), wanted, now)),
        false => FlushOutcome::Many(ConnectionFlush::new(wanted.zone, filter(wanted))),
    }
}

/// Removes the connections that a request of a controller names. If this takes more than one step, [`run_flushes`] does the other steps, and the
/// number of the flush is returned.
pub(crate) fn begin_flush(backer: &mut Backer, wanted: &CtFlush, now: Millis) -> Option<u64> {
    // If the single connection that is named does not exist, this is logged; the controller gets no error.
    let FlushOutcome::Many(mut flush) = flush(backer, wanted, now) else { return None };
    let is_left = flush.run_step(backer.datapath.conntrack());
    is_left.then(|| backer.tracking.flushes.add(flush))
}

/// Runs a step of the oldest flush. The main loop calls this function in each turn, and does not sleep until [`is_at_work`] is false.
pub(crate) fn run_flushes(backer: &mut Backer) {
    backer.tracking.flushes.run(backer.datapath.conntrack());
}

fn log_flush(backer: &Backer, wanted: &CtFlush) {
    let what = match (wanted.zone, ct_flush_text(wanted)) {
        (zone, Some(text)) => format!("zone={} {text}", zone.unwrap_or(0)),
        (Some(zone), None) => format!("zone {zone}"),
        (None, None) => "<all>".to_owned(),
    };
    runtime::debug!(LOG, "{}: ct_flush: {what}", backer.name());
}

/// Applies the database's limits and timeouts of zones. Limits that the database no longer has are removed.
pub fn configure(backer: &mut Backer, wanted: &DatapathConfig) {
    if backer.config == *wanted {
        return;
    }
    let of = |config: &DatapathConfig| -> BTreeMap<Option<u16>, u32> {
        let zones = config.zone_limits.iter().map(|(zone, limit)| (Some(*zone), *limit));
        config.default_limit.map(|limit| (None, limit)).into_iter().chain(zones).collect()
    };
    let (before, after) = (of(&backer.config), of(wanted));
    for zone in before.keys().filter(|zone| !after.contains_key(zone)) {
        remove_limit(backer, *zone);
    }
    for (zone, limit) in after.iter().filter(|(zone, limit)| before.get(zone) != Some(limit)) {
        set_limit(backer, *zone, *limit);
    }
    if backer.tracking.timeouts.configure(backer.datapath.conntrack(), &wanted.zone_timeouts) {
        backer.changes.mark_all();
    }
    backer.config = wanted.clone();
}

/// Continues the connection sweep: visits some records and removes expired connections. The main loop calls this function in each turn, and does not
/// sleep until [`is_at_work`] is false.
pub fn sweep(backer: &Backer, now: Millis) {
    step(|| backer.datapath.conntrack().sweep_some(RECORDS_PER_CLOCK_READ, now));
}

/// Allocates memory for new connections in advance, if a worker has requested that. The main loop calls this function in each turn, and does not
/// sleep until [`is_at_work`] is false.
pub(crate) fn allocate_ahead(backer: &Backer) {
    step(|| backer.datapath.conntrack().allocate_ahead());
}

/// Whether the connection sweep or a flush has more records to visit, or workers need more memory in advance.
pub(crate) fn is_at_work(backer: &Backer) -> bool {
    let table = backer.datapath.conntrack();
    table.is_sweeping() || table.is_memory_requested() || backer.tracking.flushes.any()
}

/// Begins a connection sweep and runs its first step. Logs if new connections found no free address or port for NAT since the last call.
pub fn begin_sweep(backer: &Backer, now: Millis) {
    let table = backer.datapath.conntrack();
    table.begin_sweep(now);
    sweep(backer, now);
    if table.take_exhausted() > 0 {
        runtime::warn_rl!(
            TABLE_LOG,
            EXHAUSTED,
            "Unable to NAT due to tuple space exhaustion - if DoS attack, use firewalling and/or zone partitioning."
        );
    }
}

/// Limits the number of connections of a zone, or (`None`) of each zone that has no limit of its own.
pub fn set_limit(backer: &Backer, zone: Option<u16>, limit: u32) {
    let known = backer.datapath.conntrack().set_limit(zone, limit);
    match (zone, known) {
        (None, _) => runtime::info!(TABLE_LOG, "Set default zone limit to {limit}"),
        (Some(zone), true) => runtime::info!(TABLE_LOG, "Changed zone limit of {limit} for zone {zone}"),
        (Some(zone), false) => runtime::info!(TABLE_LOG, "Created zone limit of {limit} for zone {zone}"),
    }
}

/// Removes the limit of a zone, or (`None`) the default limit.
pub fn remove_limit(backer: &Backer, zone: Option<u16>) {
    let there = backer.datapath.conntrack().remove_limit(zone);
    match (zone, there) {
        (None, _) => {}
        (Some(zone), true) => runtime::info!(TABLE_LOG, "Deleted zone limit for zone {zone}"),
        (Some(zone), false) => {
            runtime::info!(TABLE_LOG, "Attempted delete of non-existent zone limit: zone {zone}");
        }
    }
}

fn flush_one(table: &Conntrack, wanted: &CtFlush, now: Millis) -> Result<(), NotFound> {
    if !table.flush_one(wanted.zone.unwrap_or(0), wanted.ip_proto, &tuple(&wanted.original), now) {
        runtime::warn!(TABLE_LOG, "Tuple not found");
        return Err(NotFound);
    }
    Ok(())
}

/// Whether a request names exactly one connection: both addresses and (except for ICMP) both ports of the original direction are given, and no reply
/// tuple, mark or label.
fn names_one_connection(wanted: &CtFlush) -> bool {
    let CtTuple { src, dst, src_port, dst_port, .. } = wanted.original;
    let is_port = |port: Option<u16>| port.is_some_and(|port| port != 0);
    let ports = is_icmp(wanted.ip_proto) || is_port(src_port) && is_port(dst_port);
    let masked = wanted.mark.is_some_and(|(_, m)| m != 0) || wanted.labels.is_some_and(|(_, m)| m != 0);
    src.is_some() && dst.is_some() && ports && tuple(&wanted.reply) == TupleFilter::default() && !masked
}

fn is_icmp(proto: u8) -> bool {
    matches!(proto, 1 | 58)
}

fn filter(wanted: &CtFlush) -> Filter {
    Filter {
        proto: Some(wanted.ip_proto).filter(|p| *p != 0),
        original: tuple(&wanted.original),
        reply: tuple(&wanted.reply),
        mark: wanted.mark.unwrap_or_default(),
        label: wanted.labels.unwrap_or_default(),
    }
}

/// The filter for a tuple. Tools send zero for values that were not given, so zero means "any". Exception: zeros in ICMP id,
/// type and code are values, if an address is given or one of the three is not zero.
fn tuple(t: &CtTuple) -> TupleFilter {
    let icmp = (t.icmp_id.unwrap_or(0), t.icmp_type.unwrap_or(0), t.icmp_code.unwrap_or(0));
    let has_icmp = t.icmp_id.is_some() || t.icmp_type.is_some() || t.icmp_code.is_some();
    let counts = has_icmp && (t.src.is_some() || t.dst.is_some() || icmp != (0, 0, 0));
    TupleFilter {
        src: t.src,
        dst: t.dst,
        src_port: t.src_port.filter(|p| *p != 0),
        dst_port: t.dst_port.filter(|p| *p != 0),
        icmp: counts.then_some(icmp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_in_a_tuple_match_anything() {
        let zeros =
            CtTuple { icmp_id: Some(0), icmp_type: Some(0), icmp_code: Some(0), ..CtTuple::default() };
        let ends =
            CtTuple { src: "10.0.0.1".parse().ok(), dst: "10.0.0.2".parse().ok(), ..CtTuple::default() };
        let echo = CtTuple { icmp_id: Some(7), icmp_type: Some(8), icmp_code: Some(0), ..ends };
        let wanted = CtFlush { ip_proto: 1, original: echo, reply: zeros, ..CtFlush::default() };
        assert!(names_one_connection(&wanted));
        assert_eq!(
            (filter(&wanted).reply, filter(&wanted).original.icmp),
            (TupleFilter::default(), Some((7, 8, 0)))
        );
        assert!(!names_one_connection(&CtFlush { mark: Some((0, 1)), ..wanted.clone() }));
        assert!(!names_one_connection(&CtFlush { ip_proto: 6, ..wanted }));
        let ports = |src, dst| CtTuple { src_port: Some(src), dst_port: Some(dst), ..ends };
        let of = |original| names_one_connection(&CtFlush { ip_proto: 6, original, ..CtFlush::default() });
        assert!(of(ports(1, 2)) && !of(ports(0, 2)) && !of(ports(1, 0)));
    }
}
