//! The machine that the switch runs on.

use pmd::Topology;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Facts about the machine.
pub struct Machine {
    /// The cores of the machine.
    pub topology: Arc<Topology>,
    /// The cores that this process may use.
    pub cores: BTreeSet<u32>,
    /// Name and version of the operating system.
    pub(crate) system: (String, String),
    /// State of DPDK.
    pub(crate) dpdk: DpdkStart,
}

impl Machine {
    /// Reads the facts. `described`: cores to use instead of the real ones.
    pub(crate) fn new(described: Option<&Topology>) -> Machine {
        Machine {
            topology: Arc::new(poll_threads::machine_cores::topology(described)),
            cores: translation::upcall::threads::allowed_cores(),
            system: system(),
            dpdk: DpdkStart::default(),
        }
    }
}

/// Name and version of the operating system: the values that `ovs-ctl` found or was given (`--system-type`) and passes in the environment, or else
/// the kernel's.
fn system() -> (String, String) {
    let uname = rustix::system::uname();
    let given = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    (
        given("SLUICE_SYSTEM_TYPE").unwrap_or_else(|| uname.sysname().to_string_lossy().to_lowercase()),
        given("SLUICE_SYSTEM_VERSION").unwrap_or_else(|| uname.release().to_string_lossy().into_owned()),
    )
}

/// State of DPDK.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DpdkStart {
    /// The database has not been read yet.
    #[default]
    Unknown,
    /// DPDK is not requested, which was logged.
    Off,
    /// The start of DPDK was tried; `eal::initialized` tells whether it succeeded.
    Tried,
}
