//! Counters of ports and of the datapaths, as records of an sFlow counters sample.

use super::sample::{Record, pad};
use crate::write::WriteBigEndian;

/// The value of an unknown counter.
pub const UNKNOWN: u64 = u64::MAX;

/// Formats of counter records.
mod format {
    pub const GENERIC: u32 = 1;
    pub const ETHERNET: u32 = 2;
    pub const LACP: u32 = 7;
    pub const OPENFLOW_PORT: u32 = 1004;
    pub const PORT_NAME: u32 = 1005;
    pub const APP_RESOURCES: u32 = 2203;
    pub const DATAPATH: u32 = 2207;
}

/// `ifType`: Ethernet.
const ETHERNET_CSMACD: u32 = 6;

/// Counters and state of an interface (RFC 2233). Each array: received, then sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "names of the interface MIB")]
pub struct IfCounters {
    pub index: u32,
    /// Bits per second.
    pub speed: u64,
    /// 0 unknown, 1 full duplex, 2 half duplex.
    pub direction: u32,
    pub admin_up: bool,
    pub link_up: bool,
    pub octets: [u64; 2],
    pub unicast: [u64; 2],
    pub multicast: [u64; 2],
    pub broadcast: [u64; 2],
    pub discards: [u64; 2],
    pub errors: [u64; 2],
}

/// Errors of received Ethernet frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "names of the Ethernet MIB")]
pub struct EthernetErrors {
    pub alignment: u64,
    pub fcs: u64,
    pub too_long: u64,
}

/// State and counters of a link with LACP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LacpCounters {
    /// System ID of this switch (actor).
    pub actor_system: [u8; 6],
    /// System ID of the partner.
    pub partner_system: [u8; 6],
    /// Key of the aggregation.
    pub aggregation: u32,
    /// LACP states: of the actor, administrative and operational; of the partner, administrative and operational.
    pub states: [u8; 4],
    /// Received messages.
    pub received: u64,
    /// Received messages that could not be parsed.
    pub illegal: u64,
    /// Sent messages.
    pub sent: u64,
}

/// Resources that the switch uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// CPU time in user mode, in ms.
    pub user: u64,
    /// CPU time in the kernel, in ms.
    pub system: u64,
    /// Memory in bytes.
    pub memory: u64,
}

/// Counters of the datapaths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "names of dpctl/show")]
pub struct DatapathCounters {
    pub hit: u64,
    pub missed: u64,
    pub lost: u64,
    pub mask_hit: u64,
    pub flows: u64,
    pub masks: u64,
}

/// A counter record of sFlow, before it is encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterRecord {
    /// Counters of an interface.
    Interface(IfCounters),
    /// Counters of an Ethernet interface.
    Ethernet(EthernetErrors),
    /// State and counters of a link with LACP.
    Lacp(LacpCounters),
    /// Datapath id of the bridge, and OpenFlow number of the port.
    OpenFlowPort(u64, u32),
    /// Name of the port.
    Name(String),
    /// Resources of the process.
    Resources(Resources),
    /// Counters of the datapaths.
    Datapath(DatapathCounters),
}

/// Appends a counter as 32 bits, which wraps around.
fn put_u32(content: &mut Vec<u8>, value: u64) {
    content.u32(value as u32);
}

impl CounterRecord {
    /// The format and the encoded content.
    pub(super) fn encode(&self) -> Record {
        let mut content = Vec::new();
        let format = match self {
            CounterRecord::Interface(counters) => {
                counters.put(&mut content);
                format::GENERIC
            }
            CounterRecord::Ethernet(errors) => {
                errors.put(&mut content);
                format::ETHERNET
            }
            CounterRecord::Lacp(counters) => {
                counters.put(&mut content);
                format::LACP
            }
            CounterRecord::OpenFlowPort(id, port) => {
                content.u64(*id);
                content.u32(*port);
                format::OPENFLOW_PORT
            }
            CounterRecord::Name(name) => {
                content.u32(name.len() as u32);
                content.bytes(name.as_bytes());
                pad(&mut content);
                format::PORT_NAME
            }
            CounterRecord::Resources(used) => {
                put_u32(&mut content, used.user);
                put_u32(&mut content, used.system);
                content.u64(used.memory);
                // Limit of memory; descriptors and connections and their limits. 0 means unknown.
                content.u64(0);
                (0..4).for_each(|_| content.u32(0));
                format::APP_RESOURCES
            }
            CounterRecord::Datapath(c) => {
                let all = [c.hit, c.missed, c.lost, c.mask_hit, c.flows, c.masks];
                all.into_iter().for_each(|counter| put_u32(&mut content, counter));
                format::DATAPATH
            }
        };
        (format, content)
    }
}

impl IfCounters {
    fn put(&self, content: &mut Vec<u8>) {
        content.u32(self.index);
        content.u32(ETHERNET_CSMACD);
        content.u64(self.speed);
        content.u32(self.direction);
        content.u32(u32::from(self.admin_up) | u32::from(self.admin_up && self.link_up) << 1);
        for received_or_sent in 0..2 {
            content.u64(self.octets[received_or_sent]);
            let counted = [self.unicast, self.multicast, self.broadcast, self.discards, self.errors];
            counted.iter().for_each(|counter| put_u32(content, counter[received_or_sent]));
            if received_or_sent == 0 {
                // Packets of unknown protocols.
                put_u32(content, UNKNOWN);
            }
        }
        // Promiscuous mode.
        content.u32(0);
    }
}

impl EthernetErrors {
    fn put(&self, content: &mut Vec<u8>) {
        put_u32(content, self.alignment);
        put_u32(content, self.fcs);
        // Single and multiple collisions, signal quality errors, deferred transmissions, late and excessive collisions, internal
        // transmit errors, carrier sense errors.
        (0..8).for_each(|_| put_u32(content, UNKNOWN));
        put_u32(content, self.too_long);
        // Internal receive errors, and symbol errors.
        (0..2).for_each(|_| put_u32(content, UNKNOWN));
    }
}

impl LacpCounters {
    fn put(&self, content: &mut Vec<u8>) {
        for system in [&self.actor_system, &self.partner_system] {
            content.bytes(system);
            pad(content);
        }
        content.u32(self.aggregation);
        content.bytes(&self.states);
        // Received marker messages are counted (`lacp/show-stats`), but not exported. Marker responses and unknown messages are
        // not counted.
        let received = [self.received, UNKNOWN, UNKNOWN, UNKNOWN, self.illegal];
        let sent = [self.sent, UNKNOWN, UNKNOWN];
        received.into_iter().chain(sent).for_each(|counter| put_u32(content, counter));
    }
}
