//! The thread of the server.

use super::conn::{Answer, Conn, State};
use super::eviction::{Candidate, select_for_eviction};
use crate::api::{Api, ServeResult};
use crate::log::LOG;
use crate::shared::{ListenSettings, Shared};
use crate::token_bucket::TokenBucket;
use http_request::{Request, RequestError, is_safe_host};
use runtime::poll_loop::Interest;
use runtime::{PollLoop, RateLimit, WaitSet, cpu_time};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use transport::{Listener, Target};
use units::Millis;

/// Maximum number of TCP connections.
pub const TCP_MAX: usize = 48;
/// Maximum number of connections at the Unix socket.
pub const UNIX_MAX: usize = 16;
/// Limit of this thread's CPU time: the average share of a core, and the CPU seconds of one burst. A scrape of 10,000 ports
/// needs 20 ms.
pub const CPU: (f64, f64) = (0.2, 0.3);
/// Maximum number of bytes of all answers that are being sent.
pub const BODIES_MAX: usize = 64 << 20;
/// Time until the next attempt after a connection could not be accepted, for example because no descriptor is free.
const ACCEPT_RETRY: Millis = Millis(100);
/// Time between two attempts to listen on an address.
const RETRY: Millis = Millis(10_000);

static LIMIT: RateLimit = RateLimit::new(5, 5);

struct Server<'a> {
    shared: &'a Shared,
    socket: &'a Path,
    unix: Option<Listener>,
    /// When to try again to listen on `socket` after a failure.
    unix_retry: Option<Millis>,
    tcp: Option<Listener>,
    /// The settings that were applied last; `tcp` is `None` if the address could not be used.
    settings: ListenSettings,
    /// When to try again to listen on the TCP address after a failure.
    retry: Option<Millis>,
    /// No connection is accepted before this time.
    accept_after: Millis,
    conns: Vec<Conn>,
    /// Bytes of the answers that are being sent.
    sending: usize,
    api: Api,
    /// The cores to which this thread is restricted.
    cores: BTreeSet<u32>,
}

/// Serves until the main thread ends it.
pub(crate) fn run(shared: &Shared, poll: &PollLoop, socket: &Path) {
    let mut server = Server {
        shared,
        socket,
        unix: None,
        unix_retry: None,
        tcp: None,
        settings: ListenSettings::default(),
        retry: None,
        accept_after: Millis(0),
        conns: Vec::new(),
        sending: 0,
        api: Api::default(),
        cores: BTreeSet::new(),
    };
    let (mut budget, mut spent, mut resume) = (TokenBucket::new(CPU.0, CPU.1), 0, Millis(0));
    while !shared.is_ending() {
        let mut set = WaitSet::new();
        if poll.clock().now() >= resume {
            server.run_turn(poll.clock().now());
            let used = cpu_time::thread_time();
            let seconds = used.saturating_sub(std::mem::replace(&mut spent, used)) as f64 / 1e9;
            resume = poll.clock().now() + Millis(budget.spend(seconds, cpu_time::monotonic()) / 1_000_000);
        }
        match poll.clock().now() < resume {
            true => set.deadline(resume),
            false => server.wait(&mut set, poll.clock().now()),
        }
        poll.block(set);
    }
}

