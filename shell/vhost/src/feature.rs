//! Feature bits (virtio 1.2, 5.1.3 and 6; vhost-user specification, "Protocol features").
#![allow(missing_docs, reason = "the names are the specification's")]

pub const CSUM: u64 = 1;
pub const GUEST_CSUM: u64 = 1 << 1;
pub const MTU: u64 = 1 << 3;
pub const GUEST_TSO4: u64 = 1 << 7;
pub const GUEST_TSO6: u64 = 1 << 8;
pub const GUEST_ECN: u64 = 1 << 9;
pub const HOST_TSO4: u64 = 1 << 11;
pub const HOST_TSO6: u64 = 1 << 12;
pub const HOST_ECN: u64 = 1 << 13;
pub const HOST_UFO: u64 = 1 << 14;
pub const MRG_RXBUF: u64 = 1 << 15;
pub const CTRL_VQ: u64 = 1 << 17;
pub const CTRL_RX: u64 = 1 << 18;
pub const GUEST_ANNOUNCE: u64 = 1 << 21;
pub const MQ: u64 = 1 << 22;
/// `VHOST_F_LOG_ALL`: writes to guest memory are logged, for live migration.
pub const LOG_ALL: u64 = 1 << 26;
pub const ANY_LAYOUT: u64 = 1 << 27;
pub const INDIRECT: u64 = 1 << 28;
pub const EVENT_IDX: u64 = 1 << 29;
pub const PROTOCOL_FEATURES: u64 = 1 << 30;
pub const VERSION_1: u64 = 1 << 32;
pub const RING_PACKED: u64 = 1 << 34;
pub const IN_ORDER: u64 = 1 << 35;

/// Bits of `GET_PROTOCOL_FEATURES`.
pub mod protocol {
    #![allow(missing_docs, reason = "the names are the specification's")]

    pub const MQ: u64 = 1;
    pub const LOG_SHMFD: u64 = 1 << 1;
    pub const RARP: u64 = 1 << 2;
    pub const REPLY_ACK: u64 = 1 << 3;
    pub const NET_MTU: u64 = 1 << 4;
    pub const INFLIGHT_SHMFD: u64 = 1 << 12;
    pub const RESET_DEVICE: u64 = 1 << 13;
    pub const CONFIGURE_MEM_SLOTS: u64 = 1 << 15;
    pub const STATUS: u64 = 1 << 16;
}
