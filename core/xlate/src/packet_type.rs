//! The packet type: which header a packet begins with (OpenFlow 1.5.1 §7.2.3.11).

/// The ethertype of a network service header (NSH).
pub(crate) const ETHERTYPE_NSH: u16 = 0x894f;

/// The packet type of an Ethernet frame.
pub(crate) const ETHERNET: u32 = 0;
/// The packet type of a packet that begins with an NSH.
pub(crate) const NSH: u32 = layer_3(ETHERTYPE_NSH);

/// The packet type of a packet that begins with the header of this ethertype.
pub(crate) const fn layer_3(dl_type: u16) -> u32 {
    1 << 16 | dl_type as u32
}
