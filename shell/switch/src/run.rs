//! One turn of the main loop, and what it waits for afterwards.

use crate::commands::{self, Answer, Pending};
use crate::fail_open;
use crate::openflow::Barrier;
use crate::port::BridgePort;
use crate::publish::publish;
use crate::revalidate;
use crate::switch::Switch;
use netdev::rtnl::LinkEvent;
use ofconn::AsyncKind;
use openflow::Version;
use openflow::port::PortReason;
use runtime::poll_loop::Interest;
use runtime::{Module, WaitSet};
use units::Millis;
use unixctl::Server;

static LOG: Module = Module::new("bridge");

/// Flow timeouts are looked at this often.
const EXPIRY_INTERVAL: Millis = Millis(1000);
/// Megaflows are looked at for idleness this often.
const IDLE_INTERVAL: Millis = Millis(500);
/// Devices that do not tell of their links are looked at this often.
const LOOK_INTERVAL: Millis = Millis(1000);
/// States that nothing announces (how long a controller has been connected) are written this often.
const STATUS_INTERVAL: Millis = Millis(1000);
/// In dummy mode the workers are polled at most this many times before something else gets its turn: two dummies
/// that send to each other must not keep the loop for ever.
const INLINE_POLLS: usize = 1000;

impl Switch {
    /// One turn.
    pub fn run(&mut self, control: &mut Server) {
        let now = self.clock.now();
        runtime::ordered_panic::obey();
        if runtime::coverage::is_due(now) {
            commands::publish_drops(self);
            runtime::coverage::run(now);
        }
        let changed = self.db.run(now);
        if changed && self.db.is_ready() {
            if self.reconfigure() {
                control.offer(commands::DPDK_COMMANDS);
            }
            self.run_port_news();
            self.status_due = true;
        }
        self.run_links();
        self.run_devices(now);
        self.run_packets();
        self.run_openflow(now);
        self.run_expiry(now);
        self.run_packets();
        self.publish_changes();
        if self.status_due || now.since(self.last.status) >= STATUS_INTERVAL || self.options.dummy_mode() {
            self.write_status(now);
        }
        for request in control.run() {
            self.run_packets();
            match commands::execute(self, &request.method, &request.args, request.format) {
                Answer::Now(result) => control.reply(request.id, result),
                Answer::Later(wait) => self.pending.push(Pending { id: request.id, wait }),
            }
        }
        self.run_packets();
        for (id, result) in commands::poll_pending(self) {
            control.reply(id, result);
        }
        crate::background::tidy();
    }

    /// In dummy mode: lets packets through until nothing is left to do, so that all that was caused has happened when
    /// this returns. Otherwise packets have a thread of their own, and changes are published once a turn.
    pub(crate) fn run_packets(&mut self) {
        self.run_workers();
        self.run_handlers();
        if !self.options.dummy_mode() {
            self.do_deeds();
            self.run_bfd();
            return;
        }
        let mut polls = 0;
        while polls < INLINE_POLLS {
            self.publish_changes();
            let (mut busy, mut waiting) = (false, false);
            let made = self.hand_made.values_mut().map(|m| &mut m.backer);
            for backer in self.backers.values_mut().chain(made) {
                busy |= backer.workers.poll_inline(&self.clock);
                waiting |= backer.workers.await_answers();
            }
            busy |= self.do_deeds();
            busy |= self.run_bfd();
            if busy || self.backers.values().any(|b| !b.changes.is_empty()) {
                polls += 1;
            } else if waiting {
                std::thread::yield_now();
            } else {
                return;
            }
        }
        // There is more: the loop comes back at once.
        self.waker.wake();
    }

    /// Publishes what changed, and hands it to who keeps megaflows right; in dummy mode that is done at once.
    pub(crate) fn publish_changes(&mut self) {
        let now = self.clock.now();
        for backer in self.backers.values_mut() {
            backer.take_live_changes();
            let changes = std::mem::take(&mut backer.changes);
            if !changes.is_empty() {
                publish(backer, &mut self.bridges);
                backer.handler.bfd.published(now);
                backer.revalidator.take(changes, backer.control.version());
                backer.control.hand_over(backer.noted);
            }
            backer.revalidator.run(now);
        }
    }

