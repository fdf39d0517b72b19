//! Log messages about fragments.

use datapath::Datapath;
use runtime::{Module, RateLimit};

static LOG: Module = Module::new("ipf");
static LIMIT: RateLimit = RateLimit::new(10, 10);

/// Logs a reassembled datagram that was too long, in the text that scripts search for.
pub(crate) fn report(datapath: &Datapath) {
    let Some(oversize) = datapath.reassembly().take_oversize() else { return };
    let version = if oversize.v6 { "v6" } else { "v4" };
    let head: String = oversize.head.iter().map(|byte| format!(" {byte:02x}")).collect();
    runtime::warn_rl!(LOG, LIMIT, "Unsupported big reassembled {version} packet; {version} hdr:{head}");
}
