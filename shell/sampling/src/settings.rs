//! The settings of a bridge's exporters in the database.

use exporter::{ipfix, netflow, sflow};
use std::collections::BTreeMap;

/// sFlow of a bridge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sflow {
    /// Collectors, as text.
    pub targets: Vec<String>,
    /// The agent.
    pub agent: sflow::Settings,
}

/// An exporter of IPFIX.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ipfix {
    /// Collectors, as text.
    pub targets: Vec<String>,
    /// The exporter.
    pub exporter: ipfix::Settings,
    /// Records contain the outer headers of tunnels.
    pub tunnels: bool,
}

/// IPFIX of all packets of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeIpfix {
    /// The exporter.
    pub ipfix: Ipfix,
    /// One of this many packets is sampled.
    pub sampling: u32,
    /// Observation domain.
    pub domain: u32,
    /// Observation point.
    pub point: u32,
}

/// NetFlow of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Netflow {
    /// Collectors, as text.
    pub targets: Vec<String>,
    /// The exporter.
    pub exporter: netflow::Settings,
}

/// All exporters of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BridgeSettings {
    /// sFlow.
    pub sflow: Option<Sflow>,
    /// IPFIX of all packets.
    pub ipfix: Option<BridgeIpfix>,
    /// IPFIX of `sample` actions, by set of collectors.
    pub sets: BTreeMap<u32, Ipfix>,
    /// NetFlow.
    pub netflow: Option<Netflow>,
}

impl BridgeIpfix {
    /// The sampling probability; `u32::MAX` means all packets.
    pub fn probability(&self) -> u32 {
        u32::MAX.checked_div(self.sampling).map_or(0, |share| share.max(1))
    }
}

/// The sampling probabilities of a bridge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SamplingProbabilities {
    /// Sampling probability for sFlow; `u32::MAX`: all packets; 0: none.
    pub sflow: u32,
    /// Sampling probability for IPFIX, in the same unit.
    pub ipfix: u32,
}
