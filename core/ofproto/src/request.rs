//! A flow mod in the form that this crate executes. It comes from a controller, a `learn` action or the switch itself.

use crate::intern::Interner;
use classifier::of::SparseMatch;
use flow::Match;
use flow::tlv::Layout;
use openflow::action::Action;
use openflow::flow_mod::{FlowCommand, FlowFlags, FlowMod, NO_BUFFER};
use std::sync::Arc;
use units::OfPort;

/// A request to change flows. It uses a sixth of the memory of a decoded flow mod, so open bundles store their requests in this form.
#[derive(Clone, Debug)]
pub struct FlowRequest {
    pub(crate) command: FlowCommand,
    pub(crate) table: u8,
    pub(crate) matching: SparseMatch,
    /// Layout of the tunnel option fields that the request matches; `None` if it matches none.
    pub(crate) layout: Option<Arc<Layout>>,
    /// Whether the request matches fields that are reserved for the switch itself.
    pub(crate) reserved: bool,
    pub(crate) actions: Arc<[Action]>,
    /// The priority; if it is above 65535, the flow is hidden from OpenFlow.
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
    /// Whether the request comes from the switch itself; then internal tables and fields are allowed.
    pub(crate) from_switch: bool,
}

impl FlowRequest {
    /// Converts a flow mod of a controller.
    pub(crate) fn new(fm: &FlowMod, interner: &mut Interner) -> FlowRequest {
        let m = &fm.matching;
        FlowRequest {
            command: fm.command,
            table: fm.table,
            matching: interner.matching(m),
            layout: (m.mask.tlv.present != 0).then(|| Arc::new(m.mask.layout)),
            reserved: m.flow.recirc_id != 0 || m.mask.dp_hash != 0,
            actions: interner.actions(&fm.actions),
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
            from_switch: false,
        }
    }

    /// The command of the flow mod.
    pub fn command(&self) -> FlowCommand {
        self.command
    }

    /// Whether a modification adds the flow if it finds none.
    pub(crate) fn may_add(&self) -> bool {
        self.new_cookie != u64::MAX && self.cookie_mask == 0
    }
}

pub(crate) fn sparse(m: &Match) -> SparseMatch {
    SparseMatch::new(&m.flow, &m.mask)
}
