//! Fail-open: a `standalone` bridge whose controllers are all unreachable forwards by itself.
//!
//! Meanwhile a hidden flow with a priority above all that controllers can use sends all packets to NORMAL. The
//! controllers' flows remain and are used again when a controller is back.

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
/// How long a bridge is without a controller before it forwards by itself: three probes at the default interval (5 s).
const ALONE_MAX: Millis = Millis(15_000);

/// Enters or leaves the mode. Returns whether flows changed.
pub(crate) fn run(bridge: &mut Bridge, now: Millis) -> bool {
    let lost = bridge.config.fail_mode == FailMode::Standalone
        && bridge.conns.has_controllers()
        && !bridge.conns.any_connected();
    let since = bridge.controllers.alone_since.filter(|_| lost).unwrap_or(now);
    bridge.controllers.alone_since = lost.then_some(since);
    let wanted = lost && now.since(since) >= ALONE_MAX;
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
    // A flow of the switch itself: no limit applies.
    bridge.ofproto.handle_own_flow(&fm, PRIORITY, wanted, now).is_ok()
}

/// When `run` has to be called next.
pub(crate) fn deadline(bridge: &Bridge) -> Option<Millis> {
    bridge.controllers.alone_since.filter(|_| !bridge.controllers.fallback).map(|since| since + ALONE_MAX)
}