    /// Kernel devices that came, went or changed.
    fn run_links(&mut self) {
        let mut events = Vec::new();
        if let Some(links) = &mut self.links {
            links.take(1000, &mut events);
        }
        let mut appeared = false;
        for event in events {
            match event {
                LinkEvent::Changed(link) => {
                    appeared |= self.bridges.values().any(|b| b.failed.contains_key(&link.name));
                    // A device that was renamed is known by its number.
                    self.refresh_devices(|port| port.name == link.name || port.has_ifindex(link.ifindex));
                }
                LinkEvent::Removed { ifindex, .. } => self.refresh_devices(|port| port.has_ifindex(ifindex)),
                LinkEvent::Lost => self.refresh_devices(|_| true),
            }
        }
        if appeared {
            self.retry_failed();
        }
    }

    /// Dummies have streams to serve; guests and cards change without the kernel's knowledge.
    fn run_devices(&mut self, now: Millis) {
        for dummy in self.netdevs.dummies() {
            dummy.run(now);
        }
        if now.since(self.last.looks) >= LOOK_INTERVAL {
            self.last.looks = now;
            let ports = self.bridges.values_mut().flat_map(|b| b.ports.values_mut());
            for port in ports {
                if let crate::port::Backing::Device { netdev, .. } = &mut port.backing {
                    netdev.look();
                }
            }
        }
        let changed = |p: &BridgePort| match &p.backing {
            crate::port::Backing::Device { netdev, .. } => netdev.change_seq() != p.change_seq,
            crate::port::Backing::Patch { .. } | crate::port::Backing::Tunnel { .. } => false,
        };
        let names: Vec<String> = self
            .bridges
            .values()
            .flat_map(|b| b.ports.values())
            .filter(|p| changed(p))
            .map(|p| p.name.clone())
            .collect();
        for name in names {
            self.refresh_devices(|port| port.name == name);
        }
    }

    /// Tells controllers the rest of what they have heard of ports.
    fn run_port_news(&mut self) {
        for bridge in self.bridges.values_mut().filter(|b| b.port_news) {
            bridge.port_news = false;
            for port in bridge.ports.values_mut() {
                let Some(old) = port.told.take() else { continue };
                let new = crate::openflow::port_message(port);
                bridge.conns.send_port_status(PortReason::Modify, &new, Some(&old), None);
            }
        }
    }

    /// Reads some devices again and tells controllers what changed. Ports whose device is gone go out of service.
    pub(crate) fn refresh_devices(&mut self, which: impl Fn(&BridgePort) -> bool) {
        let mut vanished = Vec::new();
        for bridge in self.bridges.values_mut() {
            let mut changed = Vec::new();
            for port in bridge.ports.values_mut().filter(|p| which(p)) {
                let old = crate::openflow::port_message(port);
                let crate::port::Backing::Device { netdev, .. } = &mut port.backing else { continue };
                port.change_seq = netdev.change_seq();
                match netdev.facts() {
                    Ok(facts) if port.facts.as_ref() != Some(&facts) => port.facts = Some(facts),
                    Ok(_) => continue,
                    Err(e) if e.is_gone() => {
                        vanished.push((bridge.name.clone(), port.name.clone()));
                        continue;
                    }
                    // A device that does not tell its state has no link.
                    Err(_) => {
                        let Some(f) = port.facts.as_mut().filter(|f| f.link_up || f.admin_up) else {
                            continue;
                        };
                        (f.link_up, f.admin_up) = (false, false);
                    }
                }
                changed.push((old, crate::openflow::port_message(port)));
            }
            for (old, new) in changed {
                bridge.conns.send_port_status(PortReason::Modify, &new, Some(&old), None);
                self.status_due = true;
                if let Some(backer) = self.backers.get_mut(&bridge.config.datapath_type) {
                    backer.changed();
                }
            }
        }
        for (bridge, name) in &vanished {
            crate::add_interface::vanished(self, bridge, name);
        }
        if !vanished.is_empty() {
            self.ports_changed();
        }
        self.tell_bfd_addresses();
    }

    fn run_openflow(&mut self, now: Millis) {
        let names: Vec<String> = self.bridges.keys().cloned().collect();
        for name in names {
            let Some(bridge) = self.bridges.get_mut(&name) else { continue };
            bridge.conns.run(now);
            self.go_on(&name, false);
            while self.serve(&name, now) {
                self.run_port_news();
                self.run_packets();
            }
            let Some(bridge) = self.bridges.get_mut(&name) else { continue };
            bridge.conns.flush(now);
            if crate::openflow::run_monitors(bridge) {
                bridge.conns.flush(now);
            }
            let on_miss = bridge.conns.sessions().any(|(_, s)| {
                s.version() < Version::V13 && s.controller_id == 0 && s.wants(AsyncKind::PacketIn, 0)
            });
            let alive = bridge.conns.any_connected();
            if bridge.commit.is_some() {
                continue;
            }
            let changed =
                fail_open::run(bridge, now) | ((on_miss, alive) != (bridge.packet_in_on_miss, bridge.alive));
            (bridge.packet_in_on_miss, bridge.alive) = (on_miss, alive);
            self.status_due |= changed;
            if changed && let Some(backer) = self.backers.get_mut(&bridge.config.datapath_type) {
                backer.changed();
            }
        }
    }

