//! A flow mod as this crate executes it: what a controller, a `learn` action or the switch itself asks.

use crate::alike::Alike;
use classifier::of::SparseMatch;
use flow::Match;
use flow::tlv::Layout;
use openflow::action::Action;
use openflow::flow_mod::{FlowCommand, FlowFlags, FlowMod, NO_BUFFER};
use std::sync::Arc;
use units::OfPort;

/// One request to change flows, ready to be executed. It takes a sixth of the memory of the flow mod that it was made
/// from: the requests of a bundle wait as these.
#[derive(Clone, Debug)]
pub struct FlowRequest {
    pub(crate) command: FlowCommand,
    pub(crate) table: u8,
    pub(crate) matching: SparseMatch,
    /// Where the fields of tunnel options lie that it matches; `None`: it matches none.
    pub(crate) layout: Option<Arc<Layout>>,
    /// It matches what only the switch itself may match.
    pub(crate) reserved: bool,
    pub(crate) actions: Arc<[Action]>,
    /// Above 65535 the flow is hidden from OpenFlow.
    pub(crate) priority: u32,
    pub(crate) cookie: u64,
    pub(crate) cookie_mask: u64,
    pub(crate) new_cookie: u64,
    pub(crate) modify_cookie: bool,
    pub(crate) idle_timeout: u16,
    pub(crate) hard_timeout: u16,
    pub(crate) importance: u16,
    pub(crate) flags: FlowFlags,
    pub(crate) out_port: OfPort,
    pub(crate) out_group: u32,
    pub(crate) has_buffer: bool,
    /// From the switch itself: internal tables and fields may be used.
    pub(crate) internal: bool,
}

impl FlowRequest {
    /// From a controller.
    pub(crate) fn new(fm: &FlowMod, alike: &mut Alike) -> FlowRequest {
        let m = &fm.matching;
        FlowRequest {
            command: fm.command,
            table: fm.table,
            matching: alike.matching(m),
            layout: (m.mask.tlv.present != 0).then(|| Arc::new(m.mask.layout)),
            reserved: m.flow.recirc_id != 0 || m.mask.dp_hash != 0,
            actions: alike.actions(&fm.actions),
            priority: fm.priority.into(),
            cookie: fm.cookie,
            cookie_mask: fm.cookie_mask,
            new_cookie: fm.new_cookie,
            modify_cookie: fm.modify_cookie,
            idle_timeout: fm.idle_timeout,
            hard_timeout: fm.hard_timeout,
            importance: fm.importance,
            flags: fm.flags,
            out_port: fm.out_port,
            out_group: fm.out_group,
            has_buffer: fm.buffer_id != NO_BUFFER,
            internal: false,
        }
    }

    /// What it asks to do.
    pub fn command(&self) -> FlowCommand {
        self.command
    }

    /// A modification that finds nothing adds the flow.
    pub(crate) fn may_add(&self) -> bool {
        self.new_cookie != u64::MAX && self.cookie_mask == 0
    }
}

pub(crate) fn sparse(m: &Match) -> SparseMatch {
    SparseMatch::new(&m.flow, &m.mask)
}
