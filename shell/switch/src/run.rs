//! One turn of the main loop, and what ends the sleep after it.

use crate::backer::Backer;
use crate::drop_counters::publish_coverage_counters;
use crate::fragments;
use crate::publish::publish;
use crate::switch::Switch;
use crate::tracked_connections;
use crate::{fail_open, in_band};
use config::Desired;
use netdev::device::Facts;
use netdev::rtnl::LinkEvent;
use ofconn::{AsyncKind, OwnedSockets, SocketThread};
use openflow::Version;
use openflow::port::PortReason;
use openflow_service::{Barrier, Bridge, BridgePort};
use runtime::coverage::Counter;
use runtime::log::Level;
use runtime::poll_loop::Interest;
use runtime::{Module, RateLimit, WaitSet};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use units::{Millis, OfPort};

static LOG: Module = Module::new("bridge");
/// Counts publications after which every megaflow is revalidated.
static RECONFIGURED: Counter = Counter::new("rev_reconfigure");
/// A single link that flaps, or the links of many ports that change at once, must not flood the log.
static LINK_LIMIT: RateLimit = RateLimit::new(60, 120);

/// The shortest time between two publications of many changed flows. It is as long as one bridge's requests may take in a turn.
const BULK_INTERVAL: Millis = Millis(5);
/// Interval at which timeouts of flows are checked.
const EXPIRY_INTERVAL: Millis = Millis(1000);
/// Interval at which the main loop does its part of megaflow expiry.
const MEGAFLOW_EXPIRY_INTERVAL: Millis = Millis(500);
/// The longest time for requests to one bridge in one turn. The controller determines how long a request takes (a dump of all groups, a bundle);
/// control commands, the database and other bridges wait meanwhile.
const REQUESTS_TIME: Duration = Duration::from_millis(5);
/// Interval of reading the state of devices that do not report link changes (guests, DPDK devices).
const DEVICE_READ_INTERVAL: Millis = Millis(1000);
/// Interval at which states that change without an event are written to the database (for example how long a controller has been connected).
pub(crate) const STATUS_INTERVAL: Millis = Millis(1000);
/// In dummy mode, the largest number of polls of the workers before the main loop does other work: two dummy ports that send packets to each other
/// must not block the loop.
const INLINE_POLLS: usize = 1000;

/// Logs that the link of an interface has changed.
fn log_link(name: &str, before: Option<&Facts>, now: &Facts) {
    let Some(before) = before else { return };
    if (before.link_up, before.link_resets) != (now.link_up, now.link_resets) {
        let (state, n) = (if now.link_up { "up" } else { "down" }, now.link_resets);
        runtime::log_rl!(
            LOG,
            LINK_LIMIT,
            Level::Info,
            "interface {name}: the link is {state}, after {n} changes"
        );
    }
}

/// Whether the changes of a datapath may be published later: they are many changes of flows, and no barrier waits for them.
fn is_delayed(backer: &Backer, bridges: &BTreeMap<String, Bridge>) -> bool {
    let awaits =
        |b: &Bridge| b.config.datapath_type == backer.datapath_type && !b.unfinished.barriers.is_empty();
    backer.changes.is_bulk() && !bridges.values().any(awaits)
}

/// What happened in a turn of the main loop.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// DPDK was started.
    pub dpdk_came_up: bool,
    /// A client that waited for its changes got the reply, so its next request is expected soon.
    pub barrier_answered: bool,
}

