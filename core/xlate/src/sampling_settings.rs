//! Which packets a bridge samples, and what a translation records for its samples.

use exporter::netflow::output;
use std::collections::BTreeMap;
use units::PortNo;

/// Bridge-wide IPFIX: samples of all packets of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BridgeIpfix {
    /// Share of the packets that is sampled: `u32::MAX` is all of them.
    pub probability: u32,
    /// Samples packets when they arrive.
    pub input: bool,
    /// Samples packets before they are sent.
    pub output: bool,
    /// Samples contain the outer header of a tunnel.
    pub tunnels: bool,
}

/// The sampling settings of a bridge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sampling {
    /// Share of the packets that sFlow samples: `u32::MAX` is all of them, 0 none.
    pub sflow: u32,
    /// Bridge-wide IPFIX, if it is configured.
    pub ipfix: Option<BridgeIpfix>,
    /// The sets of collectors that `sample` actions can name; for each, whether its samples contain outer headers. `None`: the
    /// bridge has no IPFIX, and `sample` does nothing.
    pub sets: Option<BTreeMap<u32, bool>>,
    /// NetFlow is configured.
    pub netflow: bool,
}

/// The outputs of the walk so far, as samples and NetFlow report them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportedOutputs {
    /// Number of outputs to ports of the datapath.
    pub(crate) ports: u32,
    /// The port of the last output.
    pub(crate) last_port: PortNo,
    /// The output as NetFlow reports it: an OpenFlow port, or one of [`output`].
    pub(crate) netflow_output: u16,
    /// Index of the sFlow action in the list of actions.
    pub(crate) sflow_index: Option<usize>,
    /// The list of actions contains samples.
    pub(crate) has_samples: bool,
}

impl Default for ReportedOutputs {
    fn default() -> ReportedOutputs {
        ReportedOutputs {
            ports: 0,
            last_port: PortNo::NONE,
            netflow_output: output::DROP,
            sflow_index: None,
            has_samples: false,
        }
    }
}
