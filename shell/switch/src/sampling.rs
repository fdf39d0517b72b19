//! Exporters of bridges (sFlow, IPFIX, NetFlow): derives their settings and the snapshot's view of them from the database rows, and reads the
//! counters that sFlow reports. **Thread**: the main loop. The exporters themselves are in crate `sampling`.

use crate::switch::Switch;
use config::{BridgeConfig, Desired, IpfixConfig, NetflowConfig, SflowConfig};
use exporter::sflow::{
    CounterRecord, DatapathCounters, EthernetErrors, IfCounters, LacpCounters, Resources, Source, UNKNOWN,
};
use exporter::{PortFacts, TunnelKind, ipfix, netflow, sflow};
use netdev::routes::{RouteEvent, RouteMonitor};
use openflow_service::{Backing, Bridge, BridgePort};
use runtime::{Module, RateLimit};
use sampling::{BridgeIpfix, BridgeSettings, Exporters, Ipfix, Netflow, SamplingProbabilities, Sflow};
use settings::root::EXPLICIT_SAMPLED_DROPS;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use transport::Target;
use units::{Millis, PortNo};
use xlate::BridgeId;

static LOG: Module = Module::new("bridge");
static SFLOW: Module = Module::new("sflow");
static LIMIT: RateLimit = RateLimit::new(1, 5);

/// The largest number of netlink datagrams that are read to find an address; one datagram can hold many addresses.
const DATAGRAMS_MAX: usize = 16;
/// Longest virtual observation id, in bytes: the length of a short variable-length field (RFC 7011, section 7), as in Open vSwitch.
const VIRTUAL_ID_MAX: usize = 254;
/// The speed that is reported for a link whose speed is unknown, in bits per second (100 Mbit/s).
const DEFAULT_SPEED_BPS: u64 = 100_000_000;
const MEGABIT: u64 = 1_000_000;
/// The number of ports that NetFlow can distinguish if the engine id is added to the port number.
const NETFLOW_PORTS: usize = 508;

impl Switch {
    /// Applies the settings of all bridges' exporters. Exporters whose settings are unchanged continue without interruption.
    pub(crate) fn configure_sampling(&mut self, desired: &Desired) {
        let explicit = EXPLICIT_SAMPLED_DROPS.flag_of(&desired.other_config);
        for backer in self.datapaths.with_bridges_mut() {
            if std::mem::replace(&mut backer.snapshot_builder.snapshot.explicit_sampled_drops, explicit)
                != explicit
            {
                backer.mark_all_changed();
            }
        }
        let mut next_agent = 0;
        let known = self.datapaths.exporters.bridges();
        for bridge in self.bridges.values() {
            let has_sampling_rows = !bridge.config.sampling.is_empty();
            if !has_sampling_rows && !known.contains(&bridge.id.0) {
                continue;
            }
            let datapath_name = self.datapaths.of_bridge(bridge).map_or("", |backer| backer.dp_name.as_str());
            let settings = self.settings_of(&bridge.config, datapath_name, &mut next_agent);
            let exporters = &self.datapaths.exporters;
            let before = exporters.sampling_probabilities(bridge.id.0);
            let after = exporters.configure(bridge.id.0, &settings, self.options.seed);
            if before.is_none() {
                pass_ports_to_exporters(bridge, exporters);
            }
            let changed = before.unwrap_or_default() != after;
            if changed && let Some(backer) = self.datapaths.of_mut(&bridge.config.datapath_type) {
                backer.mark_all_changed();
            }
        }
        let ids: Vec<u32> = self.bridges.values().map(|bridge| bridge.id.0).collect();
        let gone = known.into_iter().filter(|bridge| !ids.contains(bridge));
        gone.for_each(|bridge| self.datapaths.exporters.remove(bridge));
    }

