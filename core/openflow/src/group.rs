//! Groups.

use crate::action::Action;
use crate::flow_mod::Duration;
use flow::FieldId;
use units::OfPort;

/// The highest group number; higher numbers are reserved.
pub const GROUP_MAX: u32 = 0xffff_ff00;
/// Group number that stands for all groups.
pub const GROUP_ALL: u32 = 0xffff_fffc;
/// Bucket number that stands for all buckets of a group (1.5).
pub const BUCKET_ALL: u32 = 0xffff_ffff;
/// Bucket number that stands for the first bucket of a group (1.5).
pub const BUCKET_FIRST: u32 = 0xffff_fffd;
/// Bucket number that stands for the last bucket of a group (1.5).
pub const BUCKET_LAST: u32 = 0xffff_fffe;
/// The highest bucket number; higher numbers are reserved.
pub const BUCKET_MAX: u32 = 0xffff_ff00;

/// Type of a group; the discriminant is the number on the wire.
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupType {
    /// Sends through all buckets.
    #[default]
    All = 0,
    /// Sends through one bucket, selected by hash.
    Select = 1,
    /// Has one bucket.
    Indirect = 2,
    /// Sends through the first live bucket.
    FastFailover = 3,
}

/// Command of a group mod; the discriminant is the number on the wire.
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
    /// Adds buckets to a group (1.5).
    InsertBucket = 3,
    /// Removes buckets from a group (1.5).
    RemoveBucket = 5,
    /// Adds or changes a group (Nicira).
    AddOrModify = 0x8000,
}

/// A bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// Bucket number; before 1.5 the position in the group.
    pub id: u32,
    /// Weight in a select group.
    pub weight: u16,
    /// The bucket is live if this port is live.
    pub watch_port: OfPort,
    /// The bucket is live if this group is live.
    pub watch_group: u32,
    /// Actions.
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

/// Selection method of a select group (Nicira's property).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// `hash` or `dp_hash`; empty: the default of the switch.
    pub method: String,
    /// Parameter of the method.
    pub param: u64,
    /// Fields to hash, each with the mask of the hashed bits.
    pub fields: Vec<(FieldId, u128)>,
}

/// A group mod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupMod {
    /// Command.
    pub command: GroupCommand,
    /// Type.
    pub kind: GroupType,
    /// Number.
    pub group: u32,
    /// Bucket to which the command refers (1.5).
    pub command_bucket: u32,
    /// Buckets.
    pub buckets: Vec<Bucket>,
    /// Selection method.
    pub selection: Selection,
}

/// A group's description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupDesc {
    /// Number.
    pub group: u32,
    /// Type.
    pub kind: GroupType,
    /// Buckets.
    pub buckets: Vec<Bucket>,
    /// Selection method.
    pub selection: Selection,
}

/// Counters of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// Number.
    pub group: u32,
    /// Number of flows and groups that use the group.
    pub ref_count: u32,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time since the group was added.
    pub duration: Duration,
    /// Packets and bytes of each bucket.
    pub buckets: Vec<(u64, u64)>,
}

/// Group features of a switch; arrays are indexed by [`GroupType`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupFeatures {
    /// Bits by [`GroupType`].
    pub types: u32,
    /// `OFPGFC_*`
    pub capabilities: u32,
    /// Maximum number of groups.
    pub max_groups: [u32; 4],
    /// Bits by action number of OpenFlow 1.1 and later.
    pub actions: [u32; 4],
}
