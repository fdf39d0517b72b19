//! The remotes: listening sockets, and addresses that the server connects to.
//!
//! The wanted remotes are names: targets, or `db:DB,TABLE,COLUMN` for the targets in a column. When the
//! configuration may have changed, they are resolved, and sockets are opened and closed accordingly. A socket
//! that cannot be opened is retried, and logged once.

pub use crate::remote_options::RemoteOptions;
use crate::session::SessionId;
use runtime::poll_loop::{Interest, Token, WaitSet};
use runtime::{Module, RateLimit};
use std::collections::BTreeMap;
use std::path::Path;
use transport::{Action, Listener, OVSDB_PORT, Reconnect, Stream, Target, Wording};
use units::Millis;

static LOG: Module = Module::new("ovsdb_jsonrpc_server");
static RECONNECT: Module = Module::new("reconnect");
static SOCKET: Module = Module::new("socket_util");
static LIMIT: RateLimit = RateLimit::new(1, 5);

/// Time between two attempts to listen, in ms.
const LISTEN_AGAIN_MS: u64 = 1_000;
/// Targets or `db:` names, with their options.
pub type RemoteNames = BTreeMap<String, RemoteOptions>;

/// One target in use.
pub(crate) struct Remote {
    pub options: RemoteOptions,
    pub end: End,
}

/// The socket of a target.
pub(crate) enum End {
    /// A listening socket.
    Listening(Listener),
    /// Opening the socket failed; the time of the next attempt, and the reason.
    Failed { again: Millis, why: String },
    /// An address to connect to. While there is a session, it has the state machine.
    Calling {
        target: Target,
        link: Option<Box<Reconnect>>,
        stream: Option<Stream>,
        session: Option<SessionId>,
    },
}

/// All targets in use, by name.
#[derive(Default)]
pub(crate) struct Remotes {
    pub wanted: RemoteNames,
    pub active: BTreeMap<String, Remote>,
}

/// A new connection.
pub(crate) struct Arrival {
    pub stream: Stream,
    pub link: Reconnect,
    pub remote: String,
    pub options: RemoteOptions,
}

impl Remotes {
    /// Opens and closes sockets so that the targets in use are those of `resolved`; returns the removed
    /// remotes.
    pub fn reconcile(&mut self, resolved: &RemoteNames, rundir: &Path, now: Millis) -> Vec<String> {
        let gone: Vec<String> =
            self.active.keys().filter(|name| !resolved.contains_key(*name)).cloned().collect();
        gone.iter().for_each(|name| _ = self.active.remove(name));
        for (name, options) in resolved {
            match self.active.get_mut(name) {
                Some(remote) => {
                    remote.options = options.clone();
                    if let End::Failed { again, why } = &remote.end
                        && *again <= now
                    {
                        remote.end = open(name, rundir, now, why);
                    }
                }
                None => {
                    let end = open(name, rundir, now, "");
                    self.active.insert(name.clone(), Remote { options: options.clone(), end });
                }
            }
        }
        gone
    }

    /// The next time to retry failed targets, or to continue connection attempts.
    pub fn deadline(&self, now: Millis) -> Option<Millis> {
        let of = |remote: &Remote| match &remote.end {
            End::Failed { again, .. } => Some(*again),
            End::Calling { link: Some(link), .. } => link.deadline(now),
            _ => None,
        };
        self.active.values().filter_map(of).min()
    }