    /// The settings of a bridge's exporters. `next_agent`: the number of the next sFlow agent; it is incremented if the bridge has a row of
    /// sFlow, even an inactive one.
    fn settings_of(
        &self,
        config: &BridgeConfig,
        datapath_name: &str,
        next_agent: &mut u32,
    ) -> BridgeSettings {
        let sampling = &config.sampling;
        let sflow = sampling.sflow.as_ref().and_then(|row| {
            let number = std::mem::replace(next_agent, *next_agent + 1);
            if is_active(row) { self.sflow(row, number) } else { None }
        });
        if sampling.sets.values().any(|set| set.local_group.is_some()) {
            runtime::warn_rl!(
                LOG,
                LIMIT,
                "bridge {}: ignoring local sampling configuration: not supported by this datapath",
                config.name
            );
        }
        let sets = sampling.sets.iter().filter_map(|(id, set)| Some((*id, ipfix_of(set.ipfix.as_ref()?))));
        BridgeSettings {
            sflow,
            ipfix: sampling.ipfix.as_ref().map(|row| BridgeIpfix {
                ipfix: ipfix_of(row),
                sampling: row.sampling,
                domain: row.domain,
                point: row.point,
            }),
            sets: sets.collect(),
            netflow: sampling.netflow.as_ref().map(|row| netflow_of(config, row, engine_ids(datapath_name))),
        }
    }

    fn sflow(&self, row: &SflowConfig, number: u32) -> Option<Sflow> {
        let Some(address) = self.agent_address(row) else {
            runtime::err!(SFLOW, "could not determine IP address for sFlow agent");
            return None;
        };
        let SflowConfig { sampling, polling, header, .. } = *row;
        let agent = sflow::Settings { address, number, sampling, polling, header };
        Some(Sflow { targets: row.targets.clone(), agent })
    }

    /// The address of an sFlow agent. Tried in this order: the address of the device that column `agent` names, the address in that column, the
    /// source address of packets to a collector, the local address of the controller's connection.
    fn agent_address(&self, row: &SflowConfig) -> Option<IpAddr> {
        let router = &self.underlay.router;
        let agent = row.agent.as_deref();
        let of_device = |name: &str| {
            let known = router.addresses.of(name).first().map(|prefix| prefix.addr());
            known.or_else(|| kernel_address(name))
        };
        let of_target = |target: &String| match Target::parse(&format!("tcp:{target}"), 1) {
            Ok(Target::Tcp(to)) => router.lookup(0, to.ip(), None).map(|hop| hop.source),
            _ => None,
        };
        agent
            .and_then(of_device)
            .or_else(|| agent?.parse().ok())
            .or_else(|| row.targets.iter().find_map(of_target))
            .or_else(|| row.control.as_ref()?.parse().ok())
    }

    /// Reads the counters whose export interval has passed, and hands them to the exporters. In dummy mode this function also runs the exporters,
    /// which have a thread of their own otherwise.
    pub(crate) fn run_sampling(&mut self) {
        let exporters = Arc::clone(&self.datapaths.exporters);
        if exporters.bridges().is_empty() {
            return;
        }
        if let Some(due) = exporters.tick() {
            for (bridge, source) in due {
                let records = match source {
                    Source::Interface(index) => self.interface_counters(BridgeId(bridge), index),
                    Source::Bridge(_) => self.global_counters(),
                };
                if !records.is_empty() {
                    exporters.add_counters(bridge, source, &records);
                }
            }
            exporters.flush();
        }
        exporters.run();
    }

    /// When to call [`run_sampling`](Self::run_sampling) next.
    pub(crate) fn sampling_deadline(&self) -> Option<Millis> {
        self.datapaths.exporters.deadline()
    }

    fn global_counters(&self) -> Vec<CounterRecord> {
        let mut sum = DatapathCounters::default();
        for backer in self.datapaths.all() {
            let stats =
                backer.datapath.stats(&backer.upcall_translator.command_settings.counts_when_cleared());
            sum.hit += stats.hit;
            sum.missed += stats.missed;
            sum.lost += stats.lost;
            sum.mask_hit += stats.mask_hit;
            sum.flows += stats.n_flows;
            sum.masks += stats.n_masks;
        }
        vec![CounterRecord::Resources(resources()), CounterRecord::Datapath(sum)]
    }

