//! Groups.

use crate::action::Action;
use crate::flow_mod::Duration;
use flow::FieldId;
use units::OfPort;

/// The first group number that is reserved.
pub const GROUP_MAX: u32 = 0xffff_ff00;
/// All groups.
pub const GROUP_ALL: u32 = 0xffff_fffc;
/// All buckets of a group (1.5).
pub const BUCKET_ALL: u32 = 0xffff_ffff;
/// The first bucket of a group (1.5).
pub const BUCKET_FIRST: u32 = 0xffff_fffd;
/// The last bucket of a group (1.5).
pub const BUCKET_LAST: u32 = 0xffff_fffe;
/// The first bucket number that is reserved.
pub const BUCKET_MAX: u32 = 0xffff_ff00;

/// How a group uses its buckets; the discriminant is the number on the wire.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupType {
    /// All of them.
    #[default]
    All = 0,
    /// One by hash.
    Select = 1,
    /// The only one.
    Indirect = 2,
    /// The first live one.
    FastFailover = 3,
}

/// What a group mod does; the discriminant is the number on the wire.
#[repr(u16)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupCommand {
    /// Adds a group.
    #[default]
    Add = 0,
    /// Changes a group.
    Modify = 1,
    /// Deletes a group.
    Delete = 2,
    /// Puts buckets into a group (1.5).
    InsertBucket = 3,
    /// Takes buckets out of a group (1.5).
    RemoveBucket = 5,
    /// Adds or changes (Nicira).
    AddOrModify = 0x8000,
}

/// A bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Its number (1.5; elsewhere its place).
    pub id: u32,
    /// Share of the packets of a select group.
    pub weight: u16,
    /// Live if this port is.
    pub watch_port: OfPort,
    /// Live if this group is.
    pub watch_group: u32,
    /// What it does.
    pub actions: Vec<Action>,
}

impl Default for Bucket {
    fn default() -> Bucket {
        Bucket {
            id: BUCKET_ALL,
            weight: 0,
            watch_port: OfPort::NONE,
            watch_group: crate::flow_mod::GROUP_ANY,
            actions: Vec::new(),
        }
    }
}

/// How a select group selects (Nicira's property).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// `hash`, `dp_hash`; empty: the switch's default.
    pub method: String,
    /// Its parameter.
    pub param: u64,
    /// Fields of the hash, each with the bits that count.
    pub fields: Vec<(FieldId, u128)>,
}

/// A group mod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupMod {
    /// What to do.
    pub command: GroupCommand,
    /// Type.
    pub kind: GroupType,
    /// Number.
    pub group: u32,
    /// Which bucket the command is about (1.5).
    pub command_bucket: u32,
    /// Buckets.
    pub buckets: Vec<Bucket>,
    /// How to select.
    pub selection: Selection,
}

/// A group, as its description says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupDesc {
    /// Number.
    pub group: u32,
    /// Type.
    pub kind: GroupType,
    /// Buckets.
    pub buckets: Vec<Bucket>,
    /// How it selects.
    pub selection: Selection,
}

/// Counters of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// Number.
    pub group: u32,
    /// How many flows and groups use it.
    pub ref_count: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Age.
    pub duration: Duration,
    /// Packets and bytes of each bucket.
    pub buckets: Vec<(u64, u64)>,
}

/// What groups the switch has; arrays are by [`GroupType`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFeatures {
    /// Bit by [`GroupType`].
    pub types: u32,
    /// `OFPGFC_*`
    pub capabilities: u32,
    /// How many.
    pub max_groups: [u32; 4],
    /// Bit by OpenFlow 1.1+ action number.
    pub actions: [u32; 4],
}
