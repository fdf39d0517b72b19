//! Options from the command line.

use crate::backer::Threads;
use netdev::open::DummyLevel;
use pmd::Topology;
use runtime::log::Level;
use std::path::PathBuf;
use transport::tls::Files;

/// Options of the switch, in addition to the options that all daemons have.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Directory of the sockets.
    pub rundir: PathBuf,
    /// Name of the program, for messages.
    pub progname: String,
    /// The database to follow: `unix:…`, `tcp:…`.
    pub database: String,
    /// `--enable-dummy[=…]`
    pub dummy: DummyLevel,
    /// `--disable-system`: there is no datapath of type `system`. Kernel devices can be used in other datapaths.
    pub disable_system: bool,
    /// `--disable-system-route`: the switch does not follow the kernel's routes, rules and addresses.
    pub disable_system_route: bool,
    /// The switch writes `ovs_version` and similar columns itself, because no `ovs-ctl` started it.
    pub writes_versions: bool,
    /// `--dummy-handlers`: handler threads translate in dummy mode, too, so that tests cover handler threads.
    pub dummy_handlers: bool,
    /// `--enable-panic`: there is a command `panic`, for tests.
    pub panics: bool,
    /// `--dummy-numa=…`: cores to use instead of the real ones.
    pub topology: Option<Topology>,
    /// A random number, new at each start.
    pub seed: u64,
    /// TLS files from the command line; table SSL takes precedence.
    pub tls: Files,
}

/// Parses a list of the NUMA nodes of cores, as `0,0,1,1`.
pub fn topology(text: &str) -> Option<Topology> {
    Topology::parse(text)
}

impl Options {
    /// Whether time is virtual and workers run in the main loop.
    pub fn dummy_mode(&self) -> bool {
        self.dummy != DummyLevel::Off
    }

    /// The log level of warnings that Open vSwitch does not have: scripts that test Open vSwitch fail on unexpected
    /// warnings, so the level is lower in dummy mode.
    pub fn complaint_level(&self) -> Level {
        if self.dummy_mode() { Level::Info } else { Level::Warn }
    }

    /// Which threads poll and translate.
    pub fn threads(&self) -> Threads {
        match (self.dummy_mode(), self.dummy_handlers) {
            (false, _) => Threads::PmdAndHandlers,
            (true, false) => Threads::None,
            (true, true) => Threads::Handlers,
        }
    }

    /// The datapath type for the type in a bridge's row; with `--enable-dummy=override` always `dummy`. `None`: the
    /// type is not available.
    pub fn datapath_type(&self, configured: &str) -> Option<&'static str> {
        match (configured, self.dummy) {
            ("dummy", DummyLevel::Off) => None,
            ("system" | "netdev" | "dummy", DummyLevel::OverrideAll) => Some("dummy"),
            ("system", DummyLevel::OverrideSystem) | ("dummy", _) => Some("dummy"),
            ("system", _) => (!self.disable_system).then_some("system"),
            ("netdev", _) => Some("netdev"),
            _ => None,
        }
    }

    /// `Open_vSwitch.datapath_types`
    pub fn datapath_types(&self) -> Vec<&'static str> {
        let types = ["dummy", "netdev", "system"];
        types.into_iter().filter(|kind| self.datapath_type(kind).is_some()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dummy_level_determines_datapath_types() {
        let at = |dummy, kind| Options { dummy, ..Options::default() }.datapath_type(kind);
        assert_eq!(at(DummyLevel::Off, "dummy"), None);
        assert_eq!(at(DummyLevel::Off, "netdev"), Some("netdev"));
        assert_eq!(at(DummyLevel::On, "system"), Some("system"));
        assert_eq!(at(DummyLevel::OverrideSystem, "system"), Some("dummy"));
        assert_eq!(at(DummyLevel::OverrideSystem, "netdev"), Some("netdev"));
        assert_eq!(at(DummyLevel::OverrideAll, "netdev"), Some("dummy"));
        assert_eq!(at(DummyLevel::OverrideAll, "nonsense"), None);
    }
}
