//! Rate limits of ports, from the policing columns of `Interface` and rows of `QoS` and `Queue`.

use crate::row::Row;
use settings::interface::{
    INGRESS_POLICING_BURST, INGRESS_POLICING_KPKTS_BURST, INGRESS_POLICING_KPKTS_RATE, INGRESS_POLICING_RATE,
};
use settings::tables::{QOS_QUEUES, QOS_TYPE, QUEUE_DSCP};
use std::collections::BTreeMap;

/// Policing of an interface's received packets. A rate of 0 means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policing {
    /// Kilobits per second.
    pub kbits: u32,
    /// Burst in kilobits; 0 if there is no rate.
    pub kbits_burst: u32,
    /// Thousands of packets per second.
    pub kpkts: u32,
    /// Burst in thousands of packets; 0 if there is no rate.
    pub kpkts_burst: u32,
}

/// Default burst in kilobits.
const DEFAULT_BURST_KBITS: u32 = 8000;
/// Default burst in thousands of packets.
const DEFAULT_BURST_KPKTS: u32 = 16;

impl Policing {
    /// Reads the columns of a row.
    pub(crate) fn read(row: &Row<'_>) -> Policing {
        let column = |name| row.opt_int(name).map_or(0, |n| u32::try_from(n.max(0)).unwrap_or(u32::MAX));
        let burst = |rate, burst, default| match (rate, burst) {
            (0, _) => 0,
            (_, 0) => default,
            (_, burst) => burst,
        };
        let (kbits, kpkts) =
            (column(INGRESS_POLICING_RATE.column), column(INGRESS_POLICING_KPKTS_RATE.column));
        Policing {
            kbits,
            kbits_burst: burst(kbits, column(INGRESS_POLICING_BURST.column), DEFAULT_BURST_KBITS),
            kpkts,
            kpkts_burst: burst(kpkts, column(INGRESS_POLICING_KPKTS_BURST.column), DEFAULT_BURST_KPKTS),
        }
    }
}

/// A row of `QoS` with its queues.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QosConfig {
    /// QoS type, for example `linux-htb`.
    pub kind: String,
    /// `other_config`
    pub other_config: BTreeMap<String, String>,
    /// Queues by number.
    pub queues: BTreeMap<u32, QueueConfig>,
}

/// A row of `Queue`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueConfig {
    /// The DSCP that is set in packets of the queue.
    pub dscp: Option<u8>,
    /// `other_config`
    pub other_config: BTreeMap<String, String>,
}

impl QosConfig {
    /// Reads the QoS row of a port. `None`: there is no such row, or it has no type.
    pub(crate) fn read(port: &Row<'_>) -> Option<QosConfig> {
        let row = port.references("qos", "QoS").into_iter().next()?;
        let kind = row.str(QOS_TYPE.column);
        let queue = |(number, row): (i64, Row<'_>)| {
            let dscp = row.opt_int(QUEUE_DSCP.column).and_then(|n| u8::try_from(n).ok());
            let queue = QueueConfig { dscp, other_config: row.map("other_config") };
            Some((u32::try_from(number).ok()?, queue))
        };
        let queues = row.int_references(QOS_QUEUES.column, "Queue").into_iter().filter_map(queue);
        let config = || QosConfig {
            kind: kind.to_owned(),
            other_config: row.map("other_config"),
            queues: queues.collect(),
        };
        (!kind.is_empty()).then(config)
    }
}

/// Parses an unsigned number in a map, as Open vSwitch does: 0 if it is absent or invalid.
pub fn unsigned(map: &BTreeMap<String, String>, key: &str) -> u64 {
    map.get(key).and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}
