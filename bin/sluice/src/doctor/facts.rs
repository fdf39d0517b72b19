//! The facts about a host and its configuration that the checks use.

use super::finding::Level;
use std::collections::{BTreeMap, BTreeSet};

/// All facts.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// `Open_vSwitch.other_config`
    pub other_config: BTreeMap<String, String>,
    /// The interfaces of the database.
    pub interfaces: Vec<Interface>,
    /// Controllers to which the switch has to connect.
    pub controllers: Vec<Controller>,
    /// Problems of settings.
    pub settings: Vec<SettingProblem>,
    /// The processors.
    pub cores: Cores,
    /// The memory.
    pub memory: Memory,
    /// The modules and device files that drivers in user space need.
    pub drivers: Drivers,
    /// Whether there is a configuration.
    pub configuration: Configuration,
    /// The switch of this run directory. Switches of other run directories are not considered.
    pub daemon: Daemon,
    /// Event counters of the running switch, by name ([`super::check::counters::names`]).
    pub counters: BTreeMap<&'static str, u64>,
    /// The tool that adds arguments to the kernel's command line.
    pub boot: BootTool,
}

/// A row of `Controller` to whose target the switch connects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Controller {
    /// `target`
    pub target: String,
    /// `is_connected`
    pub is_connected: bool,
    /// `status:last_error`
    pub last_error: Option<String>,
}

/// Whether there is a configuration to check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Configuration {
    /// Not determined.
    #[default]
    Unknown,
    /// No configuration could be read; the reason.
    None(String),
    /// This user may not read the configuration; the reason.
    Denied(String),
    /// The database has no bridge.
    Empty,
    /// There are bridges.
    Present,
}

/// The state of the switch of a run directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Daemon {
    /// Not determined.
    #[default]
    Unknown,
    /// No process holds a pid file in this directory.
    None(String),
    /// This process answers on its control socket.
    Answers(u32),
    /// This process holds the pid file but does not answer; the reason.
    Silent(u32, String),
    /// This process holds the pid file, and this user may not use its control socket; the reason.
    Denied(u32, String),
    /// This process is the daemon of Open vSwitch.
    OpenVswitch(u32),
}

/// The tool that edits the boot loader's configuration on this host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BootTool {
    /// None of the tools below.
    #[default]
    Unknown,
    /// `grubby`: Fedora, Red Hat, SUSE.
    Grubby,
    /// `/etc/default/grub` and `update-grub`: Debian, Ubuntu.
    UpdateGrub,
}

/// One row of `Interface`, and the host's information about the device.
#[derive(Clone, Debug, Default)]
pub struct Interface {
    /// `name`
    pub name: String,
    /// `type`
    pub kind: String,
    /// `error`
    pub error: Option<String>,
    /// Whether the column `error` is set although the interface has an OpenFlow port number, and so forwards packets.
    pub forwards_despite_error: bool,
    /// The name of the bridge that contains the interface.
    pub bridge: String,
    /// `mtu`
    pub mtu: Option<u32>,
    /// `options:remote_ip`
    pub remote: String,
    /// `status:tunnel_egress_iface`
    pub egress: Option<String>,
    /// Whether the kernel answers ARP requests that the device receives for any address of the host.
    pub answers_arp: bool,
    /// The PCI device that `options:dpdk-devargs` names.
    pub pci: Option<Pci>,
    /// The NUMA node of the device.
    pub numa: Option<u32>,
    /// The kernel driver of the network device with this name.
    pub driver: Option<String>,
    /// Whether checksum offload is enabled, so that packets which the device sends have incomplete checksums.
    pub tx_checksum_offload: Option<bool>,
    /// `other_config`
    pub other_config: BTreeMap<String, String>,
    /// The directory for the vhost-user socket, if it does not exist.
    pub missing_folder: Option<String>,
}

/// A PCI device.
#[derive(Clone, Debug, Default)]
pub struct Pci {
    /// The PCI address, such as `0000:01:00.0`.
    pub address: String,
    /// Whether the machine has the device.
    pub exists: bool,
    /// The driver that is bound to the device.
    pub driver: Option<String>,
}

/// A problem of a setting.
#[derive(Clone, Debug)]
pub struct SettingProblem {
    /// The text of the finding.
    pub text: String,
    /// The command that corrects the setting or, if the user must decide, shows the row.
    pub fix: String,
    /// The severity of the finding.
    pub level: Level,
}

/// The processors.
#[derive(Clone, Debug, Default)]
pub struct Cores {
    /// The cores that are online, with their NUMA nodes.
    pub online: BTreeMap<u32, u32>,
    /// The cores among which the kernel's scheduler does not balance load (`isolcpus`).
    pub isolated: BTreeSet<u32>,
    /// The frequency governors in use, with their cores.
    pub governors: BTreeMap<String, BTreeSet<u32>>,
    /// Whether the time stamp counter ticks at a constant rate in all power states.
    pub invariant_tsc: Option<bool>,
    /// The clock source of the kernel.
    pub clocksource: Option<String>,
}

/// Huge pages of one size on one NUMA node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HugePages {
    /// Size of a page in KiB.
    pub kilobytes: u64,
    /// The NUMA node.
    pub numa: u32,
    /// Number of pages.
    pub total: u64,
    /// Number of unused pages.
    pub free: u64,
}

/// The memory.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// Huge pages by size and node.
    pub huge: Vec<HugePages>,
    /// Mount points of hugetlbfs.
    pub mounts: Vec<String>,
    /// Bytes of memory that the switch (or this program, if no switch runs) may lock; `None`: unknown; `u64::MAX`: unlimited.
    pub memlock: Option<u64>,
    /// Swap in use, in KiB.
    pub swap_used: u64,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    pub transparent: Option<String>,
}

/// Kernel modules and device files that drivers in user space need.
#[derive(Clone, Debug, Default)]
pub struct Drivers {
    /// Whether the driver vfio-pci is loaded.
    pub vfio_pci: bool,
    /// Whether the IOMMU has groups.
    pub iommu: bool,
    /// Whether vfio allows use without an IOMMU.
    pub unsafe_noiommu: bool,
    /// Whether `/dev/net/tun` exists.
    pub tun: bool,
}

impl Facts {
    /// Whether the configuration enables DPDK.
    pub fn wants_dpdk(&self) -> bool {
        let word = settings::root::DPDK_INIT.word(&self.other_config);
        word.eq_ignore_ascii_case("true") || word.eq_ignore_ascii_case("try")
    }

    /// Whether DPDK is enabled, or PMD threads poll a port.
    pub fn polls(&self) -> bool {
        self.wants_dpdk() || self.interfaces.iter().any(Interface::is_polled)
    }

    /// The process id of the running switch, if it is Sluice.
    pub fn pid(&self) -> Option<u32> {
        match self.daemon {
            Daemon::Answers(pid) | Daemon::Silent(pid, _) | Daemon::Denied(pid, _) => Some(pid),
            Daemon::Unknown | Daemon::None(_) | Daemon::OpenVswitch(_) => None,
        }
    }

    /// Whether a Sluice switch runs.
    pub fn is_running(&self) -> bool {
        self.pid().is_some()
    }
}

impl Interface {
    /// Whether the interface is a DPDK device. Ports of guests do not use DPDK.
    pub fn is_dpdk(&self) -> bool {
        self.kind == "dpdk"
    }

    /// Whether PMD threads poll the interface.
    pub fn is_polled(&self) -> bool {
        self.is_dpdk() || self.kind == "afxdp" || self.kind.starts_with("dpdkvhostuser")
    }
}
