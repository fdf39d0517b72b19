//! Buckets: traffic is distributed by a hash of eight bits. Each hash value is a bucket, which belongs to a link.

use flow::Mac;
use packet::murmur::of_long;
use units::OfPort;

/// Number of buckets.
pub const BUCKETS: usize = 256;

/// The links and the loads of all buckets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Buckets {
    /// The link of each bucket; `OfPort::NONE` if there is none.
    pub(crate) owners: [OfPort; BUCKETS],
    /// Bytes that were sent by each bucket; each rebalance halves them.
    pub(crate) bytes: [u64; BUCKETS],
}

impl Default for Buckets {
    fn default() -> Buckets {
        Buckets { owners: [OfPort::NONE; BUCKETS], bytes: [0; BUCKETS] }
    }
}

/// The hash of a station's address and VLAN, by which balance-slb distributes traffic. The other end can observe the
/// choice of links, so the hash is that of Open vSwitch: over VLAN and address as one number.
pub fn station_hash(mac: Mac, vlan: u16, basis: u32) -> u32 {
    of_long(u64::from(vlan) << 48 | mac.to_u64(), basis)
}
