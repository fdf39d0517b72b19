//! State that all commands share: settings, transaction IDs, port names.

use super::conn::Conn;
use super::names::{Names, Ports, Tables};
use super::options::Settings;
use flow::text::{NameMap, NoNames};
use openflow::message::{Body, Message, Xid};
use openflow::port::Port;
use openflow::{Dialect, Version, decode};
use runtime::Dirs;
use std::collections::HashMap;
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use units::OfPort;

/// Why a command ended early.
#[derive(Debug)]
pub enum Fail {
    /// The text for standard error, after the tool's name.
    Message(String),
    /// The exit status; everything has been printed.
    Printed(u8),
}

/// Fails with this text.
pub fn fail<T>(text: impl Into<String>) -> Result<T, Fail> {
    Err(Fail::Message(text.into()))
}

impl From<flow::text::TextError> for Fail {
    fn from(e: flow::text::TextError) -> Fail {
        Fail::Message(e.0)
    }
}

/// Prints to standard output; an error (the reader has closed the pipe) ends the command.
pub fn print(text: &str) -> Result<(), Fail> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|_| Fail::Printed(1))
}

/// State that all commands share.
pub struct Context {
    /// The parsed options.
    pub settings: Settings,
    /// The directory of sockets, and others.
    pub dirs: Dirs,
    /// The tool's name in messages.
    pub progname: String,
    xid: u32,
    ports: HashMap<String, Arc<Ports>>,
    names: HashMap<String, Arc<Names>>,
    interactive: bool,
}

impl Context {
    /// The state at the start.
    pub fn new(settings: Settings, dirs: Dirs, progname: String) -> Context {
        let interactive = std::io::stdout().is_terminal();
        Context {
            settings,
            dirs,
            progname,
            xid: 0,
            ports: HashMap::new(),
            names: HashMap::new(),
            interactive,
        }
    }

    /// Returns a new transaction ID.
    pub fn xid(&mut self) -> Xid {
        self.xids(1)
    }

    /// Reserves `n` consecutive transaction IDs and returns the first.
    pub fn xids(&mut self, n: u32) -> Xid {
        let first = self.xid + 1;
        self.xid += n;
        Xid(first)
    }

    /// A message with a new transaction ID.
    pub fn message(&mut self, version: Version, body: Body) -> Message {
        Message::new(version, self.xid(), body)
    }

    /// Returns whether output has port and table names: `--names`, by default on a terminal.
    pub fn shows_names(&self) -> bool {
        self.settings.names.unwrap_or(self.interactive)
    }

    /// The names of ports and tables for output.
    pub fn names_to_show(&mut self, target: &str) -> Result<Arc<dyn NameMap + Send + Sync>, Fail> {
        if self.shows_names() { self.all_names(target) } else { Ok(Arc::new(NoNames)) }
    }

    /// The names of ports and tables that arguments may use.
    pub fn names_to_accept(&mut self, target: &str) -> Result<Arc<dyn NameMap + Send + Sync>, Fail> {
        if self.settings.names != Some(false) { self.all_names(target) } else { Ok(Arc::new(NoNames)) }
    }

    fn all_names(&mut self, target: &str) -> Result<Arc<dyn NameMap + Send + Sync>, Fail> {
        if let Some(known) = self.names.get(target) {
            return Ok(known.clone());
        }
        let names = Arc::new(Names { ports: self.port_names(target)?, tables: self.fetch_tables(target)? });
        self.names.insert(target.to_owned(), names.clone());
        Ok(names)
    }

    /// The names of ports only.
    pub fn port_names(&mut self, target: &str) -> Result<Arc<Ports>, Fail> {
        if let Some(known) = self.ports.get(target) {
            return Ok(known.clone());
        }
        let ports = Arc::new(Ports(self.fetch_ports(target)?));
        self.ports.insert(target.to_owned(), ports.clone());
        Ok(ports)
    }

    /// Requests the ports of a switch.
    pub fn fetch_ports(&mut self, target: &str) -> Result<Vec<Port>, Fail> {
        let mut conn = Conn::open(self, target)?;
        let bad = || Fail::Message(format!("{target}: received bad features reply"));
        if conn.version < Version::V13 {
            let request = self.message(conn.version, Body::FeaturesRequest);
            let reply = conn.transact(&request)?;
            return match decode(&reply, Dialect::default()).map_err(|_| bad())?.body {
                Body::FeaturesReply(f) => Ok(f.ports),
                _ => Err(bad()),
            };
        }
        let request = self.message(conn.version, Body::PortDescRequest(OfPort::NONE));
        let mut ports = Vec::new();
        for reply in conn.transact_all(&request)? {
            match reply.body {
                Body::PortDescReply(part) => ports.extend(part),
                _ => return Err(bad()),
            }
        }
        Ok(ports)
    }

    /// Requests the names of a switch's tables: from the table statistics, since OpenFlow 1.3 from the table
    /// features.
    fn fetch_tables(&mut self, target: &str) -> Result<Tables, Fail> {
        let mut conn = Conn::open(self, target)?;
        let body = match conn.version < Version::V13 {
            true => Body::TableStatsRequest,
            false => Body::TableFeaturesRequest(Vec::new()),
        };
        let request = self.message(conn.version, body);
        let mut tables = Tables::default();
        for reply in conn.transact_all(&request)? {
            match &reply.body {
                Body::TableStatsReply(list) => list.iter().for_each(|s| tables.add(&s.features)),
                Body::TableFeaturesReply(list) => list.iter().for_each(|f| tables.add(f)),
                _ => return fail(format!("{target}: received bad reply about tables")),
            }
        }
        Ok(tables)
    }
}
