//! The upcall translator: translates misses and handles `userspace` actions.
//!
//! **Threads**: handler threads, any worker during its poll, the revalidator, the timer thread, and the main thread. No function here waits for
//! the main thread.

use crate::bfd;
use crate::cfm;
use crate::command_settings::CommandSettings;
use crate::lacp::port_rows::LacpPortRows;
use crate::lldp;
use crate::patch_and_tunnel_counters::PatchAndTunnelCounters;
use crate::published::PublishedState;
use crate::shared_state::SharedState;
use crate::side_effect::SideEffect;
use crate::spanning_tree::trees::Trees;
use crate::timers::wakeup::Wakeup;
use crate::trace_text::TraceText;
use crate::upcall::owner::Owner;
use crate::upcall::packet_in::PacketInParts;
use crate::upcall::shadow_check_counts::ShadowCheckCounts;
use dpif::{
    DpAction, DropReason, SlowReason, Translation, Upcall, UpcallHandler, Userspace, UserspaceCookie,
};
use flow::{Flow, Tunnel};
use runtime::{Module, RateLimit};
use sampling::SampledPacket;
use std::sync::Arc;
use units::{Millis, PortNo, Ufid};
use xlate::{BridgeId, Failure, Input, Output, PacketEffect, Start, translate};

static LOG: Module = Module::new("ofproto_dpif_xlate");
static LIMIT: RateLimit = RateLimit::new(1, 5);
static UPCALL_LOG: Module = Module::new("ofproto_dpif_upcall");
static LOOP_LIMIT: RateLimit = RateLimit::new(1, 1);

/// Translates the upcalls of one datapath, and has its protocol sessions. Handlers (threads) and other threads share it.
pub struct UpcallTranslator {
    /// State shared with the main thread.
    pub shared: Arc<SharedState>,
    /// Counters of patch ports and tunnel ports.
    pub patch_tunnel_counters: Arc<PatchAndTunnelCounters>,
    /// Settings made by commands.
    pub command_settings: CommandSettings,
    /// The datapath's name, for the log.
    pub name: String,
    /// Results of shadow checks.
    pub shadow_checks: ShadowCheckCounts,
    /// BFD sessions on the datapath's ports.
    pub bfd: bfd::sessions::Sessions,
    /// CFM sessions on the datapath's ports.
    pub cfm: cfm::sessions::Sessions,
    /// LLDP sessions on the datapath's ports.
    pub lldp: lldp::sessions::Sessions,
    /// LACP on the datapath's ports.
    pub lacp: LacpPortRows,
    /// Spanning trees of the datapath's bridges.
    pub trees: Trees,
    /// Wakes the timer thread when a timer is due sooner than before.
    pub wakeup: Arc<Wakeup>,
}

impl UpcallTranslator {
    /// Creates the translator of a datapath. `seed`: a random number.
    pub fn new(
        kind: &str,
        shared: Arc<SharedState>,
        patch_tunnel_counters: Arc<PatchAndTunnelCounters>,
        seed: u64,
    ) -> UpcallTranslator {
        let wakeup = Arc::default();
        UpcallTranslator {
            bfd: bfd::sessions::Sessions::new(&shared, &wakeup, seed),
            cfm: cfm::sessions::Sessions::new(&shared, &wakeup, seed),
            lldp: lldp::sessions::Sessions::new(&shared, &wakeup),
            lacp: LacpPortRows::new(&shared, &wakeup),
            trees: Trees::new(&shared, &wakeup),
            wakeup,
            shared,
            patch_tunnel_counters,
            command_settings: CommandSettings::default(),
            name: format!("ovs-{kind}"),
            shadow_checks: ShadowCheckCounts::default(),
        }
    }

