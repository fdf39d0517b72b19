//! A blocking connection to a switch, for one request at a time.

use super::context::Context;
use super::fail::{Fail, fail};
use super::requests::{Format, Requests};
use crate::remote::Stream;
use openflow::message::{Body, Hello, Message, Xid};
use openflow::session::negotiate;
use openflow::text::{Protocols, message_text};
use openflow::wire::set_len_and_xid;
use openflow::{Dialect, Version, VersionSet, decode, encode, take_frame};
use runtime::{Module, error_text};
use std::io::{self, ErrorKind};
use std::path::Path;
use transport::{OPENFLOW_PORT, Target};

static VCONN: Module = Module::new("vconn");

/// Maximum number of bytes in one write.
const SEND_SIZE: usize = 64 << 10;

/// A connection with a negotiated version.
pub struct Conn {
    stream: Stream,
    received: Vec<u8>,
    /// The connection's name in messages.
    pub name: String,
    /// The negotiated version.
    pub version: Version,
    /// The flow format in which the switch expects flow mods.
    pub protocol: Protocols,
}

impl Conn {
    /// Connects to the management socket of a bridge, or to another target.
    pub fn open(cx: &mut Context, target: &str) -> Result<Conn, Fail> {
        Conn::open_socket(cx, target, "mgmt")
    }

    /// Connects to the bridge's socket whose name ends in `suffix`.
    pub fn open_socket(cx: &mut Context, target: &str, suffix: &str) -> Result<Conn, Fail> {
        let (stream, name) = connect(cx, target, suffix)?;
        let start = Version::V10;
        let mut conn = Conn { stream, received: Vec::new(), name, version: start, protocol: Protocols(0) };
        let failed = |e: io::Error| {
            Fail::Message(format!("{target}: failed to connect to socket ({})", error_text(&e)))
        };
        let snoops = suffix == "snoop";
        let ours = if snoops { VersionSet::ALL } else { cx.settings.versions };
        conn.version = conn.hello(cx, ours).map_err(failed)?;
        conn.protocol = Protocols::initial(conn.version);
        Ok(conn)
    }

    /// The format of requests on this connection.
    pub fn format(&self) -> Format {
        Format { version: self.version, protocol: self.protocol }
    }

    fn hello(&mut self, cx: &mut Context, ours: VersionSet) -> io::Result<Version> {
        let newest = ours.newest().unwrap_or_default();
        let hello = Hello { versions: ours, header_version: newest.wire() };
        let message = cx.message(newest, Body::Hello(hello));
        self.send(&message)?;
        let frame = self.receive()?;
        let theirs = match decode(&frame, Dialect::default()) {
            Ok(Message { body: Body::Hello(h), .. }) => h.versions,
            _ => {
                runtime::warn!(VCONN, "{}: received message before hello", self.name);
                return Err(protocol_error());
            }
        };
        negotiate(ours, theirs).ok_or_else(|| {
            let list = |set: VersionSet| {
                let bytes: Vec<String> = set.iter().map(|v| format!("{:#04x}", v.wire())).collect();
                match bytes.as_slice() {
                    [one] => format!("version {one}"),
                    several => format!("versions {}", several.join(", ")),
                }
            };
            let (us, peer) = (list(ours), list(theirs));
            runtime::warn!(
                VCONN,
                "{}: version negotiation failed (we support {us}, peer supports {peer})",
                self.name
            );
            protocol_error()
        })
    }

    /// Sends a message.
    pub fn send(&mut self, m: &Message) -> io::Result<()> {
        let frames = encode(m, self.format().dialect());
        let frames = frames.map_err(|e| io::Error::new(ErrorKind::InvalidInput, e.name()))?;
        self.stream.send(&frames.concat())
    }

