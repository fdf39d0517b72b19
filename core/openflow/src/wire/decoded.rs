//! Parameters and results of decoding a message's body.

use super::Dialect;
use super::action::Context;
use super::buf::Reader;
use crate::error::OfError;
use crate::message::{Body, Message};
use crate::version::Version;

/// Parameters on which the decoding of a body depends.
#[derive(Clone, Copy)]
pub(super) struct DecodeParams {
    pub version: Version,
    pub dialect: Dialect,
}

impl DecodeParams {
    pub fn cx(self) -> Context {
        Context::new(self.version, self.dialect.debug_actions)
    }
}

/// A decoded body, with the properties of the message that the body does not contain.
pub(super) struct Decoded {
    pub body: Body,
    /// Whether the message has the extended form.
    pub extended: bool,
    /// Whether more parts of a multipart message follow.
    pub more: bool,
}

impl From<Body> for Decoded {
    fn from(body: Body) -> Decoded {
        Decoded { body, extended: false, more: false }
    }
}

/// Function that decodes the request inside a request-forward.
pub(super) type ReadForwarded = fn(&mut Reader, DecodeParams) -> Result<Message, OfError>;
