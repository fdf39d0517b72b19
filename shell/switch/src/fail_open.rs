//! Fail-open: a bridge with fail mode `standalone` whose controllers are all unreachable forwards packets by itself.
//!
//! When this mode begins, all flows, groups and meters are removed, and a hidden flow, with a priority above all priorities of controllers, sends
//! all packets to NORMAL until a controller is connected. Only controllers to which the switch connects count.

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
/// The shortest time without a controller after which a bridge forwards by itself.
const WAIT_MIN: Millis = Millis(1_000);

/// How long a bridge has no controller before it forwards by itself: three times the longest probe interval of its controllers, so that each can be
/// probed, answer, and connect again.
fn longest_wait(bridge: &Bridge) -> Millis {
    let intervals =
        bridge.config.controllers.iter().filter(|c| c.is_active()).filter_map(|c| c.inactivity_probe);
    intervals.map(|interval| Millis(interval.0 * 3)).max().unwrap_or_default().max(WAIT_MIN)
}

/// Enters or leaves fail-open mode. Returns whether flows changed.
pub(crate) fn run(bridge: &mut Bridge, now: Millis) -> bool {
    let lost = bridge.config.fail_mode == FailMode::Standalone
        && bridge.conns.has_controllers()
        && !bridge.conns.any_connected();
    let since = bridge.controllers.disconnected_since.filter(|_| lost).unwrap_or(now);
    bridge.controllers.disconnected_since = lost.then_some(since);
    let wanted = lost && now.since(since) >= longest_wait(bridge);
    if wanted == bridge.controllers.fallback_flow_installed {
        return false;
    }
    bridge.controllers.fallback_flow_installed = wanted;
    if wanted {
        runtime::warn!(
            LOG,
            "{}: Could not connect to controller (or switch failed controller's post-connection admission control \
             policy) for {} seconds, failing open",
            bridge.name,
            now.since(since).0 / 1000
        );
        openflow_service::flush(bridge, now);
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
        .disconnected_since
        .filter(|_| !bridge.controllers.fallback_flow_installed)
        .map(|since| since + longest_wait(bridge))
}
