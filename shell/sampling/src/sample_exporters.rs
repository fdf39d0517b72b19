//! The exporters of sFlow and IPFIX of all bridges.

use crate::collectors::Collectors;
use crate::queue::SampledPacket;
use crate::settings::{BridgeIpfix, BridgeSettings, Ipfix, SamplingProbabilities, Sflow};
use dpif::UserspaceCookie;
use exporter::ipfix::{Direction, Exporter, IpfixSample, SampledTunnel, Stats};
use exporter::sflow::{Agent, CounterRecord, OuterHeader, Output, Sample, Source};
use exporter::{Now, PortFacts, TunnelKind};
use runtime::{Module, RateLimit};
use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;
use units::{Millis, PortNo};

static SFLOW: Module = Module::new("sflow");
static IPFIX: Module = Module::new("ipfix");
static LIMIT: RateLimit = RateLimit::new(1, 5);

const SFLOW_PORT: u16 = 6343;
const IPFIX_PORT: u16 = 4739;

/// An exporter of IPFIX with its collectors.
struct IpfixExporter {
    settings: Ipfix,
    exporter: Exporter,
    collectors: Collectors,
}

impl IpfixExporter {
    fn send(&mut self) {
        let messages = self.exporter.take();
        if !messages.is_empty() {
            let (sent, errors) = self.collectors.send(&messages);
            self.exporter.add_sent(sent, errors);
        }
    }

    fn finish(mut self, now: Now) {
        self.exporter.finish(now);
        self.send();
    }
}

/// The exporters of a bridge.
#[derive(Default)]
struct BridgeExporters {
    sflow: Option<(Agent, Collectors)>,
    ipfix: Option<(BridgeIpfix, IpfixExporter)>,
    sets: BTreeMap<u32, IpfixExporter>,
    ports: HashMap<PortNo, PortFacts>,
}

/// The sFlow and IPFIX exporters of all bridges.
#[derive(Default)]
pub(crate) struct SampleExporters {
    bridges: HashMap<u32, BridgeExporters>,
    /// Number of the last exporter of IPFIX.
    last_exporter_number: u32,
    /// The bridge whose agent also reports the counters of the datapaths.
    global: Option<u32>,
}

impl SampleExporters {
    /// Applies the settings of a bridge. `seed`: seed of the random start of the polling timers.
    pub(crate) fn configure(
        &mut self,
        bridge: u32,
        settings: &BridgeSettings,
        now: Now,
        seed: u64,
    ) -> SamplingProbabilities {
        let mut bridge_exporters = self.bridges.remove(&bridge).unwrap_or_default();
        bridge_exporters.configure_sflow(settings.sflow.as_ref(), now, seed);
        if bridge_exporters.sflow.is_none() && self.global == Some(bridge) {
            self.global = None;
        }
        let known = bridge_exporters.ipfix.take();
        let wanted = settings.ipfix.as_ref().filter(|ipfix| !ipfix.ipfix.targets.is_empty());
        let exporter =
            self.configured_exporter(known.map(|(_, exporter)| exporter), wanted.map(|i| &i.ipfix), now);
        bridge_exporters.ipfix = wanted.cloned().zip(exporter);
        let mut known = std::mem::take(&mut bridge_exporters.sets);
        for (id, ipfix) in &settings.sets {
            let wanted = Some(ipfix).filter(|ipfix| !ipfix.targets.is_empty());
            let exporter = self.configured_exporter(known.remove(id), wanted, now);
            bridge_exporters.sets.extend(exporter.map(|exporter| (*id, exporter)));
        }
        known.into_values().for_each(|exporter| exporter.finish(now));
        let probabilities = SamplingProbabilities {
            sflow: bridge_exporters.sflow.as_ref().map_or(0, |(agent, _)| agent.settings().probability()),
            ipfix: bridge_exporters.ipfix.as_ref().map_or(0, |(ipfix, _)| ipfix.probability()),
        };
        let is_used = settings.sflow.is_some() || settings.ipfix.is_some() || !settings.sets.is_empty();
        if is_used {
            self.bridges.insert(bridge, bridge_exporters);
        }
        probabilities
    }

