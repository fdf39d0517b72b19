//! The remotes: listening sockets, and addresses to which the server connects.
//!
//! Remotes are configured by names: targets, or `db:DB,TABLE,COLUMN` for the targets in a column. When the configuration
//! may have changed, the names are resolved to targets, and sockets are opened and closed accordingly. If a socket cannot
//! be opened, the server logs that once and tries again.

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
/// Targets or `db:` names, each with its options.
pub type RemoteNames = BTreeMap<String, RemoteOptions>;

/// One target in use.
pub(crate) struct Remote {
    pub options: RemoteOptions,
    pub socket: RemoteSocket,
}

/// The socket of a target.
pub(crate) enum RemoteSocket {
    /// A listening socket.
    Listening(Listener),
    /// Opening the socket failed for the reason `why`; `retry_at`: time of the next attempt.
    Failed { retry_at: Millis, why: String },
    /// An address to which the server connects. While there is a session, the session's connection has `link`, the state
    /// machine.
    Outbound {
        target: Target,
        link: Option<Box<Reconnect>>,
        stream: Option<Stream>,
        session: Option<SessionId>,
    },
}

/// The configured remotes, and the targets in use.
#[derive(Default)]
pub(crate) struct Remotes {
    /// The configured names.
    pub configured: RemoteNames,
    /// The targets in use, by name.
    pub active: BTreeMap<String, Remote>,
}

/// A new connection.
pub(crate) struct NewConnection {
    pub stream: Stream,
    pub link: Reconnect,
    pub remote: String,
    pub options: RemoteOptions,
}

impl Remotes {
    /// Opens and closes sockets so that the targets in use are those of `resolved`; returns the names of removed targets.
    pub fn reconcile(&mut self, resolved: &RemoteNames, rundir: &Path, now: Millis) -> Vec<String> {
        let gone: Vec<String> =
            self.active.keys().filter(|name| !resolved.contains_key(*name)).cloned().collect();
        gone.iter().for_each(|name| _ = self.active.remove(name));
        for (name, options) in resolved {
            match self.active.get_mut(name) {
                Some(remote) => {
                    remote.options = options.clone();
                    if let RemoteSocket::Failed { retry_at, why } = &remote.socket
                        && *retry_at <= now
                    {
                        remote.socket = open(name, rundir, now, why);
                    }
                }
                None => {
                    let socket = open(name, rundir, now, "");
                    self.active.insert(name.clone(), Remote { options: options.clone(), socket });
                }
            }
        }
        gone
    }

    /// The next time to retry failed targets, or to continue connection attempts.
    pub fn deadline(&self, now: Millis) -> Option<Millis> {
        let of = |remote: &Remote| match &remote.socket {
            RemoteSocket::Failed { retry_at, .. } => Some(*retry_at),
            RemoteSocket::Outbound { link: Some(link), .. } => link.deadline(now),
            _ => None,
        };
        self.active.values().filter_map(of).min()
    }

    /// Registers the listening sockets and connection attempts. Sockets of remotes that have reached their limit of
    /// clients are left out, so that further clients wait. Returns the tokens of the listening sockets, so that `accept`
    /// is only called after an event: each call costs a system call.
    pub fn wait<'a>(&'a self, set: &mut WaitSet<'a>, has_capacity: impl Fn(&str) -> bool) -> Vec<Token> {
        let mut listeners = Vec::new();
        for (name, remote) in &self.active {
            match &remote.socket {
                RemoteSocket::Listening(listener) if has_capacity(name) => {
                    listeners.push(set.fd(listener, Interest::Read))
                }
                RemoteSocket::Outbound { stream: Some(stream), .. } => {
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
        let why = |(name, remote): (&String, &Remote)| match &remote.socket {
            RemoteSocket::Failed { why, .. } => Some((name.clone(), why.clone())),
            RemoteSocket::Listening(_) | RemoteSocket::Outbound { .. } => None,
        };
        self.active.iter().filter_map(why).collect()
    }

    /// Called when a connection has ended. If the server had made the connection, stores its state machine for the next
    /// attempt.
    pub fn connection_ended(&mut self, name: &str, session: SessionId, link: Reconnect) {
        if let Some(Remote { socket: RemoteSocket::Outbound { link: place, session: of, .. }, .. }) =
            self.active.get_mut(name)
            && *of == Some(session)
        {
            *of = None;
            *place = Some(Box::new(link));
        }
    }

    /// Starts and continues connection attempts; returns the connections that are now established.
    pub fn connect_targets(&mut self, now: Millis) -> Vec<NewConnection> {
        let mut up = Vec::new();
        for (name, remote) in &mut self.active {
            let RemoteSocket::Outbound { target, link: place, stream, .. } = &mut remote.socket else {
                continue;
            };
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
                up.push(NewConnection { stream, link: *link, remote: name.clone(), options });
            }
        }
        up
    }
}

/// The connection of an accepted client.
pub(crate) fn accepted_connection(
    stream: Stream,
    remote: &str,
    options: &RemoteOptions,
    now: Millis,
) -> NewConnection {
    let mut link = Reconnect::accepted(stream.name(), Wording::Ovsdb, now);
    link.set_probe_interval(options.probe_interval_ms);
    link.connected(now);
    NewConnection { stream, link, remote: remote.to_owned(), options: options.clone() }
}

/// Logs an `accept` that failed.
pub(crate) fn log_accept_error(remote: &str, error: &std::io::Error) {
    runtime::warn_rl!(LOG, LIMIT, "{remote}: accept failed: {}", runtime::error_text(error));
}

fn open(name: &str, rundir: &Path, now: Millis, last_complaint: &str) -> RemoteSocket {
    let target = match Target::parse(name, OVSDB_PORT) {
        Ok(target) => target.within(rundir),
        Err(error) => return failed(name, now, last_complaint, error.to_string()),
    };
    if !target.is_passive() {
        let link = Some(Box::new(Reconnect::new(name, Wording::Ovsdb, now)));
        return RemoteSocket::Outbound { target, link, stream: None, session: None };
    }
    match Listener::bind(&target) {
        Ok(listener) => {
            let chosen = listener.local_addr().filter(|_| matches!(port(&target), Some(0)));
            if let (Some(address), Some((_, place))) = (chosen, name.split_once(':')) {
                runtime::info!(SOCKET, "{place}: listening on port {}", address.port());
            }
            RemoteSocket::Listening(listener)
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

fn failed(name: &str, now: Millis, last_complaint: &str, why: String) -> RemoteSocket {
    if why != last_complaint {
        runtime::err!(LOG, "{name}: listen failed: {why}");
    }
    RemoteSocket::Failed { retry_at: Millis(now.0 + LISTEN_AGAIN_MS), why }
}
