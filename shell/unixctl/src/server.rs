//! The server of a control socket: accepts clients, checks commands, answers a few commands itself and returns the others to the
//! daemon. It runs in the main loop.

use crate::conn::{Conn, LOG, ReceivedRequest, Request, RequestId};
use crate::format::{Format, Reply};
use crate::long_text::LongText;
use ovsdb::Json;
use runtime::RateLimit;
use runtime::log::Level;
use runtime::poll_loop::{Ready, WaitSet};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::Path;
use transport::{Listener, Stream, Target};

/// Commands that the server answers itself.
const OWN_COMMANDS: [&str; 3] = ["list-commands", "set-options", "version"];
/// Maximum number of requests of one client per turn, so that no client can occupy the main loop.
const MAX_PER_TURN: usize = 10;
/// Maximum number of clients. Further clients wait in the kernel's backlog of the socket.
const MAX_CLIENTS: usize = 128;

static LIMIT: RateLimit = RateLimit::new(5, 5);

/// A control socket.
pub struct Server {
    listener: Option<Listener>,
    accept_failed: bool,
    version: String,
    offered: BTreeSet<&'static str>,
    conns: Vec<Conn>,
    next_number: u64,
}

impl Server {
    /// Listens at `path` and offers the commands `offered` besides [`OWN_COMMANDS`]. `version` is the reply to the command
    /// `version`.
    pub fn bind(path: &Path, version: &str, offered: &[&'static str]) -> io::Result<Server> {
        let listener = Listener::bind(&Target::PUnix(path.into()))?;
        Ok(Server { listener: Some(listener), ..Server::without_socket(version, offered) })
    }

    /// A server without a socket, for a daemon without control commands.
    pub fn without_socket(version: &str, offered: &[&'static str]) -> Server {
        Server {
            listener: None,
            accept_failed: false,
            version: version.into(),
            offered: offered.iter().copied().chain(OWN_COMMANDS).collect(),
            conns: Vec::new(),
            next_number: 0,
        }
    }

    /// Offers more commands.
    pub fn offer(&mut self, names: impl Iterator<Item = &'static str>) {
        self.offered.extend(names);
    }

    /// The path of the socket; `None` without a socket.
    pub fn path(&self) -> Option<&Path> {
        self.listener.as_ref()?.path()
    }

    /// Adds a connection.
    pub fn adopt(&mut self, stream: Stream) {
        self.conns.push(Conn::new(self.next_number, stream));
        self.next_number += 1;
    }

    /// Processes received bytes, at most `MAX_PER_TURN` requests per client. Returns the commands that the daemon has to execute.
    pub fn run(&mut self) -> Vec<Request> {
        self.accept();
        let mut requests = Vec::new();
        let mut conns = std::mem::take(&mut self.conns);
        conns.retain_mut(|conn| match self.serve(conn, &mut requests) {
            Ok(()) => true,
            Err(e) => {
                log_end(conn, &e);
                false
            }
        });
        self.conns = conns;
        requests
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        let mut fresh = Vec::new();
        self.accept_failed = false;
        while self.conns.len() + fresh.len() < MAX_CLIENTS {
            match listener.accept() {
                Ok(Some(stream)) => fresh.push(stream),
                Ok(None) => break,
                Err(e) => {
                    runtime::warn_rl!(LOG, LIMIT, "accept failed: {}", runtime::error_text(&e));
                    self.accept_failed = true;
                    break;
                }
            }
        }
        fresh.into_iter().for_each(|stream| self.adopt(stream));
    }

    fn serve(&self, conn: &mut Conn, requests: &mut Vec<Request>) -> io::Result<()> {
        conn.flush()?;
        for _ in 0..MAX_PER_TURN {
            let Some(received) = conn.receive()? else { break };
            let id = received.id;
            let answer = match self.check(received, conn.format) {
                Ok(request) => match self.answer_own(&request, conn) {
                    Some(answer) => answer,
                    None => {
                        requests.push(request);
                        break;
                    }
                },
                Err(text) => Err(text),
            };
            conn.answer(id.seq, &answer);
            conn.flush()?;
        }
        Ok(())
    }

    fn check(&self, received: ReceivedRequest, format: Format) -> Result<Request, String> {
        let ReceivedRequest { id, method, params } = received;
        ctl::check(&method, params.len(), |name| self.offered.contains(name))?;
        let text = |p: Json| match p {
            Json::String(s) => Some(s),
            _ => None,
        };
        match params.into_iter().map(text).collect::<Option<Vec<String>>>() {
            Some(args) => Ok(Request { id, method, args, format }),
            None => Err(format!("\"{method}\" command has non-string argument")),
        }
    }

    fn answer_own(&self, request: &Request, conn: &mut Conn) -> Option<Result<Reply, String>> {
        Some(match request.method.as_str() {
            "version" => Ok(self.version.as_str().into()),
            "list-commands" => Ok(self.list(conn.format)),
            "set-options" => conn.format.with_options(&request.args).map(|format| {
                conn.format = format;
                Reply::Text(String::new())
            }),
            _ => return None,
        })
    }

    fn list(&self, format: Format) -> Reply {
        let offered = |name: &str| self.offered.contains(name);
        match format {
            Format::Text => ctl::list_text(offered).into(),
            Format::Json => {
                let offered = ctl::all().iter().filter(|c| c.listed && offered(c.name));
                Reply::Json(offered.map(|c| (c.name.to_owned(), Json::from(c.usage))).collect())
            }
        }
    }

    /// Answers a request. All earlier log lines are written before. The client may have disconnected already.
    pub fn reply(&mut self, id: RequestId, answer: Result<Reply, String>) {
        runtime::log::flush();
        if let Some(conn) = self.conns.iter_mut().find(|c| c.number() == id.conn) {
            conn.answer(id.seq, &answer);
            // Send at once, because the daemon may end in this turn (`exit`). If this fails, the same error occurs in `run`, which
            // closes the connection.
            let _ = conn.flush();
        }
    }

    /// Answers a request with a text that is generated while the client reads it, one piece per turn.
    pub fn reply_long(&mut self, id: RequestId, text: LongText) {
        runtime::log::flush();
        if let Some(conn) = self.conns.iter_mut().find(|c| c.number() == id.conn) {
            conn.answer_long(id.seq, text);
        }
    }

    /// Adds the file descriptors that end the next sleep, and ends it at once if a client may have sent a further request.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>) {
        if let Some(listener) = &self.listener
            // If `accept` has failed for lack of file descriptors, the listener stays readable and would end the sleep at once. The next
            // turn tries again.
            && !self.accept_failed
            && self.conns.len() < MAX_CLIENTS
        {
            listener.wait(set);
        }
        self.conns.iter().for_each(|conn| conn.wait(set));
    }

    /// Tells the result of a sleep after [`wait`](Self::wait).
    pub fn record_sleep(&mut self, ready: &Ready) {
        self.listener.iter_mut().for_each(|listener| listener.record_sleep(ready));
    }
}

fn log_end(conn: &Conn, error: &io::Error) {
    match error.kind() {
        ErrorKind::UnexpectedEof => {}
        ErrorKind::InvalidData => {
            runtime::warn_rl!(LOG, LIMIT, "{}: {error}", conn.name());
        }
        _ => {
            let text = runtime::error_text(error);
            runtime::log_rl!(LOG, LIMIT, Level::Dbg, "{}: connection dropped ({text})", conn.name());
        }
    }
}

#[cfg(test)]
mod tests;
