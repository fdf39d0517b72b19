//! What is known of a host and of its configuration.

use crate::level::Level;
use std::collections::{BTreeMap, BTreeSet};

/// Everything.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// `Open_vSwitch.other_config`
    pub other_config: BTreeMap<String, String>,
    /// The interfaces of the database.
    pub interfaces: Vec<Interface>,
    /// What is to be said about settings.
    pub settings: Vec<Setting>,
    /// See there.
    pub cores: Cores,
    /// See there.
    pub memory: Memory,
    /// See there.
    pub drivers: Drivers,
    /// What is configured at all.
    pub configuration: Configuration,
    /// The switch of the run directory. Those of other run directories are none of its business.
    pub daemon: Daemon,
    /// How arguments get into the kernel's command line.
    pub boot: Boot,
}

/// Whether there is a configuration to judge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Configuration {
    /// Not asked.
    #[default]
    Unknown,
    /// None could be read; why.
    None(String),
    /// The database has no bridge.
    Empty,
    /// There are bridges.
    Present,
}

/// What is known of the switch of a run directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Daemon {
    /// Not asked.
    #[default]
    Unknown,
    /// No process holds a pid file in this directory.
    None(String),
    /// This process answers.
    Answers(u32),
    /// This process holds the pid file and does not answer; why.
    Silent(u32, String),
    /// This process is Open vSwitch's.
    OpenVswitch(u32),
}

/// What edits the boot loader's configuration here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Boot {
    /// Neither of those below.
    #[default]
    Unknown,
    /// `grubby`: Fedora, Red Hat, SUSE.
    Grubby,
    /// `/etc/default/grub` and `update-grub`: Debian, Ubuntu.
    UpdateGrub,
}

/// One row of `Interface`, and what the host knows of its device.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its type, as in the database.
    pub kind: String,
    /// `error`
    pub error: Option<String>,
    /// The PCI device that `options:dpdk-devargs` names.
    pub pci: Option<Pci>,
    /// The NUMA node of the device.
    pub numa: Option<u32>,
    /// The kernel's driver of the device of that name.
    pub driver: Option<String>,
    /// The kernel makes checksums late for packets that leave by the device.
    pub tx_checksum_offload: Option<bool>,
    /// `other_config`
    pub other_config: BTreeMap<String, String>,
    /// A folder for the vhost-user socket that is not there.
    pub missing_folder: Option<String>,
}

/// A PCI device.
#[derive(Clone, Debug, Default)]
pub struct Pci {
    /// `0000:01:00.0`
    pub address: String,
    /// The machine has it.
    pub exists: bool,
    /// The driver that has it.
    pub driver: Option<String>,
}

/// A word about a setting.
#[derive(Clone, Debug)]
pub struct Setting {
    /// What is to be said.
    pub text: String,
    /// The command that takes it away.
    pub mend: String,
    /// How bad it is.
    pub level: Level,
}

/// The processors.
#[derive(Clone, Debug, Default)]
pub struct Cores {
    /// Those on line, with their NUMA node.
    pub online: BTreeMap<u32, u32>,
    /// Those that the kernel's scheduler leaves alone.
    pub isolated: BTreeSet<u32>,
    /// The frequency governors in use, with their cores.
    pub governors: BTreeMap<String, BTreeSet<u32>>,
    /// The time stamp counter ticks evenly, always.
    pub invariant_tsc: Option<bool>,
    /// The kernel's clock.
    pub clocksource: Option<String>,
}

/// Huge pages of one size on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePages {
    /// Kilobytes of one.
    pub kilobytes: u64,
    /// The NUMA node.
    pub numa: u32,
    /// How many.
    pub total: u64,
    /// How many that nobody uses.
    pub free: u64,
}

/// The memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Huge pages by size and node.
    pub huge: Vec<HugePages>,
    /// Where huge pages are mounted.
    pub mounts: Vec<String>,
    /// Bytes that the switch (or this program) may lock; absent where unknown, the greatest number where unlimited.
    pub memlock: Option<u64>,
    /// Kilobytes of swap in use.
    pub swap_used: u64,
    /// `always`, `madvise` or `never`.
    pub transparent: Option<String>,
}

/// What gives user space its devices.
#[derive(Clone, Debug, Default)]
pub struct Drivers {
    /// Module vfio-pci is there.
    pub vfio_pci: bool,
    /// The IOMMU has groups.
    pub iommu: bool,
    /// vfio may be used without an IOMMU.
    pub unsafe_noiommu: bool,
    /// `/dev/net/tun` is there.
    pub tun: bool,
}

impl Facts {
    /// DPDK is asked for.
    pub fn wants_dpdk(&self) -> bool {
        let word = config::settings::root::DPDK_INIT.word(&self.other_config);
        word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("try")
    }

    /// Something is polled, or will be.
    pub fn polls(&self) -> bool {
        self.wants_dpdk() || self.interfaces.iter().any(Interface::polls)
    }

    /// The process of our daemon.
    pub fn pid(&self) -> Option<u32> {
        match self.daemon {
            Daemon::Answers(pid) | Daemon::Silent(pid, _) => Some(pid),
            Daemon::Unknown | Daemon::None(_) | Daemon::OpenVswitch(_) => None,
        }
    }

    /// Our daemon runs.
    pub fn is_running(&self) -> bool {
        self.pid().is_some()
    }
}

impl Interface {
    /// It is one of DPDK's.
    pub fn is_dpdk(&self) -> bool {
        self.kind.starts_with("dpdk")
    }

    /// Poll threads read it.
    pub fn polls(&self) -> bool {
        self.is_dpdk() || self.kind == "afxdp"
    }
}
