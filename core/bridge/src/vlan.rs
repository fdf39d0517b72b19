//! VLAN handling of a port: the meaning of the tags of a received frame, and the tags of a sent frame.
//!
//! The modes are those of column `Port.vlan_mode` (IEEE 802.1Q §6.9 for access and trunk; 802.1ad for `dot1q-tunnel`).
//! Inside the bridge a frame has [`VlanTags`]. The first VID is its VLAN; 0 means no VLAN.

use flow::flow::{VLAN_CFI, VLANS_MAX};
use flow::{Flow, Vlan};
use std::sync::Arc;

/// A set of VIDs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VlanSet(Arc<[u64; 64]>);

impl VlanSet {
    /// All 4096 VIDs.
    pub fn all() -> VlanSet {
        VlanSet(Arc::new([u64::MAX; 64]))
    }

    /// Whether the set contains the VID.
    pub fn contains(&self, vid: u16) -> bool {
        self.0.get(usize::from(vid >> 6)).is_some_and(|w| w >> (vid & 63) & 1 != 0)
    }

    fn with(&self, vid: u16, present: bool) -> VlanSet {
        let mut words = *self.0;
        if let Some(w) = words.get_mut(usize::from(vid >> 6)) {
            *w = *w & !(1 << (vid & 63)) | u64::from(present) << (vid & 63);
        }
        VlanSet(Arc::new(words))
    }
}

impl FromIterator<u16> for VlanSet {
    fn from_iter<I: IntoIterator<Item = u16>>(vids: I) -> VlanSet {
        let mut words = [0u64; 64];
        for vid in vids {
            if let Some(w) = words.get_mut(usize::from(vid >> 6)) {
                *w |= 1 << (vid & 63);
            }
        }
        VlanSet(Arc::new(words))
    }
}

/// Column `Port.vlan_mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VlanMode {
    /// One VLAN, untagged on the wire.
    Access,
    /// Several VLANs, tagged on the wire.
    #[default]
    Trunk,
    /// A trunk whose native VLAN is sent tagged and may be received untagged.
    NativeTagged,
    /// A trunk whose native VLAN is sent untagged.
    NativeUntagged,
    /// One service VLAN: each frame gets a service tag in front of its customer tag, if the frame has a customer tag.
    Dot1qTunnel,
}

/// `other_config:priority-tags`: whether frames of VLAN 0 are sent with a tag that carries only the priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PriorityTags {
    /// Never.
    #[default]
    Never,
    /// If the priority is not 0.
    IfNonzero,
    /// Always.
    Always,
}

/// The VLAN configuration of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VlanConfig {
    /// The mode.
    pub mode: VlanMode,
    /// The access, native or service VLAN; unused in mode `trunk`.
    pub tag: u16,
    /// VLANs that a trunk carries; `None` for all.
    pub trunks: Option<VlanSet>,
    /// Customer VLANs that a `dot1q-tunnel` port carries; `None` for all.
    pub cvlans: Option<VlanSet>,
    /// EtherType (TPID) of the service tag.
    pub qinq_ethtype: u16,
    /// Priority tags for VLAN 0.
    pub priority_tags: PriorityTags,
}

/// Why a received frame is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The frame has a tag, and the port is an access port of this VLAN.
    TaggedOnAccess(u16),
    /// The trunk does not carry the VLAN.
    NotTrunked,
    /// The `dot1q-tunnel` port does not carry the customer VLAN.
    CvlanExcluded,
}

/// One tag of a frame inside the bridge; all zero means no tag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tag {
    /// 0x8100 or 0x88a8.
    pub tpid: u16,
    /// 0..4095.
    pub vid: u16,
    /// The priority, at its position in the TCI (upper three bits).
    pub pcp: u16,
}

const PCP_MASK: u16 = 0xe000;
const TPID_8021Q: u16 = 0x8100;

/// The tags of a frame, outer tag first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VlanTags(pub [Tag; VLANS_MAX]);

impl VlanTags {
    /// The tags of a flow.
    pub fn of(flow: &Flow) -> VlanTags {
        let mut tags = VlanTags::default();
        for (t, v) in tags.0.iter_mut().zip(&flow.vlans) {
            if !matches!(v.tpid, 0x8100 | 0x88a8) || v.tci & VLAN_CFI == 0 {
                break;
            }
            *t = Tag { tpid: v.tpid, vid: v.tci & 0xfff, pcp: v.tci & PCP_MASK };
        }
        tags
    }

