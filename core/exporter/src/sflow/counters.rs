//! Counters of ports and of the datapath.

use super::sample::{Record, pad};
use crate::write::Write;

/// A counter that is not known.
pub const UNKNOWN: u64 = u64::MAX;

/// Kinds of blocks.
mod kind {
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

/// Counters and state of an interface (RFC 2233). Packets and bytes: received, then sent.
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
    /// This end's system.
    pub actor_system: [u8; 6],
    /// The other end's system.
    pub partner_system: [u8; 6],
    /// The aggregation's key.
    pub aggregation: u32,
    /// State: this end as configured, this end, the other end as configured, the other end.
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
    /// Milliseconds of CPU time of its own.
    pub user: u64,
    /// Milliseconds of CPU time in the kernel.
    pub system: u64,
    /// Bytes of memory.
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

/// A block of counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Block {
    /// Of an interface.
    Interface(IfCounters),
    /// Of an Ethernet interface.
    Ethernet(EthernetErrors),
    /// Of a link with LACP.
    Lacp(LacpCounters),
    /// Datapath id of the bridge, number of the port.
    OpenFlowPort(u64, u32),
    /// The port's name.
    Name(String),
    /// Of the process.
    Resources(Resources),
    /// Of the datapaths.
    Datapath(DatapathCounters),
}

/// A counter of 32 bits: it wraps around.
fn short(content: &mut Vec<u8>, value: u64) {
    content.u32(value as u32);
}

impl Block {
    pub(super) fn record(&self) -> Record {
        let mut content = Vec::new();
        let kind = match self {
            Block::Interface(counters) => {
                counters.put(&mut content);
                kind::GENERIC
            }
            Block::Ethernet(errors) => {
                errors.put(&mut content);
                kind::ETHERNET
            }
            Block::Lacp(counters) => {
                counters.put(&mut content);
                kind::LACP
            }
            Block::OpenFlowPort(id, port) => {
                content.u64(*id);
                content.u32(*port);
                kind::OPENFLOW_PORT
            }
            Block::Name(name) => {
                content.u32(name.len() as u32);
                content.bytes(name.as_bytes());
                pad(&mut content);
                kind::PORT_NAME
            }
            Block::Resources(used) => {
                short(&mut content, used.user);
                short(&mut content, used.system);
                content.u64(used.memory);
                // The limit of memory, and descriptors and connections with their limits: 0 is an unknown gauge.
                content.u64(0);
                (0..4).for_each(|_| content.u32(0));
                kind::APP_RESOURCES
            }
            Block::Datapath(c) => {
                let all = [c.hit, c.missed, c.lost, c.mask_hit, c.flows, c.masks];
                all.into_iter().for_each(|counter| short(&mut content, counter));
                kind::DATAPATH
            }
        };
        (kind, content)
    }
}

impl IfCounters {
    fn put(&self, content: &mut Vec<u8>) {
        content.u32(self.index);
        content.u32(ETHERNET_CSMACD);
        content.u64(self.speed);
        content.u32(self.direction);
        content.u32(u32::from(self.admin_up) | u32::from(self.admin_up && self.link_up) << 1);
        for way in 0..2 {
            content.u64(self.octets[way]);
            let counted = [self.unicast, self.multicast, self.broadcast, self.discards, self.errors];
            counted.iter().for_each(|counter| short(content, counter[way]));
            if way == 0 {
                // Packets of unknown protocols.
                short(content, UNKNOWN);
            }
        }
        // Promiscuous mode.
        content.u32(0);
    }
}

impl EthernetErrors {
    fn put(&self, content: &mut Vec<u8>) {
        short(content, self.alignment);
        short(content, self.fcs);
        // Collisions: single, multiple; errors of the signal; deferred and late transmissions; excessive collisions; errors of
        // the transmitter; lost carriers.
        (0..8).for_each(|_| short(content, UNKNOWN));
        short(content, self.too_long);
        // Errors of the receiver, and of symbols.
        (0..2).for_each(|_| short(content, UNKNOWN));
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
        // Marker messages and responses, and unknown messages, are not counted.
        let received = [self.received, UNKNOWN, UNKNOWN, UNKNOWN, self.illegal];
        let sent = [self.sent, UNKNOWN, UNKNOWN];
        received.into_iter().chain(sent).for_each(|counter| short(content, counter));
    }
}
