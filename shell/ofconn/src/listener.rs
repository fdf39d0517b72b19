//! Passive sockets of a bridge: management, snooping, and controllers that connect to us.

use crate::target::ControllerTarget;
use openflow::VersionSet;
use runtime::poll_loop::Interest;
use runtime::{Module, RateLimit, WaitSet};
use std::path::Path;
use transport::{Listener, Stream, Target};

static LOG: Module = Module::new("connmgr");
static LIMIT: RateLimit = RateLimit::new(1, 5);

/// How many connections one turn accepts on one socket, so that a flood of them does not starve the others.
const ACCEPT_MAX: usize = 16;

/// Whom a passive socket serves.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Purpose {
    /// Tools (`<bridge>.mgmt`).
    Service,
    /// Those who watch a controller (`<bridge>.snoop`).
    Snoop,
    /// Controllers.
    Controller(ControllerTarget),
}

/// One passive socket.
#[derive(Debug)]
pub(crate) struct Passive {
    pub(crate) purpose: Purpose,
    /// As the configuration has it.
    pub(crate) target: String,
    /// Versions that its connections speak.
    pub(crate) versions: VersionSet,
    listener: Listener,
}

impl Passive {
    /// Listens; the error is for the log.
    pub(crate) fn bind(
        purpose: Purpose,
        target: &str,
        versions: VersionSet,
        rundir: &Path,
    ) -> Result<Passive, String> {
        let parsed = Target::parse(target, transport::OPENFLOW_PORT).map_err(|e| e.to_string())?;
        let listener = Listener::bind(&parsed.within(rundir))
            .map_err(|e| format!("failed to listen on {target}: {}", runtime::error_text(&e)))?;
        Ok(Passive { purpose, target: target.to_owned(), versions, listener })
    }

    /// New connections.
    pub(crate) fn accept(&self) -> Vec<Stream> {
        let mut out = Vec::new();
        while out.len() < ACCEPT_MAX {
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
        set.fd(&self.listener, Interest::Read);
    }
}