    /// The counters of the port with an interface index.
    fn interface_counters(&mut self, id: BridgeId, index: u32) -> Vec<CounterRecord> {
        let Some(bridge) = self.bridges.values_mut().find(|b| b.id == id) else { return Vec::new() };
        let Some(port) = bridge.ports.values().find(|port| port.has_ifindex(index)) else {
            return Vec::new();
        };
        let (ofport, datapath_id) = (port.ofport, bridge.datapath_id);
        let backer = self.datapaths.of(&bridge.config.datapath_type);
        let lacp = backer.and_then(|backer| backer.upcall_translator.lacp.link_report((id, ofport)));
        let Some(port) = bridge.ports.get_mut_unmarked(&ofport) else { return Vec::new() };
        let facts = port.facts.clone().unwrap_or_default();
        let name = port.name.clone();
        let Backing::Device { netdev, number } = &mut port.backing else { return Vec::new() };
        let datapath = backer.map(|backer| &*backer.datapath);
        let stats = crate::qos::statistics(datapath, *number, &mut **netdev).unwrap_or_default();
        let known = |counter: Option<u64>| counter.unwrap_or(UNKNOWN);
        let custom = |name: &str| stats.custom.iter().find(|(key, _)| key == name).map(|(_, value)| *value);
        let interface = IfCounters {
            index,
            speed: facts
                .modes
                .speed_mbps
                .filter(|s| *s != 0)
                .map_or(DEFAULT_SPEED_BPS, |mbps| u64::from(mbps) * MEGABIT),
            direction: facts.modes.full_duplex.map_or(0, |full| if full { 1 } else { 2 }),
            admin_up: facts.admin_up,
            link_up: facts.link_up,
            octets: [known(stats.rx_bytes), known(stats.tx_bytes)],
            unicast: [known(stats.rx_packets), known(stats.tx_packets)],
            multicast: [known(stats.multicast), known(custom("tx_multicast_packets"))],
            broadcast: [known(custom("rx_broadcast_packets")), known(custom("tx_broadcast_packets"))],
            discards: [known(stats.rx_dropped), known(stats.tx_dropped)],
            errors: [known(stats.rx_errors), known(stats.tx_errors)],
        };
        let ethernet = EthernetErrors {
            alignment: known(stats.rx_frame_errors),
            fcs: known(stats.rx_crc_errors),
            too_long: known(custom("rx_oversize_errors")),
        };
        let lacp = lacp.map(|link| {
            CounterRecord::Lacp(LacpCounters {
                actor_system: link.actor.system.0,
                partner_system: link.partner.system.0,
                aggregation: u32::from(link.actor.key),
                states: [link.actor_admin.0, link.actor.state.0, 0, link.partner.state.0],
                received: link.received,
                illegal: link.bad,
                sent: link.sent,
            })
        });
        let first = [
            CounterRecord::Ethernet(ethernet),
            CounterRecord::OpenFlowPort(datapath_id, u32::from(ofport.0)),
            CounterRecord::Name(name),
        ];
        first.into_iter().chain(lacp).chain([CounterRecord::Interface(interface)]).collect()
    }
}

/// Whether a row of sFlow has a target and a sampling rate.
fn is_active(row: &SflowConfig) -> bool {
    !row.targets.is_empty() && row.sampling != 0
}

fn seconds(n: u32) -> Millis {
    Millis(u64::from(n) * 1000)
}

fn ipfix_of(row: &IpfixConfig) -> Ipfix {
    let exporter = ipfix::Settings {
        active_timeout: seconds(row.active_timeout),
        flows_max: row.flows_max,
        stats_interval: seconds(row.stats_interval),
        template_interval: seconds(row.template_interval),
        virtual_id: row.virtual_id.clone(),
    };
    let too_long = row.virtual_id.as_ref().is_some_and(|id| id.len() > VIRTUAL_ID_MAX);
    if too_long {
        runtime::warn!(
            LOG,
            "IPFIX: virtual_obs_id is longer than {VIRTUAL_ID_MAX} bytes; nothing is exported"
        );
    }
    let targets = if too_long { Vec::new() } else { row.targets.clone() };
    Ipfix { targets, exporter, tunnels: row.tunnels }
}

/// NetFlow's engine type and id of a datapath, the same as in Open vSwitch.
fn engine_ids(datapath: &str) -> (u8, u8) {
    let [.., kind, id] = packet::murmur::of_bytes(datapath.as_bytes(), 0).to_be_bytes();
    (kind, id)
}

