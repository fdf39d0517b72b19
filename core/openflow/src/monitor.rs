//! Messages of flow monitors, which report changes of flow tables to a controller.

use crate::action::Action;
use crate::flow_mod::{GROUP_ANY, RemovedReason, TABLE_ALL};
use flow::Match;
use units::OfPort;

/// Events to report (OpenFlow 1.4.1 §7.3.5.18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonitorFlags {
    /// The existing flows.
    pub initial: bool,
    /// Added flows.
    pub add: bool,
    /// Removed flows.
    pub removed: bool,
    /// Changed flows.
    pub modify: bool,
    /// Include the actions.
    pub instructions: bool,
    /// Report the controller's own changes completely, too, instead of abbreviated.
    pub no_abbrev: bool,
    /// `OFPFMF_ONLY_OWN`. Open vSwitch treats the flag like the "own" flag of older forms: the controller's own
    /// changes are reported completely.
    pub only_own: bool,
}

/// Command of a monitor request; the discriminant is the number on the wire.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MonitorCommand {
    #[default]
    Add = 0,
    Modify = 1,
    Delete = 2,
}

/// Request for a monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMonitorRequest {
    /// Number of the monitor.
    pub id: u32,
    /// Command.
    pub command: MonitorCommand,
    /// Events to report.
    pub flags: MonitorFlags,
    /// Report only flows that output to this port; `NONE`: any.
    pub out_port: OfPort,
    /// Report only flows that use this group; `GROUP_ANY`: any.
    pub out_group: u32,
    /// Report only flows of this table.
    pub table: u8,
    /// Report only flows that this match covers.
    pub matching: Match,
}

impl Default for FlowMonitorRequest {
    fn default() -> FlowMonitorRequest {
        FlowMonitorRequest {
            id: 0,
            command: MonitorCommand::Add,
            flags: MonitorFlags::default(),
            out_port: OfPort::NONE,
            out_group: GROUP_ANY,
            table: TABLE_ALL,
            matching: Match::CATCHALL,
        }
    }
}

/// A change that a monitor reports.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum FlowUpdate {
    /// A change that this controller has caused with its message of this transaction id.
    Abbreviated(crate::xid::Xid),
    Initial(Box<FlowEvent>),
    Added(Box<FlowEvent>),
    Deleted(Box<FlowEvent>, RemovedReason),
    Modified(Box<FlowEvent>),
}

impl FlowUpdate {
    /// Number of actions in the update.
    pub fn actions_len(&self) -> usize {
        match self {
            FlowUpdate::Abbreviated(_) => 0,
            FlowUpdate::Initial(event)
            | FlowUpdate::Added(event)
            | FlowUpdate::Deleted(event, _)
            | FlowUpdate::Modified(event) => event.actions.len(),
        }
    }
}

/// The flow of a [`FlowUpdate`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FlowEvent {
    pub table: u8,
    pub priority: u16,
    pub idle_timeout: u16,
    pub hard_timeout: u16,
    pub cookie: u64,
    pub matching: Match,
    /// The actions; empty if the monitor does not request actions.
    pub actions: Vec<Action>,
}
