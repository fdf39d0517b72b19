//! Starts DPDK when the database requests it.
//!
//! `other_config:dpdk-init` requests DPDK, at the start of the switch or later; the start of DPDK is tried once. If it
//! fails, the switch continues without DPDK, both with `dpdk-init=true` and with `dpdk-init=try`: ports that need DPDK are
//! refused, and the log has the reason. The start blocks the main loop while memory is cleared and devices are probed.

use crate::guest_log::PORTS;
use crate::log::LOG as BRIDGE;
use crate::machine::DpdkStart;
use crate::switch::Switch;
use config::Desired;
use dpdk::eal::{self, EalOptions};
use runtime::log::Level;
use runtime::{Module, RateLimit};
use settings::root::{self, DPDK_INIT};
use settings::{Effect, Setting, When};

pub use dpdk::trial_start::run_if_child;

static LOG: Module = Module::new("dpdk");
static LIMIT: RateLimit = RateLimit::new(600, 600);

impl Switch {
    /// Starts DPDK if the database requests it and this was not tried before. Returns true if DPDK was started now.
    pub(crate) fn start_dpdk(&mut self, desired: &Desired) -> bool {
        if self.machine.dpdk == DpdkStart::Tried {
            self.log_late_changes(desired);
            return false;
        }
        if !is_requested(desired) {
            if self.machine.dpdk == DpdkStart::Unknown {
                runtime::info!(LOG, "DPDK Disabled - Use other_config:dpdk-init to enable");
                let (guests, warnings) =
                    dpdk::settings::guests_without_dpdk(&desired.other_config, &self.options.rundir);
                warnings.iter().for_each(|text| runtime::warn!(PORTS, "{text}"));
                self.devices.netdevs.set_guests(guests);
            }
            self.machine.dpdk = DpdkStart::Off;
            return false;
        }
        self.machine.dpdk = DpdkStart::Tried;
        // These settings apply if DPDK does not start.
        let (guests, _) = dpdk::settings::guests_without_dpdk(&desired.other_config, &self.options.rundir);
        self.devices.netdevs.set_guests(guests);
        runtime::info!(LOG, "Using {}", eal::version());
        runtime::info!(LOG, "DPDK Enabled - initializing...");
        let options = EalOptions {
            program: self.options.progname.clone(),
            config: desired.other_config.clone(),
            rundir: self.options.rundir.clone(),
            sink: log_line,
        };
        match eal::init(&options) {
            Ok(()) => {
                runtime::info!(LOG, "DPDK Enabled - initialized");
                true
            }
            Err(e) => {
                runtime::err!(LOG, "Unable to initialize DPDK: {e}");
                runtime::err!(LOG, "ports that need DPDK will not work until this process starts again");
                false
            }
        }
    }

    fn log_late_changes(&self, desired: &Desired) {
        let (old, new) = (&self.applied.other_config, &desired.other_config);
        let is_of_dpdk = |s: &Setting| s == &DPDK_INIT || s.when == When::Restart && s.effect == Effect::Full;
        for setting in root::NAMED.iter().filter(|s| is_of_dpdk(s) && s.differs(old, new)) {
            runtime::info!(
                BRIDGE,
                "{} changed: this takes effect when the daemon starts again",
                setting.name()
            );
        }
    }
}

/// Why ports of this type cannot be created, for the log: the interface's row has only the short text of Open vSwitch.
pub(crate) fn why_unavailable(kind: &str, start: DpdkStart) -> Option<&'static str> {
    if kind != "dpdk" || eal::initialized() {
        return None;
    }
    Some(match start {
        DpdkStart::Tried => "DPDK could not be initialized; the log has the reason",
        DpdkStart::Unknown | DpdkStart::Off => "DPDK is not enabled; other_config:dpdk-init enables it",
    })
}

/// Whether `dpdk-init` is `true` or `try`.
fn is_requested(desired: &Desired) -> bool {
    let value = DPDK_INIT.word(&desired.other_config);
    value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("try")
}

/// Logs a line of DPDK, or of the code of ports that use DPDK. Called on any thread.
fn log_line(origin: dpdk::log::Origin, level: dpdk::log::Level, line: &str) {
    use dpdk::log::{Level as Theirs, Origin};
    let level = match level {
        Theirs::Emergency | Theirs::Alert | Theirs::Critical => Level::Emer,
        Theirs::Error => Level::Err,
        Theirs::Warning => Level::Warn,
        Theirs::Notice | Theirs::Info => Level::Info,
        Theirs::Debug => Level::Dbg,
    };
    match origin {
        Origin::Environment => runtime::log_rl!(LOG, LIMIT, level, "{line}"),
        Origin::Ports => runtime::log_at!(PORTS, level, "{line}"),
    }
}
