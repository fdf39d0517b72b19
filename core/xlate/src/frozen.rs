//! Frozen states: the state from which the translation of a recirculated packet, or of a resumed packet-in, continues.
//!
//! A translation that cannot continue before the datapath has done something (popped a label, computed a hash) stores
//! its state under a recirculation id. The packet is recirculated with this id, and its translation continues from the
//! state. The `controller` action uses the same ids to keep the metadata of its packet. Equal states share one id, so
//! that equal packets get equal megaflows.
//!
//! **Invariant**: a state exists as long as there are references to it; [`Recirc::freeze`] and [`Recirc::state_ref`]
//! create one reference each. The megaflow that recirculates a packet has a reference, and the megaflow of the
//! recirculated packet has another: otherwise the second megaflow could not be revalidated after the first is removed.

use crate::BridgeId;
use bridge::BundleId;
use flow::tlv::Layout;
use flow::{Flow, Tlv, Tunnel};
use openflow::action::Action;
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use units::OfPort;

/// Metadata that the datapath does not keep for a packet.
#[derive(Clone, Debug, PartialEq)]
pub struct FrozenMetadata {
    /// Outer header.
    pub tunnel: Tunnel,
    /// Options of the outer header, and the layout of the fields in them.
    pub options: Option<Box<(Tlv, Layout)>>,
    /// OpenFlow metadata.
    pub metadata: u64,
    /// Registers.
    pub regs: [u32; flow::flow::REGS],
    /// The in port, as an OpenFlow port number.
    pub in_port: OfPort,
}

impl FrozenMetadata {
    /// The metadata of a flow.
    pub fn of(flow: &Flow) -> FrozenMetadata {
        FrozenMetadata {
            tunnel: flow.tunnel,
            options: (flow.tlv.present != 0).then(|| Box::new((flow.tlv, flow.layout))),
            metadata: flow.metadata,
            regs: flow.regs,
            in_port: OfPort(flow.in_port as u16),
        }
    }

    /// Writes the metadata to a flow.
    pub fn restore(&self, flow: &mut Flow) {
        flow.tunnel = self.tunnel;
        flow.tlv = Tlv::NONE;
        if let Some(options) = &self.options {
            (flow.tlv, flow.layout) = **options;
        }
        flow.metadata = self.metadata;
        flow.regs = self.regs;
        flow.in_port = u32::from(self.in_port.0);
    }
}

/// A step of the remaining translation.
#[derive(Clone, Debug, PartialEq)]
pub enum FrozenStep {
    /// An action.
    Do(Action),
    /// The following actions belong to a rule of this table with this cookie; packet-ins contain both numbers.
    UnrollXlate {
        /// Table.
        table: u8,
        /// Cookie.
        cookie: u64,
    },
    /// Output to the link of this bond that the packet's hash selects.
    Bond(BundleId),
}

/// The state from which a translation continues.
#[derive(Clone, Debug, PartialEq)]
pub struct Frozen {
    /// The bridge.
    pub bridge: BridgeId,
    /// The table of the next look-up if there are no steps. Packet-ins contain it in any case.
    pub table_id: u8,
    /// Metadata of the packet.
    pub metadata: FrozenMetadata,
    /// The stack of `push` and `pop`.
    pub stack: Vec<Vec<u8>>,
    /// The packet was sent through connection tracking.
    pub conntracked: bool,
    /// The mirrors that have copied the packet since its last change, as a bit set.
    pub mirrored: u32,
    /// Remaining steps.
    pub steps: Vec<FrozenStep>,
    /// The action set.
    pub action_set: Vec<Action>,
    /// The `userdata` of a packet-in.
    pub userdata: Vec<u8>,
}

