//! The upcall handler: translates misses and handles `userspace` actions.
//!
//! **Threads**: handler threads, and any worker during its poll. Nothing here waits for the main loop.

use crate::bfd;
use crate::cfm;
use crate::command_settings::CommandSettings;
use crate::lacp::groups::Groups;
use crate::patch_counters::PatchCounters;
use crate::published::Published;
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
use xlate::{BridgeId, Effect, Failure, Input, Output, Start, translate};

static LOG: Module = Module::new("ofproto_dpif_xlate");
static LIMIT: RateLimit = RateLimit::new(1, 5);
static UPCALL: Module = Module::new("ofproto_dpif_upcall");
static LOOP_LIMIT: RateLimit = RateLimit::new(1, 1);

/// The handler of one datapath.
pub struct Handler {
    /// State shared with the main loop.
    pub shared: Arc<SharedState>,
    /// Counters of patch ports.
    pub patches: Arc<PatchCounters>,
    /// Settings made by commands.
    pub command_settings: CommandSettings,
    /// The datapath's name, for the log.
    pub name: String,
    /// Results of shadow checks.
    pub shadow_checks: ShadowCheckCounts,
    /// BFD sessions on its ports.
    pub bfd: bfd::sessions::Sessions,
    /// CFM sessions on its ports.
    pub cfm: cfm::sessions::Sessions,
    /// LACP on its ports.
    pub lacp: Groups,
    /// Spanning trees of its bridges.
    pub trees: Trees,
    /// Wakes the timers thread when a timer is due sooner than before.
    pub wakeup: Arc<Wakeup>,
}

impl Handler {
    /// Creates a handler. `seed`: a random number.
    pub fn new(kind: &str, shared: Arc<SharedState>, patches: Arc<PatchCounters>, seed: u64) -> Handler {
        let wakeup = Arc::default();
        Handler {
            bfd: bfd::sessions::Sessions::new(&shared, &wakeup, seed),
            cfm: cfm::sessions::Sessions::new(&shared, &wakeup, seed),
            lacp: Groups::new(&shared, &wakeup),
            trees: Trees::new(&shared, &wakeup),
            wakeup,
            shared,
            patches,
            command_settings: CommandSettings::default(),
            name: format!("ovs-{kind}"),
            shadow_checks: ShadowCheckCounts::default(),
        }
    }