impl Switch {
    /// One turn of the main loop, except for the commands of the control socket, which are served after this function.
    pub fn run(&mut self) -> Turn {
        let now = self.clock.now();
        runtime::ordered_panic::panic_if_ordered();
        self.openflow.iter().for_each(SocketThread::begin_turn);
        if runtime::coverage::is_due(now) {
            publish_coverage_counters(self);
            runtime::coverage::run(now);
        }
        let mut dpdk_came_up = false;
        let changed = self.db.run(now);
        if changed && self.db.is_ready() {
            dpdk_came_up = self.reconfigure();
            self.run_port_status();
            self.status.changed();
        }
        self.run_links();
        self.run_routes();
        self.run_devices(now);
        self.run_packets();
        self.run_openflow(now);
        self.run_expiry(now);
        self.run_packets();
        self.publish_due_changes();
        let barrier_answered = self.complete_barriers(now);
        self.openflow.iter().for_each(|sockets| sockets.flush(now));
        self.run_sampling();
        if self.status.due || now.since(self.last.status) >= STATUS_INTERVAL || self.options.dummy_mode() {
            self.write_status(now);
        } else if self.status.statistics.is_some() {
            self.continue_statistics(now);
        }
        Turn { dpdk_came_up, barrier_answered }
    }

    /// Ends a turn after commands have been served: returns freed memory to the operating system.
    pub fn end_turn(&self) {
        openflow_service::reclaim::release_freed_memory();
    }

    /// In dummy mode, forwards packets until no work is left, so that all consequences of the packets are complete when this function returns.
    /// Otherwise other threads forward packets, and the main loop publishes changes at most once per turn.
    pub fn run_packets(&mut self) {
        self.apply_worker_changes();
        self.run_handlers();
        if !self.options.dummy_mode() {
            self.run_side_effects();
            self.run_port_sessions();
            self.run_link_aggregation();
            self.run_trees();
            return;
        }
        let mut polls = 0;
        while polls < INLINE_POLLS {
            self.publish_changes();
            let (mut busy, mut waiting) = (false, false);
            for backer in self.datapaths.all_mut() {
                busy |= backer.workers.poll_inline(&self.clock);
                waiting |= backer.workers.has_parked_packets();
            }
            busy |= self.run_side_effects();
            busy |= self.run_port_sessions();
            busy |= self.run_link_aggregation();
            busy |= self.run_trees();
            if busy || self.datapaths.with_bridges().any(|b| !b.changes.is_empty()) {
                polls += 1;
            } else if waiting {
                std::thread::yield_now();
            } else {
                return;
            }
        }
        // Packets are left: the next turn begins at once and continues.
        self.waker.wake();
    }

    /// Publishes changes and hands them to the revalidator; in dummy mode revalidation is complete afterwards.
    pub fn publish_changes(&mut self) {
        self.publish_where(|_, _| true);
    }

    /// As `publish_changes`, but publishes many changes of flows only once in [`BULK_INTERVAL`]: a change of a table after a publication copies the
    /// parts of the table that the published snapshot still uses. Changes are published at once if a barrier waits for them.
    fn publish_due_changes(&mut self) {
        let (now, inline) = (self.clock.now(), self.options.dummy_mode());
        self.publish_where(|backer, bridges| {
            inline
                || !is_delayed(backer, bridges)
                || now.since(backer.snapshot_builder.published_at) >= BULK_INTERVAL
        });
    }

    fn publish_where(&mut self, is_due: impl Fn(&Backer, &BTreeMap<String, Bridge>) -> bool) {
        let now = self.clock.now();
        for backer in self.datapaths.with_bridges_mut() {
            backer.take_live_changes();
            if !backer.changes.is_empty() && is_due(backer, &self.bridges) {
                publish(backer, &mut self.bridges, &self.underlay);
                let changes = std::mem::take(&mut backer.changes);
                if changes.is_all() {
                    RECONFIGURED.hit();
                }
                backer.snapshot_builder.published_at = now;
                let translator = &backer.upcall_translator;
                translator.bfd.ports.published(now);
                translator.cfm.ports.published(now);
                translator.lldp.ports.published(now);
                translator.trees.published();
                let version = backer.shared.version();
                backer.revalidator.add_changes(changes, version);
                backer.snapshot_builder.stopping.published(version);
                backer.shared.live.handed_over();
            }
            backer.revalidator.run(now);
        }
    }

