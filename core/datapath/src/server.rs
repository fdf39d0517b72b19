//! `UpcallServer`: one thread's right to answer upcalls. While one exists, misses leave the workers.
//!
//! It looks a packet up before it asks the control half: where megaflows are wide, the first of a burst makes the
//! megaflow of them all. It publishes what comes out; the worker runs it on the packet that it was made for.

use crate::flows::{Birth, NewFlow, Published};
use crate::packet::Meta;
use crate::program::{Op, Program};
use crate::shared::{Patience, Shared};
use crate::upcalls::{Addressed, Outcome, Request, Spent, answer_all};
use classifier::megaflow::{Key, Megaflow};
use cpu::prefetch::prefetch_at;
use dpif::{Translation, Upcall, UpcallHandler};
use flow::Flow;
use packet::ip::ipproto;
use std::sync::Arc;
use sync::Reader;

/// See the module.
pub struct UpcallServer {
    shared: Arc<Shared>,
    reader: Reader<Megaflow<Program>>,
    /// Those being served; empty between two calls.
    requests: Vec<Request>,
    /// What is made of them, in order.
    translated: Vec<Translated>,
    /// Empty between two calls, like the next.
    answers: Vec<Addressed>,
    /// What workers gave back.
    spent: Vec<Spent>,
    /// Memory for the programs of the next upcalls.
    memory: Vec<Vec<Op>>,
}

/// So many upcalls are served together: they share locks that workers want, too. One waits for the others.
const TOGETHER: usize = 8;
/// Memory of so many programs is kept.
const PROGRAMS: usize = 64;

/// A packet's fields, and what the control half says of it; `Err`: it need not be asked, or does not know. Used again for the
/// next packet: there are too many fields to move them about.
struct Translated {
    flow: Flow,
    key: Key,
    result: Result<Translation, Outcome>,
    published: Option<Published>,
}

impl Translated {
    fn new() -> Translated {
        let flow = Flow::ZERO;
        Translated { key: Key::from_flow(&flow), flow, result: Err(Outcome::Unserved), published: None }
    }

    fn read(&mut self, bytes: &[u8], meta: &Meta) {
        meta.read(bytes, &mut self.flow);
        self.key = Key::from_flow(&self.flow);
    }

    /// What is to become a megaflow.
    fn to_install(&self) -> Option<&Translation> {
        self.result.as_ref().ok().filter(|translation| translation.install)
    }
}

impl UpcallServer {
    pub(crate) fn new(shared: Arc<Shared>) -> UpcallServer {
        shared.upcalls.enter();
        UpcallServer {
            reader: shared.table.reader(),
            shared,
            requests: Vec::new(),
            translated: Vec::new(),
            answers: Vec::new(),
            spent: Vec::new(),
            memory: Vec::new(),
        }
    }

    /// Answers some upcalls; how many. None waits if that is none.
    pub fn serve(&mut self) -> usize {
        self.shared.upcalls.next(TOGETHER, &mut self.requests, &mut self.spent);
        for (program, _) in self.spent.drain(..) {
            if self.memory.len() < PROGRAMS {
                self.memory.push(program.ops);
            }
        }
        if self.requests.is_empty() {
            return 0;
        }
        let served = self.requests.len();
        // Should anything below fail, dropping the requests gives the packets back to their workers.
        let requests = std::mem::take(&mut self.requests);
        self.requests = self.answer(requests);
        served
    }

    /// Answers upcalls, and returns the memory that they were in.
    pub(crate) fn answer(&mut self, mut requests: Vec<Request>) -> Vec<Request> {
        // The workers' processors wrote the packets.
        requests.iter().for_each(|request| prefetch_at(request.bytes.as_ptr()));
        let handler = self.shared.handler.load_full();
        let mut translated = std::mem::take(&mut self.translated);
        while translated.len() < requests.len() {
            translated.push(Translated::new());
        }
        for (request, translated) in requests.iter().zip(&mut translated) {
            self.translate(request, handler.as_deref(), translated);
        }
        if let Some(handler) = handler.as_deref() {
            self.publish(&requests, &mut translated[..requests.len()], handler);
        }
        for (request, translated) in requests.drain(..).zip(&mut translated) {
            let outcome = self.outcome(translated);
            self.answers.extend(request.answered(outcome));
        }
        answer_all(&mut self.answers);
        self.translated = translated;
        requests
    }

    fn translate(&mut self, request: &Request, handler: Option<&dyn UpcallHandler>, into: &mut Translated) {
        into.read(&request.bytes, &request.meta);
        let flow = &into.flow;
        let context = self.shared.table.context(flow.in_port);
        let known = context.is_some_and(|c| c.lookup(&self.reader.enter(), &into.key).0.is_some());
        into.result = match handler {
            _ if known => Err(Outcome::Again),
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

    fn publish(&self, requests: &[Request], translated: &mut [Translated], handler: &dyn UpcallHandler) {
        let mut published = Vec::with_capacity(TOGETHER);
        let new = requests.iter().zip(&*translated).filter_map(|(request, t)| {
            let (translation, birth) = (t.to_install()?, Birth { worker: request.worker, at: request.now });
            Some((translation.version, NewFlow::of_miss(&t.flow, &t.key, translation, birth)))
        });
        // All of them are made before the lock is taken.
        let new: Vec<_> = new.collect();
        self.shared.publish(new.into_iter(), handler, Patience::Long, |p| published.push(p));
        for (t, p) in translated.iter_mut().filter(|t| t.to_install().is_some()).zip(published) {
            if let Some(Published::New(_, Some(flow))) = &p {
                handler.flow_added(flow);
            }
            t.published = p;
        }
    }

    /// What the worker that asked is to do.
    fn outcome(&mut self, translated: &mut Translated) -> Outcome {
        let published = translated.published.take();
        let translation = match std::mem::replace(&mut translated.result, Err(Outcome::Again)) {
            Ok(translation) => translation,
            Err(outcome) => return outcome,
        };
        if let Some(Published::Known(_)) = published {
            return Outcome::Again;
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
        // There are some only if it failed between two of them.
        answer_all(&mut self.answers);
        self.shared.upcalls.leave();
    }
}
