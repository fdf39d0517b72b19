//! The kinds of segmentation that a frame may request, and sets of them.

use crate::ip::ipproto;

/// Maximum number of segments of a TCP frame: enough for 64 KiB in segments of 32 bytes, which are smaller than those of any TCP. Without
/// this limit, one frame of a guest could make the switch send tens of thousands of packets.
const TCP_SEGMENTS_MAX: usize = 2048;
/// Maximum number of datagrams of a UDP frame. Linux sends no more (`UDP_MAX_SEGMENTS`).
const UDP_SEGMENTS_MAX: usize = 128;

/// The kind of a frame that must be segmented.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GsoKind {
    /// TCP over IPv4.
    Tcp4,
    /// TCP over IPv6.
    Tcp6,
    /// UDP over IPv4; each segment is a datagram.
    Udp4,
    /// UDP over IPv6; each segment is a datagram.
    Udp6,
}

impl GsoKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [GsoKind; 4] = [GsoKind::Tcp4, GsoKind::Tcp6, GsoKind::Udp4, GsoKind::Udp6];

    /// The kind of packets with this transport protocol, over IPv6 or IPv4. `None`: such packets cannot be segmented.
    pub fn of(protocol: u8, v6: bool) -> Option<GsoKind> {
        match (protocol, v6) {
            (ipproto::TCP, false) => Some(GsoKind::Tcp4),
            (ipproto::TCP, true) => Some(GsoKind::Tcp6),
            (ipproto::UDP, false) => Some(GsoKind::Udp4),
            (ipproto::UDP, true) => Some(GsoKind::Udp6),
            _ => None,
        }
    }

    /// Returns whether the frame is TCP; otherwise it is UDP.
    pub fn is_tcp(self) -> bool {
        matches!(self, GsoKind::Tcp4 | GsoKind::Tcp6)
    }

    /// Returns whether the frame is IPv6; otherwise it is IPv4.
    pub fn is_v6(self) -> bool {
        matches!(self, GsoKind::Tcp6 | GsoKind::Udp6)
    }

    /// Maximum number of segments of one frame.
    pub fn segments_max(self) -> usize {
        if self.is_tcp() { TCP_SEGMENTS_MAX } else { UDP_SEGMENTS_MAX }
    }
}

/// A set of kinds, for example those that a device performs. Default: empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GsoKinds(u8);

impl GsoKinds {
    /// TCP over both IP versions.
    pub const TCP: GsoKinds = GsoKinds(1 << GsoKind::Tcp4 as u8 | 1 << GsoKind::Tcp6 as u8);
    /// UDP over both IP versions.
    pub const UDP: GsoKinds = GsoKinds(1 << GsoKind::Udp4 as u8 | 1 << GsoKind::Udp6 as u8);

    /// Returns whether the set contains this kind.
    pub fn contains(self, kind: GsoKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// Adds the kinds of another set if `condition` holds.
    #[must_use]
    pub fn with_if(self, condition: bool, others: GsoKinds) -> GsoKinds {
        GsoKinds(self.0 | if condition { others.0 } else { 0 })
    }

    /// Removes the kinds of another set.
    #[must_use]
    pub fn without(self, others: GsoKinds) -> GsoKinds {
        GsoKinds(self.0 & !others.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_their_numbers() {
        for (number, kind) in GsoKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            let protocol = if kind.is_tcp() { ipproto::TCP } else { ipproto::UDP };
            assert_eq!(GsoKind::of(protocol, kind.is_v6()), Some(kind));
        }
        assert_eq!(GsoKind::of(ipproto::SCTP, false), None);
    }

    #[test]
    fn sets_contain_what_was_added() {
        let udp = GsoKinds::default().with_if(true, GsoKinds::UDP).with_if(false, GsoKinds::TCP);
        assert_eq!(GsoKind::ALL.map(|kind| udp.contains(kind)), [false, false, true, true]);
        assert_eq!(udp.with_if(true, GsoKinds::TCP).without(GsoKinds::UDP), GsoKinds::TCP);
    }
}
