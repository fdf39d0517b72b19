//! The order in which the database's configuration is applied to the running switch.

use crate::add_interface;
use crate::configure_bridge;
use crate::configure_limits::bundle_idle;
use crate::log::LOG;
use crate::switch::Switch;
use crate::tracked_connections;
use config::{DatapathConfig, Desired, Step, plan};
use netdev::shared_rx::SharedRxConfig;
use settings::interface::RX_POOL;
use settings::root::{FLOW_RESTORE_WAIT, RX_POOL_QUEUES, RX_POOL_SIZE};
use std::sync::Arc;
use translation::Changes;

impl Switch {
    /// Applies the database's configuration to the switch. Returns whether DPDK was started.
    ///
    /// The order matters:
    ///
    /// 1. Commits of bundles are completed: the checks of a commit hold only while nothing else changes.
    ///
    /// 2. The plan is made: the differences between the database and the running switch.
    ///
    /// 3. Prerequisites of ports and bridges are prepared: the TLS identity, and DPDK. Problems of settings are logged before their effects appear.
    ///
    /// 4. The steps of the plan are carried out: first those that remove, then changes of port numbers, then those that add and change. If an
    ///    interface was removed or changed, interfaces that could not be created are tried again, because the interface may have used something that
    ///    they need, such as a device or the configuration of a tunnel.
    ///
    /// 5. If the restoring of flows ends now, translation and the connections to controllers begin: the bridges have their ports by then.
    ///
    /// 6. Datapaths without a bridge are removed; the others are configured from their rows and `other_config`.
    ///
    /// 7. Everything that depends on the ports of bridges is updated: addresses, MTUs, sessions, bonds, spanning trees, QoS. The result is published
    ///    in this turn. Then the exporters are configured.
    ///
    /// 8. Interfaces that waited for DPDK are tried again. This needs the new configuration in `applied`.
    pub fn reconfigure(&mut self) -> bool {
        self.finish_commits();
        let (desired, touched, changes) = self.db.follow();
        let mut steps = plan(&self.applied, &desired, &touched);
        steps.extend(steps_for_changed_pools(&self.applied, &desired, &steps));
        self.configure_identity(&desired);
        self.log_first_configuration();
        self.log_settings(&changes);
        self.note_rows(&changes);
        let restored = self.end_restoring_if_requested(&desired);
        let came_up = self.start_dpdk(&desired);
        self.carry_out_all(&steps, &desired);
        if restored {
            self.begin_to_forward();
        }
        self.configure_datapaths(&desired);
        self.configure_in_band(&desired);
        if !steps.is_empty() {
            self.apply_port_changes(&desired);
            self.devices.netdevs.renew_captures();
        }
        self.configure_sampling(&desired);
        self.applied = desired;
        if came_up {
            self.findings.check_all();
            self.retry_failed();
        }
        came_up
    }

    fn finish_commits(&mut self) {
        let names: Vec<String> = self.bridges.keys().cloned().collect();
        names.iter().for_each(|name| self.continue_bridge_work(name, true));
    }

    /// Logs the version of the switch when the first configuration is applied.
    fn log_first_configuration(&mut self) {
        if !self.start.configured {
            runtime::info!(LOG, "{}", runtime::version_text(&self.options.progname));
            self.start.configured = true;
        }
    }

    /// Ends the restoring of flows if the database says that it is complete. Returns whether it ended now.
    fn end_restoring_if_requested(&mut self, desired: &Desired) -> bool {
        let restored = self.start.restoring && !FLOW_RESTORE_WAIT.flag_of(&desired.other_config);
        self.start.restoring &= !restored;
        restored
    }

