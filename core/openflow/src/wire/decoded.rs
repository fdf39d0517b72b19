//! Parameters and results of decoding a message's body.

use super::Dialect;
use super::action::Context;
use super::buf::Reader;
use crate::error::OfError;
use crate::message::{Body, Message};
use crate::version::Version;

/// What the decoding of every body depends on.
#[derive(Clone, Copy)]
pub(super) struct Scope {
    pub version: Version,
    pub dialect: Dialect,
}

impl Scope {
    pub fn cx(self) -> Context {
        Context::new(self.version, self.dialect.debug_actions)
    }
}

/// A decoded body, with two facts that the body itself does not contain.
pub(super) struct Decoded {
    pub body: Body,
    /// The message has the extended form.
    pub extended: bool,
    /// More parts of a multipart message follow.
    pub more: bool,
}

impl From<Body> for Decoded {
    fn from(body: Body) -> Decoded {
        Decoded { body, extended: false, more: false }
    }
}

/// Reads the request inside a request-forward.
pub(super) type ReadForwarded = fn(&mut Reader, Scope) -> Result<Message, OfError>;
