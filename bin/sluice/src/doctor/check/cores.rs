//! Checks of PMD threads and their cores.

use crate::doctor::facts::{BootTool, Facts, Interface};
use crate::doctor::finding::{Finding, Level};
use pmd::{Core, Topology};
use std::collections::BTreeSet;
use units::{CoreId, NumaId};

pub(crate) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    if !facts.polls() || facts.cores.online.is_empty() {
        return;
    }
    let core = |(id, numa): (&u32, &u32)| Core { id: CoreId(*id), numa: NumaId(*numa) };
    let topology: Topology = facts.cores.online.iter().map(core).collect();
    let mask = settings::root::PMD_CPU_MASK.get(&facts.other_config);
    let wanted = pmd::cores::wanted(&topology, mask);
    let set = |cores: &BTreeSet<u32>| {
        format!("sluice vsctl set Open_vSwitch . other_config:pmd-cpu-mask={}", hex(cores))
    };
    let polling: BTreeSet<u32> = wanted.cores.iter().map(|c| c.id.0).collect();
    // A mask without an existing core results in no PMD thread. Then suggest the cores that would be used without a mask.
    let usable = match polling.is_empty() {
        true => pmd::cores::wanted(&topology, None).cores.iter().map(|c| c.id.0).collect(),
        false => polling.clone(),
    };
    for warning in wanted.warnings {
        found.push(Finding::new(Level::Warning, "pmd-cpu-mask", warning, set(&usable)));
    }
    let all: BTreeSet<u32> = facts.cores.online.keys().copied().collect();
    if polling == all {
        let fewer: BTreeSet<u32> = all.iter().skip(1).copied().collect();
        let fix = if fewer.is_empty() { "lscpu".to_owned() } else { set(&fewer) };
        found.push(Finding::new(
            Level::Warning,
            "pmd-cpu-mask",
            "PMD threads use all cores: none is left for the switch's other threads and for the host",
            fix,
        ));
    }
    if mask.is_some() {
        nodes(facts, &wanted.cores, found);
    }
    isolation(facts, &polling, found, set);
    clocks(facts, &polling, found);
}

/// A hexadecimal mask of these cores.
fn hex(cores: &BTreeSet<u32>) -> String {
    let digits = cores.last().map_or(1, |last| last / 4 + 1);
    let digit = |d: u32| (0..4).filter(|bit| cores.contains(&(d * 4 + bit))).map(|bit| 1 << bit).sum::<u32>();
    let text: String = (0..digits).rev().filter_map(|d| char::from_digit(digit(d), 16)).collect();
    format!("0x{text}")
}

/// The cores as a list such as `1,3`.
fn list(cores: &BTreeSet<u32>) -> String {
    cores.iter().map(u32::to_string).collect::<Vec<_>>().join(",")
}

/// Reports ports on a NUMA node without a PMD thread, because such ports are polled from another node.
fn nodes(facts: &Facts, polling: &[Core], found: &mut Vec<Finding>) {
    let pmd_nodes: BTreeSet<u32> = polling.iter().map(|c| c.numa.0).collect();
    let far = |i: &&Interface| i.is_polled() && i.numa.is_some_and(|node| !pmd_nodes.contains(&node));
    let ports: Vec<&Interface> = facts.interfaces.iter().filter(far).collect();
    let nodes: BTreeSet<u32> = ports.iter().filter_map(|i| i.numa).collect();
    for node in nodes {
        let names: Vec<&str> =
            ports.iter().filter(|i| i.numa == Some(node)).map(|i| i.name.as_str()).collect();
        let first = facts.cores.online.iter().find(|(_, n)| **n == node).map(|(core, _)| *core);
        let cores: BTreeSet<u32> = polling.iter().map(|c| c.id.0).chain(first).collect();
        found.push(Finding::new(
            Level::Warning,
            "pmd-numa",
            format!("ports {} are on NUMA node {node}, which has no PMD thread", names.join(", ")),
            format!("sluice vsctl set Open_vSwitch . other_config:pmd-cpu-mask={}", hex(&cores)),
        ));
    }
}

/// The command that adds arguments to the kernel's command line.
fn with_kernel_arguments(boot: BootTool, arguments: &str) -> String {
    match boot {
        BootTool::Grubby => {
            format!("grubby --update-kernel=ALL --args='{arguments}'   # and reboot the host")
        }
        BootTool::UpdateGrub => format!(
            "mkdir -p /etc/default/grub.d && \\\n    \
             echo 'GRUB_CMDLINE_LINUX=\"$GRUB_CMDLINE_LINUX {arguments}\"' > /etc/default/grub.d/sluice.cfg && \\\n    \
             update-grub   # and reboot the host"
        ),
        BootTool::Unknown => {
            format!("cat /proc/cmdline   # add in the boot loader's configuration: {arguments}")
        }
    }
}

/// Reports PMD threads on cores that the scheduler also uses for other programs.
fn isolation(
    facts: &Facts,
    polling: &BTreeSet<u32>,
    found: &mut Vec<Finding>,
    set: impl Fn(&BTreeSet<u32>) -> String,
) {
    let isolated = &facts.cores.isolated;
    if isolated.is_empty() {
        // The first core must remain for the host, even if the mask selects it.
        let first = facts.cores.online.keys().next();
        let spare: BTreeSet<u32> = polling.iter().filter(|c| Some(*c) != first).copied().collect();
        if spare.is_empty() {
            return;
        }
        return found.push(Finding::new(
            Level::Advice,
            "isolation",
            "no core is isolated: other programs take CPU time from PMD threads",
            with_kernel_arguments(facts.boot, &format!("isolcpus={0} nohz_full={0}", list(&spare))),
        ));
    }
    if !polling.is_subset(isolated) {
        let shared: BTreeSet<u32> = polling.difference(isolated).copied().collect();
        found.push(Finding::new(
            Level::Warning,
            "isolation",
            format!(
                "PMD threads run on cores {}, which other programs use too, although there are isolated cores",
                list(&shared)
            ),
            set(isolated),
        ));
    }
}

fn clocks(facts: &Facts, polling: &BTreeSet<u32>, found: &mut Vec<Finding>) {
    for (governor, cores) in &facts.cores.governors {
        let slow = cores.intersection(polling).count();
        if governor != "performance" && slow > 0 {
            found.push(Finding::new(
                Level::Warning,
                "governor",
                format!("{slow} cores of PMD threads use the frequency governor {governor}"),
                "cpupower frequency-set -g performance",
            ));
        }
    }
    if facts.cores.invariant_tsc == Some(false) {
        let now = facts.cores.clocksource.as_deref().unwrap_or("unknown");
        found.push(Finding::new(
            Level::Advice,
            "tsc",
            format!("the time stamp counter is not invariant (the kernel's clock is {now}): measured loads may be wrong"),
            "grep -om1 'constant_tsc\\|nonstop_tsc' /proc/cpuinfo",
        ));
    }
}