    /// Timeouts of flows, ages of stations, idleness of megaflows.
    fn run_expiry(&mut self, now: Millis) {
        if now.since(self.last.idle) >= IDLE_INTERVAL && !self.paused {
            self.last.idle = now;
            for backer in self.backers.values_mut() {
                revalidate::expire(backer, now);
            }
        }
        if now.since(self.last.expiry) < EXPIRY_INTERVAL {
            return;
        }
        self.last.expiry = now;
        let all = self.backers.values().chain(self.hand_made.values().map(|m| &m.backer));
        all.for_each(|backer| backer.datapath.conntrack().sweep(now));
        self.hand_made.values().for_each(|m| m.backer.datapath.maintain(now));
        self.backers.values().for_each(|b| b.control.expire_frozen());
        for bridge in self.bridges.values_mut().filter(|b| b.commit.is_none()) {
            let Some(backer) = self.backers.get_mut(&bridge.config.datapath_type) else { continue };
            if bridge.ofproto.next_deadline() <= now {
                // Whether a flow is idle depends on what has been credited, which takes long where megaflows are many.
                backer.datapath.maintain(now);
            }
            let id = bridge.id;
            bridge.macs.expire(&backer.control, id, now);
            let effects = bridge.ofproto.expire(now);
            crate::deeds::announce(bridge, &effects, None, now);
            backer.changes.push_effects(id, &effects);
        }
    }

    /// Tries interfaces again that could not be made.
    pub(crate) fn retry_failed(&mut self) {
        let failed: Vec<(String, String)> = self
            .bridges
            .values()
            .flat_map(|b| b.failed.keys().map(|name| (b.name.clone(), name.clone())))
            .collect();
        let desired = self.applied.clone();
        for (bridge, name) in failed {
            crate::add_interface::add(self, &desired, &bridge, &name);
        }
        self.ports_changed();
    }

    /// What follows from the ports of bridges, after some came or went without a change of the database.
    fn ports_changed(&mut self) {
        self.bridges.values_mut().for_each(crate::configure_bridge::pick_addresses);
        self.bridges.values_mut().for_each(crate::mtu::follow);
        self.mark_all_dirty();
        self.run_port_news();
        self.status_due = true;
    }

    /// What ends the next sleep.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        let now = self.clock.now();
        self.db.wait(set, now);
        if let Some(links) = &self.links {
            set.fd(links, Interest::Read);
        }
        self.backers.values().for_each(|b| b.workers.wait(set));
        self.hand_made.values().for_each(|m| m.backer.workers.wait(set));
        for bridge in self.bridges.values() {
            if bridge.can_go_on() {
                set.wake_now();
            }
            bridge.conns.wait(set, now);
            let barriers = bridge.barriers.values().map(Barrier::deadline);
            barriers.chain(fail_open::deadline(bridge)).for_each(|deadline| set.deadline(deadline));
        }
        if !self.bridges.is_empty() {
            set.deadline(self.last.expiry + EXPIRY_INTERVAL);
            set.deadline(self.last.idle + IDLE_INTERVAL);
        }
        self.bfd_deadlines().for_each(|deadline| set.deadline(deadline));
        if !self.pending.is_empty() {
            set.wake_now();
        }
    }

    /// The first configuration is in force.
    pub fn is_up(&self) -> bool {
        self.greeted
    }

    /// The end. The devices that the switch made go with their descriptors; with clean-up ports are taken down one by
    /// one, as if the database had asked for it.
    pub fn close(&mut self, cleanup: bool) {
        runtime::debug!(LOG, "closing {} bridges", self.bridges.len());
        if !cleanup {
            // The workers first: a device that goes waits for the queues that they have.
            self.backers.clear();
            return;
        }
        let names: Vec<(String, String)> = self
            .bridges
            .values()
            .flat_map(|b| b.ports.values().map(|p| (b.name.clone(), p.name.clone())))
            .collect();
        for (bridge, port) in names {
            self.remove_interface(&bridge, &port);
        }
        self.bridges.clear();
        self.backers.clear();
    }
}
