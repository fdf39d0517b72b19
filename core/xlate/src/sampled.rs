//! What a bridge samples, and what a translation notes for samples.

use exporter::netflow::output;
use std::collections::BTreeMap;
use units::PortNo;

/// IPFIX of all packets of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeIpfix {
    /// Share of the packets: `u32::MAX` is all of them.
    pub probability: u32,
    /// Samples packets when they arrive.
    pub input: bool,
    /// Samples packets before they are sent.
    pub output: bool,
    /// Reports outer headers.
    pub tunnels: bool,
}

/// What a bridge samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// Share of the packets for sFlow; 0: none.
    pub sflow: u32,
    /// IPFIX of all packets.
    pub ipfix: Option<BridgeIpfix>,
    /// The sets of collectors of `sample` actions, and whether each reports outer headers. `None`: the bridge has no IPFIX at all,
    /// and `sample` does nothing.
    pub sets: Option<BTreeMap<u32, bool>>,
    /// NetFlow is configured.
    pub netflow: bool,
}

/// What has been output so far, as samples and NetFlow report it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reported {
    /// Ports of the datapath.
    pub(crate) ports: u32,
    /// The last one.
    pub(crate) last: PortNo,
    /// The output for NetFlow.
    pub(crate) netflow: u16,
    /// Index of the sFlow action.
    pub(crate) sflow: Option<usize>,
    /// There are actions that sample.
    pub(crate) any: bool,
}

impl Default for Reported {
    fn default() -> Reported {
        Reported { ports: 0, last: PortNo::NONE, netflow: output::DROP, sflow: None, any: false }
    }
}