impl Frozen {
    /// The state for packets that are recirculated to be hashed for a bond. The only remaining step is the output to the
    /// bond. The state is equal for all packets, so a bond needs only one recirculation id.
    pub fn of_bond(bridge: BridgeId, bond: BundleId) -> Frozen {
        Frozen {
            bridge,
            table_id: 0,
            metadata: FrozenMetadata::of(&Flow { in_port: u32::from(OfPort::NONE.0), ..Flow::ZERO }),
            stack: Vec::new(),
            conntracked: false,
            // All mirrors have copied the packet before recirculation.
            mirrored: u32::MAX,
            steps: vec![FrozenStep::Bond(bond)],
            action_set: Vec::new(),
            userdata: Vec::new(),
        }
    }
}

/// The store of frozen states. The switch and the tests implement it with a [`RecircTable`] behind a lock.
pub trait Recirc {
    /// Returns the id of a state, new or shared, with one more reference that the caller must release. `None` if no
    /// id is free.
    fn freeze(&self, state: Frozen) -> Option<u32>;
    /// The state with an id.
    fn state(&self, id: u32) -> Option<Arc<Frozen>>;
    /// The state with an id, with one more reference that the caller must release.
    fn state_ref(&self, id: u32) -> Option<Arc<Frozen>>;
}

/// A state and its number of references.
#[derive(Debug)]
struct Entry {
    frozen: Arc<Frozen>,
    refs: u64,
    /// The value of `RecircTable::expire_calls` when the last reference was released.
    unused_since: u64,
}

/// Number of calls of [`RecircTable::expire`] after which a state without references is removed.
const EXPIRY_CALLS: u64 = 2;

/// States by id, with their numbers of references.
#[derive(Debug, Default)]
pub struct RecircTable {
    states: HashMap<u32, Entry>,
    /// Ids by the hash of their state, to find an equal state. A state without references is not listed, so it is not shared
    /// until it gets a reference again.
    by_hash: HashMap<u64, Vec<u32>>,
    /// The id that was assigned last.
    last: u32,
    /// Number of calls of [`RecircTable::expire`].
    expire_calls: u64,
    /// The value of `expire_calls` when a state lost its last reference, and the state's id; the oldest first.
    unused: VecDeque<(u64, u32)>,
}

/// A hash of some fields of a state. States with equal hashes are compared.
fn hash_of(state: &Frozen) -> u64 {
    let mut h = DefaultHasher::new();
    (state.bridge, state.table_id, &state.stack, state.conntracked, state.mirrored).hash(&mut h);
    (state.metadata.metadata, state.metadata.regs, state.metadata.in_port).hash(&mut h);
    (state.metadata.tunnel.tun_id, state.metadata.tunnel.ip_src, state.metadata.tunnel.ip_dst).hash(&mut h);
    (state.steps.len(), state.action_set.len(), &state.userdata).hash(&mut h);
    h.finish()
}

impl RecircTable {
    /// Returns the id of a state, with one more reference.
    pub fn freeze(&mut self, state: Frozen) -> Option<u32> {
        let hash = hash_of(&state);
        let same = self.by_hash.get(&hash).into_iter().flatten().copied();
        for id in same {
            if let Some(entry) = self.states.get_mut(&id)
                && *entry.frozen == state
            {
                entry.refs += 1;
                return Some(id);
            }
        }
        let id = self.free_id()?;
        self.states.insert(id, Entry { frozen: Arc::new(state), refs: 1, unused_since: 0 });
        self.by_hash.entry(hash).or_default().push(id);
        Some(id)
    }

    fn free_id(&mut self) -> Option<u32> {
        // One of len + 1 different ids is free.
        for _ in 0..=self.states.len() {
            self.last = self.last.checked_add(1).unwrap_or(1);
            if !self.states.contains_key(&self.last) {
                return Some(self.last);
            }
        }
        None
    }

    /// The state of an id.
    pub fn state(&self, id: u32) -> Option<Arc<Frozen>> {
        self.states.get(&id).map(|entry| Arc::clone(&entry.frozen))
    }

