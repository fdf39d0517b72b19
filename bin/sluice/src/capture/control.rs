//! Requests of `sluice capture` on the control socket of the daemon.

use crate::appctl::{ControlSession, Failure};
use crate::call::Call;
use crate::getopt::Parsed;

pub fn session(call: &Call, parsed: &Parsed) -> Result<ControlSession, Failure> {
    ControlSession::new(call, parsed.value("target"))
}

/// The ports of all datapaths.
pub fn ports(session: &mut ControlSession) -> Result<Vec<String>, Failure> {
    let reply = session.ask("capture/show")?;
    let datapaths = reply.as_object().into_iter().flat_map(|all| all.values());
    let ports = datapaths.flat_map(|d| d["ports"].as_object().into_iter().flat_map(|ports| ports.values()));
    Ok(ports.filter_map(|name| name.as_str().map(str::to_owned)).collect())
}
