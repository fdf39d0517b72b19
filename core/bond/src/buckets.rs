//! Buckets: traffic is shared by a hash of eight bits, and each of its values belongs to a link.

use flow::Mac;
use packet::murmur::of_long;
use units::OfPort;

/// How many there are.
pub const BUCKETS: usize = 256;

/// Who carries what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buckets {
    /// The link of each bucket; `OfPort::NONE`: no link.
    pub(crate) owners: [OfPort; BUCKETS],
    /// Bytes sent by bucket; what was sent before a rebalance counts half.
    pub(crate) bytes: [u64; BUCKETS],
}

impl Default for Buckets {
    fn default() -> Buckets {
        Buckets { owners: [OfPort::NONE; BUCKETS], bytes: [0; BUCKETS] }
    }
}

/// The hash by which balance-slb shares: of a station and its VLAN. Which link a station's frames take is seen from outside:
/// the hash is that of Open vSwitch, over VLAN and address as one number.
pub fn station_hash(mac: Mac, vlan: u16, basis: u32) -> u32 {
    of_long(u64::from(vlan) << 48 | mac.to_u64(), basis)
}
