//! Facts about a guest, and the result of receiving from it.

/// Facts about a connected guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    /// Negotiated feature bits (virtio 1.1).
    pub features: u64,
    /// The MTU that was set for the guest, if `VIRTIO_NET_F_MTU` was negotiated.
    pub mtu: Option<u16>,
    /// NUMA node of the guest's memory.
    pub numa: Option<u32>,
    /// Number of descriptors of each ring. The switch sends on ring 2n and receives from ring 2n + 1.
    pub rings: Vec<u16>,
}

/// The result of receiving a burst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Number of packets received from the ring.
    pub packets: usize,
    /// Number of these packets that were dropped: an invalid length, an offload that was not negotiated, or no memory for a frame.
    pub refused: usize,
    /// Number of interrupts sent to the guest during this burst.
    pub interrupts: u64,
    /// Some frames have tails in the guest's memory, or the guest's buffers are [held](packet::held_buffers). The caller must call
    /// [`FromGuest::return_buffers`](crate::FromGuest::return_buffers).
    pub needs_return: bool,
}
