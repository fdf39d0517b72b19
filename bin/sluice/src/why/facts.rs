//! The facts about a flow that were read from the switch.

use super::subject::Requests;
use super::watch::DirectionCapture;
use super::wording::text;
use ovsdb::Json;

/// All facts about the flow.
#[derive(Debug, Default)]
pub struct Facts {
    pub flow: String,
    /// Set if the sender sends requests for a hardware address (ARP or neighbour discovery) and no packet of the flow. Then all other
    /// facts are about these requests.
    pub requests: Option<Requests>,
    pub seconds: f64,
    /// Captured packets of the flow.
    pub forward: DirectionCapture,
    /// Captured packets of the opposite direction (answers).
    pub reverse: DirectionCapture,
    /// The reply of `ofproto/why` for the first packet of the flow, or for a packet made from the flow.
    pub why_forward: Option<Json>,
    /// The reply of `ofproto/why` for the first answer.
    pub why_reverse: Option<Json>,
    /// Whether the packet of `why_forward` was made from the flow and not captured.
    pub is_synthetic: bool,
    /// The megaflow of the packets.
    pub megaflow: Option<Megaflow>,
    /// For packets that leave in a tunnel: drops of all flows at the tunnel's ports within a second (port, reason, packets).
    pub outer_drops: Vec<(String, String, u64)>,
    /// Recent drops of packets of the flow (`dpif/show-drops`).
    pub recent: Vec<Json>,
    /// Recent drops of answers.
    pub recent_reverse: Vec<Json>,
}

/// A megaflow and its packet counter in two samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Megaflow {
    pub ufid: String,
    pub actions: String,
    pub before: u64,
    /// `None`: the megaflow no longer exists.
    pub after: Option<u64>,
}

/// The drops that were counted between two replies about ports: port, reason, packets.
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
