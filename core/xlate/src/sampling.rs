//! Sampling: actions that pass some packets to the exporters of sFlow and IPFIX, and the statistics target of NetFlow.
//!
//! A bridge with sFlow or IPFIX samples packets when they arrive, before the tables, and with IPFIX also before each output. A
//! `sample` action samples the packet at its position in the list of actions. A sample also reports where the packet is sent;
//! that is known only at the end of the translation, so [`Walk::finish_sampling`] adds it to the samples.

use crate::outcome::StatsTarget;
use crate::sampling_settings::{ReportedOutputs, Sampling};
use crate::snapshot::BridgeView;
use crate::walk::Walk;
use dpif::{DpAction, Egress, Userspace, UserspaceCookie};
use exporter::netflow::{self, output};
use exporter::sflow;
use flow::Flow;
use openflow::action::{NumberOrField, Sample, SampleDirection};
use std::sync::Arc;
use units::{OfPort, PortNo};

/// Whether samples contain the outer header of a tunnel of this kind.
fn reports_tunnel_kind(kind: &str) -> bool {
    exporter::TunnelKind::of(kind) != exporter::TunnelKind::Other
}

/// Adds the fields that NetFlow reports to the mask.
pub(crate) fn netflow_mask(bridge: &BridgeView, flow: &Flow, mask: &mut Flow) {
    if flow.dl_type == 0x0800 && bridge.sampling.as_ref().is_some_and(|s| s.netflow) {
        (mask.nw_proto, mask.nw_src, mask.nw_dst) = (u8::MAX, u32::MAX, u32::MAX);
        (mask.tp_src, mask.tp_dst) = (u16::MAX, u16::MAX);
        mask.nw_tos |= 0xfc;
    }
}

