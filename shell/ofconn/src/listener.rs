//! Passive sockets of a bridge: management, snooping, and controllers that connect to the switch.

use crate::conn_settings::ConnSettings;
use openflow::VersionSet;
use runtime::{Module, RateLimit, WaitSet};
use std::path::Path;
use transport::{Listener, ListenerGroup, Stream, Target};

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
}

impl PassiveSocket {
    /// Opens the socket and listens on it. With `group`, the group watches the socket. The error is a text for the log.
    pub(crate) fn bind(
        purpose: Purpose,
        target: &str,
        versions: VersionSet,
        rundir: &Path,
        group: Option<&ListenerGroup>,
    ) -> Result<PassiveSocket, String> {
        let parsed = Target::parse(target, transport::OPENFLOW_PORT).map_err(|e| e.to_string())?;
        let listener = Listener::bind(&parsed.within(rundir))
            .and_then(|listener| group.map_or(Ok(()), |group| group.add(&listener)).map(|()| listener))
            .map_err(|e| format!("failed to listen on {target}: {}", runtime::error_text(&e)))?;
        Ok(PassiveSocket { purpose, target: target.to_owned(), versions, listener })
    }

    /// Accepts at most [`ACCEPT_MAX`] new connections. The flag tells whether it failed: then clients are still waiting, and the socket
    /// stays readable.
    pub(crate) fn accept(&self) -> (Vec<Stream>, bool) {
        let mut out = Vec::new();
        while out.len() < ACCEPT_MAX {
            match self.listener.accept() {
                Ok(Some(stream)) => out.push(stream),
                Ok(None) => break,
                Err(e) => {
                    let text = runtime::error_text(&e);
                    runtime::warn_rl!(LOG, LIMIT, "{}: accept failed ({text})", self.target);
                    return (out, true);
                }
            }
        }
        (out, false)
    }

    pub(crate) fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        self.listener.wait(set);
    }

    /// Tells which listeners of the group have waiting clients.
    pub(crate) fn record_group_sleep(&mut self, ready: &[u64]) {
        self.listener.record_group_sleep(ready);
    }
}