    /// Sends frames, many in one write. `header` is sent before each frame, with the frame's transaction ID and
    /// the total length filled in; if `header` is empty, frames are sent unchanged.
    pub fn send_frames<'m>(
        &mut self,
        frames: impl IntoIterator<Item = &'m [u8]>,
        header: &[u8],
    ) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(SEND_SIZE + (64 << 10));
        for frame in frames {
            let start = bytes.len();
            bytes.extend_from_slice(header);
            bytes.extend_from_slice(frame);
            if let (false, Some(xid)) = (header.is_empty(), xid_of(frame)) {
                set_len_and_xid(bytes.get_mut(start..).unwrap_or_default(), xid)
                    .map_err(|e| io::Error::new(ErrorKind::InvalidInput, e.name()))?;
            }
            if bytes.len() >= SEND_SIZE {
                self.stream.send(&bytes)?;
                bytes.clear();
            }
        }
        self.stream.send(&bytes)
    }

    /// Receives one message.
    pub fn receive(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if let Some(frame) = take_frame(&mut self.received).map_err(|_| protocol_error())? {
                return Ok(frame);
            }
            let mut chunk = [0; 65536];
            match self.stream.receive(&mut chunk)? {
                0 => return Err(io::Error::other("End of file")),
                n => self.received.extend_from_slice(chunk.get(..n).unwrap_or_default()),
            }
        }
    }

    fn connection_error(&self, e: &io::Error) -> Fail {
        let why = error_text(e);
        Fail::Message(format!("talking to {} ({why})", self.name))
    }

    fn receive_matching(&mut self, is_ours: impl Fn(Xid) -> bool) -> Result<Vec<u8>, Fail> {
        loop {
            let frame = self.receive().map_err(|e| self.connection_error(&e))?;
            if xid_of(&frame).is_some_and(&is_ours) {
                return Ok(frame);
            }
        }
    }

    /// Sends a request and returns the first reply.
    pub fn transact(&mut self, request: &Message) -> Result<Vec<u8>, Fail> {
        self.send(request).map_err(|e| self.connection_error(&e))?;
        self.receive_matching(|xid| xid == request.xid)
    }

    /// Sends a multipart request and returns all parts of the reply, as bytes.
    pub fn transact_frames(&mut self, request: &Message) -> Result<Vec<Vec<u8>>, Fail> {
        self.send(request).map_err(|e| self.connection_error(&e))?;
        let mut parts = Vec::new();
        loop {
            let frame = self.receive_matching(|xid| xid == request.xid)?;
            let more = decode(&frame, Dialect::default()).is_ok_and(|m| m.more);
            parts.push(frame);
            if !more {
                return Ok(parts);
            }
        }
    }

    /// Sends a multipart request and returns all parts of the reply, decoded. An error reply is returned as an error.
    pub fn transact_all(&mut self, request: &Message) -> Result<Vec<Message>, Fail> {
        let frames = self.transact_frames(request)?;
        frames
            .iter()
            .map(|frame| match decode(frame, Dialect::default()) {
                Ok(Message { body: Body::Error(_), .. }) | Err(_) => {
                    let text = message_text(frame, &flow::text::NoNames, 1);
                    fail(format!("received bad reply: {text}"))
                }
                Ok(m) => Ok(m),
            })
            .collect()
    }

    /// Sends a request to which the switch replies only if it fails, followed by a barrier. Returns the error if one
    /// arrives before the barrier reply.
    pub fn transact_noreply(&mut self, cx: &mut Context, request: &Message) -> Result<Option<Vec<u8>>, Fail> {
        self.send(request).map_err(|e| self.connection_error(&e))?;
        self.failure_before_barrier(cx, |xid| xid == request.xid)
    }

    /// Sends a request to which the switch replies only if it fails. An error is printed and ends the command.
    pub fn execute(&mut self, cx: &mut Context, target: &str, request: &Message) -> Result<(), Fail> {
        let answer = self.transact_noreply(cx, request)?;
        answer.map_or(Ok(()), |error| print_refusal(cx, target, &error))
    }

    /// Sends many requests, with a barrier after each `window` requests. An error is printed and ends the command. Requests of the same
    /// window that follow a failed request may have been executed; later windows are not sent.
    pub fn execute_all(
        &mut self,
        cx: &mut Context,
        target: &str,
        requests: &Requests,
        window: usize,
    ) -> Result<(), Fail> {
        let mut frames = requests.frames().peekable();
        while frames.peek().is_some() {
            self.send_frames(frames.by_ref().take(window), &[]).map_err(|e| self.connection_error(&e))?;
            let answer = self.failure_before_barrier(cx, |xid| requests.find(xid).is_some())?;
            answer.map_or(Ok(()), |error| print_refusal(cx, target, &error))?;
        }
        Ok(())
    }

    fn failure_before_barrier(
        &mut self,
        cx: &mut Context,
        is_ours: impl Fn(Xid) -> bool,
    ) -> Result<Option<Vec<u8>>, Fail> {
        let barrier = cx.message(self.version, Body::BarrierRequest);
        self.send(&barrier).map_err(|e| self.connection_error(&e))?;
        let mut answer = None;
        loop {
            let frame = self.receive_matching(|xid| xid == barrier.xid || is_ours(xid))?;
            if xid_of(&frame) == Some(barrier.xid) {
                return Ok(answer);
            }
            answer.get_or_insert(frame);
        }
    }

    /// Changes the flow format of the connection. Returns false if the switch or its OpenFlow version does not support the format.
    pub fn set_protocol(&mut self, cx: &mut Context, want: Protocols) -> Result<bool, Fail> {
        while self.protocol != want {
            if (Protocols::of_version(self.version) & want).is_empty() {
                return Ok(false);
            }
            let (body, next) = if self.protocol.is_nxm() != want.is_nxm() {
                // Two bits further is the same format with NXM instead of OpenFlow 1.0's own match, or the reverse.
                let next = if want.is_nxm() { self.protocol.0 << 2 } else { self.protocol.0 >> 2 };
                (Body::SetFlowFormat(want.is_nxm()), Protocols(next))
            } else {
                (Body::FlowModTableId(want.has_table_id()), want)
            };
            let request = cx.message(self.version, body);
            if self.transact_noreply(cx, &request)?.is_some() {
                return Ok(false);
            }
            self.protocol = next;
        }
        Ok(true)
    }
}

