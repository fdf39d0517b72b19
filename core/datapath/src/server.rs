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
use dpif::{Translation, Upcall, UpcallHandler};
use flow::Flow;
use packet::ip::ipproto;
use std::sync::Arc;
use sync::Reader;

/// See the module.
pub struct UpcallServer {
    shared: Arc<Shared>,
    reader: Reader<Megaflow<Program>>,
    /// Those being served; empty between two calls, like the next three.
    requests: Vec<Request>,
    translated: Vec<Translated>,
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

/// A packet, its fields, and what the control half says of it; `Err`: it need not be asked, or does not know.
struct Translated {
    flow: Flow,
    key: Key,
    result: Result<Translation, Outcome>,
    published: Option<Published>,
}

impl Translated {
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
        let handler = self.shared.handler.load_full();
        let mut translated = std::mem::take(&mut self.translated);
        for request in &requests {
            translated.push(self.translate(request, handler.as_deref()));
        }
        if let Some(handler) = handler.as_deref() {
            self.publish(&requests, &mut translated, handler);
        }
        for (request, translated) in requests.drain(..).zip(translated.drain(..)) {
            let outcome = self.outcome(translated);
            self.answers.extend(request.answered(outcome));
        }
        answer_all(&mut self.answers);
        self.translated = translated;
        requests
    }

    fn translate(&mut self, request: &Request, handler: Option<&dyn UpcallHandler>) -> Translated {
        let flow = flow_of(&request.bytes, &request.meta);
        let key = Key::from_flow(&flow);
        let context = self.shared.table.context(flow.in_port);
        let known = context.is_some_and(|c| c.lookup(&self.reader.enter(), &key).0.is_some());
        let result = match handler {
            _ if known => Err(Outcome::Again),
            None => Err(Outcome::Unserved),
            Some(handler) => {
                let (packet, now, worker) = (&request.bytes, request.now, request.worker);
                let translation = handler.miss(Upcall { packet, flow: &flow, now, worker });
                match translation.error {
                    Some(reason) => Err(Outcome::Failed(reason)),
                    None => Ok(translation),
                }
            }
        };
        Translated { flow, key, result, published: None }
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
    fn outcome(&mut self, translated: Translated) -> Outcome {
        let Translated { flow, result, published, .. } = translated;
        let translation = match result {
            Ok(translation) => translation,
            Err(outcome) => return outcome,
        };
        if let Some(Published::Known(_)) = published {
            return Outcome::Again;
        }
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

fn flow_of(bytes: &[u8], meta: &Meta) -> Flow {
    let mut flow = meta.to_flow();
    flow::extract::extract(bytes, meta.tags(), &mut flow);
    flow
}