    /// Creates an exporter or changes the settings of `known`; `None`: there are no settings, or no socket to
    /// a collector can be opened.
    fn configured_exporter(
        &mut self,
        known: Option<IpfixExporter>,
        wanted: Option<&Ipfix>,
        now: Now,
    ) -> Option<IpfixExporter> {
        let Some(wanted) = wanted else {
            known.into_iter().for_each(|exporter| exporter.finish(now));
            return None;
        };
        let same =
            known.as_ref().is_some_and(|k| k.settings == *wanted && k.collectors.serves(&wanted.targets));
        if same {
            return known;
        }
        let collectors = Collectors::open(&wanted.targets, IPFIX_PORT);
        if collectors.is_empty() {
            runtime::warn_rl!(IPFIX, LIMIT, "no collectors could be initialized, IPFIX exporter disabled");
            known.into_iter().for_each(|exporter| exporter.finish(now));
            return None;
        }
        let exporter = match known {
            Some(known) => {
                let mut exporter = known.exporter;
                exporter.configure(wanted.exporter.clone(), now);
                exporter
            }
            None => {
                self.last_exporter_number = self.last_exporter_number.wrapping_add(1);
                Exporter::new(wanted.exporter.clone(), self.last_exporter_number)
            }
        };
        let mut configured_exporter = IpfixExporter { settings: wanted.clone(), exporter, collectors };
        configured_exporter.send();
        Some(configured_exporter)
    }

    /// Removes a bridge, and sends the records of its caches.
    pub(crate) fn remove(&mut self, bridge: u32, now: Now) {
        self.configure(bridge, &BridgeSettings::default(), now, 0);
    }

    /// All bridges.
    pub(crate) fn bridges(&self) -> Vec<u32> {
        self.bridges.keys().copied().collect()
    }

    /// Sets the ports of a bridge.
    pub(crate) fn set_ports(&mut self, bridge: u32, ports: HashMap<PortNo, PortFacts>) {
        let Some(bridge_exporters) = self.bridges.get_mut(&bridge) else { return };
        bridge_exporters.ports = ports;
        bridge_exporters.update_interfaces();
    }

    /// Passes a sampled packet to its exporter.
    pub(crate) fn sample(&mut self, packet: &SampledPacket, now: Now) {
        let Some(bridge_exporters) = self.bridges.get_mut(&packet.sample_data.bridge) else { return };
        match packet.cookie {
            UserspaceCookie::Sflow { vlan_tci, output } => {
                bridge_exporters.sample_sflow(packet, vlan_tci, Output::of_word(output));
            }
            UserspaceCookie::Ipfix { output_port } => {
                bridge_exporters.sample_bridge(packet, output_port, now)
            }
            UserspaceCookie::FlowSample { .. } => bridge_exporters.sample_flow(packet, now),
            UserspaceCookie::Slow { .. } | UserspaceCookie::Controller { .. } => {}
        }
    }

    /// Runs the timers of IPFIX.
    pub(crate) fn run(&mut self, now: Now) {
        self.ipfix_mut().for_each(|ipfix| ipfix.exporter.run(now));
    }

    /// Sends complete messages and datagrams.
    pub(crate) fn send(&mut self) {
        self.ipfix_mut().for_each(IpfixExporter::send);
        for (agent, collectors) in
            self.bridges.values_mut().filter_map(|bridge_exporters| bridge_exporters.sflow.as_mut())
        {
            collectors.send(&agent.take());
        }
    }

    fn ipfix_mut(&mut self) -> impl Iterator<Item = &mut IpfixExporter> {
        self.bridges.values_mut().flat_map(|bridge_exporters| {
            bridge_exporters.ipfix.iter_mut().map(|(_, i)| i).chain(bridge_exporters.sets.values_mut())
        })
    }

    /// When the next IPFIX timer is due.
    pub(crate) fn deadline(&self) -> Option<Millis> {
        let all = self.bridges.values().flat_map(|bridge_exporters| {
            bridge_exporters.ipfix.iter().map(|(_, i)| i).chain(bridge_exporters.sets.values())
        });
        all.filter_map(|ipfix| ipfix.exporter.deadline()).min()
    }