    /// Handles kernel devices that were added, removed or changed.
    fn run_links(&mut self) {
        let mut events = Vec::new();
        if let Some(links) = &mut self.devices.links {
            links.take(1000, &mut events);
        }
        let mut appeared = false;
        for event in events {
            match event {
                LinkEvent::Changed(link) => {
                    self.underlay.device_changed(link.ifindex, Some((&link.name, link.up)));
                    appeared |= self.bridges.values().any(|b| b.failed.contains_key(&link.name));
                    // A renamed device is identified by its interface index.
                    let is_meant =
                        |port: &BridgePort| port.name == link.name || port.has_ifindex(link.ifindex);
                    self.refresh_devices(&self.ports_where(is_meant));
                }
                LinkEvent::Removed { ifindex, .. } => {
                    self.underlay.device_changed(ifindex, None);
                    self.refresh_devices(&self.ports_where(|port| port.has_ifindex(ifindex)));
                }
                LinkEvent::Lost => self.refresh_devices(&self.ports_where(|_| true)),
            }
        }
        if appeared {
            self.retry_failed();
        }
    }

    /// Serves the sockets of dummy devices, and reads the state of devices that change without a kernel event (guests and DPDK devices).
    fn run_devices(&mut self, now: Millis) {
        self.devices.netdevs.run(now);
        let read_due = now.since(self.last.link_states) >= DEVICE_READ_INTERVAL;
        if read_due {
            self.last.link_states = now;
        }
        let mut changed = Vec::new();
        for name in self.devices.netdevs.take_changed() {
            changed.extend(self.ports_named(&name));
        }
        for bridge in self.bridges.values_mut() {
            for ofport in bridge.ports.watched() {
                let Some(port) = bridge.ports.get_mut_unmarked(&ofport) else { continue };
                let openflow_service::Backing::Device { netdev, .. } = &mut port.backing else { continue };
                if read_due {
                    netdev.check_for_change();
                }
                if netdev.change_seq() != port.change_seq {
                    changed.push((bridge.name.clone(), ofport));
                }
            }
        }
        self.refresh_devices(&changed);
    }

    /// The ports with a name, each with the name of its bridge.
    fn ports_named(&self, name: &str) -> Vec<(String, OfPort)> {
        let there = |b: &Bridge| Some((b.name.clone(), b.ports.named(name)?.ofport));
        self.bridges.values().filter_map(there).collect()
    }

    /// The ports that `which` accepts, each with the name of its bridge.
    pub(crate) fn ports_where(&self, which: impl Fn(&BridgePort) -> bool) -> Vec<(String, OfPort)> {
        let of = |b: &Bridge| {
            let ports = b.ports.values().filter(|port| which(port));
            ports.map(|port| (b.name.clone(), port.ofport)).collect::<Vec<_>>()
        };
        self.bridges.values().flat_map(of).collect()
    }

    /// Sends controllers the port status messages about ports whose state changed since the last message.
    fn run_port_status(&mut self) {
        for bridge in self.bridges.values_mut() {
            for ofport in std::mem::take(&mut bridge.unreported_ports) {
                let Some(port) = bridge.ports.get_mut_unmarked(&ofport) else { continue };
                let Some(old) = port.reported_state.take() else { continue };
                let new = openflow_service::port_description(port);
                bridge.conns.send_port_status(PortReason::Modify, &new, Some(&old), None);
            }
        }
    }

