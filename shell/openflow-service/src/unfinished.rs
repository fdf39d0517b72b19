//! Work of a bridge that takes several iterations of the main loop: a bundle's commit, dumps of flows, barriers, removals of tracked connections.

use ofconn::ConnId;
use ofproto::{Bundle, Rule, Tables};
use openflow::flow_mod::FlowCommand;
use openflow::packet_io::PacketOut;
use openflow::port::PortMod;
use openflow::{Message, OfError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use translation::SideEffect;
use units::{Millis, OfPort};

/// Work in progress.
#[derive(Default)]
pub struct Unfinished {
    /// The commit of a bundle.
    pub commit: Option<Commit>,
    /// Side effects of packets that wait for the end of the commit.
    pub deferred: Vec<SideEffect>,
    /// Dumps of flows and of statistics of ports.
    pub dumps: BTreeMap<ConnId, Dump>,
    /// Barriers that wait for the datapath.
    pub barriers: BTreeMap<ConnId, Barrier>,
    /// Numbers of the removals of tracked connections that connections have requested.
    pub flushes: BTreeMap<ConnId, u64>,
}

impl Unfinished {
    /// Whether there is any.
    pub fn any(&self) -> bool {
        let Unfinished { commit, dumps, barriers, flushes, .. } = self;
        commit.is_some() || !dumps.is_empty() || !barriers.is_empty() || !flushes.is_empty()
    }
}

/// Actions after the tables were replaced, in order.
pub(crate) enum Later {
    /// Count a flow mod of this kind.
    Count(FlowCommand),
    /// Change a port.
    Port(Box<PortMod>),
    /// Send a packet, on these tables.
    Packet(Box<PacketOut>, Arc<Tables>),
}

/// Result of a trial: an error comes with the request that caused it.
pub(crate) type Tried = Result<(Bundle, Vec<Later>), (OfError, Vec<u8>)>;

/// A commit in progress.
#[derive(Debug)]
pub struct Commit {
    pub(crate) conn: ConnId,
    pub(crate) message: Message,
    pub(crate) request: Request,
    pub(crate) tried: Receiver<Tried>,
}

/// The requests that errors refer to.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) bundle: u32,
    pub(crate) committed: Vec<u8>,
    pub(crate) opened: Vec<u8>,
}

/// A dump of flows or of the statistics of ports on its way.
#[derive(Debug)]
pub struct Dump {
    pub(crate) request: Message,
    pub(crate) raw: Vec<u8>,
    pub(crate) rest: RestOfDump,
}

/// The part of a dump that is not sent yet.
#[derive(Debug)]
pub(crate) enum RestOfDump {
    /// Flows that are being selected.
    Awaited(Receiver<Result<Vec<Arc<Rule>>, OfError>>),
    /// Flows whose parts are made on the thread of the sockets.
    Flows,
    /// Ports whose statistics are asked for, the last first.
    Ports(Vec<OfPort>),
}

impl Dump {
    /// Whether it continues on the main thread when its connection takes more.
    pub fn is_ready(&self) -> bool {
        matches!(self.rest, RestOfDump::Ports(_))
    }
}

/// Longest delay of a barrier's reply.
const LIMIT: Millis = Millis(1000);

/// A barrier without reply yet.
#[derive(Debug)]
pub struct Barrier {
    pub(crate) request: Message,
    /// The version in which all earlier changes are published.
    pub(crate) version: u64,
    pub(crate) since: Millis,
}

impl Barrier {
    /// When the reply is sent at the latest.
    pub fn deadline(&self) -> Millis {
        self.since + LIMIT
    }
}