    /// When the next one-second tick of an sFlow agent is due.
    pub(crate) fn next_tick(&self) -> Option<Millis> {
        self.bridges
            .values()
            .filter_map(|bridge_exporters| bridge_exporters.sflow.as_ref())
            .map(|(agent, _)| agent.next_tick())
            .min()
    }

    /// The sources whose counters must be reported now, by bridge. Only one bridge reports the counters of the datapaths.
    pub(crate) fn tick(&mut self, now: Now) -> Vec<(u32, Source)> {
        let mut due = Vec::new();
        for (bridge, bridge_exporters) in &mut self.bridges {
            let Some((agent, _)) = &mut bridge_exporters.sflow else { continue };
            for source in agent.tick(now) {
                let is_global = matches!(source, Source::Bridge(_));
                if !is_global || *self.global.get_or_insert(*bridge) == *bridge {
                    due.push((*bridge, source));
                }
            }
        }
        due
    }

    /// Adds counters to the datagram of a bridge.
    pub(crate) fn add_counters(&mut self, bridge: u32, source: Source, records: &[CounterRecord]) {
        if let Some((agent, _)) = self.agent(bridge) {
            agent.counters(source, records);
        }
    }

    fn agent(&mut self, bridge: u32) -> Option<&mut (Agent, Collectors)> {
        self.bridges.get_mut(&bridge)?.sflow.as_mut()
    }

    /// Completes the datagrams of all agents.
    pub(crate) fn flush(&mut self) {
        for (agent, _) in
            self.bridges.values_mut().filter_map(|bridge_exporters| bridge_exporters.sflow.as_mut())
        {
            agent.flush();
            let oversized = agent.take_oversized();
            if oversized != 0 {
                runtime::warn_rl!(SFLOW, LIMIT, "sFlow agent error: flow sample too big for datagram");
            }
        }
    }

    /// The statistics of a bridge's IPFIX exporter; `None`: it has none.
    pub(crate) fn bridge_stats(&self, bridge: u32) -> Option<Stats> {
        self.bridges.get(&bridge)?.ipfix.as_ref().map(|(_, ipfix)| ipfix.exporter.stats())
    }

    /// The statistics of a bridge's `sample` actions, by set of collectors.
    pub(crate) fn collector_set_stats(&self, bridge: u32) -> Vec<(u32, Stats)> {
        let sets = self.bridges.get(&bridge).into_iter().flat_map(|bridge_exporters| &bridge_exporters.sets);
        sets.map(|(id, ipfix)| (*id, ipfix.exporter.stats())).collect()
    }
}

impl BridgeExporters {
    fn configure_sflow(&mut self, wanted: Option<&Sflow>, now: Now, seed: u64) {
        let wanted = wanted.filter(|sflow| !sflow.targets.is_empty() && sflow.agent.sampling != 0);
        let Some(wanted) = wanted else {
            self.sflow = None;
            return;
        };
        let same = |(agent, collectors): &(Agent, Collectors)| {
            *agent.settings() == wanted.agent && collectors.serves(&wanted.targets)
        };
        if self.sflow.as_ref().is_some_and(same) {
            return;
        }
        let collectors = Collectors::open(&wanted.targets, SFLOW_PORT);
        if collectors.is_empty() {
            runtime::warn_rl!(SFLOW, LIMIT, "no collectors could be initialized, sFlow disabled");
            self.sflow = None;
            return;
        }
        match &mut self.sflow {
            Some((agent, known)) if *agent.settings() == wanted.agent => *known = collectors,
            _ => {
                runtime::info!(SFLOW, "creating sFlow agent {}", wanted.agent.number);
                self.sflow = Some((Agent::new(wanted.agent.clone(), now, seed), collectors));
                self.update_interfaces();
            }
        }
    }

    fn update_interfaces(&mut self) {
        if let Some((agent, _)) = &mut self.sflow {
            let indexes: Vec<u32> = self.ports.values().map(|p| p.ifindex).filter(|i| *i != 0).collect();
            agent.set_interfaces(&indexes);
        }
    }

