//! What is read along with a body, and what comes of it.

use super::Dialect;
use super::action::Context;
use super::buf::Reader;
use crate::error::OfError;
use crate::message::{Body, Message};
use crate::version::Version;

/// What is read along with every body.
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

/// A body, and where the message does not say it: the extended form, more to follow.
pub(super) struct Decoded {
    pub body: Body,
    pub extended: bool,
    pub more: bool,
}

impl From<Body> for Decoded {
    fn from(body: Body) -> Decoded {
        Decoded { body, extended: false, more: false }
    }
}

/// Reads the request inside a request-forward.
pub(super) type ReadForwarded = fn(&mut Reader, Scope) -> Result<Message, OfError>;
