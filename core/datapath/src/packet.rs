//! A packet outside its batch: a frame and its metadata, as actions and the recirculation queue use them.

use crate::header_offsets::HeaderOffsets;
use crate::port::Frame;
use classifier::megaflow::{EXT_WORDS, TUNNEL_WORDS, Words};
use conntrack::{EarlierLookUp, Tuple};
use cpu::Line;
use flow::flow::PLAIN_WORDS;
use flow::{Flow, Tlv, Tunnel};
use packet::ethertype;

/// The words of a key after its line that contain metadata: QoS queue (10), connection (11 to 19), tunnel header, and tunnel
/// options (numbers as in `classifier::megaflow::convert`).
const METADATA_WORDS: Words = 1 << 10 | 0xf_f800 | TUNNEL_WORDS | 1 << EXT_WORDS;

/// A packet's metadata.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    /// Datapath number of the ingress port.
    pub in_port: u32,
    /// Recirculation id; 0 is the first pass.
    pub recirc_id: u32,
    /// 0 for Ethernet, or `1 << 16 | ethertype` for a layer 3 packet.
    pub packet_type: u32,
    /// Packet mark (`pkt_mark`, in datapath keys `skb_mark`).
    pub pkt_mark: u32,
    /// QoS queue that the packet has selected; 0: none.
    pub skb_priority: u32,
    /// Result of the `hash` action.
    pub dp_hash: u32,
    /// Connection tracking mark.
    pub ct_mark: u32,
    /// Connection tracking zone.
    pub ct_zone: u16,
    /// Connection tracking state.
    pub ct_state: u8,
    /// The packet's connection in `ct_zone`, if that connection has already counted this packet.
    pub ct_earlier: EarlierLookUp,
    /// How many times the packet was recirculated.
    pub passes: u8,
    /// How many VLAN tags are parsed at most; 0: as many as a flow can hold. The type after them is the packet's type.
    pub vlan_limit: u8,
    /// Number of bytes that the next output truncates from the end. Pushing and popping headers before that output
    /// does not change this number.
    pub cut: usize,
    /// Bytes of padding behind the network packet, if [recorded](crate::program::Op::NotePadding).
    pub padding: Option<u16>,
    /// Metadata that few packets have.
    pub rare: Option<Box<Rare>>,
}

/// Metadata that few packets have.
#[derive(Clone, Debug, Default)]
pub struct Rare {
    /// Outer header of the tunnel on which the packet was received or is to be sent.
    pub tunnel: Tunnel,
    /// The options of this outer header, as bytes.
    pub options: Option<Box<Tlv>>,
    /// Connection tracking label.
    pub ct_label: [u64; 2],
    /// The tuple of the connection's first packet.
    pub ct_tuple: Tuple,
}

impl Meta {
    /// Returns a line that contains only this metadata; all other words are 0.
    pub(crate) fn line(&self) -> Line {
        let pair = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let ct = u32::from(self.ct_state) << 24 | u32::from(self.ct_zone);
        [
            pair(self.recirc_id, self.in_port << 16),
            0,
            0,
            0,
            0,
            pair(ct, self.ct_mark),
            pair(self.pkt_mark, self.dp_hash),
            u64::from(self.packet_type & 0xffff),
        ]
    }

    /// Returns the metadata of a packet that this port has received.
    pub fn received(in_port: u32) -> Meta {
        Meta { in_port, ..Meta::default() }
    }

