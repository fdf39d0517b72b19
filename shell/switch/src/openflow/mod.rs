//! The OpenFlow service of a bridge: requests in, replies and effects out.
//!
//! `handle` takes one request; the files below answer it by subject. What needs more than the bridge (the datapath, its
//! counters, devices) is asked of a [`Host`]. Errors are those that Open vSwitch answers in the same case.
//!
//! **Threads**: the main loop. **Order**: a request has had all its effects on the bridge's own state, and all messages
//! that it causes are queued, before its reply is queued. A barrier waits for the datapath as well.

mod barrier;
mod bundle;
mod commit;
mod config;
mod dump;
mod features;
mod flow_mod;
mod groups;
mod monitor;
mod nicira;
mod not_built;
mod packet_out;
mod port_mod;
mod role;
mod stats;
mod steps;
mod table;
mod tlv;

#[cfg(test)]
mod tests;

pub use barrier::Barrier;
pub use commit::Commit;
pub use dump::Dump;
pub use features::port_message;
pub use monitor::{report as report_to_monitors, run as run_monitors};
pub use table::report_vacancy;

use crate::bridge::Bridge;
use crate::port::BridgePort;
use flow::Flow;
use ofconn::{ConnId, Request, Session};
use ofproto::{Criteria, Effects, Tables};
use openflow::packet_io::PacketOut;
use openflow::session::{CtFlush, Role};
use openflow::stats::PortStats;
use openflow::{Body, Message, OfError, Xid};
use runtime::Waker;
use runtime::log::Level;
use std::sync::Arc;
use units::{Millis, PortNo};
use xlate::{BridgeId, Frozen};

/// What the service needs besides the bridge.
pub trait Host {
    /// The time.
    fn now(&self) -> Millis;
    /// How loud the log hears of flows that cannot be carried out.
    fn complaint_level(&self) -> Level;
    /// What ends the main loop's sleep when another thread has done something for it; `None`: no other thread is to.
    fn waker(&self) -> Option<Waker>;
    /// Credits the datapath's counters to rules, groups and ports.
    fn fold_statistics(&mut self);
    /// The counters of a port.
    fn port_stats(&mut self, bridge: BridgeId, port: &mut BridgePort) -> PortStats;
    /// Sets a device up or down, and `facts` with it. False: it could not be done.
    fn set_port_admin(&mut self, port: &mut BridgePort, up: bool) -> bool;
    /// The version as which everything is published that has changed so far.
    fn next_version(&self) -> u64;
    /// No megaflow is of an older version than this. If some are, the main loop's sleep ends when none is.
    fn is_done(&self, version: u64) -> bool;
    /// Tables, groups or ports have changed in a way that translations depend on.
    fn changed(&mut self);
    /// The tables of a bridge changed.
    fn changed_by(&mut self, bridge: BridgeId, effects: &Effects);
    /// Sends a packet through a list of actions that has been checked, on these tables of the bridge or those of now.
    fn packet_out(&mut self, packet: &PacketOut, tables: Option<Arc<Tables>>);
    /// Forgets connections.
    fn flush_connections(&mut self, wanted: &CtFlush);
    /// Goes on with a packet where its translation was frozen.
    fn resume(&mut self, packet: Resumed) -> Result<(), OfError>;
}

/// A packet that a controller gives back.
pub struct Resumed {
    /// Its bytes.
    pub packet: Vec<u8>,
    /// Its metadata.
    pub metadata: Flow,
    /// What is left to do.
    pub state: Frozen,
    /// The datapath port by which it came in.
    pub port: PortNo,
}

/// Executes a request of a connection and queues what there is to say to it.
pub fn handle(bridge: &mut Bridge, host: &mut dyn Host, request: &Request) {
    let now = host.now();
    let mut service = Service { bridge, host, conn: request.conn, xid: request.message.xid, now };
    let answer = service.dispatch(&request.message, &request.raw);
    service.answer(answer, &request.message, &request.raw);
    if bridge.is_at_work() {
        hold(bridge);
    }
}

/// Goes on with what takes several turns: the commit of a bundle, if its trial is done or `wait` for it, dumps of flows,
/// and barriers. What connections ask meanwhile waits.
pub fn go_on(bridge: &mut Bridge, host: &mut dyn Host, wait: bool) {
    let now = host.now();
    if let Some(commit) = bridge.commit.take() {
        let (conn, xid) = (commit.conn, commit.message.xid);
        commit::go_on(&mut Service { bridge, host, conn, xid, now }, commit, wait);
    }
    dump::run(bridge, now);
    barrier::run(bridge, host);
    hold(bridge);
}

