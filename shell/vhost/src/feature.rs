//! Feature bits (virtio 1.3, 5.1.3 and 6; vhost-user specification, "Protocol features").
#![allow(missing_docs, reason = "the names are the specification's")]

use packet::gso::GsoKind;

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
/// `VIRTIO_F_ACCESS_PLATFORM`: the guest has an IOMMU.
pub const ACCESS_PLATFORM: u64 = 1 << 33;
pub const RING_PACKED: u64 = 1 << 34;
pub const IN_ORDER: u64 = 1 << 35;
pub const GUEST_USO4: u64 = 1 << 54;
pub const GUEST_USO6: u64 = 1 << 55;
pub const HOST_USO: u64 = 1 << 56;

/// The feature with which a guest may leave this kind of segmentation to the switch. It requires [`CSUM`] (5.1.3.1).
pub(crate) fn segmentation_by_switch(kind: GsoKind) -> u64 {
    match kind {
        GsoKind::Tcp4 => HOST_TSO4,
        GsoKind::Tcp6 => HOST_TSO6,
        GsoKind::Udp4 | GsoKind::Udp6 => HOST_USO,
    }
}

/// The feature with which the switch may leave this kind of segmentation to a guest. It requires [`GUEST_CSUM`] (5.1.3.1).
pub fn segmentation_by_guest(kind: GsoKind) -> u64 {
    match kind {
        GsoKind::Tcp4 => GUEST_TSO4,
        GsoKind::Tcp6 => GUEST_TSO6,
        GsoKind::Udp4 => GUEST_USO4,
        GsoKind::Udp6 => GUEST_USO6,
    }
}

/// Bits of `GET_PROTOCOL_FEATURES`.
pub mod protocol {
    #![allow(missing_docs, reason = "the names are the specification's")]

    pub const MQ: u64 = 1;
    pub const LOG_SHMFD: u64 = 1 << 1;
    pub const RARP: u64 = 1 << 2;
    pub const REPLY_ACK: u64 = 1 << 3;
    pub const NET_MTU: u64 = 1 << 4;
    /// `VHOST_USER_PROTOCOL_F_BACKEND_REQ`
    pub const BACKEND_REQ: u64 = 1 << 5;
    pub const INFLIGHT_SHMFD: u64 = 1 << 12;
    pub const RESET_DEVICE: u64 = 1 << 13;
    pub const CONFIGURE_MEM_SLOTS: u64 = 1 << 15;
    pub const STATUS: u64 = 1 << 16;
}