    /// Replaces the tags of a flow by these tags. A tag of VLAN 0 is written if its priority is not 0, or if `priority_tags` is
    /// `Always`. For `Never` the caller does not copy the priority of the received packet into the outer tag.
    pub fn put(&self, flow: &mut Flow, priority_tags: PriorityTags) {
        for (t, v) in self.0.iter().zip(&mut flow.vlans) {
            let tci = t.vid | t.pcp & PCP_MASK;
            if tci != 0 || priority_tags == PriorityTags::Always && t.tpid != 0 {
                let tpid = if t.tpid != 0 { t.tpid } else { TPID_8021Q };
                *v = Vlan { tpid, tci: tci | VLAN_CFI };
            } else {
                v.tci = 0;
            }
        }
    }

    /// The VLAN of the frame.
    pub fn vid(&self) -> u16 {
        self.0[0].vid
    }

    fn popped(mut self) -> VlanTags {
        self.0.rotate_left(1);
        self.0[VLANS_MAX - 1] = Tag::default();
        self
    }

    fn pushed(mut self, tag: Tag) -> VlanTags {
        self.0.rotate_right(1);
        self.0[0] = tag;
        self
    }
}

impl VlanConfig {
    /// A port that carries all VLANs unchanged.
    pub fn trunk() -> VlanConfig {
        VlanConfig::default()
    }

    /// An access port of VLAN `tag`.
    pub fn access(tag: u16) -> VlanConfig {
        VlanConfig { mode: VlanMode::Access, tag, ..VlanConfig::default() }
    }

    /// Normalizes the columns of a row, as the other functions require: a port with a native VLAN always carries that
    /// VLAN, and never VLAN 0; an access port has no trunks.
    #[must_use]
    pub fn normalized(mut self) -> VlanConfig {
        if self.tag > 4095 || self.mode == VlanMode::Trunk {
            self.tag = 0;
        }
        self.trunks = match self.mode {
            VlanMode::Access | VlanMode::Dot1qTunnel => None,
            VlanMode::Trunk => self.trunks,
            VlanMode::NativeTagged | VlanMode::NativeUntagged if self.tag == 0 => self.trunks,
            VlanMode::NativeTagged | VlanMode::NativeUntagged => {
                Some(self.trunks.unwrap_or_else(VlanSet::all).with(self.tag, true).with(0, false))
            }
        };
        if self.mode != VlanMode::Dot1qTunnel {
            self.cvlans = None;
        }
        self
    }

    fn carries(&self, vid: u16) -> bool {
        self.mode != VlanMode::Access && self.trunks.as_ref().is_none_or(|s| s.contains(vid))
    }

    fn carries_cvlan(&self, vid: u16) -> bool {
        self.cvlans.as_ref().is_none_or(|s| s.contains(vid))
    }

    /// Whether a received frame is accepted. `vid`: the VID of the outer tag; 0 if the frame has no tag.
    pub fn admit(&self, vid: u16) -> Result<(), Refusal> {
        match self.mode {
            VlanMode::Access if vid != 0 => Err(Refusal::TaggedOnAccess(self.tag)),
            VlanMode::Access => Ok(()),
            VlanMode::NativeTagged | VlanMode::NativeUntagged if vid == 0 => Ok(()),
            VlanMode::Dot1qTunnel if !self.carries_cvlan(vid) => Err(Refusal::CvlanExcluded),
            VlanMode::Dot1qTunnel => Ok(()),
            _ if !self.carries(vid) => Err(Refusal::NotTrunked),
            _ => Ok(()),
        }
    }

    /// The tags that a frame received with `tags` has inside the bridge.
    #[must_use]
    pub fn input(&self, tags: VlanTags) -> VlanTags {
        let outer = tags.0[0];
        let own = Tag {
            tpid: if outer.tpid != 0 { outer.tpid } else { TPID_8021Q },
            vid: self.tag,
            pcp: outer.pcp,
        };
        match self.mode {
            VlanMode::Access => VlanTags([own, Tag::default()]),
            VlanMode::Trunk => tags,
            VlanMode::NativeTagged | VlanMode::NativeUntagged if outer.vid == 0 => VlanTags([own, tags.0[1]]),
            VlanMode::NativeTagged | VlanMode::NativeUntagged => tags,
            VlanMode::Dot1qTunnel => tags.pushed(Tag { tpid: self.qinq_ethtype, vid: self.tag, pcp: 0 }),
        }
    }

