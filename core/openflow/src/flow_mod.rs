//! Flow mods and flow-removed messages.

use crate::action::Action;
use flow::Match;
use units::OfPort;

/// Command of a flow mod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlowCommand {
    /// Adds a flow; it replaces a flow with the same match and priority.
    #[default]
    Add,
    /// Changes the actions of all flows that the match covers.
    Modify,
    /// Changes the actions of the flow with exactly this match and priority.
    ModifyStrict,
    /// Deletes all flows that the match covers.
    Delete,
    /// Deletes the flow with exactly this match and priority.
    DeleteStrict,
}

/// Flags of a flow (`OFPFF_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowFlags {
    /// Send a flow-removed message when the flow is removed.
    pub send_flow_rem: bool,
    /// Refuse the flow if it overlaps a flow of the same priority. Part of the request; not stored with the
    /// flow.
    pub check_overlap: bool,
    /// OpenFlow 1.0 `EMERG`.
    pub emergency: bool,
    /// Reset the counters. Part of the request; not stored with the flow.
    pub reset_counts: bool,
    /// Packets need not be counted.
    pub no_pkt_counts: bool,
    /// Bytes need not be counted.
    pub no_byt_counts: bool,
}

/// Table number that stands for any table, or for all tables.
pub const TABLE_ALL: u8 = 0xff;
/// Group number that stands for any group.
pub const GROUP_ANY: u32 = 0xffff_ffff;
/// Buffer id that stands for no buffer.
pub const NO_BUFFER: u32 = 0xffff_ffff;

/// A flow mod. Construct it with `FlowMod { …, ..FlowMod::default() }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowMod {
    /// Command.
    pub command: FlowCommand,
    /// The table. [`TABLE_ALL`]: all tables; for `Add` the switch chooses.
    pub table: u8,
    /// Change only flows whose cookie has this value in the bits of `cookie_mask`.
    pub cookie: u64,
    /// The bits of `cookie` to compare.
    pub cookie_mask: u64,
    /// Cookie of new and changed flows; all ones: changed flows keep their cookie.
    pub new_cookie: u64,
    /// `Modify`: write `new_cookie` to changed flows.
    pub modify_cookie: bool,
    /// Idle timeout in seconds: the flow expires after this time without packets; 0: none.
    pub idle_timeout: u16,
    /// Hard timeout in seconds: the flow expires after this time; 0: none.
    pub hard_timeout: u16,
    /// Priority: if several flows match a packet, the flow with the highest number is used.
    pub priority: u16,
    /// Buffered packet to send through the new flow.
    pub buffer_id: u32,
    /// Delete only flows that output to this port; `NONE`: any.
    pub out_port: OfPort,
    /// Delete only flows that use this group; [`GROUP_ANY`]: any.
    pub out_group: u32,
    /// Flags.
    pub flags: FlowFlags,
    /// Flows of lower importance are evicted first (OpenFlow 1.4).
    pub importance: u16,
    /// Match.
    pub matching: Match,
    /// Actions and instructions.
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

/// Reason of a flow's removal (`OFPRR_*`); the discriminant is the number on the wire.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovedReason {
    /// The idle timeout has passed without a packet.
    IdleTimeout = 0,
    /// The hard timeout has passed.
    HardTimeout = 1,
    /// A flow mod has deleted the flow.
    Delete = 2,
    /// A group that the flow uses was deleted.
    GroupDelete = 3,
    /// A meter that the flow uses was deleted.
    MeterDelete = 4,
    /// The flow was evicted to make space for another flow.
    Eviction = 5,
}

/// A flow-removed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRemoved {
    /// Match of the flow.
    pub matching: Match,
    /// Priority of the flow.
    pub priority: u16,
    /// Cookie of the flow.
    pub cookie: u64,
    /// Reason of the removal.
    pub reason: RemovedReason,
    /// Table of the flow; [`TABLE_ALL`] if the form of the message does not contain it.
    pub table: u8,
    /// Time since the flow was added.
    pub duration: Duration,
    /// As in the flow mod, seconds.
    pub idle_timeout: u16,
    /// As in the flow mod, seconds.
    pub hard_timeout: u16,
    /// Number of packets that matched the flow; all ones: not known.
    pub packets: u64,
    /// Number of bytes of these packets; all ones: not known.
    pub bytes: u64,
}

/// Seconds and nanoseconds, as in counters of flows and ports. All ones: not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Duration {
    /// Whole seconds.
    pub sec: u32,
    /// Nanoseconds within the second.
    pub nsec: u32,
}
