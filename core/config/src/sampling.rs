//! The configuration of a bridge's exporters, from rows of `sFlow`, `IPFIX`, `NetFlow` and `Flow_Sample_Collector_Set`.

use crate::row::Row;
use settings::sampling::{
    ENABLE_INPUT_SAMPLING, ENABLE_OUTPUT_SAMPLING, ENABLE_TUNNEL_SAMPLING, VIRTUAL_OBS_ID,
};
use std::collections::BTreeMap;

/// Default of column `sampling`: one of this many packets is sampled.
const SAMPLING: i64 = 400;
/// Default interval of templates and statistics of IPFIX, in seconds.
const DEFAULT_INTERVAL_SECS: i64 = 600;
/// Default of NetFlow's active timeout, in seconds.
const ACTIVE_TIMEOUT: i64 = 600;

/// A row of `sFlow`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SflowConfig {
    /// Collectors.
    pub targets: Vec<String>,
    /// The agent: the name of a device, or an address.
    pub agent: Option<String>,
    /// Maximum number of bytes of a packet that a sample contains.
    pub header: u32,
    /// Seconds between two reports of counters; 0: none.
    pub polling: u32,
    /// One of this many packets is sampled.
    pub sampling: u32,
    /// `Controller.local_ip`: the local address of the controllers' connections.
    pub control: Option<String>,
}

/// A row of `IPFIX`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IpfixConfig {
    /// Collectors.
    pub targets: Vec<String>,
    /// One of this many packets is sampled.
    pub sampling: u32,
    /// Observation domain.
    pub domain: u32,
    /// Observation point.
    pub point: u32,
    /// Seconds that a flow stays in the cache.
    pub active_timeout: u32,
    /// Maximum number of flows in the cache.
    pub flows_max: u32,
    /// Seconds between two reports of the exporter's own statistics.
    pub stats_interval: u32,
    /// Seconds between two transmissions of templates.
    pub template_interval: u32,
    /// Whether received packets are sampled.
    pub input: bool,
    /// Whether sent packets are sampled.
    pub output: bool,
    /// Whether the outer headers of tunnel packets are reported.
    pub tunnels: bool,
    /// An id that each record contains.
    pub virtual_id: Option<String>,
}

/// A row of `NetFlow`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetflowConfig {
    /// Collectors.
    pub targets: Vec<String>,
    /// Engine type; `None`: from the name of the datapath.
    pub engine_type: Option<u8>,
    /// Engine id; `None`: from the name of the datapath.
    pub engine_id: Option<u8>,
    /// Seconds after which an active flow is reported; 0: the default. `None`: the row has a negative number.
    pub active_timeout: Option<u32>,
    /// The engine id is added to the numbers of ports.
    pub add_id: bool,
}

impl NetflowConfig {
    /// Seconds after which an active flow is reported: the row's value, else the default.
    pub fn timeout(&self) -> u32 {
        self.active_timeout.filter(|t| *t != 0).unwrap_or(ACTIVE_TIMEOUT as u32)
    }
}

/// A row of `Flow_Sample_Collector_Set`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectorSet {
    /// The IPFIX exporter.
    pub ipfix: Option<IpfixConfig>,
    /// A group of the kernel's packet sampling (not supported).
    pub local_group: Option<u32>,
}

/// The exporters of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamplingConfig {
    /// sFlow.
    pub sflow: Option<SflowConfig>,
    /// IPFIX of all packets.
    pub ipfix: Option<IpfixConfig>,
    /// NetFlow.
    pub netflow: Option<NetflowConfig>,
    /// Sets of collectors for `sample` actions, by number.
    pub sets: BTreeMap<u32, CollectorSet>,
}

fn texts(row: &Row<'_>, column: &str) -> Vec<String> {
    row.strs(column).into_iter().map(str::to_owned).collect()
}