    /// Registers the listening sockets and connection attempts. Sockets of remotes that have reached their
    /// limit of clients are left out, so their clients wait. Returns the tokens of the listening sockets:
    /// `accept` without an event would cost a system call.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>, has_room: impl Fn(&str) -> bool) -> Vec<Token> {
        let mut listeners = Vec::new();
        for (name, remote) in &self.active {
            match &remote.end {
                End::Listening(listener) if has_room(name) => {
                    listeners.push(set.fd(listener, Interest::Read))
                }
                End::Calling { stream: Some(stream), .. } => {
                    let write = stream.connect_waits_for_write();
                    set.fd(stream, if write { Interest::Write } else { Interest::Read });
                }
                _ => {}
            }
        }
        listeners
    }

    /// The targets that could not be opened, each with the reason.
    pub fn refused(&self) -> BTreeMap<String, String> {
        let why = |(name, remote): (&String, &Remote)| match &remote.end {
            End::Failed { why, .. } => Some((name.clone(), why.clone())),
            End::Listening(_) | End::Calling { .. } => None,
        };
        self.active.iter().filter_map(why).collect()
    }

    /// Takes the state machine back after a connection that the server made has ended.
    pub fn ended(&mut self, name: &str, session: SessionId, link: Reconnect) {
        if let Some(Remote { end: End::Calling { link: place, session: of, .. }, .. }) =
            self.active.get_mut(name)
            && *of == Some(session)
        {
            *of = None;
            *place = Some(Box::new(link));
        }
    }

    /// Makes progress with connection attempts; returns the connections made since the last call.
    pub fn call(&mut self, now: Millis) -> Vec<Arrival> {
        let mut up = Vec::new();
        for (name, remote) in &mut self.active {
            let End::Calling { target, link: place, stream, .. } = &mut remote.end else { continue };
            let Some(link) = place else { continue };
            link.set_max_backoff(remote.options.max_backoff_ms);
            link.set_probe_interval(remote.options.probe_interval_ms);
            match link.run(now) {
                Some(Action::Connect) => match Stream::connect(target) {
                    Ok(fresh) => *stream = Some(fresh),
                    Err(error) => link.connect_failed(now, &error),
                },
                Some(Action::Disconnect | Action::Probe) => *stream = None,
                None => {}
            }
            match stream.as_mut().map(Stream::connect_progress) {
                Some(Ok(true)) => link.connected(now),
                Some(Err(error)) => {
                    link.connect_failed(now, &error);
                    *stream = None;
                }
                Some(Ok(false)) | None => {}
            }
            link.log_to(&RECONNECT);
            if link.is_connected()
                && let (Some(stream), Some(link)) = (stream.take(), place.take())
            {
                let options = remote.options.clone();
                up.push(Arrival { stream, link: *link, remote: name.clone(), options });
            }
        }
        up
    }
}

/// An accepted client.
pub(crate) fn arrived(stream: Stream, remote: &str, options: &RemoteOptions, now: Millis) -> Arrival {
    let mut link = Reconnect::accepted(stream.name(), Wording::Ovsdb, now);
    link.set_probe_interval(options.probe_interval_ms);
    link.connected(now);
    Arrival { stream, link, remote: remote.to_owned(), options: options.clone() }
}

/// Logs an `accept` that failed.
pub(crate) fn log_accept_error(remote: &str, error: &std::io::Error) {
    runtime::warn_rl!(LOG, LIMIT, "{remote}: accept failed: {}", runtime::error_text(error));
}

fn open(name: &str, rundir: &Path, now: Millis, last_complaint: &str) -> End {
    let target = match Target::parse(name, OVSDB_PORT) {
        Ok(target) => target.within(rundir),
        Err(error) => return failed(name, now, last_complaint, error.to_string()),
    };
    if !target.is_passive() {
        let link = Some(Box::new(Reconnect::new(name, Wording::Ovsdb, now)));
        return End::Calling { target, link, stream: None, session: None };
    }
    match Listener::bind(&target) {
        Ok(listener) => {
            let chosen = listener.local_addr().filter(|_| matches!(port(&target), Some(0)));
            if let (Some(address), Some((_, place))) = (chosen, name.split_once(':')) {
                runtime::info!(SOCKET, "{place}: listening on port {}", address.port());
            }
            End::Listening(listener)
        }
        Err(error) => failed(name, now, last_complaint, runtime::error_text(&error)),
    }
}

fn port(target: &Target) -> Option<u16> {
    match target {
        Target::PTcp(address) | Target::PSsl(address) => Some(address.port()),
        _ => None,
    }
}

fn failed(name: &str, now: Millis, last_complaint: &str, why: String) -> End {
    if why != last_complaint {
        runtime::err!(LOG, "{name}: listen failed: {why}");
    }
    End::Failed { again: Millis(now.0 + LISTEN_AGAIN_MS), why }
}
