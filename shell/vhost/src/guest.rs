//! Facts about a guest.

/// Facts about a connected guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Negotiated feature bits (virtio 1.1).
    pub features: u64,
    /// The MTU that the guest was told, if `VIRTIO_NET_F_MTU` was negotiated.
    pub mtu: Option<u16>,
    /// NUMA node of the guest's memory.
    pub numa: Option<u32>,
    /// Descriptors of each ring. The switch fills ring 2n, the guest fills ring 2n + 1.
    pub rings: Vec<u16>,
}

/// The result of a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets taken off the ring.
    pub packets: usize,
    /// Packets among them that were dropped: an invalid length, an offload that was not negotiated, or no memory for a frame.
    pub refused: usize,
    /// Interrupts sent to the guest during this burst.
    pub interrupts: u64,
    /// Some packets have tails in the guest's memory, or the guest's buffers are [held](packet::held): see
    /// [`FromGuest::give_back`](crate::FromGuest::give_back).
    pub lent: bool,
}
