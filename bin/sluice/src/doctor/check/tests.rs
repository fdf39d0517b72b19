use super::*;
use crate::doctor::facts::{
    BootTool, Configuration, Controller, Daemon, Drivers, HugePages, Interface, Pci, SettingProblem,
};
use std::collections::{BTreeMap, BTreeSet};

fn port(name: &str, kind: &str) -> Interface {
    Interface { name: name.to_owned(), kind: kind.to_owned(), ..Interface::default() }
}

fn pages(numa: u32, total: u64, free: u64) -> HugePages {
    HugePages { kilobytes: 2048, numa, total, free }
}

/// A host without problems and with a DPDK port: two nodes of two cores, odd cores isolated.
fn healthy() -> Facts {
    let mut facts = Facts::default();
    for (key, value) in [("dpdk-init", "true"), ("pmd-cpu-mask", "0xa")] {
        facts.other_config.insert(key.to_owned(), value.to_owned());
    }
    let mut nic = port("p0", "dpdk");
    nic.numa = Some(0);
    nic.pci =
        Some(Pci { address: "0000:01:00.0".to_owned(), exists: true, driver: Some("vfio-pci".to_owned()) });
    facts.interfaces = vec![nic, port("br0", "internal")];
    facts.cores.online = BTreeMap::from([(0, 0), (1, 0), (2, 1), (3, 1)]);
    facts.cores.isolated = BTreeSet::from([1, 3]);
    facts.cores.governors = BTreeMap::from([("performance".to_owned(), BTreeSet::from([0, 1, 2, 3]))]);
    facts.cores.invariant_tsc = Some(true);
    facts.memory.huge = vec![pages(0, 512, 512), pages(1, 512, 512)];
    facts.memory.mounts = vec!["/dev/hugepages".to_owned()];
    facts.memory.memlock = Some(u64::MAX);
    facts.drivers = Drivers { vfio_pci: true, iommu: true, unsafe_noiommu: false, tun: true };
    facts
}

fn found(change: impl Fn(&mut Facts)) -> Vec<Finding> {
    let mut facts = healthy();
    change(&mut facts);
    diagnose(&facts)
}

/// The only finding that a change of the facts causes.
fn only(change: impl Fn(&mut Facts)) -> Finding {
    let found = found(change);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.into_iter().next().unwrap()
}

#[test]
fn a_healthy_host_has_no_findings() {
    assert_eq!(found(|_| {}), []);
    assert_eq!(diagnose(&Facts { drivers: healthy().drivers, ..Facts::default() }), []);
}

/// An overlay whose packets fit: a bridge with a tunnel, and the underlay's bridge with a kernel device.
fn overlay(facts: &mut Facts) {
    let on = |name: &str, kind: &str, bridge: &str, mtu| Interface {
        bridge: bridge.to_owned(),
        mtu: Some(mtu),
        ..port(name, kind)
    };
    let egress = Some("br-phy".to_owned());
    let tunnel =
        Interface { egress, remote: "10.0.0.2".to_owned(), mtu: None, ..on("tun0", "vxlan", "br-int", 0) };
    facts.interfaces.extend([
        tunnel,
        on("br-int", "internal", "br-int", 1450),
        on("br-phy", "internal", "br-phy", 1500),
        on("eth0", "", "br-phy", 1500),
    ]);
}

#[test]
fn overlays_whose_packets_do_not_fit() {
    assert_eq!(found(overlay), []);
    let long = only(|f| {
        overlay(f);
        f.interfaces.iter_mut().filter(|i| i.name == "br-int").for_each(|i| i.mtu = Some(1451));
    });
    assert_eq!(long.subject, "overlay-mtu");
    assert!(long.fix.contains("br-int mtu_request=1450"), "{long:?}");
    // The IPv6 header is 20 bytes longer.
    let six = only(|f| {
        overlay(f);
        f.interfaces.iter_mut().filter(|i| i.name == "tun0").for_each(|i| i.remote = "fd00::2".to_owned());
    });
    assert!(six.fix.contains("mtu_request=1430"), "{six:?}");
}

