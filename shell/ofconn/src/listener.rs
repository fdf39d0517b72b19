//! Passive sockets of a bridge: management, snooping, and controllers that connect to the switch.

use crate::conn_settings::ConnSettings;
use openflow::VersionSet;
use runtime::poll_loop::{Interest, Ready, Token};
use runtime::{Module, RateLimit, WaitSet};
use std::cell::Cell;
use std::path::Path;
use transport::{Listener, Stream, Target};

static LOG: Module = Module::new("connmgr");
static LIMIT: RateLimit = RateLimit::new(1, 5);

/// Connections accepted on one socket per turn, so that a flood of connections does not delay other sockets.
const ACCEPT_MAX: usize = 16;

/// The kind of clients that connect to a passive socket.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Purpose {
    /// Tools (`<bridge>.mgmt`).
    Management,
    /// Tools that watch the connection to a controller (`<bridge>.snoop`).
    Snoop,
    /// Controllers.
    Controller(ConnSettings),
}

/// One passive socket.
#[derive(Debug)]
pub(crate) struct PassiveSocket {
    pub(crate) purpose: Purpose,
    /// The target as configured.
    pub(crate) target: String,
    /// OpenFlow versions of its connections.
    pub(crate) versions: VersionSet,
    listener: Listener,
    /// The registration of the listener in the last set of events.
    token: Cell<Option<Token>>,
    /// A connection may be waiting. False only if the last sleep showed that there is none: each attempt to accept is a system call.
    may_accept: bool,
}

impl PassiveSocket {
    /// Opens the socket and listens on it. The error is a text for the log.
    pub(crate) fn bind(
        purpose: Purpose,
        target: &str,
        versions: VersionSet,
        rundir: &Path,
    ) -> Result<PassiveSocket, String> {
        let parsed = Target::parse(target, transport::OPENFLOW_PORT).map_err(|e| e.to_string())?;
        let listener = Listener::bind(&parsed.within(rundir))
            .map_err(|e| format!("failed to listen on {target}: {}", runtime::error_text(&e)))?;
        Ok(PassiveSocket {
            purpose,
            target: target.to_owned(),
            versions,
            listener,
            token: Cell::new(None),
            may_accept: true,
        })
    }

    /// Accepts at most [`ACCEPT_MAX`] new connections.
    pub(crate) fn accept(&self) -> Vec<Stream> {
        let mut out = Vec::new();
        while self.may_accept && out.len() < ACCEPT_MAX {
            match self.listener.accept() {
                Ok(Some(stream)) => out.push(stream),
                Ok(None) => break,
                Err(e) => {
                    let text = runtime::error_text(&e);
                    runtime::warn_rl!(LOG, LIMIT, "{}: accept failed ({text})", self.target);
                    break;
                }
            }
        }
        out
    }

    pub(crate) fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        self.token.set(Some(set.fd(&self.listener, Interest::Read)));
    }

    /// Tells the result of a sleep after [`wait`](Self::wait). Without this call, each turn tries to accept.
    pub(crate) fn woken(&mut self, ready: &Ready) {
        self.may_accept = self.token.take().is_none_or(|token| ready.contains(token));
    }
}
