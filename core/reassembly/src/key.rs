//! Identifies the datagram of a fragment, and the fragment's origin.

use crate::header::Fragment;
use cpu::siphash;
use std::hash::{Hash, Hasher};

/// Identifies the datagram of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    hash: u64,
    pub(crate) zone: u16,
    pub(crate) recirc_id: u32,
    pub(crate) id: u32,
    pub(crate) v6: bool,
    pub(crate) proto: u8,
    pub(crate) src: [u64; 2],
    pub(crate) dst: [u64; 2],
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Key {
    pub(crate) fn of(secret: [u64; 2], f: &Fragment, origin: &Origin) -> Key {
        let &Origin { zone, recirc_id, .. } = origin;
        let &Fragment { v6, proto, id, src, dst, .. } = f;
        let zone_proto_v6 = u64::from(zone) << 16 | u64::from(proto) << 8 | u64::from(v6);
        let ids = u64::from(recirc_id) << 32 | u64::from(id);
        let hash = match v6 {
            true => siphash(secret, &[zone_proto_v6, ids, src[0], src[1], dst[0], dst[1]]),
            false => siphash(secret, &[zone_proto_v6, ids, src[1] << 32 | dst[1]]),
        };
        Key { hash, zone, recirc_id, id, v6, proto, src, dst }
    }
}

/// Properties of a fragment that are not in its IP header: ingress port, zone, recirculation id, offset,
/// memory.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin {
    /// Ingress port. When the table is full, the port with the most fragments loses a datagram.
    pub port: u32,
    /// Zone of the `ct` action.
    pub zone: u16,
    /// Recirculation id. Fragments with different ids belong to different datagrams.
    pub recirc_id: u32,
    /// Offset of the network header in the frame, in bytes.
    pub l3_offset: u32,
    /// Bytes of memory that the fragment uses while it waits.
    pub memory: u32,
}
