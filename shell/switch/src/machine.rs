//! The machine that the switch runs on.

use pmd::Topology;
use std::collections::BTreeSet;
use std::sync::Arc;

/// See the module.
pub struct Machine {
    /// Its cores.
    pub topology: Arc<Topology>,
    /// The cores that this process may use.
    pub(crate) cores: BTreeSet<u32>,
    /// Name and version of the operating system.
    pub(crate) system: (String, String),
    /// What became of DPDK.
    pub(crate) dpdk: DpdkStart,
}

impl Machine {
    /// This machine. `described`: the cores to believe in instead of those that are there.
    pub(crate) fn new(described: Option<&Topology>) -> Machine {
        let uname = rustix::system::uname();
        Machine {
            topology: Arc::new(poll_threads::topology::topology(described)),
            cores: translation::upcall::threads::allowed_cores(),
            system: (
                uname.sysname().to_string_lossy().to_lowercase(),
                uname.release().to_string_lossy().into_owned(),
            ),
            dpdk: DpdkStart::default(),
        }
    }
}

/// What became of DPDK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DpdkStart {
    /// Nothing was read yet.
    #[default]
    Unknown,
    /// It is not asked for, and the log says so.
    Off,
    /// It was tried; `eal::initialized` says how it went.
    Tried,
}
