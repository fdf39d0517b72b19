//! A packet outside of its batch: frame and metadata, as actions and the recirculation queue hold it.

use crate::layout::Layout;
use crate::port::Frame;
use flow::{Flow, Tunnel};

/// What belongs to a packet beside its bytes.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    /// Datapath number of the ingress port.
    pub in_port: u32,
    /// Which pass through the datapath; 0 is the first.
    pub recirc_id: u32,
    /// 0 for Ethernet, or `1 << 16 | ethertype` for a packet of layer 3.
    pub packet_type: u32,
    /// Mark.
    pub pkt_mark: u32,
    /// QoS queue.
    pub skb_priority: u32,
    /// Result of the `hash` action.
    pub dp_hash: u32,
    /// Connection tracking mark.
    pub ct_mark: u32,
    /// Connection tracking zone.
    pub ct_zone: u16,
    /// Connection tracking state.
    pub ct_state: u8,
    /// How often it was recirculated.
    pub passes: u8,
    /// How many VLAN tags are taken off before the packet's type; 0: as many as a flow has room for.
    pub vlan_limit: u8,
    /// The next output sends at most this many bytes; 0: all.
    pub trunc: u32,
    /// What few packets have.
    pub rare: Option<Box<Rare>>,
}

/// Metadata that few packets have.
#[derive(Clone, Debug, Default)]
pub struct Rare {
    /// Outer header of the tunnel it came by, or shall leave by.
    pub tunnel: Tunnel,
    /// Connection tracking label.
    pub ct_label: [u64; 2],
}

impl Meta {
    /// Of a packet that a port received.
    pub fn received(in_port: u32) -> Meta {
        Meta { in_port, ..Meta::default() }
    }

    /// Of a packet that the control half sends with this flow.
    pub fn of_flow(f: &Flow) -> Meta {
        let rare = Rare { tunnel: f.tunnel, ct_label: f.ct_label };
        let any = f.tunnel != Tunnel::default() || f.ct_label != [0; 2];
        Meta {
            in_port: f.in_port,
            recirc_id: f.recirc_id,
            packet_type: f.packet_type,
            pkt_mark: f.pkt_mark,
            skb_priority: f.skb_priority,
            dp_hash: f.dp_hash,
            ct_mark: f.ct_mark,
            ct_zone: f.ct_zone,
            ct_state: f.ct_state,
            passes: 0,
            vlan_limit: 0,
            trunc: 0,
            rare: any.then(|| Box::new(rare)),
        }
    }

    /// How many VLAN tags are looked at.
    #[inline]
    pub fn tags(&self) -> usize {
        if self.vlan_limit == 0 { flow::flow::VLANS_MAX } else { usize::from(self.vlan_limit) }
    }

    /// A flow with this metadata and no packet fields.
    pub fn to_flow(&self) -> Flow {
        let mut f = Flow {
            in_port: self.in_port,
            recirc_id: self.recirc_id,
            packet_type: self.packet_type,
            pkt_mark: self.pkt_mark,
            skb_priority: self.skb_priority,
            dp_hash: self.dp_hash,
            ct_mark: self.ct_mark,
            ct_zone: self.ct_zone,
            ct_state: self.ct_state,
            ..Flow::ZERO
        };
        if let Some(rare) = &self.rare {
            (f.tunnel, f.ct_label) = (rare.tunnel, rare.ct_label);
        }
        f
    }
}

/// A frame and its metadata.
#[derive(Debug)]
pub struct Packet {
    /// The bytes.
    pub frame: Frame,
    /// The rest.
    pub meta: Meta,
    /// Where its layers start, once somebody asked; forgotten when a header is pushed or popped.
    pub layout: Option<Layout>,
}

impl Packet {
    /// A packet nobody has looked into yet.
    #[inline(always)]
    pub fn new(frame: Frame, meta: Meta) -> Packet {
        Packet { frame, meta, layout: None }
    }

    /// Where its layers start.
    #[inline]
    pub fn layout(&mut self) -> Layout {
        *self.layout.get_or_insert_with(|| Layout::of(self.frame.bytes(), self.meta.packet_type))
    }

    /// All its fields.
    pub fn flow(&self) -> Flow {
        let mut flow = self.meta.to_flow();
        flow::extract::extract(self.frame.bytes(), self.meta.tags(), &mut flow);
        flow
    }
}