#[test]
fn the_kernel_answers_in_the_place_of_a_bridge() {
    let answers = |f: &mut Facts, name: &str| {
        overlay(f);
        f.interfaces.iter_mut().filter(|i| i.name == name).for_each(|i| i.answers_arp = true);
    };
    let arp = only(|f| answers(f, "eth0"));
    assert_eq!(arp.subject, "kernel-arp");
    assert!(arp.fix.starts_with("ip link set eth0 arp off"), "{arp:?}");
    assert_eq!(found(|f| answers(f, "br-int")), []);
}

#[test]
fn huge_pages() {
    let none = only(|f| f.memory.huge.clear());
    assert_eq!((none.subject, none.fix.as_str()), ("hugepages", "sysctl -w vm.nr_hugepages=1024"));
    let few = only(|f| f.memory.huge = vec![pages(0, 300, 100)]);
    assert_eq!(few.fix, "echo 456 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages");
    let far = only(|f| f.memory.huge = vec![pages(1, 512, 512)]);
    assert_eq!((far.subject, far.level), ("hugepages-node", Level::Warning));
    let used = |f: &mut Facts| {
        f.memory.huge = vec![pages(0, 300, 0)];
        f.daemon = Daemon::Answers(7);
    };
    assert!(found(used).is_empty());
    let chosen = |f: &mut Facts| {
        f.memory.huge.clear();
        f.other_config.insert("dpdk-extra".to_owned(), "--no-huge -m 512".to_owned());
    };
    assert!(found(chosen).is_empty());
    let mount = |f: &mut Facts| {
        f.interfaces.push(port("v0", "dpdkvhostuserclient"));
        f.memory.mounts.clear();
    };
    assert_eq!(only(mount).subject, "hugepage-mount");
}

#[test]
fn other_memory() {
    let locked = only(|f| f.memory.memlock = Some(8 << 20));
    assert_eq!((locked.subject, locked.fix.as_str()), ("memlock", "ulimit -l unlimited"));
    assert_eq!(only(|f| f.memory.swap_used = 4096).subject, "swap");
    let thp = only(|f| f.memory.transparent = Some("always".to_owned()));
    assert!(!has_problems_or_warnings(&[thp]));
}

fn mask(text: &str) -> impl Fn(&mut Facts) {
    let text = text.to_owned();
    move |f| {
        f.other_config.insert("pmd-cpu-mask".to_owned(), text.clone());
    }
}

#[test]
fn cores() {
    let all = found(mask("f"));
    let subjects: Vec<_> = all.iter().map(|f| f.subject).collect();
    assert_eq!(subjects, ["pmd-cpu-mask", "isolation"]);
    assert!(all[0].fix.ends_with("other_config:pmd-cpu-mask=0xe"));
    assert!(all[1].fix.ends_with("other_config:pmd-cpu-mask=0xa"));
    let far = only(mask("8"));
    assert_eq!(far.subject, "pmd-numa");
    assert!(far.fix.ends_with("=0x9"), "{}", far.fix);
    assert_eq!(found(mask("0x1x"))[0].subject, "pmd-cpu-mask");
    let slow = only(|f| {
        f.cores.governors = BTreeMap::from([("powersave".to_owned(), BTreeSet::from([1]))]);
    });
    assert_eq!(slow.fix, "cpupower frequency-set -g performance");
    assert_eq!(only(|f| f.cores.invariant_tsc = Some(false)).subject, "tsc");
    assert_eq!(only(|f| f.cores.isolated.clear()).level, Level::Advice);
}

