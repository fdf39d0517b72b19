//! Buckets: traffic is shared by a hash of eight bits, and each hash value is a bucket that belongs to a
//! link.

use flow::Mac;
use packet::murmur::of_long;
use units::OfPort;

/// Number of buckets.
pub const BUCKETS: usize = 256;

/// The link and the load of each bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buckets {
    /// The link of each bucket; `OfPort::NONE` if there is none.
    pub(crate) owners: [OfPort; BUCKETS],
    /// Bytes sent by bucket; each rebalance halves them.
    pub(crate) bytes: [u64; BUCKETS],
}

impl Default for Buckets {
    fn default() -> Buckets {
        Buckets { owners: [OfPort::NONE; BUCKETS], bytes: [0; BUCKETS] }
    }
}

/// The hash of a station and its VLAN, by which balance-slb shares traffic. The other end sees the resulting
/// choice of links, so the hash is that of Open vSwitch: over VLAN and address as one number.
pub fn station_hash(mac: Mac, vlan: u16, basis: u32) -> u32 {
    of_long(u64::from(vlan) << 48 | mac.to_u64(), basis)
}