    /// Metadata of a packet that the control half sends with this flow.
    pub fn of_flow(f: &Flow) -> Meta {
        let options = (f.tlv.present != 0).then(|| Box::new(f.tlv));
        let any =
            f.tunnel != Tunnel::default() || f.ct_state != 0 || f.ct_label != [0; 2] || options.is_some();
        let rare = Rare { tunnel: f.tunnel, options, ct_label: f.ct_label, ct_tuple: tuple_of(f) };
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
            ct_earlier: EarlierLookUp::default(),
            passes: 0,
            vlan_limit: 0,
            cut: 0,
            padding: None,
            rare: any.then(|| Box::new(rare)),
        }
    }

    /// Returns whether this metadata may set some of these words of a key: QoS queue, connection, tunnel or tunnel
    /// options.
    pub(crate) fn has_words(&self, words: Words) -> bool {
        words & METADATA_WORDS != 0 && (self.rare.is_some() || self.skb_priority != 0)
    }

    /// Maximum number of VLAN tags to parse.
    #[inline]
    pub fn tags(&self) -> usize {
        if self.vlan_limit == 0 { flow::flow::VLANS_MAX } else { usize::from(self.vlan_limit) }
    }

    /// Makes a flow with this metadata and no packet fields.
    pub fn to_flow(&self) -> Flow {
        let mut f = Flow::ZERO;
        self.fill_flow(&mut f);
        f
    }

    /// As `to_flow`, in the memory of another packet's flow. Tunnel options, a third of a flow, are written only if
    /// one of the two packets has any.
    pub(crate) fn fill_flow(&self, f: &mut Flow) {
        if f.tlv.present != 0 {
            f.tlv = Tlv::NONE;
        }
        f.words_mut()[..PLAIN_WORDS].fill(0);
        (f.in_port, f.recirc_id, f.packet_type) = (self.in_port, self.recirc_id, self.packet_type);
        (f.pkt_mark, f.skb_priority, f.dp_hash) = (self.pkt_mark, self.skb_priority, self.dp_hash);
        (f.ct_mark, f.ct_zone, f.ct_state) = (self.ct_mark, self.ct_zone, self.ct_state);
        if let Some(rare) = &self.rare {
            (f.tunnel, f.ct_label) = (rare.tunnel, rare.ct_label);
            put_tuple(f, &rare.ct_tuple);
            if let Some(options) = &rare.options {
                f.tlv = **options;
            }
        }
    }

    /// Makes the flow of a packet with these bytes and this metadata.
    pub(crate) fn flow_of(&self, bytes: &[u8]) -> Flow {
        let mut f = Flow::ZERO;
        self.read(bytes, &mut f);
        f
    }

    /// As `flow_of`, in the memory of another packet's flow.
    pub(crate) fn read(&self, bytes: &[u8], f: &mut Flow) {
        self.fill_flow(f);
        flow::extract::extract(bytes, self.tags(), f);
    }
}

/// Returns the connection's tuple that is in a flow.
fn tuple_of(f: &Flow) -> Tuple {
    let halves = |a: [u8; 16]| {
        let bits = u128::from_be_bytes(a);
        [(bits >> 64) as u64, bits as u64]
    };
    let v6 = f.dl_type == ethertype::IPV6;
    let (src, dst) = match v6 {
        true => (halves(f.ct_ipv6_src), halves(f.ct_ipv6_dst)),
        false => ([0, f.ct_nw_src.into()], [0, f.ct_nw_dst.into()]),
    };
    Tuple { proto: f.ct_nw_proto, v6, src, dst, tp_src: f.ct_tp_src, tp_dst: f.ct_tp_dst }
}

fn put_tuple(f: &mut Flow, t: &Tuple) {
    if t.proto == 0 {
        return;
    }
    let whole = |[high, low]: [u64; 2]| (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
    match t.v6 {
        true => (f.ct_ipv6_src, f.ct_ipv6_dst) = (whole(t.src), whole(t.dst)),
        false => (f.ct_nw_src, f.ct_nw_dst) = (t.src[1] as u32, t.dst[1] as u32),
    }
    (f.ct_nw_proto, f.ct_tp_src, f.ct_tp_dst) = (t.proto, t.tp_src, t.tp_dst);
}

/// A frame and its metadata.
#[derive(Debug)]
pub struct Packet {
    /// The bytes.
    pub frame: Frame,
    /// Its metadata.
    pub meta: Meta,
    /// Its header offsets, if they have been computed; cleared when a header is pushed or popped.
    pub offsets: Option<HeaderOffsets>,
    /// Its index in the batch, as long as its bytes are those from which the batch's key was read.
    pub(crate) number: Option<u8>,
}

impl Packet {
    /// Makes a packet whose headers are not parsed.
    #[inline(always)]
    pub fn new(frame: Frame, meta: Meta) -> Packet {
        Packet { frame, meta, offsets: None, number: None }
    }

    /// Returns the header offsets.
    #[inline]
    pub fn offsets(&mut self) -> HeaderOffsets {
        *self.offsets.get_or_insert_with(|| HeaderOffsets::of(self.frame.bytes(), self.meta.packet_type))
    }

    /// Returns all fields of the packet.
    pub fn flow(&self) -> Flow {
        self.meta.flow_of(self.frame.bytes())
    }
}
