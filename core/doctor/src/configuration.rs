//! What the database asks for: DPDK, ports that failed, settings, another switch beside this one.

use crate::facts::{Facts, Program};
use crate::{Finding, Level};

pub(crate) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    let dpdk: Vec<&str> = facts.interfaces.iter().filter(|i| i.is_dpdk()).map(|i| i.name.as_str()).collect();
    if !dpdk.is_empty() && !facts.wants_dpdk() {
        found.push(Finding::new(
            Level::Problem,
            "dpdk-init",
            format!("there are DPDK ports ({}), but DPDK is not enabled", dpdk.join(", ")),
            "sluice vsctl set Open_vSwitch . other_config:dpdk-init=true",
        ));
    }
    for interface in &facts.interfaces {
        if let Some(error) = &interface.error {
            let name = &interface.name;
            found.push(Finding::new(
                Level::Problem,
                "port",
                format!("port {name} does not work: {error}"),
                format!("sluice vsctl list Interface {name}"),
            ));
        }
        if let Some(folder) = &interface.missing_folder {
            found.push(Finding::new(
                Level::Problem,
                "vhost-folder",
                format!("port {}: the folder of its socket, {folder}, is not there", interface.name),
                format!("mkdir -p {folder}"),
            ));
        }
    }
    switches(facts, found);
    for setting in &facts.settings {
        let level = if setting.is_wrong { Level::Warning } else { Level::Advice };
        found.push(Finding::new(level, "setting", &setting.text, &setting.mend));
    }
}

/// Two switches in one host fight for the database's lock, for ports and for huge pages.
fn switches(facts: &Facts, found: &mut Vec<Finding>) {
    for (pid, _) in facts.switches.iter().filter(|(_, program)| *program == Program::OpenVswitch) {
        found.push(Finding::new(
            if facts.is_running() { Level::Problem } else { Level::Warning },
            "ovs-vswitchd",
            format!(
                "Open vSwitch runs in this host (ovs-vswitchd, process {pid}) and takes ports and memory"
            ),
            "systemctl disable --now openvswitch-switch ovs-vswitchd",
        ));
    }
}