#[test]
fn devices() {
    let driver = |driver: Option<&'static str>| {
        move |f: &mut Facts| {
            if let Some(pci) = &mut f.interfaces[0].pci {
                pci.driver = driver.map(str::to_owned);
            }
        }
    };
    assert_eq!(only(driver(Some("ixgbe"))).fix, "dpdk-devbind.py --bind=vfio-pci 0000:01:00.0");
    assert_eq!(only(driver(None)).subject, "driver");
    assert!(found(driver(Some("mlx5_core"))).is_empty());
    let gone =
        only(|f| f.interfaces[0].pci = Some(Pci { address: "0000:09:00.0".to_owned(), ..Pci::default() }));
    assert_eq!((gone.subject, gone.level), ("pci", Level::Problem));
    assert_eq!(only(|f| f.drivers.vfio_pci = false).fix, "modprobe vfio-pci");
    assert_eq!(only(|f| f.drivers.iommu = false).level, Level::Problem);
    assert_eq!(only(|f| f.drivers.tun = false).subject, "tun");
    let veth = only(|f| {
        let mut veth = port("v1", "afxdp-nonpmd");
        veth.driver = Some("veth".to_owned());
        veth.tx_checksum_offload = Some(true);
        f.interfaces.push(veth);
    });
    assert_eq!(veth.subject, "veth-offload");
}

#[test]
fn configuration() {
    let off = found(|f| _ = f.other_config.remove("dpdk-init"));
    assert_eq!((off[0].subject, off.len()), ("dpdk-init", 1));
    assert_eq!(
        only(|f| f.interfaces[1].error = Some("no".to_owned())).fix,
        "sluice vsctl list Interface br0"
    );
    let partly = only(|f| {
        (f.interfaces[1].error, f.interfaces[1].forwards_despite_error) = (Some("no".to_owned()), true)
    });
    assert_eq!(partly.level, Level::Warning);
    assert!(partly.text.starts_with("port br0 forwards packets, but"), "{}", partly.text);
    assert_eq!(only(|f| f.interfaces[1].missing_folder = Some("/x".to_owned())).fix, "mkdir -p /x");
    let other = only(|f| f.daemon = Daemon::OpenVswitch(5));
    assert_eq!((other.subject, other.level), ("ovs-vswitchd", Level::Problem));
    let idle = SettingProblem { text: "t".to_owned(), fix: "m".to_owned(), level: Level::Advice };
    // Duplicate findings are printed once.
    assert_eq!(only(|f| f.settings = vec![idle.clone(), idle.clone()]).level, Level::Advice);
}

#[test]
fn a_missing_switch_or_configuration_is_a_finding() {
    let none = only(|f| f.daemon = Daemon::None("/run/x".to_owned()));
    assert_eq!((none.subject, none.level), ("no-switch", Level::Problem));
    assert!(none.text.contains("/run/x"));
    assert_eq!(only(|f| f.daemon = Daemon::Silent(7, "no answer".to_owned())).level, Level::Problem);
    assert_eq!(only(|f| f.configuration = Configuration::None("x".to_owned())).level, Level::Problem);
    assert!(has_problems_or_warnings(&[only(|f| f.configuration = Configuration::Empty)]));
    assert_eq!(found(|f| (f.daemon, f.configuration) = (Daemon::Answers(7), Configuration::Present)), []);
}

#[test]
fn one_cause_is_one_finding() {
    let gone = only(|f| {
        f.interfaces[0].pci = Some(Pci { address: "0000:09:00.0".to_owned(), ..Pci::default() });
        f.interfaces[0].error = Some("could not open network device".to_owned());
    });
    assert_eq!(gone.subject, "pci");
    let folder = only(|f| {
        for name in ["v0", "v1"] {
            let mut guest = port(name, "dpdkvhostuserclient");
            guest.missing_folder = Some("/x".to_owned());
            guest.error = Some("no".to_owned());
            f.interfaces.push(guest);
        }
    });
    assert!(folder.text.starts_with("port v0, v1: "), "{}", folder.text);
}

