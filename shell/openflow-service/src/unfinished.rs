//! What takes a bridge several turns of the main loop: the commit of a bundle, dumps of flows, barriers.

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
use units::Millis;

/// See the module.
#[derive(Default)]
pub struct Unfinished {
    /// The commit of a bundle.
    pub commit: Option<Commit>,
    /// What packets asked for meanwhile.
    pub deferred: Vec<SideEffect>,
    /// Dumps of flows.
    pub dumps: BTreeMap<ConnId, Dump>,
    /// Barriers that wait for the datapath.
    pub barriers: BTreeMap<ConnId, Barrier>,
}

impl Unfinished {
    /// There is something.
    pub fn any(&self) -> bool {
        self.commit.is_some() || !self.dumps.is_empty() || !self.barriers.is_empty()
    }
}

/// What is done once the tables are exchanged, in order.
pub(crate) enum Later {
    /// Count a flow mod of this kind.
    Count(FlowCommand),
    /// Change a port.
    Port(Box<PortMod>),
    /// Send a packet, on these tables.
    Packet(Box<PacketOut>, Arc<Tables>),
}

/// What came of a trial: the error comes with the request that it is about.
pub(crate) type Tried = Result<(Bundle, Vec<Later>), (OfError, Vec<u8>)>;

/// A commit on its way.
#[derive(Debug)]
pub struct Commit {
    pub(crate) conn: ConnId,
    pub(crate) message: Message,
    pub(crate) request: Request,
    pub(crate) tried: Receiver<Tried>,
}

/// The requests that errors are about.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) bundle: u32,
    pub(crate) committed: Vec<u8>,
    pub(crate) opened: Vec<u8>,
}

/// A dump on its way.
#[derive(Debug)]
pub struct Dump {
    pub(crate) request: Message,
    pub(crate) raw: Vec<u8>,
    pub(crate) rules: Rules,
}

/// The flows of a dump.
#[derive(Debug)]
pub(crate) enum Rules {
    /// They are being selected.
    Awaited(Receiver<Result<Vec<Arc<Rule>>, OfError>>),
    /// Those that are not sent yet, the last first.
    Known(Vec<Arc<Rule>>),
}

impl Dump {
    /// It can go on if its connection takes more.
    pub fn is_ready(&self) -> bool {
        matches!(self.rules, Rules::Known(_))
    }
}

/// A barrier is answered after this time at the latest.
const LIMIT: Millis = Millis(1000);

/// A barrier that is not answered yet.
#[derive(Debug)]
pub struct Barrier {
    pub(crate) request: Message,
    /// What came before it is published as this version.
    pub(crate) version: u64,
    pub(crate) since: Millis,
}

impl Barrier {
    /// When it is answered at the latest.
    pub fn deadline(&self) -> Millis {
        self.since + LIMIT
    }
}