    /// Reads the state of some devices again and reports changes to controllers. A port whose device is gone is removed until a device of its name
    /// appears.
    pub(crate) fn refresh_devices(&mut self, ports: &[(String, OfPort)]) {
        if ports.is_empty() {
            return;
        }
        let mut vanished = Vec::new();
        let mut with_new_address = BTreeSet::new();
        for (name, ofport) in ports {
            let Some(bridge) = self.bridges.get_mut(name) else { continue };
            let Some(port) = bridge.ports.get_mut_unmarked(ofport) else { continue };
            let openflow_service::Backing::Device { netdev, .. } = &mut port.backing else { continue };
            port.change_seq = netdev.change_seq();
            let facts = match netdev.facts() {
                Ok(facts) if port.facts.as_ref() != Some(&facts) => facts,
                Ok(_) => continue,
                Err(e) if e.is_gone() => {
                    vanished.push((bridge.name.clone(), port.name.clone()));
                    continue;
                }
                // A device whose state cannot be read counts as down.
                Err(_) => {
                    let Some(f) = port.facts.clone().filter(|f| f.link_up || f.admin_up) else { continue };
                    Facts { link_up: false, admin_up: false, ..f }
                }
            };
            let Some(port) = bridge.ports.get_mut(ofport) else { continue };
            let old = openflow_service::port_description(port);
            log_link(&port.name, port.facts.as_ref(), &facts);
            let before = port.mac();
            port.facts = Some(facts);
            if port.mac() != before {
                with_new_address.insert(name);
            }
            let new = openflow_service::port_description(port);
            bridge.conns.send_port_status(PortReason::Modify, &new, Some(&old), None);
            crate::mtu::update(bridge, &BTreeSet::from([*ofport]));
            self.status.changed();
            if let Some(backer) = self.datapaths.of_bridge_mut(bridge) {
                backer.mark_all_changed();
            }
        }
        for name in with_new_address {
            self.bridges.get_mut(name).into_iter().for_each(crate::configure_bridge::restore_addresses);
        }
        for (bridge, name) in &vanished {
            crate::add_interface::remove_vanished(self, bridge, name);
        }
        if vanished.is_empty() {
            self.configure_qos();
        } else {
            self.ports_changed();
        }
        self.update_session_addresses();
    }

    /// Serves the OpenFlow connections of all bridges, and updates fail-open mode and in-band control.
    fn run_openflow(&mut self, now: Millis) {
        self.openflow.iter().for_each(|sockets| sockets.serve(now));
        let is_due = |b: &&Bridge| b.is_at_work() || !b.conns.is_idle(now);
        let due: Vec<String> = self.bridges.values().filter(is_due).map(|b| b.name.clone()).collect();
        for name in due {
            self.run_connections(&name, now);
        }
        self.run_controller_modes(now);
    }

    /// Serves the OpenFlow connections of a bridge.
    fn run_connections(&mut self, name: &str, now: Millis) {
        let Some(bridge) = self.bridges.get_mut(name) else { return };
        bridge.conns.run(now);
        self.continue_bridge_work(name, false);
        let until = Instant::now() + REQUESTS_TIME;
        while self.serve(name, now, until) {
            self.run_port_status();
            self.run_packets();
        }
        let Some(bridge) = self.bridges.get_mut(name) else { return };
        bridge.conns.flush(now);
        if openflow_service::run_monitors(bridge, now) {
            bridge.conns.flush(now);
        }
    }

    /// Updates what depends on which controllers are connected: fail-open mode, in-band control, packet-ins for misses.
    fn run_controller_modes(&mut self, now: Millis) {
        for bridge in self.bridges.values_mut() {
            let on_miss = bridge.conns.sessions().any(|(_, s)| {
                s.version() < Version::V13 && s.controller_id == 0 && s.wants(AsyncKind::PacketIn, 0)
            });
            let any_connected = bridge.conns.any_connected();
            if bridge.unfinished.commit.is_some() {
                continue;
            }
            let changed = fail_open::run(bridge, now)
                | in_band::run(bridge, &self.underlay.router, now)
                | ((on_miss, any_connected)
                    != (bridge.controllers.packet_in_on_miss, bridge.controllers.any_connected));
            (bridge.controllers.packet_in_on_miss, bridge.controllers.any_connected) =
                (on_miss, any_connected);
            self.status.due |= changed;
            if changed && let Some(backer) = self.datapaths.of_bridge_mut(bridge) {
                backer.mark_all_changed();
            }
        }
    }

