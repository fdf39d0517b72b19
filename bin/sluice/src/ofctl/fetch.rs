//! Fetches the names of ports and tables, once per switch.

use super::conn::Conn;
use super::context::Context;
use super::fail::{Fail, fail};
use super::names::{Names, Ports, TableNames};
use flow::text::{NameMap, NoNames};
use openflow::message::Body;
use openflow::port::Port;
use openflow::{Dialect, Version, decode};
use std::sync::Arc;
use units::OfPort;

impl Context {
    /// The names to use in output.
    pub fn names_to_show(&mut self, target: &str) -> Result<Arc<dyn NameMap + Send + Sync>, Fail> {
        if self.shows_names() { self.all_names(target) } else { Ok(Arc::new(NoNames)) }
    }

    /// The names to accept in arguments.
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

    /// The names of ports, without those of tables.
    pub fn port_names(&mut self, target: &str) -> Result<Arc<Ports>, Fail> {
        if let Some(known) = self.ports.get(target) {
            return Ok(known.clone());
        }
        let ports = Arc::new(Ports(self.fetch_ports(target)?));
        self.ports.insert(target.to_owned(), ports.clone());
        Ok(ports)
    }

    /// The ports of a switch.
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

    /// The names of a switch's tables. Before OpenFlow 1.3 they are in the table statistics, later in the table features.
    fn fetch_tables(&mut self, target: &str) -> Result<TableNames, Fail> {
        let mut conn = Conn::open(self, target)?;
        let body = match conn.version < Version::V13 {
            true => Body::TableStatsRequest,
            false => Body::TableFeaturesRequest(Vec::new()),
        };
        let request = self.message(conn.version, body);
        let mut tables = TableNames::default();
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
