//! Bundles (OpenFlow 1.4.1 §6.9, §7.3.9): many requests as one.
//!
//! Requests are checked when they are added as far as nothing needs to change for that, and tried all together on a copy of
//! the tables at the commit. Packets go out after the commit, each on the tables as they were at its place in the bundle.

use super::flow_mod::check_flow_mod;
use super::packet_out::{check_packet_out, check_targets};
use super::{Answer, Service};
use ofconn::OpenBundle;
use ofproto::Tables;
use openflow::session::{BundleAdd, BundleControl, BundleControlType, bundle_flags};
use openflow::{Body, Message, OfError, Version, Xid};
use std::sync::Arc;

/// Bundles of one connection at a time.
const BUNDLES_MAX: usize = 1024;
/// Messages in one bundle.
const MESSAGES_MAX: usize = 4 << 20;

impl Service<'_> {
    pub(super) fn bundle_control(&mut self, control: &BundleControl, raw: &[u8]) -> Answer {
        use BundleControlType::*;
        let kind = match control.kind {
            OpenRequest => self.open(control, raw).map(|()| OpenReply),
            CloseRequest => self.close(control).map(|()| CloseReply),
            CommitRequest => self.commit(control).map(|()| CommitReply),
            DiscardRequest => {
                let known = self.session()?.bundles.remove(&control.bundle);
                known.map(|_| DiscardReply).ok_or(OfError::BfcBadId)
            }
            OpenReply | CloseReply | CommitReply | DiscardReply => Err(OfError::BfcBadType),
        }?;
        Ok(Some(Body::BundleControl(BundleControl { bundle: control.bundle, kind, flags: 0 })))
    }

    fn new_bundle(&self, flags: u16, raw: &[u8]) -> OpenBundle {
        OpenBundle { flags, closed: false, messages: Vec::new(), used: self.now, request: raw.to_vec() }
    }

    fn open(&mut self, control: &BundleControl, raw: &[u8]) -> Result<(), OfError> {
        let bundle = self.new_bundle(control.flags, raw);
        let bundles = &mut self.session()?.bundles;
        if bundles.remove(&control.bundle).is_some() {
            return Err(OfError::BfcBadId);
        }
        if bundles.len() >= BUNDLES_MAX {
            return Err(OfError::BfcOutOfBundles);
        }
        bundles.insert(control.bundle, bundle);
        Ok(())
    }

    fn close(&mut self, control: &BundleControl) -> Result<(), OfError> {
        let now = self.now;
        let bundles = &mut self.session()?.bundles;
        let bundle = bundles.get_mut(&control.bundle).ok_or(OfError::BfcBadId)?;
        let error = match bundle {
            b if b.closed => OfError::BfcBundleClosed,
            b if b.flags != control.flags => OfError::BfcBadFlags,
            b => {
                (b.closed, b.used) = (true, now);
                return Ok(());
            }
        };
        bundles.remove(&control.bundle);
        Err(error)
    }

    pub(super) fn bundle_add(&mut self, add: &BundleAdd, outer: &Message, raw: &[u8]) -> Answer {
        let dialect = self.session()?.dialect;
        check_envelope(&add.message, outer)?;
        let inner = openflow::decode(&add.message, dialect).map_err(|e| match e {
            // The type of the message is not known: the error would be taken for one about the bundle.
            OfError::BrcBadType | OfError::BrcBadVendor | OfError::BrcBadSubtype | OfError::BrcBadStat => {
                OfError::BfcMsgUnsup
            }
            e => e,
        })?;
        check_message(&inner.body, outer.version)?;
        if let Body::FlowMod(fm) = &inner.body {
            self.bridge.ofproto.check_addition(fm)?;
        }
        let new = self.new_bundle(add.flags, raw);
        let now = self.now;
        let bundles = &mut self.session()?.bundles;
        if !bundles.contains_key(&add.bundle) && bundles.len() >= BUNDLES_MAX {
            return Err(OfError::BfcOutOfBundles);
        }
        let bundle = bundles.entry(add.bundle).or_insert(new);
        let error = match bundle {
            b if b.closed => OfError::BfcBundleClosed,
            b if b.flags != add.flags => OfError::BfcBadFlags,
            b if b.messages.len() >= MESSAGES_MAX => OfError::BfcMsgTooMany,
            b => {
                b.used = now;
                b.messages.push((inner, raw.to_vec()));
                return Ok(None);
            }
        };
        bundles.remove(&add.bundle);
        Err(error)
    }

    /// A bundle is gone after its commit, however that ends.
    fn commit(&mut self, control: &BundleControl) -> Result<(), OfError> {
        let bundle = self.session()?.bundles.remove(&control.bundle).ok_or(OfError::BfcBadId)?;
        if bundle.flags != control.flags {
            return Err(OfError::BfcBadFlags);
        }
        let moments = match self.try_all(&bundle) {
            Ok(moments) => moments,
            Err((error, request)) => {
                self.session()?.send_error(error, &request);
                return Err(OfError::BfcMsgFailed);
            }
        };
        let now = self.now;
        let mut moments = moments.into_iter();
        for (message, _) in &bundle.messages {
            match &message.body {
                Body::PortMod(pm) => self.apply_port_mod(pm),
                Body::FlowMod(fm) => self.session()?.count_flow_mod(fm.command, now),
                Body::PacketOut(po) => self.host.packet_out(po, moments.next()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Makes all changes of tables or none; the error comes with the request that it is about. The tables are those that
    /// each packet-out sees.
    fn try_all(&mut self, bundle: &OpenBundle) -> Result<Vec<Arc<Tables>>, (OfError, Vec<u8>)> {
        let mut trial = self.bridge.ofproto.begin();
        let mut moments = Vec::new();
        for (message, request) in &bundle.messages {
            let result = match &message.body {
                Body::FlowMod(fm) => trial.flow_mod(fm, self.now),
                Body::GroupMod(gm) => trial.group_mod(gm, self.now),
                // Ports cannot be changed back as if nothing had been.
                Body::PortMod(_) if bundle.flags & bundle_flags::ATOMIC != 0 => Err(OfError::BfcMsgFailed),
                Body::PortMod(pm) => self.check_port_mod(pm),
                Body::PacketOut(po) => {
                    moments.push(trial.tables());
                    check_targets(&po.actions, &|id| trial.has_group(id))
                }
                _ => Ok(()),
            };
            result.map_err(|e| (e, request.clone()))?;
        }
        let effects = self.bridge.ofproto.commit(trial).map_err(|e| (e, bundle.request.clone()))?;
        self.after(&effects);
        Ok(moments)
    }
}

/// Version, length and transaction of a message in a bundle.
fn check_envelope(inner: &[u8], outer: &Message) -> Result<(), OfError> {
    if inner.first() != Some(&outer.version.wire()) {
        return Err(OfError::BfcBadVersion);
    }
    let xid = inner.get(4..8).and_then(|b| b.first_chunk()).ok_or(OfError::BfcMsgBadLen)?;
    if Xid(u32::from_be_bytes(*xid)) == outer.xid { Ok(()) } else { Err(OfError::BfcMsgBadXid) }
}

fn check_message(body: &Body, version: Version) -> Result<(), OfError> {
    match body {
        Body::FlowMod(fm) => check_flow_mod(fm, version),
        Body::PacketOut(po) => check_packet_out(po, version),
        Body::GroupMod(_) | Body::PortMod(_) => Ok(()),
        _ => Err(OfError::BfcMsgUnsup),
    }
}
