//! The packet type: what the first byte of a packet belongs to (OpenFlow 1.5.1 §7.2.3.11).

/// The ethertype of a service header.
pub(crate) const ETHERTYPE_NSH: u16 = 0x894f;

/// An Ethernet frame.
pub(crate) const ETHERNET: u32 = 0;
/// A packet that begins with a network service header.
pub(crate) const NSH: u32 = layer_3(ETHERTYPE_NSH);

/// The packet type of a packet that begins with the header of this ethertype.
pub(crate) const fn layer_3(dl_type: u16) -> u32 {
    1 << 16 | dl_type as u32
}
