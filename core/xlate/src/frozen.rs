//! Frozen translations: what a recirculated packet, or a packet-in, goes on from.
//!
//! A translation that cannot go on before the datapath has done something (unwrapped a label, computed a hash) puts
//! its state aside under a recirculation id; the packet comes back with the id, and the state is thawed. The
//! `controller` action uses the same ids to keep the metadata of its packet. Equal states share one id, so that the
//! megaflows of equal packets are equal.
//!
//! **Invariant**: a state stays as long as someone holds a reference; [`Recirc::freeze`] and [`Recirc::hold`] make one each.
//! The megaflow that sets a packet aside holds one, and so does the megaflow of the packet that comes back: without it the
//! second one could not be translated again once the first one is gone.

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

/// Metadata that a packet loses on its way through the datapath.
#[derive(Clone, Debug, PartialEq)]
pub struct FrozenMetadata {
    /// Outer header.
    pub tunnel: Tunnel,
    /// Its options, and where their fields lie.
    pub options: Option<Box<(Tlv, Layout)>>,
    /// OpenFlow metadata.
    pub metadata: u64,
    /// Registers.
    pub regs: [u32; flow::flow::REGS],
    /// OpenFlow port.
    pub in_port: OfPort,
}

impl FrozenMetadata {
    /// That of a flow.
    pub fn of(flow: &Flow) -> FrozenMetadata {
        FrozenMetadata {
            tunnel: flow.tunnel,
            options: (flow.tlv.present != 0).then(|| Box::new((flow.tlv, flow.layout))),
            metadata: flow.metadata,
            regs: flow.regs,
            in_port: OfPort(flow.in_port as u16),
        }
    }

    /// Gives it back to a flow.
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

/// One step of what is left to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// An action.
    Do(Action),
    /// The actions that follow belong to a rule of this table and cookie: packet-ins say so.
    Unroll {
        /// Table.
        table: u8,
        /// Cookie.
        cookie: u64,
    },
    /// Send by the link of a bond that owns the bucket of the packet's hash.
    Bond(BundleId),
}

/// All that a translation needs to go on.
#[derive(Clone, Debug, PartialEq)]
pub struct Frozen {
    /// In which bridge.
    pub bridge: BridgeId,
    /// In which table, if there are no actions.
    pub table_id: u8,
    /// Metadata of the packet.
    pub metadata: FrozenMetadata,
    /// What `push` has pushed.
    pub stack: Vec<Vec<u8>>,
    /// The packet went through connection tracking.
    pub conntracked: bool,
    /// The mirrors that have the packet as it is, a bit each.
    pub mirrored: u32,
    /// What is left to do.
    pub steps: Vec<Step>,
    /// The action set.
    pub action_set: Vec<Action>,
    /// For a packet-in.
    pub userdata: Vec<u8>,
}

impl Frozen {
    /// Of a packet that comes back with the hash by which a bond shares: it only has to be sent. The same for all packets.
    pub fn of_bond(bridge: BridgeId, bond: BundleId) -> Frozen {
        Frozen {
            bridge,
            table_id: 0,
            metadata: FrozenMetadata::of(&Flow { in_port: u32::from(OfPort::NONE.0), ..Flow::ZERO }),
            stack: Vec::new(),
            conntracked: false,
            // Mirrors have their copies.
            mirrored: u32::MAX,
            steps: vec![Step::Bond(bond)],
            action_set: Vec::new(),
            userdata: Vec::new(),
        }
    }
}

/// Keeps frozen states. The switch lends its locked table, a test a plain one.
pub trait Recirc {
    /// The id of a state, new or shared; a reference to it is the caller's to give back. `None` if none is free.
    fn freeze(&self, state: Frozen) -> Option<u32>;
    /// The state of an id.
    fn thaw(&self, id: u32) -> Option<Arc<Frozen>>;
    /// The state of an id, with one more reference, which is the caller's to give back.
    fn hold(&self, id: u32) -> Option<Arc<Frozen>>;
}

/// A state and its references.
#[derive(Debug)]
struct Entry {
    frozen: Arc<Frozen>,
    refs: u64,
    /// The round in which the last reference was given back.
    unused_since: u64,
}

/// How many calls of [`RecircTable::expire`] a state outlives its last reference.
const ROUNDS: u64 = 2;

