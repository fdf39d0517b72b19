//! Serves the control socket, and holds the commands that are not answered yet.

use crate::answer::{Answer, Pending, Wait};
use crate::execute::execute;
use crate::lasting_requests::LastingRequests;
use crate::time::step;
use runtime::WaitSet;
use switch::Switch;
use unixctl::{Reply, RequestId, Server};

/// Commands in progress.
#[derive(Default)]
pub struct Commands {
    /// Commands that are not answered yet.
    pending: Vec<Pending>,
    requested: LastingRequests,
}

impl Commands {
    /// Executes the commands that arrived since the last call. In dummy mode, all packets that arrived before a command are
    /// forwarded first. The main loop calls this function once in each turn, after all other work.
    pub fn run(&mut self, switch: &mut Switch, control: &mut Server) {
        let requests = control.run();
        if requests.is_empty() && self.pending.is_empty() {
            return;
        }
        for request in requests {
            switch.run_packets();
            match execute(&mut self.requested, switch, &request.method, &request.args, request.format) {
                Answer::Now(result) => control.reply(request.id, result),
                Answer::Long(text) => control.reply_long(request.id, text),
                Answer::Later(wait) => self.pending.push(Pending { id: request.id, wait }),
            }
        }
        switch.run_packets();
        for (id, result) in self.poll_pending(switch) {
            control.reply(id, result);
        }
    }

    /// Keeps the main loop from sleeping while commands wait.
    pub fn wait(&self, set: &mut WaitSet<'_>) {
        if !self.pending.is_empty() {
            set.wake_now();
        }
    }

    /// `Some` if `exit` was called: true with `--cleanup`.
    pub fn exiting(&self) -> Option<bool> {
        self.requested.exiting
    }

    /// Continues each waiting command. Returns the replies of those that are done.
    fn poll_pending(&mut self, switch: &mut Switch) -> Vec<(RequestId, Result<Reply, String>)> {
        let mut answers = Vec::new();
        for Pending { id, wait } in std::mem::take(&mut self.pending) {
            match step(switch, wait) {
                Ok(text) => answers.push((id, Ok(Reply::Text(text)))),
                Err(wait) => {
                    if !matches!(wait, Wait::Exit) {
                        switch.waker.wake();
                    }
                    self.pending.push(Pending { id, wait });
                }
            }
        }
        answers
    }

    /// Removes and returns the requests of `exit`, which are answered when everything is closed.
    pub fn take_exits(&mut self) -> Vec<RequestId> {
        let is_exit = |p: &Pending| matches!(p.wait, Wait::Exit);
        let ids = self.pending.iter().filter(|p| is_exit(p)).map(|p| p.id).collect();
        self.pending.retain(|p| !is_exit(p));
        ids
    }
}