    /// Replies to barriers that the publication has completed. Returns whether all barriers of a bridge were answered.
    fn complete_barriers(&mut self, now: Millis) -> bool {
        let awaits = |b: &&Bridge| !b.unfinished.barriers.is_empty();
        let names: Vec<String> = self.bridges.values().filter(awaits).map(|b| b.name.clone()).collect();
        let mut answered = false;
        for name in names {
            self.continue_bridge_work(&name, false);
            let Some(bridge) = self.bridges.get_mut(&name) else { continue };
            bridge.conns.flush(now);
            answered |= bridge.unfinished.barriers.is_empty();
        }
        answered
    }

    /// Expires flows, learned addresses, megaflows, connections and neighbours.
    fn run_expiry(&mut self, now: Millis) {
        self.datapaths.all_mut().for_each(tracked_connections::run_flushes);
        self.datapaths.all().for_each(tracked_connections::allocate_ahead);
        if now.since(self.last.megaflow_expiry) >= MEGAFLOW_EXPIRY_INTERVAL && !self.revalidation_paused {
            self.last.megaflow_expiry = now;
            for backer in self.datapaths.with_bridges_mut() {
                expire(backer, now);
            }
        }
        if now.since(self.last.expiry) < EXPIRY_INTERVAL {
            self.datapaths.all().for_each(|backer| tracked_connections::sweep(backer, now));
            self.expire_flows(now, Bridge::has_more_to_expire);
            return;
        }
        self.last.expiry = now;
        self.expire_neighbours(now);
        let all = self.datapaths.all();
        for backer in all {
            tracked_connections::begin_sweep(backer, now);
            backer.datapath.purge_fragments(now);
            fragments::report(&backer.datapath);
        }
        self.datapaths.unbridged().for_each(|m| m.backer.datapath.maintain(now));
        self.datapaths.with_bridges().for_each(|b| b.shared.expire_frozen());
        for bridge in self.bridges.values_mut() {
            let Some(backer) = self.datapaths.of_bridge(bridge) else { continue };
            bridge.macs.expire(&backer.shared.live, bridge.id, now);
            bridge.multicast_groups.expire(&backer.shared.live, bridge.id, now);
            if bridge.unfinished.commit.is_none() && bridge.ofproto.next_deadline() <= now {
                // Flow statistics must be current to decide whether a flow is idle. They are collected only when a flow may expire, because
                // collecting them takes long if there are many megaflows.
                backer.datapath.maintain(now);
            }
        }
        self.expire_flows(now, |bridge| bridge.unfinished.commit.is_none());
    }

    /// Removes flows of the bridges that `which` selects: those that had expired when flow statistics were collected last, which may
    /// be some turns ago.
    fn expire_flows(&mut self, now: Millis, which: impl Fn(&Bridge) -> bool) {
        let collected = self.last.expiry;
        for bridge in self.bridges.values_mut().filter(|bridge| which(bridge)) {
            let Some(backer) = self.datapaths.of_bridge_mut(bridge) else { continue };
            let changes = bridge.ofproto.expire(collected);
            openflow_service::announce(bridge, &changes, None, now);
            backer.changes.push_table_changes(bridge.id, &changes);
        }
    }

    /// Tries again to create the interfaces that could not be created, after something other than the database changed.
    pub(crate) fn retry_failed(&mut self) {
        let desired = self.applied.clone();
        self.retry_failed_interfaces(&desired);
        self.ports_changed();
    }

    /// Tries again to create the interfaces that could not be created.
    pub(crate) fn retry_failed_interfaces(&mut self, desired: &Desired) {
        let failed: Vec<(String, String)> = self
            .bridges
            .values()
            .flat_map(|b| b.failed.keys().map(|name| (b.name.clone(), name.clone())))
            .collect();
        for (bridge, name) in failed {
            crate::add_interface::add(self, desired, &bridge, &name);
        }
    }

    /// Updates everything that depends on the ports of bridges (addresses, bonds, spanning trees, QoS, snapshots) after ports changed without
    /// a change of the database.
    fn ports_changed(&mut self) {
        self.bridges.values_mut().for_each(crate::configure_bridge::derive_from_ports);
        self.configure_link_aggregation();
        self.configure_trees();
        self.configure_qos();
        self.mark_all_datapaths_changed();
        self.run_port_status();
        self.status.changed();
    }