/// States by id, with their references.
#[derive(Debug, Default)]
pub struct RecircTable {
    states: HashMap<u32, Entry>,
    /// The states that equal ones share. One that lost all its references is not among them until it is held again.
    by_hash: HashMap<u64, Vec<u32>>,
    last: u32,
    /// Grows with each [`RecircTable::expire`].
    round: u64,
    /// States that lost their last reference, and in which round, in that order.
    unused: VecDeque<(u64, u32)>,
}

fn hash_of(state: &Frozen) -> u64 {
    let mut h = DefaultHasher::new();
    (state.bridge, state.table_id, &state.stack, state.conntracked, state.mirrored).hash(&mut h);
    (state.metadata.metadata, state.metadata.regs, state.metadata.in_port).hash(&mut h);
    (state.metadata.tunnel.tun_id, state.metadata.tunnel.ip_src, state.metadata.tunnel.ip_dst).hash(&mut h);
    (state.steps.len(), state.action_set.len(), &state.userdata).hash(&mut h);
    h.finish()
}

impl RecircTable {
    /// The id of a state, with one more reference.
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
    pub fn thaw(&self, id: u32) -> Option<Arc<Frozen>> {
        self.states.get(&id).map(|entry| Arc::clone(&entry.frozen))
    }

    /// The state of an id, with one more reference.
    pub fn hold(&mut self, id: u32) -> Option<Arc<Frozen>> {
        let entry = self.states.get_mut(&id)?;
        if entry.refs == 0 {
            self.by_hash.entry(hash_of(&entry.frozen)).or_default().push(id);
        }
        entry.refs += 1;
        Some(Arc::clone(&entry.frozen))
    }

    /// Gives a reference back. A state without any is not given out again, but packets that are on their way still find
    /// it until the second [`RecircTable::expire`] from now.
    pub fn release(&mut self, id: u32) {
        let Some(entry) = self.states.get_mut(&id).filter(|entry| entry.refs > 0) else { return };
        entry.refs -= 1;
        if entry.refs > 0 {
            return;
        }
        entry.unused_since = self.round;
        self.unused.push_back((self.round, id));
        let hash = hash_of(&entry.frozen);
        if let Some(ids) = self.by_hash.get_mut(&hash) {
            ids.retain(|i| *i != id);
            if ids.is_empty() {
                self.by_hash.remove(&hash);
            }
        }
    }

    /// Time has passed: what was unused for a whole such time goes.
    pub fn expire(&mut self) {
        self.round += 1;
        while let Some((since, id)) = self.unused.front().copied().filter(|(s, _)| s + ROUNDS <= self.round) {
            self.unused.pop_front();
            // One that was held meanwhile stays, or has another place in the queue.
            if self.states.get(&id).is_some_and(|entry| entry.refs == 0 && entry.unused_since == since) {
                self.states.remove(&id);
            }
        }
    }

    /// States held.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Nothing is held.
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
        assert!(t.thaw(1).is_some());
        t.release(1);
        assert!(t.thaw(1).is_some() && t.by_hash.len() == 1, "for packets on their way");
        assert_eq!(t.freeze(state(1)), Some(3));
        t.expire();
        assert!(t.thaw(1).is_some());
        t.release(1);
        t.expire();
        assert!(t.thaw(1).is_none() && t.len() == 2 && t.by_hash.len() == 2);
    }

    #[test]
    fn a_packet_that_comes_back_keeps_its_state() {
        let mut t = RecircTable::default();
        assert_eq!(t.freeze(state(1)), Some(1));
        t.release(1);
        assert!(t.hold(1).is_some(), "nothing refers to it, but it is there");
        (0..3).for_each(|_| t.expire());
        assert!(t.thaw(1).is_some());
        assert_eq!(t.freeze(state(1)), Some(1), "equal states share it again");
        t.release(1);
        t.release(1);
        t.expire();
        assert!(t.hold(1).is_some());
        t.release(1);
        t.expire();
        assert!(t.thaw(1).is_some(), "the time begins anew with the last reference");
        t.expire();
        assert!(t.is_empty() && t.by_hash.is_empty() && t.unused.is_empty());
        assert!(t.hold(1).is_none());
    }

    #[test]
    fn ids_wrap_around_zero() {
        let mut t = RecircTable { last: u32::MAX, ..RecircTable::default() };
        assert_eq!(t.freeze(state(1)), Some(1));
    }
}