    /// The state of an id, with one more reference.
    pub fn state_ref(&mut self, id: u32) -> Option<Arc<Frozen>> {
        let entry = self.states.get_mut(&id)?;
        if entry.refs == 0 {
            self.by_hash.entry(hash_of(&entry.frozen)).or_default().push(id);
        }
        entry.refs += 1;
        Some(Arc::clone(&entry.frozen))
    }

    /// Releases a reference. A state without references is not shared any more, but packets that are being
    /// recirculated still find it until the second [`RecircTable::expire`] from now.
    pub fn release(&mut self, id: u32) {
        let Some(entry) = self.states.get_mut(&id).filter(|entry| entry.refs > 0) else { return };
        entry.refs -= 1;
        if entry.refs > 0 {
            return;
        }
        entry.unused_since = self.expire_calls;
        self.unused.push_back((self.expire_calls, id));
        let hash = hash_of(&entry.frozen);
        if let Some(ids) = self.by_hash.get_mut(&hash) {
            ids.retain(|i| *i != id);
            if ids.is_empty() {
                self.by_hash.remove(&hash);
            }
        }
    }

    /// Called periodically: removes states that have had no references since before the previous call.
    pub fn expire(&mut self) {
        self.expire_calls += 1;
        while let Some((since, id)) =
            self.unused.front().copied().filter(|(s, _)| s + EXPIRY_CALLS <= self.expire_calls)
        {
            self.unused.pop_front();
            // A state that got a reference meanwhile stays. If it has lost this reference, too, a later entry of `unused` removes it.
            if self.states.get(&id).is_some_and(|entry| entry.refs == 0 && entry.unused_since == since) {
                self.states.remove(&id);
            }
        }
    }

    /// Number of states.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Returns whether there are no states.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(metadata: u64) -> Frozen {
        Frozen {
            bridge: BridgeId(1),
            table_id: 0,
            metadata: FrozenMetadata::of(&Flow { metadata, ..Flow::ZERO }),
            stack: Vec::new(),
            conntracked: false,
            mirrored: 0,
            steps: Vec::new(),
            action_set: Vec::new(),
            userdata: Vec::new(),
        }
    }

    #[test]
    fn equal_states_share_an_id_until_the_last_reference_goes() {
        let mut t = RecircTable::default();
        assert_eq!(t.freeze(state(1)), Some(1));
        assert_eq!(t.freeze(state(2)), Some(2));
        assert_eq!(t.freeze(state(1)), Some(1));
        t.release(1);
        assert!(t.state(1).is_some());
        t.release(1);
        assert!(t.state(1).is_some() && t.by_hash.len() == 1, "for packets on their way");
        assert_eq!(t.freeze(state(1)), Some(3));
        t.expire();
        assert!(t.state(1).is_some());
        t.release(1);
        t.expire();
        assert!(t.state(1).is_none() && t.len() == 2 && t.by_hash.len() == 2);
    }

    #[test]
    fn a_packet_that_comes_back_keeps_its_state() {
        let mut t = RecircTable::default();
        assert_eq!(t.freeze(state(1)), Some(1));
        t.release(1);
        assert!(t.state_ref(1).is_some(), "nothing refers to it, but it is there");
        (0..3).for_each(|_| t.expire());
        assert!(t.state(1).is_some());
        assert_eq!(t.freeze(state(1)), Some(1), "equal states share it again");
        t.release(1);
        t.release(1);
        t.expire();
        assert!(t.state_ref(1).is_some());
        t.release(1);
        t.expire();
        assert!(t.state(1).is_some(), "the last reference restarts the time to live");
        t.expire();
        assert!(t.is_empty() && t.by_hash.is_empty() && t.unused.is_empty());
        assert!(t.state_ref(1).is_none());
    }

    #[test]
    fn ids_wrap_around_zero() {
        let mut t = RecircTable { last: u32::MAX, ..RecircTable::default() };
        assert_eq!(t.freeze(state(1)), Some(1));
    }
}
