//! Log lines about datapath flows at debug level: misses, new flows, dumps.
//!
//! Module names and texts are those of Open vSwitch's datapath, because scripts search for them. **Threads**: workers
//! and the main thread.

use crate::flow_text::{Style, flow_line, key_only};
use datapath::Datapath;
use dpif::text::{NoNames, actions_text, ufid_text};
use dpif::{DpAction, DpFlow, Upcall};
use flow::Match;
use runtime::log::Level;
use runtime::{Module, RateLimit};
use units::Millis;

static DATAPATH: Module = Module::new("dpif_netdev");
static DATAPATH_LIMIT: RateLimit = RateLimit::new(600, 600);
static DPIF: Module = Module::new("dpif");
static DPIF_LIMIT: RateLimit = RateLimit::new(600, 600);

/// Logs an upcall. `kind`: `miss` if no megaflow matched, `action` if an action of the megaflow caused the upcall.
pub fn upcall(datapath: &str, kind: &str, upcall: &Upcall<'_>) {
    if DATAPATH.enabled(Level::Dbg) {
        let key = key_only(upcall.flow);
        let bytes: String = upcall.packet.iter().map(|b| format!("{b:02x}")).collect();
        runtime::log_rl!(DATAPATH, DATAPATH_LIMIT, Level::Dbg, "{datapath}: {kind} upcall:\n{key}\n{bytes}");
    }
}

/// Whether new megaflows are logged.
pub fn logs_added() -> bool {
    DATAPATH.enabled(Level::Dbg)
}

/// Logs a new megaflow.
pub fn added(flow: &DpFlow) {
    if DATAPATH.enabled(Level::Dbg) {
        let ufid = ufid_text(flow.ufid);
        let key = dpif::text::key_text(&flow.key, Some(&flow.mask), false, &NoNames);
        let actions = actions_text(&flow.actions, &NoNames);
        let words = format!("{ufid} mega_{ufid} {key}, actions:{actions}");
        runtime::log_rl!(DATAPATH, DATAPATH_LIMIT, Level::Dbg, "flow_add: {words}");
        let matching = Match::new(&flow.key, &flow.mask).text(&flow::text::NoNames);
        runtime::log_rl!(DATAPATH, DATAPATH_LIMIT, Level::Dbg, "flow match: {matching}");
    }
}

/// Logs that a megaflow gets new actions.
pub fn modified(datapath: &str, flow: &DpFlow, actions: &[DpAction]) {
    let ufid = || ufid_text(flow.ufid);
    let text = |actions: &[DpAction]| actions_text(actions, &NoNames);
    let key = |verbose| dpif::text::key_text(&flow.key, Some(&flow.mask), verbose, &NoNames);
    DPIF.log_lazily(&DPIF_LIMIT, Level::Dbg, || {
        format!("{datapath}: put[modify] {} {}, actions:{}", ufid(), key(true), text(actions))
    });
    DATAPATH.log_lazily(&DATAPATH_LIMIT, Level::Dbg, || {
        let (ufid, old) = (ufid(), text(&flow.actions));
        format!("flow_mod: {ufid} mega_{ufid} {}, old_actions:{old}, actions:{}", key(false), text(actions))
    });
}

/// Logs all megaflows, at a limited rate.
pub fn dumped(name: &str, datapath: &Datapath, now: Millis) {
    if DPIF.enabled(Level::Dbg) {
        let style = Style { verbose: true, names: None, after_ufid: " ", before_actions: "", now };
        for flow in &datapath.flow_dump(now) {
            let line = flow_line(flow, style);
            runtime::log_rl!(DPIF, DPIF_LIMIT, Level::Dbg, "{name}: flow_dump {line}");
        }
    }
}