    /// Carries out the steps of the plan, removals first.
    fn carry_out_all(&mut self, steps: &[Step], desired: &Desired) {
        if steps.is_empty() {
            return;
        }
        // The steps change learning tables long before the changes are published, so all megaflows are marked as outdated first.
        self.datapaths.with_bridges().for_each(|b| b.shared.live.note(Changes::everything()));
        let (removal_steps, other_steps): (Vec<_>, Vec<_>) = steps
            .iter()
            .partition(|step| matches!(step, Step::RemoveInterface { .. } | Step::RemoveBridge { .. }));
        let together = self.devices.netdevs.delete_together();
        removal_steps.into_iter().for_each(|step| self.carry_out(step, desired));
        drop(together);
        self.renumber(steps, desired);
        other_steps.into_iter().for_each(|step| self.carry_out(step, desired));
        if steps.iter().any(|s| matches!(s, Step::RemoveInterface { .. } | Step::ChangeInterface { .. })) {
            self.retry_failed_interfaces(desired);
        }
    }

    /// Removes the datapaths that no bridge uses, and configures the others.
    fn configure_datapaths(&mut self, desired: &Desired) {
        self.datapaths.retain_used(&self.bridges);
        let default = DatapathConfig::default();
        let shared_rx = SharedRxConfig::read(&desired.other_config);
        for backer in self.datapaths.with_bridges_mut() {
            // With `--enable-dummy=system` the row of type `system` configures the dummy datapath.
            let is_own = |kind: &str| self.options.datapath_type(kind) == Some(&backer.datapath_type);
            let row = desired.datapaths.iter().find(|(kind, _)| is_own(kind));
            tracked_connections::configure(backer, row.map_or(&default, |(_, config)| config));
            backer.shared_rx.configure(shared_rx);
        }
        if desired.other_config != self.applied.other_config {
            self.configure_limits(desired);
        }
        let bundle_idle = bundle_idle(desired);
        self.bridges.values_mut().for_each(|b| b.conns.set_bundle_idle(bundle_idle));
    }

    /// Updates everything that depends on which ports exist: bridge addresses and MTU, bonds, spanning trees, QoS.
    pub(crate) fn apply_port_changes(&mut self, desired: &Desired) {
        for (bridge, name) in std::mem::take(&mut self.removed_by_command) {
            add_interface::change(self, desired, &bridge, &name);
        }
        for bridge in self.bridges.values_mut() {
            configure_bridge::derive_from_ports(bridge);
        }
        self.update_session_addresses();
        self.configure_link_aggregation();
        self.configure_trees();
        self.configure_qos();
        self.mark_all_datapaths_changed();
    }

    /// Begins to translate packets and to connect to controllers, after flows have been restored.
    fn begin_to_forward(&mut self) {
        for backer in self.datapaths.with_bridges() {
            backer
                .datapath
                .set_handler(Arc::clone(&backer.upcall_translator) as Arc<dyn dpif::UpcallHandler>);
        }
        let now = self.clock.now();
        for bridge in self.bridges.values_mut() {
            configure_bridge::connect(bridge, &self.options, false, now);
        }
    }

    /// Marks everything as changed, so that new snapshots are published and all megaflows revalidated.
    pub fn mark_all_datapaths_changed(&mut self) {
        self.datapaths.with_bridges_mut().for_each(|b| b.mark_all_changed());
    }
}

/// Steps that change the interfaces that share an rx pool, if the size of pools has changed: the interfaces need new pools.
fn steps_for_changed_pools(applied: &Desired, desired: &Desired, steps: &[Step]) -> Vec<Step> {
    let size =
        |of: &Desired| (RX_POOL_SIZE.number(&of.other_config), RX_POOL_QUEUES.number(&of.other_config));
    if size(applied) == size(desired) {
        return Vec::new();
    }
    let mut out = Vec::new();
    for bridge in desired.bridges.values() {
        let interfaces = bridge.ports.values().flat_map(|port| &port.interfaces);
        for interface in interfaces.filter(|i| RX_POOL.word(&i.other_config) == "spp") {
            let step = Step::ChangeInterface { bridge: bridge.name.clone(), name: interface.name.clone() };
            if !steps.contains(&step) {
                out.push(step);
            }
        }
    }
    out
}
