//! Bundles (OpenFlow 1.4.1 §6.9, §7.3.9): many requests that are executed together.
//!
//! Requests are checked when they are added, as far as possible without executing them. The commit tries all of them
//! on a copy of the tables (`commit`).

use crate::bundle_messages::{BundleMessages, Work};
use crate::packet_out::check_packet_out;
use crate::service::{Answer, Service};
use ofconn::{Bundled, BundledMessage, OpenBundle};
use ofproto::check_flow_mod;
use ofproto::tlv::fields_used;
use openflow::flow_mod::FlowCommand;
use openflow::session::{BundleControl, BundleControlType};
use openflow::{Body, Message, OfError, Version};
use units::Millis;

/// Bundles of one connection at a time.
const BUNDLES_MAX: usize = 1024;
/// Bytes of all open bundles of a bridge's connections: 2 GiB are three million flows.
const MEMORY_MAX: usize = 2 << 30;
/// Bytes of a decoded message in addition to its own length.
const MESSAGE_OVERHEAD: usize = 512;

impl Service<'_> {
    pub(crate) fn bundle_control(&mut self, control: &BundleControl, outer: &Message, raw: &[u8]) -> Answer {
        use BundleControlType::*;
        let kind = match control.kind {
            OpenRequest => self.open(control, raw).map(|()| OpenReply),
            CloseRequest => self.close(control).map(|()| CloseReply),
            CommitRequest => return self.commit(control, outer, raw),
            DiscardRequest => {
                let known = self.session()?.bundles.remove(&control.bundle);
                known.map(|_| DiscardReply).ok_or(OfError::BfcBadId)
            }
            OpenReply | CloseReply | CommitReply | DiscardReply => Err(OfError::BfcBadType),
        }?;
        Ok(Some(Body::BundleControl(BundleControl { bundle: control.bundle, kind, flags: 0 })))
    }

    fn open(&mut self, control: &BundleControl, raw: &[u8]) -> Result<(), OfError> {
        let bundle = new_bundle(control.flags, raw, self.now);
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

    /// Checks a message as far as possible without executing it.
    fn work(&mut self, body: Body, version: Version) -> Result<Work, OfError> {
        Ok(match body {
            Body::FlowMod(fm) => {
                check_flow_mod(&fm, version)?;
                let request = self.bridge.ofproto.request(&fm);
                self.bridge.ofproto.check_addition(&request)?;
                Work::Flow(request)
            }
            Body::PacketOut(po) => {
                check_packet_out(&po, version)?;
                Work::Packet(po)
            }
            Body::GroupMod(gm) => Work::Group(Box::new(gm)),
            Body::MeterMod(mm) => Work::Meter(Box::new(mm)),
            Body::PortMod(pm) => Work::Port(Box::new(pm)),
            _ => return Err(OfError::BfcMsgUnsup),
        })
    }

    /// The step for a message of a connection that speaks `version`, and the fields of tunnel options that it uses.
    fn step(&mut self, message: BundledMessage, version: Version) -> Result<(Work, u64), OfError> {
        let inner = match message {
            BundledMessage::FlowMod(request) => {
                self.bridge.ofproto.check_addition(&request)?;
                return Ok((Work::Flow(request), 0));
            }
            BundledMessage::Other(message) => message,
        };
        let body = self.laid_out(&inner)?.unwrap_or(inner.body);
        let fields = fields_of_rules(&body);
        Ok((self.work(body, version)?, fields))
    }

    pub(crate) fn bundle_add(&mut self, add: Bundled, version: Version, raw: &[u8]) -> Result<(), OfError> {
        self.refuse_secondary()?;
        let (work, fields) = self.step(add.message?, version)?;
        let now = self.now;
        let cost = raw.len() + MESSAGE_OVERHEAD;
        let open = self.bridge.conns.sessions().flat_map(|(_, s)| s.bundles.values().map(|b| b.memory));
        let fits = open.sum::<usize>() + cost <= MEMORY_MAX;
        let bundles = &mut self.session()?.bundles;
        if !bundles.contains_key(&add.bundle) && bundles.len() >= BUNDLES_MAX {
            return Err(OfError::BfcOutOfBundles);
        }
        let bundle = bundles.entry(add.bundle).or_insert_with(|| new_bundle(add.flags, raw, now));
        let error = match bundle {
            b if b.closed => OfError::BfcBundleClosed,
            b if b.flags != add.flags => OfError::BfcBadFlags,
            b => {
                b.used = now;
                match b.messages.downcast_mut::<BundleMessages>() {
                    Some(messages) if fits => {
                        b.memory += cost;
                        messages.push(work, fields, raw);
                        return Ok(());
                    }
                    _ => OfError::BfcMsgTooMany,
                }
            }
        };
        bundles.remove(&add.bundle);
        Err(error)
    }
}

/// A new bundle, with the request that opened it.
fn new_bundle(flags: u16, raw: &[u8], now: Millis) -> OpenBundle {
    let messages = Box::new(BundleMessages::default());
    OpenBundle { flags, closed: false, messages, memory: 0, used: now, request: raw.to_vec() }
}

/// The fields of tunnel options used by flows that a message adds or modifies.
fn fields_of_rules(body: &Body) -> u64 {
    match body {
        Body::FlowMod(fm) if !matches!(fm.command, FlowCommand::Delete | FlowCommand::DeleteStrict) => {
            fields_used(&fm.matching, &fm.actions)
        }
        _ => 0,
    }
}
