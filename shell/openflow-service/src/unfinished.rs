//! Work of a bridge that takes several turns of the main loop: the commit of a bundle, dumps, barriers, removals of tracked connections.

use crate::bundle_totals::BundleTotals;
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
    /// The commit of a bundle whose trial runs on another thread.
    pub commit: Option<Commit>,
    /// Side effects of packets that are carried out when the commit ends, because the tables must not change before.
    pub deferred: Vec<SideEffect>,
    /// Long replies, by connection.
    pub dumps: BTreeMap<ConnId, Dump>,
    /// Barriers that wait for the datapath.
    pub barriers: BTreeMap<ConnId, Barrier>,
    /// Numbers of the removals of tracked connections, by the OpenFlow connection that requested them.
    pub flushes: BTreeMap<ConnId, u64>,
    /// The number and the memory of the open bundles of all connections; the bundles are in the sessions.
    pub open_bundles: BundleTotals,
}

impl Unfinished {
    /// Whether work is in progress during which later requests of a connection wait (during a commit: those of all connections).
    pub fn has_work(&self) -> bool {
        let Unfinished { commit, dumps, barriers, flushes, .. } = self;
        commit.is_some() || !dumps.is_empty() || !barriers.is_empty() || !flushes.is_empty()
    }
}

/// A step that follows after the tables were replaced. The steps are executed in the order of the messages.
pub(crate) enum AfterCommit {
    /// Count a flow mod of this kind.
    Count(FlowCommand),
    /// Change a port.
    Port(Box<PortMod>),
    /// Execute a packet-out with these tables.
    Packet(Box<PacketOut>, Arc<Tables>),
}

/// Result of a trial: an error has the bytes of the request that caused it.
pub(crate) type TrialResult = Result<(Bundle, Vec<AfterCommit>), (OfError, Vec<u8>)>;

/// A commit in progress.
#[derive(Debug)]
pub struct Commit {
    pub(crate) conn: ConnId,
    pub(crate) message: Message,
    pub(crate) quoted: QuotedRequests,
    pub(crate) tried: Receiver<TrialResult>,
}

/// The bundle's number, and the bytes of its requests, for error replies.
#[derive(Debug)]
pub(crate) struct QuotedRequests {
    /// Number of the bundle.
    pub(crate) bundle: u32,
    /// The request that commits the bundle.
    pub(crate) committed: Vec<u8>,
    /// The request that opened the bundle.
    pub(crate) opened: Vec<u8>,
}

/// A long reply in progress: a list of flows, groups or meters, the first report of a flow monitor, or the statistics of ports.
#[derive(Debug)]
pub enum Dump {
    /// A background thread selects the flows.
    Awaited {
        /// The request.
        request: Message,
        /// Its bytes, for an error reply.
        raw: Vec<u8>,
        /// Receives the flows.
        selected: Receiver<Result<Vec<Arc<Rule>>, OfError>>,
    },
    /// The thread of the sockets makes the parts of the reply.
    Sent,
    /// The main loop reads the statistics of ports.
    Ports {
        /// The request.
        request: Message,
        /// The ports that are not read yet, in reverse order: the last one is read first.
        rest: Vec<OfPort>,
    },
}

/// Longest delay of a barrier's reply.
const BARRIER_DELAY_MAX: Millis = Millis(1000);

/// A barrier whose reply was not sent yet.
#[derive(Debug)]
pub struct Barrier {
    pub(crate) request: Message,
    /// The version in which all earlier changes are published.
    pub(crate) version: u64,
    pub(crate) since: Millis,
}

impl Barrier {
    /// When the reply is sent even if the datapath has not reached the version.
    pub fn deadline(&self) -> Millis {
        self.since + BARRIER_DELAY_MAX
    }
}