#[test]
fn values_are_checked_by_the_parser_that_uses_them() {
    let with = |key: &str, value: &str| {
        let (key, value) = (key.to_owned(), value.to_owned());
        found(move |f| _ = f.other_config.insert(key.clone(), value.clone()))
    };
    for (key, value) in [
        ("pmd-rxq-assign", "foo"),
        ("pmd-sleep-max", "99999999"),
        ("pmd-sleep-max", "50,x:1"),
        ("pmd-latency-target", "soon"),
    ] {
        let [bad] = &with(key, value)[..] else { panic!("{key}={value}") };
        assert!(bad.text.contains(&format!("{key}={value}: ")), "{}", bad.text);
        assert_eq!(bad.fix, format!("sluice vsctl remove Open_vSwitch . other_config {key}"));
    }
    for (key, value) in
        [("pmd-rxq-assign", "group"), ("pmd-sleep-max", "50,3:10000"), ("pmd-latency-target", "0")]
    {
        assert_eq!(with(key, value), [], "{key}={value}");
    }
    let pinned =
        only(|f| _ = f.interfaces[0].other_config.insert("pmd-rxq-affinity".to_owned(), "all".to_owned()));
    assert!(pinned.text.starts_with("Interface p0: other_config:pmd-rxq-affinity=all: "), "{}", pinned.text);
}

#[test]
fn the_boot_loader_of_the_host_is_named() {
    let fix = |boot: BootTool| only(move |f| (f.cores.isolated, f.boot) = (BTreeSet::new(), boot)).fix;
    assert!(fix(BootTool::Grubby).starts_with("grubby --update-kernel=ALL --args='isolcpus="));
    let debian = fix(BootTool::UpdateGrub);
    assert!(debian.contains("update-grub") && !debian.contains("grubby"), "{debian}");
    assert!(fix(BootTool::Unknown).contains("isolcpus="));
}

#[test]
fn counters_of_the_running_switch() {
    let repaired = only(|f| f.counters.extend([("revalidate_repaired", 3)]));
    assert_eq!((repaired.level, repaired.subject), (Level::Problem, "counter"));
    assert!(repaired.text.starts_with("since its start: 3 megaflows"), "{repaired:?}");
    assert_eq!(found(|f| f.counters.extend(counters::names().map(|name| (name, 0)))), []);
    let too_long =
        only(|f| f.counters.extend([("datapath_drop_tx_mtu_exceeded", 3), ("drop_action_of_pipeline", 9)]));
    assert_eq!((too_long.level, too_long.subject), (Level::Advice, "drops"));
    let text = "since its start: 3 packets dropped as datapath_drop_tx_mtu_exceeded. The packet is longer than the MTU";
    assert!(too_long.text.starts_with(text) && too_long.fix.contains("--reason mtu"), "{too_long:?}");
}

#[test]
fn missing_permission_is_a_finding() {
    let switch = only(|f| f.daemon = Daemon::Denied(7, "Permission denied".to_owned()));
    let database = only(|f| f.configuration = Configuration::Denied("Permission denied".to_owned()));
    for finding in [switch, database] {
        assert_eq!((finding.subject, finding.fix.as_str()), ("no-access", "sudo sluice doctor"));
    }
}

#[test]
fn controllers_without_a_connection() {
    let dead = Controller {
        target: "tcp:127.0.0.1:6653".into(),
        is_connected: false,
        last_error: Some("Connection refused".into()),
    };
    let alive = Controller { is_connected: true, ..dead.clone() };
    let facts = Facts { controllers: vec![dead, alive], daemon: Daemon::Answers(7), ..Facts::default() };
    let found = diagnose(&facts);
    let of_controllers: Vec<&Finding> = found.iter().filter(|f| f.subject == "controller").collect();
    assert_eq!(of_controllers.len(), 1);
    assert!(
        of_controllers[0].text.ends_with("the controller tcp:127.0.0.1:6653: Connection refused"),
        "{found:?}"
    );
    assert!(diagnose(&Facts { daemon: Daemon::Unknown, ..facts }).iter().all(|f| f.subject != "controller"));
}
