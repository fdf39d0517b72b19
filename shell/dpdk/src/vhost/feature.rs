//! The feature bits that the switch reads (virtio 1.1, 5.1.3).

pub const GUEST_CSUM: u64 = 1 << 1;
pub const GUEST_TSO4: u64 = 1 << 7;
pub const GUEST_TSO6: u64 = 1 << 8;
pub const HOST_UFO: u64 = 1 << 14;
pub const MQ: u64 = 1 << 22;
/// `VHOST_F_LOG_ALL`: writes to guest memory are logged, for live migration.
pub const LOG_ALL: u64 = 1 << 26;
pub const RING_PACKED: u64 = 1 << 34;
