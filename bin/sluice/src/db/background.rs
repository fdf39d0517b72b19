//! Commands that go on until somebody ends them: in the foreground, or with `--detach` in a process of their own.
//!
//! In the background they print where they printed before, and a control socket tells them what to do, in the place where
//! `ovs-appctl` looks for it. The process is started again (see `runtime::daemon`), so all of this comes before anything
//! else that a command does; the first one returns when the other has its first answer.

use super::rpc::Rpc;
use super::{Context, Fail};
use ovsdb::Message;
use runtime::daemon::{self, Daemon};
use runtime::poll_loop::{PollLoop, WaitSet};
use runtime::signals::Signals;
use runtime::{Clock, error_text};
use std::collections::VecDeque;
use std::io;
use unixctl::{Reply, Request, RequestId, Server};

/// What every such process does on request.
const ALWAYS: [&str; 6] = ["exit", "vlog/close", "vlog/list", "vlog/list-pattern", "vlog/reopen", "vlog/set"];

/// A command that goes on.
pub struct Background {
    daemon: Daemon,
    control: Server,
    requests: VecDeque<Request>,
    signals: Signals,
    poll: PollLoop,
    up: bool,
}

/// What is to be done next.
pub enum Next {
    /// The database server said something.
    Said(Message),
    /// Somebody asks for one of the command's own commands.
    Asked(Request),
    /// Somebody wants the process to end.
    End,
}

impl Background {
    /// Goes where the options say; returns in the process that does the work. `commands`: of the control socket.
    pub fn start(cx: &Context, commands: &[&'static str]) -> Result<Background, Fail> {
        let wrong = |e: io::Error| Fail::Says(error_text(&e));
        let daemon = daemon::start(&cx.options.daemon, daemon::Capabilities::empty()).map_err(Fail::Says)?;
        let offered: Vec<&str> = ALWAYS.iter().chain(commands).copied().collect();
        let version = runtime::version_text(&cx.name);
        let control = match cx.options.daemon.detach {
            false => Server::none(&version, &offered),
            true => {
                let name = format!("{}.{}.ctl", cx.dirs.progname, std::process::id());
                Server::bind(&cx.dirs.in_run(&name), &version, &offered)
                    .map_err(|e| format!("failed to create unixctl server ({})", error_text(&e)))?
            }
        };
        let signals = Signals::install().map_err(wrong)?;
        let poll = PollLoop::new(Clock::new()).map_err(wrong)?;
        Ok(Background { daemon, control, requests: VecDeque::new(), signals, poll, up: false })
    }

    /// The command has begun: whoever started it need not wait any longer.
    pub fn is_up(&mut self) {
        if !std::mem::replace(&mut self.up, true) {
            self.daemon.ready_to_print();
        }
    }

    /// Waits; while `deaf`, the database server is not listened to.
    pub fn next(&mut self, rpc: &mut Rpc, deaf: bool) -> io::Result<Next> {
        loop {
            if let Some(signal) = self.signals.received() {
                runtime::info!(super::LOG, "ending on signal {signal}");
                return Ok(Next::End);
            }
            if let Some(request) = self.requests.pop_front() {
                match request.method.as_str() {
                    "exit" => {
                        self.reply(request.id, Ok(String::new()));
                        return Ok(Next::End);
                    }
                    name => match runtime::log::command(name, &request.args) {
                        Some(answer) => self.reply(request.id, answer),
                        None => return Ok(Next::Asked(request)),
                    },
                }
                continue;
            }
            if !deaf && let Some(message) = rpc.poll()? {
                return Ok(Next::Said(message));
            }
            let mut set = WaitSet::new();
            self.control.wait(&mut set);
            self.signals.wait(&mut set);
            if !deaf {
                rpc.wait(&mut set);
            }
            self.poll.block(set);
            self.requests.extend(self.control.run());
        }
    }

    /// Answers what was asked for on the control socket.
    pub fn reply(&mut self, id: RequestId, answer: Result<String, String>) {
        self.control.reply(id, answer.map(Reply::Text));
    }
}