    fn translate(
        &self,
        published: &PublishedState,
        bridge: BridgeId,
        flow: &Flow,
        packet: Option<&[u8]>,
    ) -> Box<Output> {
        let input = Input {
            bridge,
            flow,
            packet,
            start: Start::Tables,
            packet_out: false,
            returns_side_effects: packet.is_some(),
            dry_run: false,
            recirc: &*self.shared,
            trace_format: None,
        };
        translate(&published.snapshot, &input)
    }

    /// Carries out the effects of a translation of `packet`. To be called exactly once for each packet.
    pub fn carry_out(
        &self,
        published: &PublishedState,
        effects: Vec<PacketEffect>,
        packet: &[u8],
        now: Millis,
    ) {
        for effect in effects {
            match effect {
                PacketEffect::MacLearn { bridge, observation } => {
                    if let Some(macs) = published.macs.get(&bridge) {
                        macs.learn(&self.shared.live, bridge, &observation, now);
                    }
                }
                PacketEffect::Snoop { bridge, vlan, port, message } => {
                    if let Some(groups) = published.groups.get(&bridge) {
                        groups.learn(&self.shared.live, bridge, (vlan, port), &message, now);
                    }
                }
                PacketEffect::Learn(flow) => self.shared.enqueue(SideEffect::Learn(flow, now)),
                PacketEffect::FinTimeout(fin) => self.shared.enqueue(SideEffect::FinTimeout(fin)),
                PacketEffect::Lacp { at } => self.lacp.receive(at, packet, now),
                PacketEffect::Bpdu { at } => self.trees.receive(at, packet, now),
                PacketEffect::Bfd { at, ttl } => self.bfd.receive(at, packet, ttl, now),
                PacketEffect::Cfm { at } => self.cfm.receive(at, packet, now),
                PacketEffect::Lldp { at } => self.lldp.receive(at, packet, now),
                PacketEffect::Neighbour { bridge, ip, mac } => {
                    self.shared.note_neighbour(&bridge, ip, mac, now)
                }
                PacketEffect::Solicit(solicitation) => self.shared.enqueue(SideEffect::Solicit(solicitation)),
                PacketEffect::Hold(held) => self.shared.hold(*held, packet, now),
            }
        }
    }

    /// Logs the lines that a translation produced.
    pub fn log(output: &Output) {
        for line in &output.log {
            let text = if line.text.ends_with("while processing ") {
                format!("{}{}", line.text, flow::text::flow_text(&line.flow, &flow::text::NoNames))
            } else {
                line.text.clone()
            };
            match line.level {
                xlate::Level::Warn => runtime::warn_rl!(LOG, LIMIT, "{text}"),
                xlate::Level::Info => runtime::log_rl!(LOG, LIMIT, runtime::log::Level::Info, "{text}"),
                xlate::Level::Debug => runtime::debug!(LOG, "{text}"),
            }
        }
    }

    /// Logs a trace of a translation that reached a limit because of a resubmit loop, at most once a minute: such loops are
    /// hard to find otherwise. The packet is translated again for the trace, with the same limits; the trace is truncated after 1 MiB.
    fn log_loop(&self, published: &PublishedState, bridge: BridgeId, flow: &Flow, packet: &[u8]) {
        let input = Input {
            bridge,
            flow,
            packet: Some(packet),
            start: Start::Tables,
            packet_out: false,
            returns_side_effects: false,
            dry_run: true,
            recirc: &*self.shared,
            trace_format: Some(&TraceText { names: false }),
        };
        UPCALL_LOG.log_lazily(&LOOP_LIMIT, runtime::log::Level::Warn, || {
            let names = (&flow::text::NoNames, &dpif::text::NoNames);
            let (text, output) = xlate::trace_report(&published.snapshot, &input, names.0, names.1);
            self.shared.release(&output.recircs);
            text
        });
    }

