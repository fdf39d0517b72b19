//! `UpcallServer`: serves upcalls on one handler thread. While one exists, workers park misses instead of translating
//! them inline.
//!
//! Before the server calls the control half, it looks the packet up: if megaflows are wide, the first packet of a burst
//! creates the megaflow for all packets of the burst. The server publishes the megaflow; the worker executes the
//! actions on the parked packet.

use crate::flows::{MissOrigin, NewFlow, PublishResult};
use crate::packet::Meta;
use crate::program::{Op, Program};
use crate::shared::{LockWait, Shared};
use crate::upcalls::{AddressedAnswer, Outcome, Request, Unneeded, answer_all};
use classifier::megaflow::{Key, Megaflow};
use cpu::prefetch::prefetch_at;
use dpif::{Translation, Upcall, UpcallHandler};
use flow::Flow;
use packet::ip::ipproto;
use std::sync::Arc;
use sync::Reader;

/// Serves upcalls on one handler thread. Dropping it unregisters the thread.
pub struct UpcallServer {
    shared: Arc<Shared>,
    reader: Reader<Megaflow<Program>>,
    /// Requests that are being served; empty between two calls.
    requests: Vec<Request>,
    /// The translations of the requests, in the same order.
    translated: Vec<TranslatedPacket>,
    /// Answers that are not sent yet; empty between two calls.
    answers: Vec<AddressedAnswer>,
    /// Memory that workers returned; empty between two calls.
    unneeded: Vec<Unneeded>,
    /// Memory for the programs of the next upcalls.
    memory: Vec<Vec<Op>>,
}

/// Number of upcalls that are served together, so that they share the cost of taking locks that workers need, too. It
/// is small, because the first of these upcalls waits for the others.
const UPCALL_BATCH: usize = 8;
/// Maximum number of programs whose memory is kept.
const SPARE_PROGRAMS_MAX: usize = 64;

/// A packet's flow, and the translation by the control half. `Err`: no translation is needed, or the control half
/// failed. The memory is reused for the next packet, because a flow is too large to move.
struct TranslatedPacket {
    flow: Flow,
    key: Key,
    result: Result<Translation, Outcome>,
    published: Option<PublishResult>,
}

impl TranslatedPacket {
    fn new() -> TranslatedPacket {
        let flow = Flow::ZERO;
        TranslatedPacket { key: Key::from_flow(&flow), flow, result: Err(Outcome::Unserved), published: None }
    }

    fn read(&mut self, bytes: &[u8], meta: &Meta) {
        meta.read(bytes, &mut self.flow);
        self.key = Key::from_flow(&self.flow);
    }

    /// Returns the translation, if a megaflow is to be installed for it.
    fn to_install(&self) -> Option<&Translation> {
        self.result.as_ref().ok().filter(|translation| translation.install)
    }
}

impl UpcallServer {
    pub(crate) fn new(shared: Arc<Shared>) -> UpcallServer {
        shared.upcalls.register();
        UpcallServer {
            reader: shared.megaflow_table.reader(),
            shared,
            requests: Vec::new(),
            translated: Vec::new(),
            answers: Vec::new(),
            unneeded: Vec::new(),
            memory: Vec::new(),
        }
    }

    /// Serves some upcalls and returns how many. 0 means that no upcall waits.
    pub fn serve(&mut self) -> usize {
        self.shared.upcalls.take(UPCALL_BATCH, &mut self.requests, &mut self.unneeded);
        for (program, _) in self.unneeded.drain(..) {
            if self.memory.len() < SPARE_PROGRAMS_MAX {
                self.memory.push(program.ops);
            }
        }
        if self.requests.is_empty() {
            return 0;
        }
        let served = self.requests.len();
        // If the code below panics, dropping the requests returns the packets to their workers.
        let requests = std::mem::take(&mut self.requests);
        self.requests = self.answer(requests);
        served
    }

