//! Requests of connections, dispatched to the files that handle them.

use crate::bridge::Bridge;
use crate::request_context::{RequestContext, RequestResult};
use crate::switch_access::SwitchAccess;
use crate::unfinished::Unfinished;
use crate::{barrier, bundle_commit, dump};
use ofconn::{Content, Request};
use ofproto::Criteria;
use openflow::{Body, Message, OfError};

/// Executes a request of a connection and queues its reply.
pub fn handle(bridge: &mut Bridge, outside: &mut dyn SwitchAccess, request: Request) {
    let now = outside.now();
    let Request { conn, version, xid, content, raw } = request;
    let mut context = RequestContext { bridge, outside, conn, xid, now };
    match content {
        Content::Message(message) => {
            let answer = context.dispatch(&message, &raw);
            context.answer(answer, &message, &raw);
        }
        Content::FlowMod(flow_mod) => {
            let done = context.prepared_flow_mod(flow_mod);
            context.report(done, &raw);
        }
        Content::BundleAdd(add) => {
            let done = context.bundle_add(add, version, &raw);
            context.report(done, &raw);
        }
    }
    bridge.conns.reuse(raw);
    if bridge.is_at_work() {
        hold_requests(bridge);
    }
}

/// Continues work that takes several turns: the commit of a bundle (with `wait`, until its messages were executed on a copy of the tables),
/// dumps, barriers, and removals of tracked connections. Requests that arrive meanwhile wait as [`hold_requests`] says.
pub fn continue_work(bridge: &mut Bridge, outside: &mut dyn SwitchAccess, wait: bool) {
    let now = outside.now();
    if let Some(commit) = bridge.unfinished.commit.take() {
        let (conn, xid) = (commit.conn, commit.message.xid);
        bundle_commit::continue_commit(&mut RequestContext { bridge, outside, conn, xid, now }, commit, wait);
    }
    dump::run(bridge, outside, now);
    barrier::run(bridge, outside);
    bridge.unfinished.flushes.retain(|_, number| !outside.is_flushed(*number));
    hold_requests(bridge);
}

/// Holds requests during long work: of all connections during a commit, of one connection during its own dump, barrier or removal of
/// tracked connections.
pub(crate) fn hold_requests(bridge: &mut Bridge) {
    let Bridge { conns, unfinished: Unfinished { commit, dumps, barriers, flushes, .. }, .. } = bridge;
    let is_at_work = |id| dumps.contains_key(&id) || barriers.contains_key(&id) || flushes.contains_key(&id);
    conns.hold(|id| commit.is_some() || is_at_work(id));
}

impl RequestContext<'_> {
    fn dispatch(&mut self, message: &Message, raw: &[u8]) -> RequestResult {
        if changes_the_switch(&message.body) {
            self.refuse_secondary()?;
        }
        if message.more && !matches!(message.body, Body::TableFeaturesRequest(_)) {
            return Err(OfError::BrcBadStat);
        }
        let with_tlv_layout = self.with_tlv_layout(message)?;
        match with_tlv_layout.as_ref().unwrap_or(&message.body) {
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
            Body::SetFlowFormat(_)
            | Body::FlowModTableId(_)
            | Body::SetPacketInFormat(_)
            | Body::SetControllerId(_)
            | Body::FlowAge
            | Body::Resume(_)
            | Body::TlvTableMod(_)
            | Body::TlvTableRequest
            | Body::FlowMonitorCancel(_)
            | Body::CtFlush(_) => self.nicira(with_tlv_layout.as_ref().unwrap_or(&message.body)),
            Body::FlowStatsRequest(request) => self.flow_stats(Criteria::from(&**request), message, raw),
            _ => match with_tlv_layout {
                Some(body) => self.multipart(&Message { body, ..message.clone() }),
                None => self.multipart(message),
            },
        }
    }
}

/// Whether a secondary controller must not send this request (OpenFlow 1.3.5 §6.3.6).
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
            | Body::TlvTableMod(_)
    )
}