impl<'a> Walk<'a> {
    fn sampling(&self) -> Option<&'a Sampling> {
        self.bridge.sampling.as_deref()
    }

    /// Samples a packet that arrives. A recirculated packet has been sampled on arrival, so it is not sampled again.
    pub(crate) fn sample_arrival(&mut self) {
        let Some(sampling) = self.sampling() else { return };
        if self.out.flow.in_port as u16 == OfPort::NONE.0 || self.out.initial.recirc_id != 0 {
            return;
        }
        if sampling.sflow != 0 {
            let cookie = UserspaceCookie::Sflow { vlan_tci: 0, output: 0 };
            let userspace = Userspace { include_actions: true, ..self.userspace(cookie) };
            self.out.reported.sflow_index = Some(self.out.actions.len());
            self.push_sample(sampling.sflow, userspace);
        }
        if let Some(ipfix) = sampling.ipfix.filter(|ipfix| ipfix.input) {
            let userspace = self.userspace(UserspaceCookie::Ipfix { output_port: PortNo::NONE });
            self.push_sample(ipfix.probability, userspace);
        }
    }

    /// Samples a packet that is about to be sent. `tunnel`: the kind of the port, if it is a tunnel.
    pub(crate) fn sample_output(&mut self, port: PortNo, tunnel: Option<&str>) {
        let ipfix = self.sampling().and_then(|s| s.ipfix).filter(|ipfix| ipfix.output);
        let Some(ipfix) = ipfix else { return };
        let tunnel_out_port = (ipfix.tunnels && tunnel.is_some_and(reports_tunnel_kind)).then_some(port);
        let cookie = UserspaceCookie::Ipfix { output_port: port };
        let userspace = Userspace { tunnel_out_port, ..self.userspace(cookie) };
        self.push_sample(ipfix.probability, userspace);
    }

    fn userspace(&self, cookie: UserspaceCookie) -> Userspace {
        Userspace::sample(cookie, self.bridge.id.0)
    }

    /// Emits an action that passes a share of the packets to an exporter, through the meter of the slow path if there is one.
    fn push_sample(&mut self, probability: u32, userspace: Userspace) {
        if probability == 0 {
            return;
        }
        self.out.reported.has_samples = true;
        let send = DpAction::Userspace(Box::new(userspace));
        self.out.actions.push(match self.out.slow_meter {
            None if probability == u32::MAX => send,
            meter => {
                let actions = meter.map(DpAction::Meter).into_iter().chain([send]).collect();
                DpAction::Sample(Box::new(dpif::Sample { probability, actions }))
            }
        });
    }

    /// `sample(..)`
    pub(crate) fn sample(&mut self, sample: &Sample) {
        let Some(sets) = self.sampling().and_then(|s| s.sets.as_ref()) else { return };
        let is_input = sample.sampling_port == OfPort::NONE
            || u32::from(sample.sampling_port.0) == self.out.flow.in_port;
        let (mut output_port, mut tunnel_out_port) = (PortNo::NONE, None);
        if !is_input {
            let port = self.bridge.port(sample.sampling_port);
            let Some(number) = self.bridge.datapath_port(sample.sampling_port) else {
                let number = sample.sampling_port.0;
                self.error(format_args!("can't use unknown port {number} in flow sample action"));
                return;
            };
            output_port = number;
            let tunnel =
                port.and_then(|port| port.tunnel.as_deref()).filter(|t| reports_tunnel_kind(&t.kind));
            let reports_tunnels = sets.get(&sample.collector_set_id).copied().unwrap_or(false);
            self.commit();
            if let Some(config) = tunnel.filter(|_| reports_tunnels) {
                tunnel_out_port = Some(number);
                self.set_tunnel(config);
            }
        } else {
            self.commit();
        }
        let cookie = UserspaceCookie::FlowSample {
            probability: sample.probability,
            collector_set_id: sample.collector_set_id,
            obs_domain_id: self.observation(sample.obs_domain),
            obs_point_id: self.observation(sample.obs_point),
            output_port,
            direction: match sample.direction {
                SampleDirection::Default => 0,
                SampleDirection::Ingress => 1,
                SampleDirection::Egress => 2,
            },
        };
        let userspace = Userspace { tunnel_out_port, ..self.userspace(cookie) };
        let probability = u32::from(sample.probability);
        self.push_sample(probability << 16 | probability, userspace);
    }

    fn observation(&mut self, id: NumberOrField) -> u32 {
        match id {
            NumberOrField::Number(number) => number,
            NumberOrField::Field(field) => {
                crate::fields::unwildcard_subfield(field, &mut self.out.mask);
                field.get(&self.out.flow) as u32
            }
        }
    }

    /// Records an output to a port of the datapath.
    pub(crate) fn record_output(&mut self, ofport: OfPort, port: PortNo) {
        let reported = &mut self.out.reported;
        (reported.ports, reported.last_port, reported.netflow_output) = (reported.ports + 1, port, ofport.0);
    }

    /// Records that the packet was flooded.
    pub(crate) fn record_flood(&mut self) {
        self.out.reported.netflow_output = output::FLOOD;
    }

    /// Runs one action that may output, and merges its output with the earlier ones into what NetFlow reports: flooding wins;
    /// outputs of two actions are reported as "multiple".
    pub(crate) fn merging_netflow_output(&mut self, run: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.out.reported.netflow_output, output::DROP);
        run(self);
        let after = self.out.reported.netflow_output;
        self.out.reported.netflow_output = match (before, after) {
            (output::FLOOD, _) => output::FLOOD,
            (before, output::DROP) => before,
            (output::DROP, after) | (_, after @ output::FLOOD) => after,
            _ => output::MULTI,
        };
    }

    /// Runs `run`, which outputs the encapsulated packet: its outputs are not reported by samples of the inner packet.
    pub(crate) fn without_sample_reports(&mut self, run: impl FnOnce(&mut Self)) {
        let ReportedOutputs { ports, last_port, netflow_output, .. } = self.out.reported;
        run(self);
        self.out.reported = ReportedOutputs { ports, last_port, netflow_output, ..self.out.reported };
    }

    /// Adds to the samples where the packet is sent, and adds the statistics target of NetFlow.
    pub(crate) fn finish_sampling(&mut self) {
        if self.out.initial.recirc_id == 0 && self.sampling().is_some_and(|s| s.netflow) {
            self.credit_netflow();
        }
        let reported = self.out.reported;
        if !reported.has_samples {
            return;
        }
        if let Some(at) = reported.sflow_index {
            let word = self.sflow_output().word();
            // The tag of the packet after the emitted actions: `flow` may have tags that no action has pushed.
            let tci = self.committed.base.vlans[0].tci;
            if let Some(action) = self.out.actions.get_mut(at) {
                complete_sflow(action, tci, word);
            }
        }
        let egress = Egress::of(&self.out.actions);
        report_egress(&mut self.out.actions, &egress);
    }

    /// Where the packet is sent, as sFlow reports it.
    fn sflow_output(&self) -> sflow::Output {
        let ReportedOutputs { ports, last_port, .. } = self.out.reported;
        let own = self.snapshot.ingress.get(&last_port).filter(|(bridge, _)| *bridge == self.bridge.id);
        let ifindex = own.and_then(|(_, port)| self.bridge.port(*port)).map_or(0, |port| port.ifindex);
        match ports {
            0 => sflow::Output::Dropped,
            1 if ifindex != 0 => sflow::Output::Interface(ifindex),
            ports => sflow::Output::Ports(ports),
        }
    }

    fn credit_netflow(&mut self) {
        let flow = &self.out.flow;
        if flow.dl_type != 0x0800 {
            return;
        }
        let key = netflow::Key {
            in_port: flow.in_port as u16,
            nw_src: flow.nw_src,
            nw_dst: flow.nw_dst,
            nw_tos: flow.nw_tos,
            nw_proto: flow.nw_proto,
            tp_src: flow.tp_src,
            tp_dst: flow.tp_dst,
        };
        let output = self.out.reported.netflow_output;
        self.out.stats_targets.push(StatsTarget::NetFlow { bridge: self.bridge.id, key, output });
    }

    /// Whether the last action only samples the packet, so that the packet is dropped after it.
    pub(crate) fn ends_with_sample(&self) -> bool {
        self.out.reported.has_samples && self.out.actions.last().is_some_and(is_sample)
    }
}

/// Whether an action is a sample, as `push_sample` emits it.
fn is_sample(action: &DpAction) -> bool {
    match action {
        DpAction::Userspace(userspace) => userspace.sample_data.is_some(),
        DpAction::Sample(sample) => sample.actions.last().is_some_and(is_sample),
        _ => false,
    }
}

fn complete_sflow(action: &mut DpAction, tci: u16, word: u32) {
    match action {
        DpAction::Userspace(userspace) => {
            userspace.cookie = UserspaceCookie::Sflow { vlan_tci: tci, output: word };
        }
        DpAction::Sample(sample) => sample.actions.iter_mut().for_each(|a| complete_sflow(a, tci, word)),
        _ => {}
    }
}

/// Adds to each sample what the actions do with the packet.
fn report_egress(actions: &mut [DpAction], egress: &Egress) {
    for action in actions {
        match action {
            DpAction::Userspace(userspace) => {
                if let Some(sample_data) = &mut userspace.sample_data {
                    Arc::make_mut(sample_data).egress = egress.clone();
                }
            }
            DpAction::Sample(sample) => report_egress(&mut sample.actions, egress),
            DpAction::Clone(list) => report_egress(list, egress),
            DpAction::CheckPktLen(check) => {
                report_egress(&mut check.greater, egress);
                report_egress(&mut check.less_equal, egress);
            }
            _ => {}
        }
    }
}
