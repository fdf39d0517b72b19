//! The control half as the workers see it: translates what misses, takes what `userspace` hands over.
//!
//! **Threads**: any worker, inline in its poll. Nothing here waits for the main loop.

use crate::bfd::Sessions;
use crate::commands::Knobs;
use crate::commands::trace_run::Words;
use crate::control::{Control, Deed, Published};
use crate::owner::Owner;
use crate::packet_in::PacketInParts;
use crate::patch::PatchCounters;
use crate::shadow::Verdicts;
use dpif::{DpAction, DropReason, Translation, Upcall, UpcallHandler, Userspace, UserspaceCookie};
use flow::Flow;
use runtime::{Module, RateLimit};
use std::sync::Arc;
use units::{Millis, PortNo, Ufid};
use xlate::{BridgeId, Effect, Failure, Input, Output, Start, translate};

static LOG: Module = Module::new("ofproto_dpif_xlate");
static LIMIT: RateLimit = RateLimit::new(1, 5);
static UPCALL: Module = Module::new("ofproto_dpif_upcall");
static LOOP_LIMIT: RateLimit = RateLimit::new(1, 1);

/// See the module.
pub struct Handler {
    /// What is shared with the main loop.
    pub control: Arc<Control>,
    /// Counters of patch ports.
    pub patches: Arc<PatchCounters>,
    /// What commands set.
    pub knobs: Knobs,
    /// The datapath's name, for the log.
    pub name: String,
    /// What came of packets that workers showed.
    pub verdicts: Verdicts,
    /// BFD on its ports.
    pub bfd: Sessions,
}

impl Handler {
    /// A handler that shares these. `seed`: a random number.
    pub fn new(kind: &str, control: Arc<Control>, patches: Arc<PatchCounters>, seed: u64) -> Handler {
        Handler {
            bfd: Sessions::new(&control, seed),
            control,
            patches,
            knobs: Knobs::default(),
            name: format!("ovs-{kind}"),
            verdicts: Verdicts::default(),
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
            recirc: &*self.control,
            trace: None,
        };
        translate(&published.snapshot, &input)
    }

    /// Carries out what a translation of `packet` asks to be done once.
    pub fn carry_out(&self, published: &Published, effects: Vec<Effect>, packet: &[u8], now: Millis) {
        for effect in effects {
            match effect {
                Effect::MacLearn { bridge, need } => {
                    if let Some(macs) = published.macs.get(&bridge) {
                        macs.learn(&self.control, bridge, &need, now);
                    }
                }
                Effect::Learn(flow) => self.control.enqueue(Deed::Learn(flow, now)),
                Effect::FinTimeout(fin) => self.control.enqueue(Deed::FinTimeout(fin)),
                Effect::Bfd { at, ttl } => self.bfd.receive(at, packet, ttl, now),
            }
        }
    }

    /// Writes the lines that a translation left.
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

    /// Tables that loop are hard to find without a trace: it goes to the log, once a minute at most. The trace is cut after
    /// 1 MB, and translating once more is bounded as the first time was.
    fn log_loop(&self, published: &Published, bridge: BridgeId, flow: &Flow, packet: &[u8]) {
        let input = Input {
            bridge,
            flow,
            packet: Some(packet),
            start: Start::Tables,
            packet_out: false,
            side_effects: false,
            pretend: true,
            recirc: &*self.control,
            trace: Some(&Words { names: false }),
        };
        UPCALL.log_lazily(&LOOP_LIMIT, runtime::log::Level::Warn, || {
            let names = (&flow::text::NoNames, &dpif::text::NoNames);
            let (text, output) = xlate::trace_report(&published.snapshot, &input, names.0, names.1);
            self.control.release(&output.recircs);
            text
        });
    }

    /// Translates a megaflow again: what there should be now for its key.
    pub fn retranslate(&self, published: &Published, key: &Flow) -> Again {
        let Some((bridge, flow)) = received(published, self, key) else { return Again::Unassociated };
        let output = self.translate(published, bridge, &flow, None);
        let translation = self.translation(published, output, (bridge, key), false);
        // A packet that cannot be translated is dropped by a megaflow like any other.
        if translation.install { Again::Megaflow(translation) } else { Again::OneByOne }
    }

