//! `ofproto/detrace`: the OpenFlow rules and groups behind a datapath flow.

use crate::bridge::rule_line;
use crate::dpctl_flows::split_ufid;
use dpif::{DpFlow, FlowOwner};
use flow::text::NoNames;
use ofproto::Group;
use openflow::Version;
use openflow::group::GroupDesc;
use openflow::text::group_desc_text;
use std::any::Any;
use switch::{Backer, Switch};
use translation::Owner;
use units::{Millis, Ufid};
use xlate::StatsTarget;

pub(crate) fn execute(switch: &Switch, args: &[String]) -> Result<String, String> {
    let [ufid, pmd @ ..] = args else { return Err("failed to parse ufid".to_owned()) };
    let Ok((Some(ufid), _)) = split_ufid(ufid) else { return Err("failed to parse ufid".to_owned()) };
    let core = match pmd.first() {
        Some(text) => Some(pmd_id(text).ok_or("Invalid pmd argument format. Expecting 'pmd=PMD-ID'")?),
        None => None,
    };
    let now = switch.clock.now();
    Ok(switch.datapaths.all().map(|b| rules_text(b, ufid, core, now)).collect())
}

/// Parses `pmd=N`. Text after the number is ignored.
fn pmd_id(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("pmd=")?;
    digits[..digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len())].parse().ok()
}

fn rules_text(backer: &Backer, ufid: Ufid, core: Option<u32>, now: Millis) -> String {
    let Some(flow) = find(backer, ufid, core, now) else {
        return format!("UFID was not found for {}\n", backer.name());
    };
    let owner: &dyn FlowOwner = &*flow.owner;
    match (owner as &dyn Any).downcast_ref::<Owner>() {
        Some(owner) => owner.stats_targets().iter().filter_map(|target| line(target, now)).collect(),
        // A command added the flow, so no rules are known.
        None => format!("Cache was not found for {}\n", backer.name()),
    }
}

/// Finds a flow. All workers share the flows; with `core`, the flow must have counted a packet on that core.
fn find(backer: &Backer, ufid: Ufid, core: Option<u32>, now: Millis) -> Option<DpFlow> {
    let Some(core) = core else { return backer.datapath.flow_get(ufid, now) };
    let worker = backer.workers.infos().into_iter().find(|p| p.core.0 == core)?.id;
    let mut flows = backer.datapath.flow_dump_by_worker(poll_threads::KERNEL_WORKER, now).into_iter();
    flows.find(|f| f.ufid == ufid && f.worker == Some(worker))
}

fn line(target: &StatsTarget, now: Millis) -> Option<String> {
    match target {
        StatsTarget::InternalRule(rule) | StatsTarget::Match { rule, .. } => {
            Some(rule_line(rule, true, now) + "\n")
        }
        StatsTarget::Group { group, bucket } => Some(group_text(group, bucket.map(|i| i as usize))),
        _ => None,
    }
}

/// The text of a group with the selected bucket, or with all buckets.
fn group_text(group: &Group, bucket: Option<usize>) -> String {
    let whole = group.desc();
    let chosen = bucket.and_then(|i| whole.buckets.get(i).cloned());
    let buckets = chosen.map_or_else(|| whole.buckets.clone(), |b| vec![b]);
    group_desc_text(&GroupDesc { buckets, ..whole }, Version::V15, &NoNames) + "\n"
}
