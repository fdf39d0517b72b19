//! Checks of physical devices, their drivers, and the kernel's offloads of virtual devices.

use crate::doctor::facts::{Facts, Interface, Pci};
use crate::doctor::finding::{Finding, Level};

/// Kernel drivers that stay bound to a device while DPDK uses it.
const BIFURCATED_DRIVERS: [&str; 4] = ["mlx5_core", "mlx4_core", "mana", "hv_netvsc"];
/// Kernel drivers that make a device available to user space.
const USERSPACE_DRIVERS: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];

pub(crate) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    let devices: Vec<(&Interface, &Pci)> =
        facts.interfaces.iter().filter_map(|i| Some((i, i.pci.as_ref()?))).collect();
    for (interface, pci) in &devices {
        device(&interface.name, pci, found);
    }
    let is_bifurcated = |pci: &Pci| pci.driver.as_deref().is_some_and(|d| BIFURCATED_DRIVERS.contains(&d));
    if devices.iter().any(|(_, pci)| pci.exists && !is_bifurcated(pci)) {
        vfio(facts, found);
    }
    if !facts.drivers.tun && facts.interfaces.iter().any(|i| i.kind == "internal" || i.kind == "tap") {
        let text = "there is no /dev/net/tun: internal ports cannot be created";
        found.push(Finding::new(Level::Problem, "tun", text, "modprobe tun"));
    }
    for interface in facts.interfaces.iter().filter(|i| i.kind.starts_with("afxdp")) {
        let veth = interface.driver.as_deref() == Some("veth");
        if veth && interface.tx_checksum_offload == Some(true) {
            let name = &interface.name;
            found.push(Finding::new(
                Level::Warning,
                "veth-offload",
                format!(
                    "{name} is a veth with checksum offload, so its packets have no checksums, and AF_XDP does not pass on that they are missing"
                ),
                format!("ethtool -K {name} tx off   # also for the peer device"),
            ));
        }
    }
}

fn device(port: &str, pci: &Pci, found: &mut Vec<Finding>) {
    let address = &pci.address;
    if !pci.exists {
        return found.push(Finding::new(
            Level::Problem,
            "pci",
            format!("port {port}: this machine has no PCI device {address}"),
            "dpdk-devbind.py --status-dev net",
        ));
    }
    let now = match pci.driver.as_deref() {
        Some(driver) if BIFURCATED_DRIVERS.contains(&driver) || USERSPACE_DRIVERS.contains(&driver) => return,
        Some(driver) => format!("it is bound to driver {driver}"),
        None => "it is bound to no driver".to_owned(),
    };
    found.push(Finding::new(
        Level::Problem,
        "driver",
        format!("port {port}: DPDK cannot use {address}, since {now}"),
        format!("dpdk-devbind.py --bind=vfio-pci {address}"),
    ));
}

fn vfio(facts: &Facts, found: &mut Vec<Finding>) {
    let drivers = &facts.drivers;
    if !drivers.vfio_pci {
        let text = "the kernel has not loaded vfio-pci, which DPDK needs to use devices";
        found.push(Finding::new(Level::Problem, "vfio", text, "modprobe vfio-pci"));
    }
    if !drivers.iommu && !drivers.unsafe_noiommu {
        found.push(Finding::new(
            Level::Problem,
            "iommu",
            "there is no IOMMU (enable it in the firmware, and with intel_iommu=on iommu=pt), and vfio may not be \
             used without one",
            "echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
        ));
    } else if !drivers.iommu {
        found.push(Finding::new(
            Level::Advice,
            "iommu",
            "devices are used without an IOMMU: a faulty device can write to any memory",
            "grep -o 'intel_iommu=[^ ]*\\|amd_iommu=[^ ]*' /proc/cmdline",
        ));
    }
}