    /// Translates the key of a megaflow again.
    pub fn retranslate(&self, published: &PublishedState, key: &Flow) -> Retranslation {
        let Some((bridge, flow)) = bridge_and_flow(published, self, key) else {
            return Retranslation::Unassociated(unassociated(published, key));
        };
        let output = self.translate(published, bridge, &flow, None);
        let translation = self.datapath_translation(published, output, (bridge, key), false);
        // A failed translation also gives a megaflow, which drops the packets.
        if translation.install { Retranslation::Megaflow(translation) } else { Retranslation::Uncached }
    }

    /// Converts the output of a translation to what the datapath installs and executes. `side_effects_done`: the side effects of a
    /// packet were carried out.
    fn datapath_translation(
        &self,
        published: &PublishedState,
        mut output: Box<Output>,
        (bridge, key): (BridgeId, &Flow),
        side_effects_done: bool,
    ) -> Translation {
        let mut mask =
            if self.command_settings.exact() { Box::new(Flow::ONES) } else { output.megaflow_mask() };
        mask.in_port = u32::MAX;
        if !self.command_settings.exact() {
            mask.tlv = published.snapshot.options_mask(bridge, key, &output);
        }
        mask.layout = flow::tlv::Layout::EMPTY;
        // No megaflow is installed in two cases: for messages of the switch's own protocols, because each message must be
        // translated; and if the translation forbids it.
        let install = !output.slow.intersects(SlowReason::PROTOCOLS) && !output.avoid_caching;
        let dependency_set = self.shared.dependency_set_number(&output.dependencies);
        let slow_path = (install && !output.slow.is_empty()).then(|| output.megaflow_actions().into());
        let actions = output.packet_actions();
        let owner = Owner::new(
            &self.shared,
            &self.patch_tunnel_counters,
            output.stats_targets,
            output.recircs,
            side_effects_done,
        );
        let slow_meter = output.slow_meter.filter(|_| !output.slow.is_empty()).map(DpAction::Meter);
        Translation {
            actions: slow_meter.into_iter().chain(actions).collect(),
            slow_path,
            mask,
            install,
            version: published.version,
            owner: Arc::new(owner),
            dependency_set,
            error: None,
        }
    }

    /// Queues a sampled packet for the exporters. An action of a flow that a control command added (such as `dpctl/add-flow`) has
    /// no sample data; then the packet's port determines the bridge.
    fn sample(&self, packet: &[u8], flow: &Flow, userspace: &Userspace) {
        let bridge_of_port =
            || self.shared.published_for_packet().snapshot.receive(flow).map(|(bridge, _)| bridge.0);
        let bridge = if userspace.sample_data.is_none() { bridge_of_port() } else { None };
        if let Some(packet) = SampledPacket::new(packet, flow, userspace, bridge) {
            self.shared.exporters.put(packet);
        }
    }

    /// Translates the packet of an upcall and carries out the side effects. `metered`: the packet has passed the meter of the
    /// slow path.
    fn answer(&self, upcall: &Upcall<'_>, metered: bool) -> Translation {
        let published = self.shared.published_for_packet();
        let Some((bridge, flow)) = bridge_and_flow(&published, self, upcall.flow) else {
            runtime::log_rl!(
                LOG,
                LIMIT,
                runtime::log::Level::Info,
                "received packet on unassociated datapath port {}",
                PortNo(upcall.flow.in_port)
            );
            return unassociated(&published, upcall.flow);
        };
        let mut output = self.translate(&published, bridge, &flow, Some(upcall.packet));
        if metered {
            output.slow_meter = None;
        }
        UpcallTranslator::log(&output);
        if matches!(output.error, Some(Failure::RecursionTooDeep | Failure::TooManyResubmits)) {
            self.log_loop(&published, bridge, &flow, upcall.packet);
        }
        self.carry_out(&published, std::mem::take(&mut output.effects), upcall.packet, upcall.now);
        self.datapath_translation(&published, output, (bridge, upcall.flow), true)
    }
}