impl Server<'_> {
    fn run_turn(&mut self, now: Millis) {
        self.listen_unix(now);
        self.apply_settings(now);
        if now >= self.accept_after {
            self.accept(now);
        }
        self.sending = sending(&self.conns);
        let mut conns = std::mem::take(&mut self.conns);
        self.api.server_counters.connections = conns.len();
        conns.retain_mut(|conn| self.serve(conn, now));
        self.conns = conns;
        self.limit_bodies();
        self.leave_polled_cores();
    }

    /// Listens on the Unix socket. While another daemon has the socket, this daemon tries again, because it may replace the
    /// other one.
    fn listen_unix(&mut self, now: Millis) {
        if self.unix.is_some() || self.unix_retry.is_some_and(|at| now < at) {
            return;
        }
        let is_first = self.unix_retry.replace(now + RETRY).is_none();
        match Listener::bind(&Target::PUnix(self.socket.into())) {
            Ok(listener) => (self.unix, self.unix_retry) = (Some(listener), None),
            Err(e) if e.kind() == ErrorKind::AddrInUse && is_first => {
                runtime::info!(LOG, "another process serves metrics at {}", self.socket.display());
            }
            Err(e) if is_first => {
                let (path, error) = (self.socket.display(), runtime::error_text(&e));
                runtime::warn!(LOG, "no metrics at {path}: {error}");
            }
            Err(_) => {}
        }
    }

    /// Listens on the address of `metrics-listen`.
    fn apply_settings(&mut self, now: Millis) {
        let wanted = self.shared.listen();
        let is_same = wanted.address == self.settings.address;
        self.settings.hosts = wanted.hosts;
        if is_same && self.retry.is_none_or(|at| now < at) {
            return;
        }
        if !is_same {
            self.tcp = None;
            self.conns.retain(|conn| !conn.is_tcp);
        }
        (self.settings.address, self.retry) = (wanted.address, None);
        let Some(text) = &self.settings.address else { return };
        let listener = text
            .parse::<SocketAddr>()
            .map_err(|_| "not an address and a port, as in 127.0.0.1:9310 or [::1]:9310".to_owned())
            .and_then(|address| {
                Listener::bind(&Target::PTcp(address)).map_err(|e| {
                    self.retry = Some(now + RETRY);
                    runtime::error_text(&e)
                })
            });
        match listener {
            Ok(listener) => {
                runtime::info!(LOG, "metrics and the web page are at http://{text}/");
                self.tcp = Some(listener);
            }
            Err(why) => runtime::warn_rl!(LOG, LIMIT, "other_config:metrics-listen={text}: {why}"),
        }
    }

    fn accept(&mut self, now: Millis) {
        for is_tcp in [false, true] {
            let (listener, max) = if is_tcp { (&self.tcp, TCP_MAX) } else { (&self.unix, UNIX_MAX) };
            let Some(listener) = listener else { continue };
            // Further clients wait until the next turn.
            for _ in 0..max {
                let stream = match listener.accept() {
                    Ok(Some(stream)) => stream,
                    Ok(None) => break,
                    Err(e) => {
                        runtime::warn_rl!(LOG, LIMIT, "accept failed: {}", runtime::error_text(&e));
                        self.accept_after = now + ACCEPT_RETRY;
                        return;
                    }
                };
                let same = self.conns.iter().enumerate().filter(|(_, c)| c.is_tcp == is_tcp);
                if same.clone().count() >= max {
                    let same: Vec<Candidate> = same.map(|(at, c)| Candidate::new(at, c, now)).collect();
                    let closed = select_for_eviction(&same).map(|at| self.conns.remove(at));
                    self.api.server_counters.closed +=
                        u64::from(!closed.as_ref().is_some_and(Conn::is_ending));
                    if closed.is_none() {
                        continue;
                    }
                }
                self.conns.push(Conn::new(stream, is_tcp, now));
            }
        }
    }

    /// Continues a connection; returns false when it has ended.
    fn serve(&mut self, conn: &mut Conn, now: Millis) -> bool {
        match conn.read() {
            Ok(None) => {}
            Ok(Some(Ok(request))) => self.handle_request(conn, request, now),
            Ok(Some(Err(refused))) => self.answer(conn, &refusal(refused), now),
            Err(_) => return false,
        }
        self.answer_waiting(conn, now);
        match conn.write(now) {
            Ok(true) | Err(_) => return false,
            Ok(false) => {}
        }
        if now < conn.deadline {
            return true;
        }
        self.api.server_counters.closed += u64::from(!conn.is_ending());
        false
    }

    fn answer(&mut self, conn: &mut Conn, answer: &Answer, now: Millis) {
        *self.api.server_counters.answers.entry(answer.code).or_default() += 1;
        // If the body has more than two references (of the server and of this answer), another connection sends it, too, and it
        // is counted already.
        if Arc::strong_count(&answer.body) <= 2 {
            self.sending += answer.body.len();
        }
        conn.answer(answer, now);
    }

    fn handle_request(&mut self, conn: &mut Conn, request: Request, now: Millis) {
        if self.sending > BODIES_MAX {
            return self.answer(conn, &busy(), now);
        }
        if let Some(answer) = self.refuse_foreign(conn, &request) {
            return self.answer(conn, &answer, now);
        }
        let view = self.shared.view();
        match self.api.serve(self.shared, &request, view.as_deref()) {
            ServeResult::Answer(answer) => self.answer(conn, &answer, now),
            ServeResult::Trace(answer) => conn.wait_for(State::Tracing(answer), now),
            ServeResult::Outdated => {
                self.shared.request_view();
                conn.wait_for(State::Waiting(request, view.map_or(0, |v| v.serial)), now);
            }
        }
    }

    /// Refuses a request that a page of another site may have made. Requests at the Unix socket are not checked: browsers cannot
    /// reach it.
    fn refuse_foreign(&self, conn: &Conn, request: &Request) -> Option<Answer> {
        let origin = &request.origin;
        if !conn.is_tcp {
            return None;
        }
        if let Some(host) = origin.host.as_ref().filter(|host| !is_safe_host(host, &self.settings.hosts)) {
            let why = format!(
                "not a name of this server: {host}\nIf it is one, add it to other_config:metrics-hosts."
            );
            return Some(Answer::text(421, &why));
        }
        // A link of another site to the page itself is harmless: that site cannot read it.
        (origin.is_cross_origin && request.path != "/")
            .then(|| Answer::text(403, "requests from pages of other sites are refused"))
    }

    /// Answers a waiting connection if its trace or a newer view is available, or its time limit has passed.
    fn answer_waiting(&mut self, conn: &mut Conn, now: Millis) {
        let late = now >= conn.deadline;
        let answer = match &conn.state {
            State::Tracing(answer) => match answer.try_recv() {
                Ok(result) => Some(crate::api::trace_answer(result)),
                Err(_) => late.then(|| crate::api::error_answer(503, "the switch is busy: no trace yet")),
            },
            State::Waiting(request, seen) => match self.shared.view() {
                Some(_) if self.sending > BODIES_MAX => Some(busy()),
                Some(view) if view.serial > *seen || late => Some(self.api.answer_from(request, &view)),
                None if late => Some(Answer::text(503, "the switch is busy: its state is not known yet")),
                _ => None,
            },
            _ => None,
        };
        if let Some(answer) = answer {
            self.answer(conn, &answer, now);
        }
    }

    /// While all answers that are being sent have more than [`BODIES_MAX`] bytes together, closes the oldest of their
    /// connections.
    fn limit_bodies(&mut self) {
        while sending(&self.conns) > BODIES_MAX {
            let Some(at) = self.conns.iter().position(|conn| conn.body().is_some()) else { return };
            self.api.server_counters.closed += 1;
            self.conns.remove(at);
        }
    }

    /// Moves this thread away from the cores of PMD threads.
    fn leave_polled_cores(&mut self) {
        let Some(view) = self.shared.view() else { return };
        if !view.free_cores.is_empty() && view.free_cores != self.cores {
            translation::upcall::threads::pin_to_cores(&view.free_cores);
            self.cores = view.free_cores.clone();
        }
    }

    fn wait<'a>(&'a self, set: &mut WaitSet<'a>, now: Millis) {
        match now < self.accept_after {
            true => set.deadline(self.accept_after),
            false => self.unix.iter().chain(&self.tcp).for_each(|listener| {
                set.fd(listener, Interest::Read);
            }),
        }
        self.conns.iter().for_each(|conn| conn.wait(set));
        self.retry.iter().chain(&self.unix_retry).for_each(|at| set.deadline(*at));
    }
}

/// Bytes of the answers that connections are sending; an answer of several connections counts once.
fn sending(conns: &[Conn]) -> usize {
    let mut bodies: Vec<&Arc<Vec<u8>>> = conns.iter().filter_map(Conn::body).collect();
    bodies.sort_by_key(|body| Arc::as_ptr(body));
    bodies.dedup_by_key(|body| Arc::as_ptr(body));
    bodies.iter().map(|body| body.len()).sum()
}

fn busy() -> Answer {
    Answer::text(503, "too many answers are being sent")
}

fn refusal(error: RequestError) -> Answer {
    match error {
        RequestError::Malformed => Answer::text(400, "not a valid request"),
        RequestError::TooLarge => Answer::text(431, "the request is too large"),
        RequestError::Method => Answer::text(405, "nothing can be changed here: GET and HEAD only"),
    }
}