/// Prints an error reply of the switch.
fn print_refusal(cx: &mut Context, target: &str, error: &[u8]) -> Result<(), Fail> {
    let names = cx.names_to_show(target)?;
    eprint!("{}", message_text(error, &*names, cx.settings.verbosity.saturating_add(2)));
    Err(Fail::ExitStatus(1))
}

fn protocol_error() -> io::Error {
    io::Error::other("Protocol error")
}

/// The transaction ID of a message.
pub fn xid_of(frame: &[u8]) -> Option<Xid> {
    openflow::wire::peek_xid(frame)
}

fn connect(cx: &Context, target: &str, suffix: &str) -> Result<(Stream, String), Fail> {
    if target.contains(':') {
        let at = Target::parse(target, OPENFLOW_PORT)
            .map_err(|e| Fail::Message(e.to_string()))?
            .within(Path::new(""));
        let failed = |why: &str| fail(format!("connecting to {target} ({why})"));
        if at.is_passive() {
            return failed("Address family not supported by protocol");
        }
        return match Stream::open(&at, None) {
            Ok(stream) => Ok((stream, target.to_owned())),
            Err(e) if matches!(at, Target::Tcp(_)) => {
                fail(format!("{target}: failed to connect to socket ({})", error_text(&e)))
            }
            Err(e) => failed(&error_text(&e)),
        };
    }
    let plain = target.split_once('@').map_or(target, |(_, name)| name);
    let candidates = [
        target.into(),
        cx.dirs.in_run(&format!("{target}.{suffix}")),
        cx.dirs.in_run(&format!("{plain}.{suffix}")),
    ];
    for path in candidates {
        let name = format!("unix:{}", path.display());
        match Stream::open(&Target::Unix(path.clone()), None) {
            Ok(stream) => return Ok((stream, name)),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => {
                let why = error_text(&e);
                let hint = crate::common::hint_about(&why, "");
                return fail(format!("{}: failed to open socket ({why}){hint}", path.display()));
            }
        }
    }
    let looked = match cx.progname.starts_with("ovs-") {
        true => String::new(),
        false => format!(" (no {target}.{suffix} in {}: is the switch running?)", cx.dirs.run.display()),
    };
    fail(format!("{target} is not a bridge or a socket{looked}"))
}
