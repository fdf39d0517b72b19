//! A flow mod as this crate executes it: what a controller, a `learn` action or the switch itself asks.

use classifier::of::SparseMatch;
use flow::Match;
use openflow::action::Action;
use openflow::flow_mod::FlowMod;
use std::sync::Arc;

/// One request to change flows, ready to be executed.
#[derive(Clone, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) fm: &'a FlowMod,
    pub(crate) matching: SparseMatch,
    pub(crate) actions: Arc<[Action]>,
    /// Above 65535 the flow is hidden from OpenFlow.
    pub(crate) priority: u32,
    /// From the switch itself: internal tables and fields may be used.
    pub(crate) internal: bool,
}

impl<'a> Request<'a> {
    /// From a controller.
    pub(crate) fn new(fm: &'a FlowMod) -> Request<'a> {
        Request {
            fm,
            matching: sparse(&fm.matching),
            actions: fm.actions.as_slice().into(),
            priority: fm.priority.into(),
            internal: false,
        }
    }

    /// A modification that finds nothing adds the flow.
    pub(crate) fn may_add(&self) -> bool {
        self.fm.new_cookie != u64::MAX && self.fm.cookie_mask == 0
    }
}

pub(crate) fn sparse(m: &Match) -> SparseMatch {
    SparseMatch::new(&m.flow, &m.mask)
}
