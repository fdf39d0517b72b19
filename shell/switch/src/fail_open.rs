//! Fail-open: a bridge with fail mode `standalone` whose controllers are all unreachable forwards packets by itself.
//!
//! In this mode a hidden flow, with a priority above all priorities of controllers, sends all packets to NORMAL. The
//! controllers' flows remain and are used again when a controller is connected.

use config::FailMode;
use flow::Match;
use openflow::FlowMod;
use openflow::action::Action;
use openflow_service::Bridge;
use runtime::Module;
use units::{Millis, OfPort};

static LOG: Module = Module::new("fail_open");

/// Above all priorities of OpenFlow.
const PRIORITY: u32 = 0x00f0_f0f0;
/// How long a bridge has no controller before it forwards by itself: three probes at the default interval of 5 s.
const NO_CONTROLLER_MAX: Millis = Millis(15_000);

/// Enters or leaves fail-open mode. Returns whether flows changed.
pub(crate) fn run(bridge: &mut Bridge, now: Millis) -> bool {
    let lost = bridge.config.fail_mode == FailMode::Standalone
        && bridge.conns.has_controllers()
        && !bridge.conns.any_connected();
    let since = bridge.controllers.alone_since.filter(|_| lost).unwrap_or(now);
    bridge.controllers.alone_since = lost.then_some(since);
    let wanted = lost && now.since(since) >= NO_CONTROLLER_MAX;
    if wanted == bridge.controllers.fallback {
        return false;
    }
    bridge.controllers.fallback = wanted;
    if wanted {
        runtime::warn!(
            LOG,
            "{}: Could not connect to controller (or switch failed controller's post-connection admission control \
             policy) for {} seconds, failing open",
            bridge.name,
            now.since(since).0 / 1000
        );
    } else {
        runtime::warn!(LOG, "{}: No longer in fail-open mode", bridge.name);
    }
    let fm = FlowMod {
        table: 0,
        matching: Match::CATCHALL,
        actions: vec![Action::output(OfPort::NORMAL)],
        ..FlowMod::default()
    };
    // No limit applies to the switch's own flows, so this does not fail.
    bridge.ofproto.handle_own_flow(&fm, PRIORITY, wanted, now).is_ok()
}

/// When [`run`] must be called next.
pub(crate) fn deadline(bridge: &Bridge) -> Option<Millis> {
    bridge
        .controllers
        .alone_since
        .filter(|_| !bridge.controllers.fallback)
        .map(|since| since + NO_CONTROLLER_MAX)
}