/// Connections wait for what takes several turns: all for a commit, each for its own dump and barrier.
fn hold(bridge: &mut Bridge) {
    let Bridge { conns, commit, dumps, barriers, .. } = bridge;
    conns.hold(|id| commit.is_some() || dumps.contains_key(&id) || barriers.contains_key(&id));
}

/// A reply, or none because none is due.
type Answer = Result<Option<Body>, OfError>;

/// One request on its way.
struct Service<'a> {
    bridge: &'a mut Bridge,
    host: &'a mut dyn Host,
    conn: ConnId,
    xid: Xid,
    now: Millis,
}

impl Service<'_> {
    /// Queues what there is to say to the connection.
    fn answer(&mut self, answer: Answer, message: &Message, raw: &[u8]) {
        let Some(session) = self.bridge.conns.session(self.conn) else { return };
        match answer {
            Ok(Some(body)) => session.send(&message.reply(body)),
            Ok(None) => {}
            Err(error) => session.send_error(error, raw),
        }
    }

    fn dispatch(&mut self, message: &Message, raw: &[u8]) -> Answer {
        if changes_the_switch(&message.body) {
            self.refuse_secondary()?;
        }
        if message.more && !matches!(message.body, Body::TableFeaturesRequest(_)) {
            return Err(OfError::BrcBadStat);
        }
        let laid_out = self.laid_out(message)?;
        match laid_out.as_ref().unwrap_or(&message.body) {
            Body::FeaturesRequest => self.features(message.version),
            Body::BarrierRequest => self.barrier(message),
            Body::GetConfigRequest => self.get_config(),
            Body::SetConfig(config) => self.set_config(config),
            Body::PacketOut(po) => self.packet_out(po, message.version),
            Body::FlowMod(fm) => self.flow_mod(fm, message.version),
            Body::GroupMod(gm) => self.group_mod(gm, message),
            Body::MeterMod(mm) => self.meter_mod(mm, message),
            Body::PortMod(pm) => self.port_mod(pm),
            Body::TableMod(tm) => self.table_mod(tm),
            Body::RoleRequest(request) => self.role(request),
            Body::GetAsyncRequest => self.get_async(),
            Body::SetAsync(config) => self.set_async(config),
            Body::BundleControl(control) => self.bundle_control(control, message, raw),
            Body::BundleAdd(add) => self.bundle_add(add, message, raw),
            Body::SetFlowFormat(_)
            | Body::FlowModTableId(_)
            | Body::SetPacketInFormat(_)
            | Body::SetControllerId(_)
            | Body::FlowAge
            | Body::Resume(_)
            | Body::TlvTableMod(_)
            | Body::TlvTableRequest
            | Body::FlowMonitorCancel(_)
            | Body::CtFlush(_) => self.nicira(laid_out.as_ref().unwrap_or(&message.body)),
            Body::FlowStatsRequest(request) => self.flow_stats(Criteria::from(&**request), message, raw),
            _ => match laid_out {
                Some(body) => self.multipart(&Message { body, ..message.clone() }),
                None => self.multipart(message),
            },
        }
    }

    /// The session that asks. It is up: its request has just been read.
    fn session(&mut self) -> Result<&mut Session, OfError> {
        self.bridge.conns.session(self.conn).ok_or(OfError::BrcEperm)
    }

    fn refuse_secondary(&mut self) -> Result<(), OfError> {
        match self.session()?.role {
            Role::Secondary => Err(OfError::BrcIsSecondary),
            Role::NoChange | Role::Equal | Role::Primary => Ok(()),
        }
    }
}

/// Requests that a secondary controller may not make (OpenFlow 1.3.5 §6.3.6).
fn changes_the_switch(body: &Body) -> bool {
    matches!(
        body,
        Body::PacketOut(_)
            | Body::FlowMod(_)
            | Body::GroupMod(_)
            | Body::MeterMod(_)
            | Body::PortMod(_)
            | Body::TableMod(_)
            | Body::BundleControl(_)
            | Body::BundleAdd(_)
            | Body::TlvTableMod(_)
    )
}