/// `default_ids`: engine type and id of a row that has none.
fn netflow_of(config: &BridgeConfig, row: &NetflowConfig, default_ids: (u8, u8)) -> Netflow {
    let name = &config.name;
    let engine_type = row.engine_type.unwrap_or(default_ids.0);
    let engine_id = row.engine_id.unwrap_or(default_ids.1);
    if row.active_timeout.is_none() {
        runtime::warn!(
            LOG,
            "bridge {name}: active timeout interval set to negative value, using default instead ({} seconds)",
            row.timeout()
        );
    }
    if row.add_id && engine_id > 0x7f {
        runtime::warn!(
            LOG,
            "bridge {name}: NetFlow port mangling may conflict with another vswitch, choose an engine id less than 128"
        );
    }
    if row.add_id && config.ports.keys().count() > NETFLOW_PORTS {
        runtime::warn!(
            LOG,
            "bridge {name}: NetFlow port mangling will conflict with another port when more than 508 ports are used"
        );
    }
    let active_timeout = seconds(row.timeout());
    let exporter = netflow::Settings { engine_type, engine_id, active_timeout, add_id: row.add_id };
    Netflow { targets: row.targets.clone(), exporter }
}

/// The first address of a kernel device.
fn kernel_address(device: &str) -> Option<IpAddr> {
    let link = netdev::rtnl::link_by_name(device).ok()?;
    let mut events = Vec::new();
    RouteMonitor::open().ok()?.take(DATAGRAMS_MAX, Millis(0), &mut events);
    events.into_iter().find_map(|event| match event {
        RouteEvent::Address(address, true) if address.ifindex == link.ifindex => Some(address.addr),
        _ => None,
    })
}

/// The CPU time and memory that this process uses.
fn resources() -> Resources {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may contain spaces, so the fields are counted from its end: fields 14 and 15 are the ticks in user and kernel mode
    // (proc_pid_stat(5)).
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    let ms = |at: usize| fields.get(at).and_then(|f| f.parse::<u64>().ok()).unwrap_or(0) * 1000 / ticks;
    let memory = runtime::memory::peak_resident_kb().unwrap_or(0) * 1024;
    Resources { user: ms(11), system: ms(12), memory }
}

/// The sampling settings of a bridge in the form that translations read.
pub(crate) fn view(bridge: &Bridge, exporters: &Exporters) -> Option<Arc<xlate::Sampling>> {
    let config = &bridge.config.sampling;
    if config.is_empty() {
        return None;
    }
    let SamplingProbabilities { sflow, ipfix } =
        exporters.sampling_probabilities(bridge.id.0).unwrap_or_default();
    let of_row = |row: &IpfixConfig| xlate::BridgeIpfix {
        probability: ipfix,
        input: row.input,
        output: row.output,
        tunnels: row.tunnels,
    };
    let sets = config.sets.iter().filter_map(|(id, set)| Some((*id, set.ipfix.as_ref()?.tunnels)));
    Some(Arc::new(xlate::Sampling {
        sflow,
        ipfix: config.ipfix.as_ref().filter(|_| ipfix != 0).map(of_row),
        sets: config.has_ipfix().then(|| sets.collect()),
        netflow: config.netflow.is_some(),
    }))
}

/// Passes the ports of a bridge to its exporters.
pub(crate) fn pass_ports_to_exporters(bridge: &Bridge, exporters: &Exporters) {
    let facts: HashMap<PortNo, PortFacts> =
        bridge.ports.values().filter_map(|port| Some((port.number()?, facts_of(port)))).collect();
    exporters.set_ports(bridge.id.0, facts);
}

fn facts_of(port: &BridgePort) -> PortFacts {
    let facts = port.facts.as_ref();
    let status = |key: &str| facts.and_then(|f| f.status.get(key)).cloned();
    PortFacts {
        name: port.name.clone(),
        ifindex: facts.and_then(|f| f.ifindex).unwrap_or(0),
        if_type: status("if_type").and_then(|n| n.parse().ok()).unwrap_or(0),
        description: status("if_descr").unwrap_or_default(),
        tunnel: port.tunnel().map_or(TunnelKind::Other, |config| TunnelKind::of(&config.kind)),
    }
}