    /// Serves these upcalls and returns the memory of the requests.
    pub(crate) fn answer(&mut self, mut requests: Vec<Request>) -> Vec<Request> {
        // The workers' cores wrote the packets, so they are not in this core's cache.
        requests.iter().for_each(|request| prefetch_at(request.bytes.as_ptr()));
        let handler = self.shared.handler.load_full();
        let mut translated = std::mem::take(&mut self.translated);
        while translated.len() < requests.len() {
            translated.push(TranslatedPacket::new());
        }
        for (request, translated) in requests.iter().zip(&mut translated) {
            self.translate(request, handler.as_deref(), translated);
        }
        if let Some(handler) = handler.as_deref() {
            self.publish(&requests, &mut translated[..requests.len()], handler);
        }
        for (request, translated) in requests.drain(..).zip(&mut translated) {
            let outcome = self.outcome(translated);
            self.answers.extend(request.into_answer(outcome));
        }
        answer_all(&mut self.answers);
        self.translated = translated;
        requests
    }

    fn translate(
        &mut self,
        request: &Request,
        handler: Option<&dyn UpcallHandler>,
        into: &mut TranslatedPacket,
    ) {
        into.read(&request.bytes, &request.meta);
        let flow = &into.flow;
        let known =
            self.shared.megaflow_table.lookup(flow.in_port, &self.reader.enter(), &into.key).0.is_some();
        into.result = match handler {
            _ if known => Err(Outcome::LookUpAgain),
            None => Err(Outcome::Unserved),
            Some(handler) => {
                let (packet, now, worker) = (&request.bytes, request.now, request.worker);
                let translation = handler.miss(Upcall { packet, flow, now, worker });
                match translation.error {
                    Some(reason) => Err(Outcome::Failed(reason)),
                    None => Ok(translation),
                }
            }
        };
    }

    fn publish(
        &self,
        requests: &[Request],
        translated: &mut [TranslatedPacket],
        handler: &dyn UpcallHandler,
    ) {
        let mut published = Vec::with_capacity(UPCALL_BATCH);
        let new = requests.iter().zip(&*translated).filter_map(|(request, t)| {
            let (translation, miss_origin) =
                (t.to_install()?, MissOrigin { worker: request.worker, at: request.now });
            Some((translation.version, NewFlow::of_miss(&t.flow, &t.key, translation, miss_origin)))
        });
        // All flows are prepared before the lock is taken.
        let new: Vec<_> = new.collect();
        self.shared.publish(new.into_iter(), handler, LockWait::Unbounded, |p| published.push(p));
        for (t, p) in translated.iter_mut().filter(|t| t.to_install().is_some()).zip(published) {
            if let Some(PublishResult::New(_, Some(flow))) = &p {
                handler.flow_added(flow);
            }
            t.published = p;
        }
    }

    /// Returns what the worker that sent the request must do.
    fn outcome(&mut self, translated: &mut TranslatedPacket) -> Outcome {
        let published = translated.published.take();
        let translation = match std::mem::replace(&mut translated.result, Err(Outcome::LookUpAgain)) {
            Ok(translation) => translation,
            Err(outcome) => return outcome,
        };
        if let Some(PublishResult::Existing(_)) = published {
            return Outcome::LookUpAgain;
        }
        let flow = &translated.flow;
        let memory = self.memory.pop().unwrap_or_default();
        let program = Program::compile_in(memory, &translation.actions);
        let is_tcp = flow.is_ip() && flow.nw_proto == ipproto::TCP;
        let tcp_flags = if is_tcp { flow.tcp_flags } else { 0 };
        Outcome::Run { program, owner: translation.owner, tcp_flags }
    }
}

impl Drop for UpcallServer {
    fn drop(&mut self) {
        // There are answers left only if serving panicked between adding and sending them.
        answer_all(&mut self.answers);
        self.shared.upcalls.unregister();
    }
}
