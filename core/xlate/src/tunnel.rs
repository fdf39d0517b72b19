//! Tunnel ports in a translation: the port of a received tunnel packet, and the outer header of a packet to be sent.
//!
//! The datapath stores the outer header beside the packet. The outer header of a received packet is in the flow; the outer
//! header of a packet to be sent is set before the output. All tunnels of one kind share a datapath port.

use crate::BridgeId;
use crate::messages::report;
use crate::outcome::{Output, StatsTarget};
use crate::snapshot::{BridgeView, PortView, Snapshot};
use crate::walk::Walk;
use bridge::tunnel::{self, Choice, Inherit, TunnelConfig};
use dpif::{DpAction, SetField, SetTunnel};
use flow::tlv::{FIELD_BYTES_MAX, Layout, OPTIONS_MAX, TlvValue};
use flow::{Flow, Tlv, Tunnel};
use units::{OfPort, PortNo};

/// Bit of [`Tunnel::flags`]: "don't fragment" in the outer IPv4 header.
const DF: u16 = 2;
/// Bit of [`Tunnel::flags`]: the tunnel header has a checksum.
const CSUM: u16 = 4;
/// Bit of [`Tunnel::flags`]: the tunnel header has a key.
const KEY: u16 = 8;
/// The bits of [`Tunnel::flags`] that actions can set; the configuration of the port determines the other bits.
const PUBLIC: u16 = 1;

/// The two ECN bits of a TOS byte (RFC 3168 §5).
const ECN: u8 = 3;
const ECN_CE: u8 = 3;
const ECN_ECT_0: u8 = 2;

impl Snapshot {
    /// The tunnel port of a packet that was received from a tunnel.
    pub(crate) fn tunnel_port(&self, datapath_flow: &Flow) -> Option<(BridgeId, OfPort)> {
        self.tunnels.find(datapath_flow)
    }

    /// Converts the tunnel option fields in the mask of a translation to a mask of the datapath flow's options. The fields that were
    /// sent as received ([`Output::kept_options`]) are matched too, if packets of this datapath port can have options. The mask of a
    /// packet without options is empty unless some field was consulted or sent.
    pub fn options_mask(&self, bridge: BridgeId, datapath_flow: &Flow, output: &Output) -> Tlv {
        let can_have_options = self.tunnels.can_have_options(PortNo(datapath_flow.in_port));
        let kept = if can_have_options { output.kept_options } else { 0 };
        let is_matched = datapath_flow.tlv.present != 0 || output.mask.tlv.present != 0 || kept != 0;
        if !is_matched || !tunnel::is_tunnelled(&datapath_flow.tunnel) {
            return Tlv::NONE;
        }
        let Some(bridge) = self.bridge(bridge) else { return Tlv::NONE };
        let table = bridge.tables.tlv();
        if kept == 0 {
            return table.to_options_mask(&datapath_flow.tlv, &output.mask);
        }
        let mut mask = Flow { layout: *table.layout(), ..output.mask };
        for index in (0..u64::BITS as usize).filter(|index| kept & 1 << index != 0) {
            mask.set_tlv(index, &TlvValue::ones(FIELD_BYTES_MAX));
        }
        table.to_options_mask(&datapath_flow.tlv, &mask)
    }
}

impl BridgeView {
    /// Converts the options of a packet's outer header to the tunnel option fields of this bridge. Options that the bridge
    /// cannot decode stay raw.
    pub fn decode_tunnel_options(&self, flow: &mut Flow) {
        let (raw, table) = (flow.tlv, self.tables.tlv());
        if flow.has_raw_options() {
            if table.to_fields(&raw, flow).is_err() {
                (flow.tlv, flow.layout) = (raw, Layout::EMPTY);
            }
        } else if flow.tlv.present == 0 {
            flow.layout = *table.layout();
        }
    }
}

