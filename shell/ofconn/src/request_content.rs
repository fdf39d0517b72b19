//! A request in the form in which the main loop receives it: decoded, and converted as far as possible without the bridge's tables.
//!
//! The thread of the sockets decodes and converts. A converted flow mod has a sixth of the size of a decoded one, so it is faster to
//! hand over.

use ofproto::{FlowRequest, Preparer};
use openflow::session::BundleAdd;
use openflow::{Body, Dialect, Message, OfError, Xid};

/// The decoded content of a request.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "most requests are flow mods, and a box for each would cost an allocation"
)]
pub enum Content {
    /// A request that was decoded and not converted.
    Message(Message),
    /// A flow mod, or the error that a check without the tables found.
    FlowMod(Result<FlowRequest, OfError>),
    /// A message for a bundle.
    BundleAdd(BundledRequest),
}

/// A message for a bundle (OpenFlow 1.4.1 §7.3.9.2).
#[derive(Debug)]
pub struct BundledRequest {
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
    /// A message that was decoded and not converted.
    Other(Box<Message>),
}

impl Content {
    /// Converts a message of a controller that speaks `dialect`.
    pub(crate) fn new(message: Message, dialect: Dialect, preparer: &mut Preparer) -> Content {
        match &message.body {
            Body::FlowMod(fm) => match preparer.prepare(fm, message.version) {
                Some(prepared) => Content::FlowMod(prepared),
                None => Content::Message(message),
            },
            Body::BundleAdd(add) => Content::BundleAdd(BundledRequest {
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
        // The type of the inner message is unknown. The controller would relate a "bad type" error to the bundle message, so use another error.
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

/// Checks that a message in a bundle has the version and transaction id of `outer`, and the 8 bytes of a header.
fn check_envelope(inner: &[u8], outer: &Message) -> Result<(), OfError> {
    if inner.first() != Some(&outer.version.wire()) {
        return Err(OfError::BfcBadVersion);
    }
    let xid = inner.get(4..8).and_then(|b| b.first_chunk()).ok_or(OfError::BfcMsgBadLen)?;
    if Xid(u32::from_be_bytes(*xid)) == outer.xid { Ok(()) } else { Err(OfError::BfcMsgBadXid) }
}
