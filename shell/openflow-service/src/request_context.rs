//! Context in which one request is executed. Other files add the methods for the kinds of requests.

use crate::bridge::Bridge;
use crate::switch_access::SwitchAccess;
use ofconn::{ConnId, Session};
use openflow::session::Role;
use openflow::{Body, Message, OfError, Xid};
use units::Millis;

/// The result of a request: a reply, `None` if there is no reply or it is sent later, or an error.
pub(crate) type RequestResult = Result<Option<Body>, OfError>;

/// A request that is being executed.
pub(crate) struct RequestContext<'a> {
    pub(crate) bridge: &'a mut Bridge,
    pub(crate) outside: &'a mut dyn SwitchAccess,
    pub(crate) conn: ConnId,
    pub(crate) xid: Xid,
    pub(crate) now: Millis,
}

impl RequestContext<'_> {
    /// Queues the reply for the connection.
    pub(crate) fn answer(&mut self, result: RequestResult, message: &Message, raw: &[u8]) {
        let Some(session) = self.bridge.conns.session(self.conn) else { return };
        match result {
            Ok(Some(body)) => session.send(message.reply(body)),
            Ok(None) => {}
            Err(error) => session.send_error(error, raw),
        }
    }

    /// Reports the error of a request that has no reply.
    pub(crate) fn report(&mut self, done: Result<(), OfError>, raw: &[u8]) {
        if let Err(error) = done
            && let Some(session) = self.bridge.conns.session(self.conn)
        {
            session.send_error(error, raw);
        }
    }

    /// The session of the connection that sent the request. It exists, because its request is being executed.
    pub(crate) fn session(&mut self) -> Result<&mut Session, OfError> {
        self.bridge.conns.session(self.conn).ok_or(OfError::BrcEperm)
    }

    /// Fails if the request comes from a secondary controller.
    pub(crate) fn refuse_secondary(&mut self) -> Result<(), OfError> {
        match self.session()?.role {
            Role::Secondary => Err(OfError::BrcIsSecondary),
            Role::NoChange | Role::Equal | Role::Primary => Ok(()),
        }
    }
}
