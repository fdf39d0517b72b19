//! Commands that run until they are stopped: in the foreground, or with `--detach` in a background process.
//!
//! The background process keeps standard output, and listens on a control socket at the path that `ovs-appctl`
//! expects. Detaching re-executes the program (see `runtime::daemon`), which loses all state, so a command
//! detaches before it does anything else. The foreground process exits when the background process has its
//! first reply.

use super::context::{Context, Fail, LOG};
use super::rpc::Rpc;
use ovsdb::Message;
use runtime::daemon::{self, Daemon};
use runtime::poll_loop::{PollLoop, WaitSet};
use runtime::signals::Signals;
use runtime::{Clock, error_text};
use std::collections::VecDeque;
use std::io;
use unixctl::{Reply, Request, RequestId, Server};

/// Control commands that every background process has.
const COMMON_COMMANDS: [&str; 6] =
    ["exit", "vlog/close", "vlog/list", "vlog/list-pattern", "vlog/reopen", "vlog/set"];

/// A command that runs until it is stopped.
pub struct Background {
    daemon: Daemon,
    control: Server,
    requests: VecDeque<Request>,
    signals: Signals,
    poll: PollLoop,
    /// Whether the start of the command was reported to the foreground process.
    start_reported: bool,
}

/// The next event.
pub enum BackgroundEvent {
    /// A message from the database server.
    Message(Message),
    /// A request for one of the command's own control commands.
    Control(Request),
    /// A signal or a control command requests the exit of the process.
    Exit,
}

impl Background {
    /// Detaches if `--detach` is given; then only the background process returns from this function. `commands`:
    /// control commands of the process besides [`COMMON_COMMANDS`].
    pub fn start(cx: &Context, commands: &[&'static str]) -> Result<Background, Fail> {
        let wrong = |e: io::Error| Fail::Message(error_text(&e));
        let daemon =
            daemon::start(&cx.options.daemon, daemon::Capabilities::empty()).map_err(Fail::Message)?;
        let offered: Vec<&str> = COMMON_COMMANDS.iter().chain(commands).copied().collect();
        let version = runtime::version_text(&cx.name);
        let control = match cx.options.daemon.detach {
            false => Server::without_socket(&version, &offered),
            true => {
                let name = format!("{}.{}.ctl", cx.dirs.progname, std::process::id());
                Server::bind(&cx.dirs.in_run(&name), &version, &offered)
                    .map_err(|e| format!("failed to create unixctl server ({})", error_text(&e)))?
            }
        };
        let signals = Signals::install().map_err(wrong)?;
        let poll = PollLoop::new(Clock::new()).map_err(wrong)?;
        Ok(Background { daemon, control, requests: VecDeque::new(), signals, poll, start_reported: false })
    }

    /// Reports that the command has begun, so that the foreground process can exit.
    pub fn report_started(&mut self) {
        if !std::mem::replace(&mut self.start_reported, true) {
            self.daemon.ready_keep_stdio();
        }
    }

    /// Waits for the next event. With `ignore_server`, messages of the database server are not read.
    pub fn next(&mut self, rpc: &mut Rpc, ignore_server: bool) -> io::Result<BackgroundEvent> {
        loop {
            if let Some(signal) = self.signals.received() {
                runtime::info!(LOG, "ending on signal {signal}");
                return Ok(BackgroundEvent::Exit);
            }
            if let Some(request) = self.requests.pop_front() {
                match request.method.as_str() {
                    "exit" => {
                        self.reply(request.id, Ok(String::new()));
                        return Ok(BackgroundEvent::Exit);
                    }
                    name => match runtime::log::command(name, &request.args) {
                        Some(answer) => self.reply(request.id, answer),
                        None => return Ok(BackgroundEvent::Control(request)),
                    },
                }
                continue;
            }
            if !ignore_server && let Some(message) = rpc.poll()? {
                return Ok(BackgroundEvent::Message(message));
            }
            let mut set = WaitSet::new();
            self.control.wait(&mut set);
            self.signals.wait(&mut set);
            if !ignore_server {
                rpc.wait(&mut set);
            }
            self.poll.block(set);
            self.requests.extend(self.control.run());
        }
    }

    /// Replies to a request on the control socket.
    pub fn reply(&mut self, id: RequestId, answer: Result<String, String>) {
        self.control.reply(id, answer.map(Reply::Text));
    }
}
