//! Connections are forgotten on demand: of OpenFlow (`NXT_CT_FLUSH`) or of a command.
//!
//! **Thread**: the main loop.

use crate::backer::Backer;
use conntrack::{Conntrack, Filter, TupleFilter};
use openflow::session::{CtFlush, CtTuple};
use openflow::text::ct_flush_text;
use runtime::Module;

static LOG: Module = Module::new("ct_dpif");
static TABLE_LOG: Module = Module::new("conntrack");

/// The one connection that was meant is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotFound;

/// Forgets the connections that are meant. One whose ends are all given is looked for in zone 0 if no zone is, in both
/// directions, and has to be there.
pub fn flush(backer: &Backer, wanted: &CtFlush) -> Result<(), NotFound> {
    let what = match (wanted.zone, ct_flush_text(wanted)) {
        (zone, Some(text)) => format!("zone={} {text}", zone.unwrap_or(0)),
        (Some(zone), None) => format!("zone {zone}"),
        (None, None) => "<all>".to_owned(),
    };
    runtime::debug!(LOG, "{}: ct_flush: {what}", backer.name());
    let table = backer.datapath.conntrack();
    if is_one(wanted) {
        return flush_one(table, wanted);
    }
    table.flush(wanted.zone, &filter(wanted));
    Ok(())
}

fn flush_one(table: &Conntrack, wanted: &CtFlush) -> Result<(), NotFound> {
    let (zone, forward) = (Some(wanted.zone.unwrap_or(0)), filter(wanted));
    let back = Filter { original: TupleFilter::default(), reply: forward.original, ..forward };
    if table.flush(zone, &forward) + table.flush(zone, &back) == 0 {
        runtime::warn!(TABLE_LOG, "Tuple not found");
        return Err(NotFound);
    }
    Ok(())
}

/// Both ends are given, and nothing else.
fn is_one(wanted: &CtFlush) -> bool {
    let CtTuple { src, dst, src_port, dst_port, .. } = wanted.original;
    let ports = is_icmp(wanted.ip_proto) || src_port.is_some() && dst_port.is_some();
    let masked = wanted.mark.is_some_and(|(_, m)| m != 0) || wanted.labels.is_some_and(|(_, m)| m != 0);
    src.is_some() && dst.is_some() && ports && wanted.reply == CtTuple::default() && !masked
}

fn is_icmp(proto: u8) -> bool {
    matches!(proto, 1 | 58)
}

fn filter(wanted: &CtFlush) -> Filter {
    let tuple = |t: &CtTuple| {
        let any = t.icmp_id.is_some() || t.icmp_type.is_some() || t.icmp_code.is_some();
        let icmp = || (t.icmp_id.unwrap_or(0), t.icmp_type.unwrap_or(0), t.icmp_code.unwrap_or(0));
        TupleFilter {
            src: t.src,
            dst: t.dst,
            src_port: t.src_port.filter(|p| *p != 0),
            dst_port: t.dst_port.filter(|p| *p != 0),
            icmp: any.then(icmp),
        }
    };
    Filter {
        proto: Some(wanted.ip_proto).filter(|p| *p != 0),
        original: tuple(&wanted.original),
        reply: tuple(&wanted.reply),
        mark: wanted.mark.unwrap_or_default(),
        label: wanted.labels.unwrap_or_default(),
    }
}
