//! Replies and translated packets for tests: UDP over IPv4.

use conntrack::{Translation, Transport};
use flow::Flow;

/// The reply to a packet.
pub fn reversed(f: &Flow) -> Flow {
    Flow { nw_src: f.nw_dst, nw_dst: f.nw_src, tp_src: f.tp_dst, tp_dst: f.tp_src, ..*f }
}

/// A packet after its translation.
pub fn translated(mut flow: Flow, t: &Translation) -> Flow {
    t.src.into_iter().for_each(|a| flow.nw_src = a[1] as u32);
    t.dst.into_iter().for_each(|a| flow.nw_dst = a[1] as u32);
    if let Transport::Ports(src, dst) = t.transport {
        (flow.tp_src, flow.tp_dst) = (src, dst);
    }
    flow
}