    fn translation(
        &self,
        published: &Published,
        mut output: Box<Output>,
        (bridge, key): (BridgeId, &Flow),
        fresh: bool,
    ) -> Translation {
        let mut mask = if self.knobs.exact() { Box::new(Flow::ONES) } else { output.megaflow_mask() };
        mask.in_port = u32::MAX;
        mask.tlv = match published.snapshot.bridge(bridge) {
            Some(bridge) if !self.knobs.exact() => bridge.options_mask(key, &output.mask),
            _ => mask.tlv,
        };
        mask.layout = flow::tlv::Layout::EMPTY;
        let install = output.slow.is_empty() && !output.avoid_caching;
        let trail = self.control.number(&output.trail);
        let actions = output.packet_actions();
        let owner = Owner::new(&self.control, &self.patches, output.credits, output.recircs, fresh);
        let slow_meter = output.slow_meter.filter(|_| !output.slow.is_empty()).map(DpAction::Meter);
        Translation {
            actions: slow_meter.into_iter().chain(actions).collect(),
            mask,
            install,
            version: published.version,
            owner: Arc::new(owner),
            trail,
            error: None,
        }
    }
}

/// What there should be for the key of a megaflow.
pub enum Again {
    /// This megaflow.
    Megaflow(Translation),
    /// None: each packet has to be translated.
    OneByOne,
    /// None but the one that drops packets of ports that no bridge has.
    Unassociated,
}

/// What the megaflow does that drops packets of ports that no bridge has.
pub(crate) const UNASSOCIATED: DpAction = DpAction::Drop(DropReason::ActionOfPipeline);

/// In which bridge a datapath flow is, and the flow as OpenFlow sees it. A recirculated packet's frozen state knows.
fn received(published: &Published, handler: &Handler, flow: &Flow) -> Option<(BridgeId, Flow)> {
    if let Some(found) = published.snapshot.receive(flow) {
        return Some(found);
    }
    use xlate::Recirc;
    let state = handler.control.thaw(flow.recirc_id).filter(|_| flow.recirc_id != 0)?;
    let mut openflow = *flow;
    state.metadata.restore(&mut openflow);
    Some((state.bridge, openflow))
}

/// A packet that no bridge wants, dropped by a megaflow of its own so that the next one costs nothing.
fn unassociated(published: &Published) -> Translation {
    Translation {
        actions: Arc::new([UNASSOCIATED]),
        mask: Box::new(Flow { in_port: u32::MAX, recirc_id: u32::MAX, packet_type: u32::MAX, ..Flow::ZERO }),
        install: true,
        version: published.version,
        owner: Arc::new(dpif::NoOwner),
        trail: 0,
        error: None,
    }
}

impl UpcallHandler for Handler {
    fn hears_of_flows(&self) -> bool {
        crate::flow_log::hears_of_added()
    }

    fn flow_added(&self, flow: &dpif::DpFlow) {
        crate::flow_log::added(flow);
    }

    fn miss(&self, upcall: Upcall<'_>) -> Translation {
        crate::flow_log::missed(&self.name, upcall.flow, upcall.packet);
        let published = self.control.published();
        let Some((bridge, flow)) = received(&published, self, upcall.flow) else {
            runtime::log_rl!(
                LOG,
                LIMIT,
                runtime::log::Level::Info,
                "received packet on unassociated datapath port {}",
                PortNo(upcall.flow.in_port)
            );
            return unassociated(&published);
        };
        let mut output = self.translate(&published, bridge, &flow, Some(upcall.packet));
        Handler::log(&output);
        if matches!(output.error, Some(Failure::RecursionTooDeep | Failure::TooManyResubmits)) {
            self.log_loop(&published, bridge, &flow, upcall.packet);
        }
        self.carry_out(&published, std::mem::take(&mut output.effects), upcall.packet, upcall.now);
        self.translation(&published, output, (bridge, upcall.flow), true)
    }

    fn userspace(&self, packet: &[u8], flow: &Flow, userspace: &Userspace) {
        use xlate::Recirc;
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
        if let Some(state) = self.control.thaw(recirc_id) {
            let parts =
                PacketInParts::new(packet, flow, &state, (reason, rule_cookie, controller_id), continuation);
            self.control.enqueue(Deed::PacketIn(Box::new(parts)));
        }
    }

    fn shadow(&self, packet: &[u8], flow: &Flow, megaflow: &dpif::DpFlow) {
        self.look_again(packet, flow, megaflow);
    }

    fn lookups_differ(&self, packet: &[u8], found: Option<Ufid>, naive: Option<Ufid>) {
        self.tell_lookups(packet, found, naive);
    }

    fn is_current(&self, version: u64) -> bool {
        self.control.version() == version
    }
}
