//! A request as the main loop gets it: decoded, and converted as far as that does not need the bridge.
//!
//! The thread of the sockets does this. A converted flow mod has a sixth of the size of a decoded one, so it is faster to hand over.

use ofproto::{FlowRequest, Preparer};
use openflow::session::BundleAdd;
use openflow::{Body, Dialect, Message, OfError, Xid};

/// What a request asks for.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "most requests are flow mods, and a box for each would cost an allocation"
)]
pub enum Content {
    /// A request that is only decoded.
    Message(Message),
    /// A flow mod, or the error that a check without the tables found.
    FlowMod(Result<FlowRequest, OfError>),
    /// A message for a bundle.
    BundleAdd(Bundled),
}

/// A message for a bundle (OpenFlow 1.4.1 §7.3.9.2).
#[derive(Debug)]
pub struct Bundled {
    /// The bundle's number.
    pub bundle: u32,
    /// `openflow::session::bundle_flags`
    pub flags: u16,
    /// The message, or why it cannot be added.
    pub message: Result<BundledMessage, OfError>,
}

/// A message in a bundle.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "most are flow mods, and a box for each would cost an allocation"
)]
pub enum BundledMessage {
    /// A flow mod.
    FlowMod(FlowRequest),
    /// A message that is only decoded.
    Other(Box<Message>),
}

impl Content {
    /// Converts a message of a peer that speaks `dialect`.
    pub(crate) fn new(message: Message, dialect: Dialect, preparer: &mut Preparer) -> Content {
        match &message.body {
            Body::FlowMod(fm) => match preparer.prepare(fm, message.version) {
                Some(prepared) => Content::FlowMod(prepared),
                None => Content::Message(message),
            },
            Body::BundleAdd(add) => Content::BundleAdd(Bundled {
                bundle: add.bundle,
                flags: add.flags,
                message: bundled(add, &message, dialect, preparer),
            }),
            _ => Content::Message(message),
        }
    }
}

/// Decodes a message for a bundle, and converts it if it is a flow mod.
fn bundled(
    add: &BundleAdd,
    outer: &Message,
    dialect: Dialect,
    preparer: &mut Preparer,
) -> Result<BundledMessage, OfError> {
    check_envelope(&add.message, outer)?;
    let inner = openflow::decode(&add.message, dialect).map_err(|e| match e {
        // The type of the message is unknown: the error would be taken for one about the bundle.
        OfError::BrcBadType | OfError::BrcBadVendor | OfError::BrcBadSubtype | OfError::BrcBadStat => {
            OfError::BfcMsgUnsup
        }
        e => e,
    })?;
    if let Body::FlowMod(fm) = &inner.body
        && let Some(prepared) = preparer.prepare(fm, outer.version)
    {
        return Ok(BundledMessage::FlowMod(prepared?));
    }
    Ok(BundledMessage::Other(Box::new(inner)))
}

/// Checks version, length and transaction id of a message in a bundle.
fn check_envelope(inner: &[u8], outer: &Message) -> Result<(), OfError> {
    if inner.first() != Some(&outer.version.wire()) {
        return Err(OfError::BfcBadVersion);
    }
    let xid = inner.get(4..8).and_then(|b| b.first_chunk()).ok_or(OfError::BfcMsgBadLen)?;
    if Xid(u32::from_be_bytes(*xid)) == outer.xid { Ok(()) } else { Err(OfError::BfcMsgBadXid) }
}