/// The result of translating the key of a megaflow again.
pub enum Retranslation {
    /// The megaflow should have these actions and this mask.
    Megaflow(Translation),
    /// There should be no megaflow: each packet is translated.
    Uncached,
    /// The port belongs to no bridge: there should be only the megaflow that drops such packets.
    Unassociated(Translation),
}

/// The action of a megaflow that drops packets of ports that belong to no bridge.
pub const UNASSOCIATED: DpAction = DpAction::Drop(DropReason::ActionOfPipeline);

/// The bridge of a datapath flow, and the flow in OpenFlow form. If no bridge has the port and the packet is recirculated,
/// bridge and metadata are taken from its frozen state.
fn bridge_and_flow(
    published: &PublishedState,
    translator: &UpcallTranslator,
    flow: &Flow,
) -> Option<(BridgeId, Flow)> {
    if let Some(found) = published.snapshot.receive(flow) {
        return Some(found);
    }
    use xlate::Recirc;
    let state = translator.shared.state(flow.recirc_id).filter(|_| flow.recirc_id != 0)?;
    let mut openflow = *flow;
    state.metadata.restore(&mut openflow);
    Some((state.bridge, openflow))
}

/// The megaflow that drops packets of a port that belongs to no bridge, so that further packets need no upcall. For a
/// tunnel it matches the outer header, because all tunnels of a kind share a datapath port.
fn unassociated(published: &PublishedState, flow: &Flow) -> Translation {
    let mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, packet_type: u32::MAX, ..Flow::ZERO };
    let tunnel = match bridge::tunnel::is_tunnelled(&flow.tunnel) {
        true => published.snapshot.mask_without_tunnel_port(flow),
        false => Tunnel::default(),
    };
    Translation {
        actions: Arc::new([UNASSOCIATED]),
        slow_path: None,
        mask: Box::new(Flow { tunnel, ..mask }),
        install: true,
        version: published.version,
        owner: Arc::new(dpif::NoOwner),
        dependency_set: 0,
        error: None,
    }
}

impl UpcallHandler for UpcallTranslator {
    fn wants_new_flows(&self) -> bool {
        crate::flow_log::logs_added()
    }

    fn flow_added(&self, flow: &dpif::DpFlow) {
        crate::flow_log::added(flow);
    }

    fn miss(&self, upcall: Upcall<'_>) -> Translation {
        crate::flow_log::upcall(&self.name, "miss", &upcall);
        self.answer(&upcall, false)
    }

    fn slow_path(&self, upcall: Upcall<'_>) -> Translation {
        crate::flow_log::upcall(&self.name, "action", &upcall);
        self.answer(&upcall, true)
    }

    fn userspace(&self, packet: &[u8], flow: &Flow, userspace: &Userspace) {
        use xlate::Recirc;
        if matches!(
            userspace.cookie,
            UserspaceCookie::Sflow { .. }
                | UserspaceCookie::Ipfix { .. }
                | UserspaceCookie::FlowSample { .. }
        ) {
            return self.sample(packet, flow, userspace);
        }
        let UserspaceCookie::Controller {
            dont_send,
            continuation,
            reason,
            recirc_id,
            rule_cookie,
            controller_id,
            ..
        } = userspace.cookie
        else {
            return;
        };
        if dont_send {
            return;
        }
        if let Some(state) = self.shared.state(recirc_id) {
            let parts =
                PacketInParts::new(packet, flow, &state, (reason, rule_cookie, controller_id), continuation);
            self.shared.enqueue(SideEffect::PacketIn(Box::new(parts)));
        }
    }

    fn shadow(&self, packet: &[u8], flow: &Flow, megaflow: &dpif::DpFlow) {
        self.shadow_check(packet, flow, megaflow);
    }

    fn lookups_differ(&self, packet: &[u8], found: Option<Ufid>, naive: Option<Ufid>) {
        self.log_lookup_difference(packet, found, naive);
    }

    fn is_current(&self, version: u64) -> bool {
        self.shared.version() == version
    }
}