    fn translate(
        &self,
        published: &Published,
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
            side_effects: packet.is_some(),
            pretend: false,
            recirc: &*self.shared,
            trace: None,
        };
        translate(&published.snapshot, &input)
    }

    /// Carries out the effects of a translation of `packet`, once per packet.
    pub fn carry_out(&self, published: &Published, effects: Vec<Effect>, packet: &[u8], now: Millis) {
        for effect in effects {
            match effect {
                Effect::MacLearn { bridge, need } => {
                    if let Some(macs) = published.macs.get(&bridge) {
                        macs.learn(&self.shared.live, bridge, &need, now);
                    }
                }
                Effect::Snoop { bridge, vlan, port, message } => {
                    if let Some(groups) = published.groups.get(&bridge) {
                        groups.learn(&self.shared.live, bridge, (vlan, port), &message, now);
                    }
                }
                Effect::Learn(flow) => self.shared.enqueue(SideEffect::Learn(flow, now)),
                Effect::FinTimeout(fin) => self.shared.enqueue(SideEffect::FinTimeout(fin)),
                Effect::Lacp { at } => self.lacp.receive(at, packet, now),
                Effect::Bpdu { at } => self.trees.receive(at, packet, now),
                Effect::Bfd { at, ttl } => self.bfd.receive(at, packet, ttl, now),
                Effect::Cfm { at } => self.cfm.receive(at, packet, now),
                Effect::Neighbour { bridge, ip, mac } => self.shared.note_neighbour(&bridge, ip, mac, now),
                Effect::Solicit(solicitation) => self.shared.enqueue(SideEffect::Solicit(solicitation)),
                Effect::Hold(held) => self.shared.hold(*held, packet, now),
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

    /// Logs a trace of a translation that looped, at most once a minute: loops in tables are hard to find otherwise.
    /// The trace is cut after 1 MB, and the second translation has the same bounds as the first.
    fn log_loop(&self, published: &Published, bridge: BridgeId, flow: &Flow, packet: &[u8]) {
        let input = Input {
            bridge,
            flow,
            packet: Some(packet),
            start: Start::Tables,
            packet_out: false,
            side_effects: false,
            pretend: true,
            recirc: &*self.shared,
            trace: Some(&TraceText { names: false }),
        };
        UPCALL.log_lazily(&LOOP_LIMIT, runtime::log::Level::Warn, || {
            let names = (&flow::text::NoNames, &dpif::text::NoNames);
            let (text, output) = xlate::trace_report(&published.snapshot, &input, names.0, names.1);
            self.shared.release(&output.recircs);
            text
        });
    }

    /// Translates the key of a megaflow again.
    pub fn retranslate(&self, published: &Published, key: &Flow) -> Retranslation {
        let Some((bridge, flow)) = received(published, self, key) else {
            return Retranslation::Unassociated(unassociated(published, key));
        };
        let output = self.translate(published, bridge, &flow, None);
        let translation = self.translation(published, output, (bridge, key), false);
        // A packet that cannot be translated is dropped by a megaflow like any other.
        if translation.install { Retranslation::Megaflow(translation) } else { Retranslation::Uncached }
    }

    fn translation(
        &self,
        published: &Published,
        mut output: Box<Output>,
        (bridge, key): (BridgeId, &Flow),
        fresh: bool,
    ) -> Translation {
        let mut mask =
            if self.command_settings.exact() { Box::new(Flow::ONES) } else { output.megaflow_mask() };
        mask.in_port = u32::MAX;
        mask.tlv = match published.snapshot.bridge(bridge) {
            Some(bridge) if !self.command_settings.exact() => bridge.options_mask(key, &output.mask),
            _ => mask.tlv,
        };
        mask.layout = flow::tlv::Layout::EMPTY;
        // The switch's own protocols are received by the translation of each packet.
        let install = !output.slow.intersects(SlowReason::PROTOCOLS) && !output.avoid_caching;
        let dependency_set = self.shared.number(&output.dependencies);
        let slow_path = (install && !output.slow.is_empty()).then(|| output.megaflow_actions().into());
        let actions = output.packet_actions();
        let owner = Owner::new(&self.shared, &self.patches, output.credits, output.recircs, fresh);
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

    /// Queues a sampled packet for the exporters. An action that a command installed names no bridge: the packet's port does.
    fn sample(&self, packet: &[u8], flow: &Flow, userspace: &Userspace) {
        let of_port = || self.shared.published().snapshot.receive(flow).map(|(bridge, _)| bridge.0);
        let bridge = if userspace.sampled.is_none() { of_port() } else { None };
        if let Some(packet) = SampledPacket::new(packet, flow, userspace, bridge) {
            self.shared.exporters.put(packet);
        }
    }

    /// Translates the packet of an upcall and carries out the effects. `metered`: it has passed the meter of the slow path.
    fn answer(&self, upcall: &Upcall<'_>, metered: bool) -> Translation {
        let published = self.shared.published();
        let Some((bridge, flow)) = received(&published, self, upcall.flow) else {
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
        Handler::log(&output);
        if matches!(output.error, Some(Failure::RecursionTooDeep | Failure::TooManyResubmits)) {
            self.log_loop(&published, bridge, &flow, upcall.packet);
        }
        self.carry_out(&published, std::mem::take(&mut output.effects), upcall.packet, upcall.now);
        self.translation(&published, output, (bridge, upcall.flow), true)
    }
}

/// What the tables say about the key of a megaflow.
pub enum Retranslation {
    /// It should have this megaflow.
    Megaflow(Translation),
    /// It should have no megaflow: each packet is translated.
    Uncached,
    /// It should have no megaflow except the one that drops packets of ports that belong to no bridge.
    Unassociated(Translation),
}

/// The action of a megaflow that drops packets of ports that belong to no bridge.
pub const UNASSOCIATED: DpAction = DpAction::Drop(DropReason::ActionOfPipeline);

/// The bridge of a datapath flow, and the flow as OpenFlow sees it. For a recirculated packet both come from its
/// frozen state.
fn received(published: &Published, handler: &Handler, flow: &Flow) -> Option<(BridgeId, Flow)> {
    if let Some(found) = published.snapshot.receive(flow) {
        return Some(found);
    }
    use xlate::Recirc;
    let state = handler.shared.thaw(flow.recirc_id).filter(|_| flow.recirc_id != 0)?;
    let mut openflow = *flow;
    state.metadata.restore(&mut openflow);
    Some((state.bridge, openflow))
}

/// Drops a packet of a port that belongs to no bridge, by a megaflow of its own so that further packets cost nothing.
/// For a tunnel the megaflow matches the outer header, because all tunnels of a kind share a port.
fn unassociated(published: &Published, flow: &Flow) -> Translation {
    let mask = Flow { in_port: u32::MAX, recirc_id: u32::MAX, packet_type: u32::MAX, ..Flow::ZERO };
    let tunnel = match bridge::tunnel::is_tunnelled(&flow.tunnel) {
        true => published.snapshot.mask_of_no_tunnel(flow),
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

impl UpcallHandler for Handler {
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
        if let Some(state) = self.shared.thaw(recirc_id) {
            let parts =
                PacketInParts::new(packet, flow, &state, (reason, rule_cookie, controller_id), continuation);
            self.shared.enqueue(SideEffect::PacketIn(Box::new(parts)));
        }
    }

    fn shadow(&self, packet: &[u8], flow: &Flow, megaflow: &dpif::DpFlow) {
        self.recheck(packet, flow, megaflow);
    }

    fn lookups_differ(&self, packet: &[u8], found: Option<Ufid>, naive: Option<Ufid>) {
        self.log_lookup_difference(packet, found, naive);
    }

    fn is_current(&self, version: u64) -> bool {
        self.shared.version() == version
    }
}