    /// Whether a frame with `tags` inside the bridge may be sent through this port.
    pub fn includes(&self, tags: &VlanTags) -> bool {
        match self.mode {
            VlanMode::Access => tags.vid() == self.tag && tags.0[1].vid == 0,
            VlanMode::Dot1qTunnel => tags.vid() == self.tag && self.carries_cvlan(tags.0[1].vid),
            _ => self.carries(tags.vid()),
        }
    }

    /// The tags that a frame with `tags` inside the bridge has on the wire.
    #[must_use]
    pub fn output(&self, tags: VlanTags) -> VlanTags {
        match self.mode {
            VlanMode::Access => VlanTags::default(),
            VlanMode::NativeUntagged if tags.vid() == self.tag => tags.popped(),
            VlanMode::Dot1qTunnel => tags.popped(),
            VlanMode::Trunk | VlanMode::NativeTagged | VlanMode::NativeUntagged => tags,
        }
    }

    /// Whether the customer tag decides if a frame may be sent. Then a megaflow must match the VID of that tag.
    pub fn reads_cvlan(&self) -> bool {
        self.mode == VlanMode::Dot1qTunnel && self.cvlans.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tagged(vid: u16) -> VlanTags {
        VlanTags([Tag { tpid: 0x8100, vid, pcp: 0 }, Tag::default()])
    }

    fn config(mode: VlanMode, tag: u16, trunks: Option<&[u16]>) -> VlanConfig {
        let trunks = trunks.map(|t| t.iter().copied().collect());
        VlanConfig { mode, tag, trunks, qinq_ethtype: 0x88a8, ..VlanConfig::default() }.normalized()
    }

    #[test]
    fn access_ports_tag_inside_and_strip_outside() {
        let c = config(VlanMode::Access, 10, None);
        assert_eq!(c.admit(10), Err(Refusal::TaggedOnAccess(10)));
        assert_eq!(c.admit(0), Ok(()));
        let inside = c.input(VlanTags::default());
        assert_eq!(inside.vid(), 10);
        assert!(c.includes(&inside) && !c.includes(&tagged(11)));
        assert_eq!(c.output(inside), VlanTags::default());
    }

    #[test]
    fn trunks_carry_what_they_list() {
        let c = config(VlanMode::Trunk, 0, Some(&[5, 6]));
        assert_eq!((c.admit(5), c.admit(7)), (Ok(()), Err(Refusal::NotTrunked)));
        assert_eq!(c.admit(0), Err(Refusal::NotTrunked));
        assert_eq!(c.output(c.input(tagged(6))), tagged(6));
        assert_eq!(config(VlanMode::Trunk, 0, None).admit(0), Ok(()));
    }

    #[test]
    fn native_ports_always_carry_their_own_vlan() {
        let c = config(VlanMode::NativeUntagged, 9, Some(&[0, 5]));
        assert_eq!(c.admit(0), Ok(()));
        assert!(c.includes(&tagged(9)) && c.includes(&tagged(5)) && !c.includes(&tagged(0)));
        assert_eq!(c.input(VlanTags::default()).vid(), 9);
        assert_eq!(c.output(tagged(9)), VlanTags::default());
        assert_eq!(config(VlanMode::NativeTagged, 9, None).output(tagged(9)), tagged(9));
    }

    #[test]
    fn a_tunnel_wraps_the_customer_tag() {
        let c = config(VlanMode::Dot1qTunnel, 100, None);
        let inside = c.input(tagged(7));
        assert_eq!((inside.0[0].vid, inside.0[0].tpid, inside.0[1].vid), (100, 0x88a8, 7));
        assert_eq!(c.output(inside), tagged(7));
    }

    #[test]
    fn priority_tags_of_vlan_0() {
        let tags = VlanTags([Tag { tpid: 0x8100, vid: 0, pcp: 0 }, Tag::default()]);
        let mut f = Flow::ZERO;
        tags.put(&mut f, PriorityTags::IfNonzero);
        assert_eq!(f.vlans[0].tci, 0);
        tags.put(&mut f, PriorityTags::Always);
        assert_eq!(f.vlans[0], Vlan { tpid: 0x8100, tci: VLAN_CFI });
    }

    #[test]
    fn sets_hold_what_was_put() {
        let s: VlanSet = [0, 63, 64, 4095].into_iter().collect();
        let held: Vec<u16> = (0..5000).filter(|&v| s.contains(v)).collect();
        assert_eq!(held, [0, 63, 64, 4095]);
    }
}