    fn sample_sflow(&mut self, packet: &SampledPacket, out_tci: u16, output: Output) {
        let Some((agent, _)) = &mut self.sflow else { return };
        let (flow, egress) = (&packet.flow, &packet.sample_data.egress);
        let input = self.ports.get(&PortNo(flow.in_port));
        let kind = |port: Option<&PortFacts>| port.map_or(TunnelKind::Other, |port| port.tunnel);
        let in_tunnel = (flow.tunnel.ip_dst != 0).then(|| outer(&flow.tunnel, kind(input).protocol()));
        let out_tunnel = egress.tunnel().filter(|tunnel| tunnel.outer.ip_dst != 0).map(|tunnel| {
            let port = egress.port.and_then(|port| self.ports.get(&port));
            let known = tunnel.protocol;
            outer(&tunnel.outer, if known == 0 { kind(port).protocol() } else { known })
        });
        agent.sample(&Sample {
            header: &packet.header,
            length: packet.length,
            input: input.map_or(0, |port| port.ifindex),
            output,
            in_tci: flow.vlans[0].tci,
            out_tci,
            in_tunnel,
            out_tunnel,
            labels: egress.labels(flow).unwrap_or_default(),
        });
    }

    fn sample_bridge(&mut self, packet: &SampledPacket, output_port: PortNo, now: Now) {
        let Some((settings, ipfix)) = &mut self.ipfix else { return };
        let context =
            SampleContext { packet, ports: &self.ports, output_port, tunnels: ipfix.settings.tunnels };
        let packets = u64::from(u32::MAX / settings.probability().max(1));
        let sampled =
            IpfixSample { packets, domain: settings.domain, point: settings.point, ..context.ipfix_sample() };
        if !sampled.is_bfd() {
            ipfix.exporter.sample(&sampled, now);
        }
    }

    fn sample_flow(&mut self, packet: &SampledPacket, now: Now) {
        let UserspaceCookie::FlowSample {
            probability,
            collector_set_id,
            obs_domain_id: domain,
            obs_point_id: point,
            output_port,
            direction,
        } = packet.cookie
        else {
            return;
        };
        let Some(ipfix) = self.sets.get_mut(&collector_set_id) else { return };
        let context =
            SampleContext { packet, ports: &self.ports, output_port, tunnels: ipfix.settings.tunnels };
        let direction = match direction {
            1 => Direction::Ingress,
            2 => Direction::Egress,
            _ => Direction::ByOutput,
        };
        let packets = u64::from(u16::MAX / probability.max(1));
        ipfix
            .exporter
            .sample(&IpfixSample { packets, domain, point, direction, ..context.ipfix_sample() }, now);
    }
}

/// A sampled packet, with the ports of its bridge.
struct SampleContext<'a> {
    packet: &'a SampledPacket,
    ports: &'a HashMap<PortNo, PortFacts>,
    output_port: PortNo,
    tunnels: bool,
}

impl<'a> SampleContext<'a> {
    fn ipfix_sample(&self) -> IpfixSample<'a> {
        let flow = &self.packet.flow;
        let has_output = self.output_port != PortNo::NONE;
        let (input, output) = (self.ports.get(&PortNo(flow.in_port)), self.ports.get(&self.output_port));
        // `flow.tunnel` is the outer header of the received packet, unless there is an output port: for a tunnel port,
        // the actions before the sample have set `flow.tunnel` to the outer header of the sent packet.
        let port = match has_output {
            true => output.filter(|_| self.packet.tunnel_out_port),
            false => input,
        };
        let kind = port.map_or(TunnelKind::Other, |port| port.tunnel);
        let is_reported = self.tunnels && flow.tunnel.ip_dst != 0 && kind != TunnelKind::Other;
        IpfixSample {
            flow,
            length: self.packet.length,
            packets: 1,
            domain: 0,
            point: 0,
            direction: Direction::ByOutput,
            input,
            has_output,
            output,
            tunnel: is_reported.then_some(SampledTunnel { kind, outer: &flow.tunnel }),
            forwarded: self.packet.sample_data.egress.is_sent,
        }
    }
}

fn outer(tunnel: &flow::Tunnel, protocol: u8) -> OuterHeader {
    OuterHeader {
        protocol,
        src: Ipv4Addr::from_bits(tunnel.ip_src),
        dst: Ipv4Addr::from_bits(tunnel.ip_dst),
        src_port: tunnel.tp_src,
        dst_port: tunnel.tp_dst,
        tos: tunnel.ip_tos,
        key: tunnel.tun_id,
    }
}
