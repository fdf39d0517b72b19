//! Flow monitors: a controller follows the changes of a flow table.

use crate::action::Action;
use crate::flow_mod::{GROUP_ANY, RemovedReason, TABLE_ALL};
use flow::Match;
use units::OfPort;

/// What to report (OpenFlow 1.4.1 §7.3.5.18).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MonitorFlags {
    /// What is there now.
    pub initial: bool,
    /// New flows.
    pub add: bool,
    /// Flows that go.
    pub removed: bool,
    /// Flows that change.
    pub modify: bool,
    /// With actions.
    pub instructions: bool,
    /// The controller's own changes in full, too.
    pub no_abbrev: bool,
    /// `OFPFMF_ONLY_OWN`. Open vSwitch takes it for what its older forms call "own": the controller's own changes in full.
    pub only_own: bool,
}

/// What a monitor request does; the discriminant is the number on the wire.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MonitorCommand {
    #[default]
    Add = 0,
    Modify = 1,
    Delete = 2,
}

/// A monitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMonitorRequest {
    /// Its number.
    pub id: u32,
    /// What to do with it.
    pub command: MonitorCommand,
    /// What to report.
    pub flags: MonitorFlags,
    /// Flows that send here; `NONE` is any.
    pub out_port: OfPort,
    /// Flows that use this group.
    pub out_group: u32,
    /// In this table.
    pub table: u8,
    /// That this match covers.
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
    /// The controller's own change, of this transaction.
    Abbreviated(crate::xid::Xid),
    Initial(Box<FlowEvent>),
    Added(Box<FlowEvent>),
    Deleted(Box<FlowEvent>, RemovedReason),
    Modified(Box<FlowEvent>),
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
    /// Empty if the monitor did not ask for them.
    pub actions: Vec<Action>,
}