    /// The OpenFlow sockets, if the main loop owns them. Their file descriptors and deadlines end its next sleep, too.
    pub fn owned_sockets(&self) -> Option<OwnedSockets<'_>> {
        self.openflow.as_ref()?.end_turn()
    }

    /// Adds the file descriptors and deadlines that end the next sleep of the main loop.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        let now = self.clock.now();
        self.db.wait(set, now);
        if self.status.statistics.is_some() && self.db.is_idle() {
            set.wake_now();
        }
        if let Some(links) = &self.devices.links {
            set.fd(links, Interest::Read);
        }
        if let Some(kernel) = &self.underlay.kernel {
            kernel.wait(set);
        }
        self.datapaths.with_bridges().for_each(|b| b.workers.wait(set));
        for backer in self.datapaths.with_bridges().filter(|b| !b.changes.is_empty()) {
            set.deadline(backer.snapshot_builder.published_at + BULK_INTERVAL);
        }
        self.datapaths.unbridged().for_each(|m| m.backer.workers.wait(set));
        for bridge in self.bridges.values() {
            if bridge.can_continue() || bridge.has_more_to_expire() {
                set.wake_now();
            }
            bridge.conns.wait(set, now);
            let barriers = bridge.unfinished.barriers.values().map(Barrier::deadline);
            let flows = fail_open::deadline(bridge).into_iter().chain(in_band::deadline(bridge));
            barriers.chain(flows).for_each(|deadline| set.deadline(deadline));
        }
        let at_work = |bridge: &Bridge| !bridge.unfinished.flushes.is_empty();
        if self.datapaths.all().any(tracked_connections::is_at_work) || self.bridges.values().any(at_work) {
            set.wake_now();
        }
        if !self.bridges.is_empty() {
            set.deadline(self.last.expiry + EXPIRY_INTERVAL);
            set.deadline(self.last.megaflow_expiry + MEGAFLOW_EXPIRY_INTERVAL);
        }
        let timers = self.datapaths.with_bridges().filter_map(|b| b.timers.deadline());
        let protocols = timers.chain(self.session_deadlines()).chain(self.bond_deadlines());
        let protocols = protocols.chain(self.sampling_deadline());
        protocols.for_each(|deadline| set.deadline(deadline));
    }

    /// Whether the first configuration has been applied.
    pub fn is_up(&self) -> bool {
        self.start.configured
    }

    /// Ends the switch. Devices of internal ports and the host's addresses on them remain, so that the next process can use them. With `cleanup`,
    /// ports are removed as if the database had requested it.
    pub fn close(&mut self, cleanup: bool) {
        runtime::debug!(LOG, "closing {} bridges", self.bridges.len());
        if !cleanup {
            let ports = self.bridges.values_mut().flat_map(|bridge| bridge.ports.devices());
            ports.for_each(|(_, device)| device.keep_device());
            // The workers end first, because the removal of a device waits until they have released its queues.
            self.datapaths.close();
            return;
        }
        let names: Vec<(String, String)> = self
            .bridges
            .values()
            .flat_map(|b| b.ports.values().map(|p| (b.name.clone(), p.name.clone())))
            .collect();
        let together = self.devices.netdevs.delete_together();
        for (bridge, port) in names {
            self.remove_interface(&bridge, &port);
        }
        drop(together);
        self.bridges.clear();
        self.datapaths.close();
    }
}

/// The main loop's part of megaflow expiry: logs all megaflows at debug level; in dummy mode, removes idle megaflows.
pub fn expire(backer: &mut Backer, now: Millis) {
    translation::log_dump(&backer.name(), &backer.datapath, now);
    backer.revalidator.note_flows(backer.datapath.flow_count() as u64);
    backer.revalidator.expire(now);
}
