//! Bundles (OpenFlow 1.4.1 §6.9, §7.3.9): many requests that are executed together.
//!
//! A request is checked when it is added, as far as possible without executing it. The commit executes all requests on a copy of the
//! tables first (`commit`).

use crate::bundle_messages::{BundleMessages, MessageContent};
use crate::packet_out::check_packet_out;
use crate::request_context::{RequestContext, RequestResult};
use ofconn::{BundledMessage, BundledRequest, OpenBundle};
use ofproto::check_flow_mod;
use ofproto::tlv::fields_used;
use openflow::flow_mod::FlowCommand;
use openflow::session::{BundleControl, BundleControlType};
use openflow::{Body, Message, OfError, Version};

/// Limit of open bundles of one connection.
const BUNDLES_MAX: usize = 1024;
/// Estimated memory of a message in a bundle in addition to its encoded length, in bytes.
const MESSAGE_OVERHEAD: usize = 512;

impl RequestContext<'_> {
    pub(crate) fn bundle_control(
        &mut self,
        control: &BundleControl,
        outer: &Message,
        raw: &[u8],
    ) -> RequestResult {
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
        if self.session()?.bundles.remove(&control.bundle).is_some() {
            return Err(OfError::BfcBadId);
        }
        self.insert(control.bundle, control.flags, raw)
    }

    /// Opens a bundle whose number is not in use; `raw` is the request that opens it.
    fn insert(&mut self, number: u32, flags: u16, raw: &[u8]) -> Result<(), OfError> {
        let own = self.session()?.bundles.len();
        let totals = &self.bridge.unfinished.open_bundles;
        if own >= BUNDLES_MAX || !totals.has_space_for(own) {
            return Err(OfError::BfcOutOfBundles);
        }
        let messages = Box::new(BundleMessages::new(totals.open()));
        let (used, request) = (self.now, raw.to_vec());
        let bundle = OpenBundle { flags, closed: false, messages, used, request };
        self.session()?.bundles.insert(number, bundle);
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

    /// Checks a message as far as possible without executing it, and returns it in the form in which the commit executes it.
    fn check_body(&mut self, body: Body, version: Version) -> Result<MessageContent, OfError> {
        Ok(match body {
            Body::FlowMod(fm) => {
                check_flow_mod(&fm, version)?;
                let request = self.bridge.ofproto.request(&fm);
                self.bridge.ofproto.check_addition(&request)?;
                MessageContent::Flow(request)
            }
            Body::PacketOut(po) => {
                check_packet_out(&po, version)?;
                MessageContent::Packet(po)
            }
            Body::GroupMod(gm) => MessageContent::Group(Box::new(gm)),
            Body::MeterMod(mm) => MessageContent::Meter(Box::new(mm)),
            Body::PortMod(pm) => MessageContent::Port(Box::new(pm)),
            _ => return Err(OfError::BfcMsgUnsup),
        })
    }

    /// Checks a message of a connection that uses `version`. Also returns a bit mask of the tunnel option fields that the message uses.
    fn check_message(
        &mut self,
        message: BundledMessage,
        version: Version,
    ) -> Result<(MessageContent, u64), OfError> {
        let inner = match message {
            BundledMessage::FlowMod(request) => {
                self.bridge.ofproto.check_addition(&request)?;
                return Ok((MessageContent::Flow(request), 0));
            }
            BundledMessage::Other(message) => message,
        };
        let body = self.with_tlv_layout(&inner)?.unwrap_or(inner.body);
        let fields = fields_of_rules(&body);
        Ok((self.check_body(body, version)?, fields))
    }

    pub(crate) fn bundle_add(
        &mut self,
        add: BundledRequest,
        version: Version,
        raw: &[u8],
    ) -> Result<(), OfError> {
        self.refuse_secondary()?;
        let (content, fields) = self.check_message(add.message?, version)?;
        let now = self.now;
        if !self.session()?.bundles.contains_key(&add.bundle) {
            self.insert(add.bundle, add.flags, raw)?;
        }
        let bundles = &mut self.session()?.bundles;
        let bundle = bundles.get_mut(&add.bundle).ok_or(OfError::BfcBadId)?;
        let error = match bundle {
            b if b.closed => OfError::BfcBundleClosed,
            b if b.flags != add.flags => OfError::BfcBadFlags,
            b => {
                b.used = now;
                let cost = raw.len() + MESSAGE_OVERHEAD;
                if let Some(messages) = b.messages.downcast_mut::<BundleMessages>()
                    && messages.grow(cost)
                {
                    messages.push(content, fields, raw);
                    return Ok(());
                }
                OfError::BfcMsgTooMany
            }
        };
        bundles.remove(&add.bundle);
        Err(error)
    }
}

/// Bit mask of the tunnel option fields in the flow that a message adds or modifies; 0 for other messages.
fn fields_of_rules(body: &Body) -> u64 {
    match body {
        Body::FlowMod(fm) if !matches!(fm.command, FlowCommand::Delete | FlowCommand::DeleteStrict) => {
            fields_used(&fm.matching, &fm.actions)
        }
        _ => 0,
    }
}