/// Reads a number from a column; 0 if it is negative or does not fit into 32 bits.
fn number(row: &Row<'_>, column: &str, default: i64) -> u32 {
    u32::try_from(row.opt_int(column).unwrap_or(default)).unwrap_or(0)
}

impl SamplingConfig {
    /// Reads the rows to which a `Bridge` row refers, and the rows that refer to it.
    pub(crate) fn read(bridge: &Row<'_>) -> SamplingConfig {
        let first = |column, table| bridge.references(column, table).into_iter().next();
        let of_bridge = |row: &Row<'_>| row.uuids("bridge").first() == Some(&bridge.uuid);
        let sets = bridge.all_of("Flow_Sample_Collector_Set").into_iter().filter(of_bridge);
        SamplingConfig {
            sflow: first("sflow", "sFlow").map(|row| SflowConfig::read(&row, bridge)),
            ipfix: first("ipfix", "IPFIX").map(|row| IpfixConfig::read(&row)),
            netflow: first("netflow", "NetFlow").map(|row| NetflowConfig::read(&row)),
            sets: sets.map(|row| (number(&row, "id", 0), CollectorSet::read(&row))).collect(),
        }
    }

    /// Whether the bridge has no exporters.
    pub fn is_empty(&self) -> bool {
        *self == SamplingConfig::default()
    }

    /// Whether the bridge has an IPFIX exporter, of its own or in a set of collectors.
    pub fn has_ipfix(&self) -> bool {
        self.ipfix.is_some() || self.sets.values().any(|set| set.ipfix.is_some())
    }
}

impl SflowConfig {
    fn read(row: &Row<'_>, bridge: &Row<'_>) -> SflowConfig {
        let controllers = bridge.references("controller", "Controller");
        SflowConfig {
            targets: texts(row, "targets"),
            agent: row.opt_str("agent").map(str::to_owned),
            header: number(row, "header", 128),
            polling: number(row, "polling", 30),
            sampling: number(row, "sampling", SAMPLING),
            control: controllers.iter().find_map(|c| c.opt_str("local_ip")).map(str::to_owned),
        }
    }
}

impl IpfixConfig {
    fn read(row: &Row<'_>) -> IpfixConfig {
        let other_config = row.map("other_config");
        IpfixConfig {
            targets: texts(row, "targets"),
            sampling: number(row, "sampling", SAMPLING),
            domain: number(row, "obs_domain_id", 0),
            point: number(row, "obs_point_id", 0),
            active_timeout: number(row, "cache_active_timeout", 0),
            flows_max: number(row, "cache_max_flows", 0),
            stats_interval: number(row, "stats_interval", DEFAULT_INTERVAL_SECS),
            template_interval: number(row, "template_interval", DEFAULT_INTERVAL_SECS),
            input: ENABLE_INPUT_SAMPLING.flag_of(&other_config),
            output: ENABLE_OUTPUT_SAMPLING.flag_of(&other_config),
            tunnels: ENABLE_TUNNEL_SAMPLING.flag_of(&other_config),
            virtual_id: VIRTUAL_OBS_ID.get(&other_config).map(str::to_owned),
        }
    }
}

impl NetflowConfig {
    fn read(row: &Row<'_>) -> NetflowConfig {
        let byte = |column| row.opt_int(column).and_then(|n| u8::try_from(n).ok());
        NetflowConfig {
            targets: texts(row, "targets"),
            engine_type: byte("engine_type"),
            engine_id: byte("engine_id"),
            active_timeout: u32::try_from(row.opt_int("active_timeout").unwrap_or(0)).ok(),
            add_id: row.bool("add_id_to_interface"),
        }
    }
}

impl CollectorSet {
    fn read(row: &Row<'_>) -> CollectorSet {
        CollectorSet {
            ipfix: row.references("ipfix", "IPFIX").first().map(IpfixConfig::read),
            local_group: row.opt_int("local_group_id").and_then(|group| u32::try_from(group).ok()),
        }
    }
}