/// Adds the fields of the outer header that every megaflow of tunnel packets matches.
pub(crate) fn first_mask(flow: &Flow, mask: &mut Flow) {
    if !tunnel::is_tunnelled(&flow.tunnel) {
        return;
    }
    let m = &mut mask.tunnel;
    (m.tun_id, m.flags, m.ip_tos) = (u64::MAX, KEY, u8::MAX);
    if flow.tunnel.ip_dst != 0 {
        (m.ip_src, m.ip_dst) = (u32::MAX, u32::MAX);
    } else {
        (m.ipv6_src, m.ipv6_dst) = ([0xff; 16], [0xff; 16]);
    }
    if flow.is_ip() && flow.tunnel.ip_tos & ECN == ECN_CE {
        mask.nw_tos |= ECN;
    }
}

impl Walk<'_> {
    /// Copies the congestion mark of the outer header to the packet (RFC 6040 §4.2). Returns false if the packet does not
    /// support congestion marks and must be dropped.
    pub(crate) fn receive_congestion(&mut self) -> bool {
        let outer = &self.out.flow.tunnel;
        if !tunnel::is_tunnelled(outer) || !self.out.flow.is_ip() || outer.ip_tos & ECN != ECN_CE {
            return true;
        }
        if self.out.flow.nw_tos & ECN == 0 {
            self.log_error(format_args!("dropping tunnel packet marked ECN CE but is not ECN capable"));
            return false;
        }
        self.out.flow.nw_tos |= ECN_CE;
        true
    }

    /// Outputs to a tunnel. `last`: no action follows. `truncated`: the packet is truncated before it is encapsulated.
    pub(crate) fn output_tunnel(
        &mut self,
        (port, number): (&PortView, PortNo),
        config: &TunnelConfig,
        (last, truncated): (bool, bool),
    ) {
        let inner = Box::new(self.out.flow);
        let kept = self.out.flow.tunnel;
        let options = self.options_for(config);
        self.set_tunnel_fields(config);
        let to = tunnel::destination(&self.out.flow.tunnel);
        if to == tunnel::destination(&self.out.initial.tunnel) {
            // The fields of the tunnel stay in the flow, as in Open vSwitch: a trace shows the final flow as changed.
            report!(self, Warn, "Not tunneling to our own address");
            return;
        }
        self.record_output(port.ofport, number);
        let at = (self.bridge.id, port.ofport);
        self.out.stats_targets.push(StatsTarget::Tunnel { at, out: true });
        if self.snapshot.capabilities.tunnels {
            report!(self, Detail, "output to native tunnel");
            self.push_tunnel((port, number), config, &options, (&inner, last, truncated));
            self.out.flow.tunnel = kept;
            return;
        }
        report!(self, Detail, "output to kernel tunnel");
        self.commit_tunnel(config, options);
        self.out.flow.tunnel = kept;
        self.commit();
        self.sample_output(number, Some(&config.kind));
        self.push_output(number);
    }

    /// Sets the outer header for a sample that contains it. The tunnel fields stay in the flow.
    pub(crate) fn set_tunnel(&mut self, config: &TunnelConfig) {
        let options = self.options_for(config);
        self.set_tunnel_fields(config);
        self.mark_all_words_changed();
        if !self.snapshot.capabilities.tunnels {
            self.commit_tunnel(config, options);
        }
    }

    /// Emits the action that sets the outer header, if the header differs from the one that was set last.
    fn commit_tunnel(&mut self, config: &TunnelConfig, options: Vec<u8>) {
        let outer = self.out.flow.tunnel;
        let changed = outer != self.committed.base.tunnel || options != self.committed.base.tlv.options();
        if tunnel::is_tunnelled(&outer) && changed {
            self.committed.base.tunnel = outer;
            self.committed.base.tlv = Tlv::from_options(&options).unwrap_or(Tlv::NONE);
            let set = SetTunnel { key: fields_of_kind(outer, &config.kind), geneve_options: options };
            self.out.actions.push(DpAction::Set(SetField::Tunnel(Box::new(set))));
        }
    }

    /// The options of the outer header; none if they are too long.
    fn options_for(&mut self, config: &TunnelConfig) -> Vec<u8> {
        if !config.has_options() {
            return Vec::new();
        }
        if tunnel::is_tunnelled(&self.out.initial.tunnel) {
            self.record_kept_options();
        }
        let has_options = self.out.flow.tlv.present != 0;
        let all = if has_options { self.bridge.tables.tlv().to_options(&self.out.flow) } else { Vec::new() };
        if all.len() <= OPTIONS_MAX { all } else { Vec::new() }
    }

    /// Notes the option fields of the received packet that no action has changed. The outer header contains their values, so a
    /// megaflow must match them; for a missing field, it must match that the field is missing.
    fn record_kept_options(&mut self) {
        let (initial, flow) = (&self.out.initial, &self.out.flow);
        let is_kept = |index: &usize| {
            initial.has_tlv(*index) == flow.has_tlv(*index) && *initial.tlv(*index) == *flow.tlv(*index)
        };
        let kept = self.bridge.tables.tlv().iter().map(|(index, _)| index).filter(is_kept);
        self.out.kept_options |= kept.fold(0, |bits, index| bits | 1 << index);
    }

    /// Sets the tunnel fields of the flow that the port's configuration determines.
    fn set_tunnel_fields(&mut self, config: &TunnelConfig) {
        let is_ip = self.out.flow.is_ip();
        let (nw_tos, nw_ttl) = (self.out.flow.nw_tos, self.out.flow.nw_ttl);
        let t = &mut self.out.flow.tunnel;
        if config.local != Choice::Flow {
            (t.ip_src, t.ipv6_src) = split(config.local.value());
        }
        if config.remote != Choice::Flow {
            (t.ip_dst, t.ipv6_dst) = split(config.remote.value());
        }
        (t.tp_src, t.tp_dst) = (0, config.dst_port);
        if config.out_key != Choice::Flow {
            t.tun_id = config.out_key.value();
        }
        t.ip_ttl = match config.ttl {
            Inherit::Inner if is_ip => {
                self.out.mask.nw_ttl = u8::MAX;
                nw_ttl
            }
            Inherit::Inner => tunnel::DEFAULT_TTL,
            Inherit::Fixed(ttl) => ttl,
        };
        t.ip_tos = match config.tos {
            Inherit::Inner if is_ip => {
                self.out.mask.nw_tos |= !ECN;
                nw_tos & !ECN
            }
            Inherit::Inner => 0,
            Inherit::Fixed(tos) => tos,
        };
        if is_ip {
            self.out.mask.nw_tos |= ECN;
            t.ip_tos |= if nw_tos & ECN == ECN_CE { ECN_ECT_0 } else { nw_tos & ECN };
        }
        t.flags &= PUBLIC;
        t.flags |= if config.dont_fragment { DF } else { 0 };
        t.flags |= if config.out_key != Choice::Unset { KEY } else { 0 };
        if config.has_checksum(t.ip_dst != 0) {
            t.flags |= CSUM;
        }
        let e = &config.erspan;
        fix(&mut t.erspan_ver, e.version);
        fix(&mut t.erspan_idx, e.index);
        fix(&mut t.erspan_dir, e.direction);
        fix(&mut t.erspan_hwid, e.hardware);
        if let Some(mark) = config.egress_mark {
            self.out.flow.pkt_mark = mark;
            self.out.mask.pkt_mark = u32::MAX;
        }
    }
}

/// Writes the configured value to a field, unless flows set the field.
fn fix<T: Copy + Default>(field: &mut T, choice: Choice<T>) {
    if !matches!(choice, Choice::Flow) {
        *field = choice.value();
    }
}

/// Splits an address into the two fields of a [`Tunnel`].
fn split(a: tunnel::Address) -> (u32, [u8; 16]) {
    match tunnel::as_ipv4(a) {
        Some(v4) => (v4, [0; 16]),
        None => (0, a),
    }
}

/// The tunnel fields, without those that a header of this kind does not have.
fn fields_of_kind(outer: Tunnel, kind: &str) -> Tunnel {
    let mut t = outer;
    if kind != "vxlan" {
        (t.gbp_id, t.gbp_flags) = (0, 0);
    }
    if !matches!(kind, "erspan" | "ip6erspan") {
        (t.erspan_ver, t.erspan_idx, t.erspan_dir, t.erspan_hwid) = (0, 0, 0, 0);
    }
    (t.gtpu_flags, t.gtpu_msgtype) = (0, 0);
    t
}
