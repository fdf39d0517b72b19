//! Checks of the configuration: DPDK, failed ports, settings, and whether the switch runs.

use super::tuning;
use crate::doctor::facts::{Configuration, Daemon, Facts, Interface};
use crate::doctor::finding::{Finding, Level};
use std::collections::BTreeMap;

pub(crate) fn check(facts: &Facts, found: &mut Vec<Finding>) {
    missing_configuration(facts, found);
    daemon(facts, found);
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
        if let Some(error) = interface.error.as_ref().filter(|_| !is_explained(facts, interface)) {
            let name = &interface.name;
            let (level, what) = match interface.forwards_despite_error {
                true => (Level::Warning, "forwards packets, but not all of its settings have an effect"),
                false => (Level::Problem, "does not work"),
            };
            found.push(Finding::new(
                level,
                "port",
                format!("port {name} {what}: {error}"),
                format!("sluice vsctl list Interface {name}"),
            ));
        }
    }
    folders(facts, found);
    controllers(facts, found);
    for setting in &facts.settings {
        found.push(Finding::new(setting.level, "setting", &setting.text, &setting.fix));
    }
    tuning::check(facts, found);
}

/// Reports controllers without a connection: packet-ins are then not answered, and with `fail_mode=secure` packets of new flows are dropped.
fn controllers(facts: &Facts, found: &mut Vec<Finding>) {
    let Daemon::Answers(_) = facts.daemon else { return };
    for controller in facts.controllers.iter().filter(|c| !c.is_connected) {
        let why = controller.last_error.as_ref().map_or(String::new(), |why| format!(": {why}"));
        let text = format!("the switch has no connection to the controller {}{why}", controller.target);
        found.push(Finding::new(Level::Warning, "controller", text, "sluice vsctl list Controller"));
    }
}

/// Whether another finding already explains the port's error and contains the command that fixes the problem.
fn is_explained(facts: &Facts, interface: &Interface) -> bool {
    let no_device = interface.pci.as_ref().is_some_and(|pci| !pci.exists);
    no_device || interface.missing_folder.is_some() || interface.is_dpdk() && !facts.wants_dpdk()
}

/// Suggested command if only root or a group may use a file or socket.
const AS_ROOT: &str = "sudo sluice doctor";

/// Reports missing directories for vhost-user sockets; each directory is reported once, with all ports that need it.
fn folders(facts: &Facts, found: &mut Vec<Finding>) {
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for interface in &facts.interfaces {
        if let Some(folder) = &interface.missing_folder {
            missing.entry(folder).or_default().push(&interface.name);
        }
    }
    for (folder, ports) in missing {
        found.push(Finding::new(
            Level::Problem,
            "vhost-folder",
            format!("port {}: the directory of the socket, {folder}, does not exist", ports.join(", ")),
            format!("mkdir -p {folder}"),
        ));
    }
}

/// Reports a configuration that is missing, unreadable or empty: then at most the host can be checked, and an empty list of findings
/// would be misleading.
fn missing_configuration(facts: &Facts, found: &mut Vec<Finding>) {
    match &facts.configuration {
        Configuration::Unknown | Configuration::Present => {}
        Configuration::None(why) => found.push(Finding::new(
            Level::Problem,
            "no-configuration",
            format!("no configuration found, so only the host was checked: {why}"),
            "export OVS_RUNDIR=DIRECTORY   # the directory of the database's socket; OVS_DBDIR: that of conf.db",
        )),
        Configuration::Denied(why) => found.push(Finding::new(
            Level::Problem,
            "no-access",
            format!("this user may not read the configuration, so only the host was checked: {why}"),
            AS_ROOT,
        )),
        Configuration::Empty => found.push(Finding::new(
            Level::Warning,
            "no-bridge",
            "nothing is configured: the database has no bridge",
            "sluice vsctl add-br br0 -- set bridge br0 datapath_type=netdev",
        )),
    }
}

/// Reports a switch that does not run or does not answer, and an Open vSwitch that runs in this run directory.
fn daemon(facts: &Facts, found: &mut Vec<Finding>) {
    let (subject, text, fix) = match &facts.daemon {
        Daemon::Unknown | Daemon::Answers(_) => return,
        Daemon::None(directory) => (
            "no-switch",
            format!("no switch runs: no process holds a pid file in {directory}"),
            "systemctl start sluiced   # or set OVS_RUNDIR to the run directory of the switch".to_owned(),
        ),
        Daemon::Silent(pid, why) => (
            "no-answer",
            format!("the switch (process {pid}) does not answer: {why}"),
            format!("kill -ABRT {pid}   # ends it; a process monitor starts it again"),
        ),
        Daemon::Denied(pid, why) => (
            "no-access",
            format!("this user may not use the control socket of the switch (process {pid}): {why}"),
            AS_ROOT.to_owned(),
        ),
        Daemon::OpenVswitch(pid) => (
            "ovs-vswitchd",
            format!("Open vSwitch runs in this run directory (ovs-vswitchd, process {pid})"),
            "systemctl disable --now openvswitch-switch ovs-vswitchd".to_owned(),
        ),
    };
    found.push(Finding::new(Level::Problem, subject, text, fix));
}
