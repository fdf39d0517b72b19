//! Flow mods and what a switch says about flows that go.

use crate::action::Action;
use flow::Match;
use units::OfPort;

/// What a flow mod does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowCommand {
    /// Adds, in the place of an equal flow.
    #[default]
    Add,
    /// Changes actions of all flows that are matched.
    Modify,
    /// Changes actions of the flow with this very match and priority.
    ModifyStrict,
    /// Deletes all flows that are matched.
    Delete,
    /// Deletes the flow with this very match and priority.
    DeleteStrict,
}

/// Flags of a flow (`OFPFF_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowFlags {
    /// Tell the controllers when it goes.
    pub send_flow_rem: bool,
    /// Refuse if it overlaps a flow of the same priority. A matter of the request: flows do not keep it.
    pub check_overlap: bool,
    /// OpenFlow 1.0 `EMERG`.
    pub emergency: bool,
    /// Set the counters to zero. A matter of the request.
    pub reset_counts: bool,
    /// Packets need not be counted.
    pub no_pkt_counts: bool,
    /// Bytes need not be counted.
    pub no_byt_counts: bool,
}

/// "Any table", "all tables".
pub const TABLE_ALL: u8 = 0xff;
/// "Any group".
pub const GROUP_ANY: u32 = 0xffff_ffff;
/// "No buffer".
pub const NO_BUFFER: u32 = 0xffff_ffff;

/// A flow mod. Make one with `FlowMod { …, ..FlowMod::default() }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// What to do.
    pub command: FlowCommand,
    /// The table; [`TABLE_ALL`]: all tables, or on `Add` the switch's choice.
    pub table: u8,
    /// Flows to be changed have this cookie …
    pub cookie: u64,
    /// … in these bits.
    pub cookie_mask: u64,
    /// The cookie of new and changed flows; all ones: changed flows keep theirs.
    pub new_cookie: u64,
    /// `Modify`: changed flows take the new cookie.
    pub modify_cookie: bool,
    /// Seconds without packets; 0 is for ever.
    pub idle_timeout: u16,
    /// Seconds; 0 is for ever.
    pub hard_timeout: u16,
    /// Higher goes first.
    pub priority: u16,
    /// A packet to send through the new flow.
    pub buffer_id: u32,
    /// Delete only flows that send here; `NONE` is any.
    pub out_port: OfPort,
    /// Delete only flows that use this group.
    pub out_group: u32,
    /// Flags.
    pub flags: FlowFlags,
    /// Which to evict first (OpenFlow 1.4).
    pub importance: u16,
    /// Which packets.
    pub matching: Match,
    /// What happens to them.
    pub actions: Vec<Action>,
}

impl Default for FlowMod {
    fn default() -> FlowMod {
        FlowMod {
            command: FlowCommand::Add,
            table: TABLE_ALL,
            cookie: 0,
            cookie_mask: 0,
            new_cookie: 0,
            modify_cookie: false,
            idle_timeout: 0,
            hard_timeout: 0,
            priority: 0x8000,
            buffer_id: NO_BUFFER,
            out_port: OfPort::NONE,
            out_group: GROUP_ANY,
            flags: FlowFlags::default(),
            importance: 0,
            matching: Match::CATCHALL,
            actions: Vec::new(),
        }
    }
}

/// Why a flow went (`OFPRR_*`); the discriminant is the number on the wire.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedReason {
    /// No packets for a while.
    IdleTimeout = 0,
    /// Its time was over.
    HardTimeout = 1,
    /// Deleted by a flow mod.
    Delete = 2,
    /// Its group was deleted.
    GroupDelete = 3,
    /// Its meter was deleted.
    MeterDelete = 4,
    /// Evicted for another flow.
    Eviction = 5,
}

/// A flow has gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// Its match.
    pub matching: Match,
    /// Its priority.
    pub priority: u16,
    /// Its cookie.
    pub cookie: u64,
    /// Why it went.
    pub reason: RemovedReason,
    /// Its table; [`TABLE_ALL`] where the form does not say it.
    pub table: u8,
    /// How long it was there.
    pub duration: Duration,
    /// As in the flow mod.
    pub idle_timeout: u16,
    /// As in the flow mod.
    pub hard_timeout: u16,
    /// All ones: not known.
    pub packets: u64,
    /// All ones: not known.
    pub bytes: u64,
}

/// Seconds and nanoseconds, as counters of flows and ports carry them. All ones: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration {
    /// Whole seconds.
    pub sec: u32,
    /// The rest.
    pub nsec: u32,
}
