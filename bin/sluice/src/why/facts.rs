//! The facts about a flow, as they were read from the switch.

use super::subject::Requests;
use super::watch::Seen;
use super::wording::text;
use ovsdb::Json;

/// All facts about the flow.
#[derive(Debug, Default)]
pub struct Facts {
    pub flow: String,
    /// The sender asks for a hardware address, and sends no packet of the flow: all other facts are about these requests.
    pub requests: Option<Requests>,
    pub seconds: f64,
    pub there: Seen,
    pub back: Seen,
    /// The reply of `ofproto/why` for the first packet of each direction, or for a packet made from the flow.
    pub why_there: Option<Json>,
    pub why_back: Option<Json>,
    /// The packet of `why_there` was made from the flow.
    pub is_made: bool,
    /// Packets that the megaflow has counted, before and after.
    pub megaflow: Option<Megaflow>,
    /// Of packets that leave in a tunnel: what their ports dropped in a second, of all flows (port, reason, packets).
    pub outer_drops: Vec<(String, String, u64)>,
    /// Recent drops that match (`dpif/show-drops`).
    pub recent: Vec<Json>,
    pub recent_back: Vec<Json>,
}

/// A megaflow and its counter in two samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Megaflow {
    pub ufid: String,
    pub actions: String,
    pub before: u64,
    /// `None`: it is not there any more.
    pub after: Option<u64>,
}

/// The drops that were counted between two states of ports: port, reason, packets.
pub fn new_drops(before: &Json, after: &Json) -> Vec<(String, String, u64)> {
    let all = |of: &Json| of.as_array().cloned().unwrap_or_default();
    let (old, mut out) = (all(before), Vec::new());
    for port in all(after) {
        let was = old.iter().find(|one| one["number"] == port["number"]);
        for (reason, n) in port["dropped"].as_object().into_iter().flatten() {
            let before = was.and_then(|was| was["dropped"][reason].as_u64()).unwrap_or(0);
            let more = n.as_u64().unwrap_or(0).saturating_sub(before);
            if more != 0 {
                out.push((text(&port["name"]).to_owned(), reason.clone(), more));
            }
        }
    }
    out
}
