//! `UpcallServer`: one thread's right to answer upcalls. While one exists, misses leave the workers.
//!
//! It looks a packet up before it asks the control half: where megaflows are wide, the first of a burst makes the
//! megaflow of them all. It publishes what comes out; the worker runs it on the packet that it was made for.

use crate::datapath::{Patience, Shared};
use crate::flows::{Birth, Published};
use crate::packet::Meta;
use crate::program::{Op, Program};
use crate::upcalls::{Outcome, Request, Spent};
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
    /// What workers gave back; empty between two upcalls.
    spent: Vec<Spent>,
    /// Memory for the programs of the next upcalls.
    memory: Vec<Vec<Op>>,
}

/// Memory of so many programs is kept.
const PROGRAMS: usize = 64;

impl UpcallServer {
    pub(crate) fn new(shared: Arc<Shared>) -> UpcallServer {
        shared.upcalls.enter();
        UpcallServer { reader: shared.table.reader(), shared, spent: Vec::new(), memory: Vec::new() }
    }

    /// Answers one upcall; false if none waits.
    pub fn serve(&mut self) -> bool {
        let next = self.shared.upcalls.next(&mut self.spent);
        for (program, _) in self.spent.drain(..) {
            if self.memory.len() < PROGRAMS {
                self.memory.push(program.ops);
            }
        }
        let Some(request) = next else { return false };
        // Should anything below fail, dropping the request gives the packet back to its worker.
        let outcome = self.outcome(&request);
        request.answer(outcome);
        true
    }

    /// What the worker that asked is to do.
    pub(crate) fn outcome(&mut self, request: &Request) -> Outcome {
        let flow = flow_of(&request.bytes, &request.meta);
        let key = Key::from_flow(&flow);
        if let Some(context) = self.shared.table.context(flow.in_port)
            && context.lookup(&self.reader.enter(), &key).0.is_some()
        {
            return Outcome::Again;
        }
        let handler = self.shared.handler.load_full();
        let Some(handler) = handler.as_deref() else { return Outcome::Unserved };
        let upcall = Upcall { packet: &request.bytes, flow: &flow, now: request.now, worker: request.worker };
        let translation = handler.miss(upcall);
        match translation.error {
            Some(reason) => Outcome::Failed(reason),
            None => self.publish(request, &flow, &key, translation, handler),
        }
    }

    fn publish(
        &mut self,
        request: &Request,
        flow: &Flow,
        key: &Key,
        translation: Translation,
        handler: &dyn UpcallHandler,
    ) -> Outcome {
        if translation.install {
            let birth = Birth { worker: request.worker, at: request.now };
            match self.shared.publish(flow, key, &translation, handler, birth, Patience::Long) {
                Some(Published::Known(_)) => return Outcome::Again,
                Some(Published::New(_, flow)) => flow.iter().for_each(|f| handler.flow_added(f)),
                None => {}
            }
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
        self.shared.upcalls.leave();
    }
}

fn flow_of(bytes: &[u8], meta: &Meta) -> Flow {
    let mut flow = meta.to_flow();
    flow::extract::extract(bytes, meta.tags(), &mut flow);
    flow
}
