//! `/api/megaflows`: the megaflows that packets use most.
//!
//! Building the list visits at most [`VISITED_MAX`] megaflows, in steps of [`STEP`] megaflows, because threads that publish megaflows
//! wait while a step runs. The rate of a megaflow is known from the second list on.

use crate::view::{DatapathView, View};
use dpif::text::{DpPortNames, actions_text, key_text};
use dpif::{DpFlow, DropReason};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use units::{Millis, PortNo, Ufid};

/// Maximum number of megaflows that are visited for a list.
const VISITED_MAX: u32 = 32_768;
/// Number of megaflows of a step.
const STEP: u32 = 512;
/// Number of megaflows that are listed.
const LISTED: usize = 50;
/// Time between two lists; requests between them get the last list.
const INTERVAL: Millis = Millis(1_000);

/// The list that was built last.
#[derive(Default)]
pub struct Megaflows {
    at: Millis,
    /// Packets of each visited megaflow.
    packets: HashMap<Ufid, u64>,
    /// The answer.
    last: Option<Value>,
}

struct Names<'a>(&'a BTreeMap<PortNo, String>);

impl DpPortNames for Names<'_> {
    fn name(&self, port: PortNo) -> Option<String> {
        self.0.get(&port).cloned()
    }

    fn number(&self, name: &str) -> Option<PortNo> {
        self.0.iter().find(|(_, known)| *known == name).map(|(number, _)| *number)
    }
}

impl Megaflows {
    /// The present list.
    pub fn json(&mut self, view: &View) -> Value {
        let passed = view.now.since(self.at);
        if let Some(last) = self.last.as_ref().filter(|_| passed < INTERVAL) {
            return last.clone();
        }
        let before = std::mem::take(&mut self.packets);
        let seconds = passed.0 as f64 / 1000.0;
        let mut all: Vec<(Option<f64>, &DatapathView, DpFlow)> = Vec::new();
        let (mut visited, mut total) = (0, 0);
        for datapath in &view.datapaths {
            total += datapath.datapath.flow_count();
            let end = datapath.datapath.flow_end().min(VISITED_MAX - visited);
            for from in (0..end).step_by(STEP as usize) {
                for flow in datapath.datapath.flows_at(from..end.min(from + STEP)) {
                    let grown = before.get(&flow.ufid).map(|n| flow.stats.packets.saturating_sub(*n));
                    self.packets.insert(flow.ufid, flow.stats.packets);
                    all.push((grown.map(|n| n as f64 / seconds), datapath, flow));
                }
            }
            visited += end;
        }
        let visited = all.len();
        all.sort_by(|a, b| {
            let key =
                |one: &(Option<f64>, &DatapathView, DpFlow)| (one.0.unwrap_or(0.0), one.2.stats.packets);
            let ((ra, pa), (rb, pb)) = (key(a), key(b));
            rb.total_cmp(&ra).then(pb.cmp(&pa))
        });
        let listed: Vec<Value> =
            all.iter().take(LISTED).map(|(rate, d, flow)| megaflow_json(*rate, d, flow, view.now)).collect();
        let masks: Vec<Value> = view.datapaths.iter().filter_map(most_masks).collect();
        let answer = json!({ "schema": 1, "total": total, "visited": visited, "most_masks": masks, "megaflows": listed });
        self.at = view.now;
        self.last = Some(answer.clone());
        answer
    }
}

/// The port of a datapath whose megaflows have the most masks.
fn most_masks(datapath: &DatapathView) -> Option<Value> {
    let (port, masks) = datapath.datapath.most_masks()?;
    let port = datapath.names.get(&port);
    Some(json!({ "datapath": datapath.name, "port": port, "masks": masks, "limit": datapath::PORT_MASKS }))
}

fn megaflow_json(rate: Option<f64>, datapath: &DatapathView, flow: &DpFlow, now: Millis) -> Value {
    let names = Names(&datapath.names);
    let drop = flow.actions.iter().find_map(|action| match action {
        dpif::DpAction::Drop(reason) => Some(*reason),
        _ => None,
    });
    json!({
        "datapath": datapath.name,
        "ufid": flow.ufid.to_string(),
        "match": key_text(&flow.key, Some(&flow.mask), false, &names),
        "actions": actions_text(&flow.actions, &names),
        "drop": drop.map(|reason: DropReason| crate::samples::reason_name(reason)),
        "packets": flow.stats.packets,
        "bytes": flow.stats.bytes,
        "packets_per_second": rate,
        "idle_seconds": flow.stats.used.map(|used| now.since(used).0 as f64 / 1000.0),
    })
}
