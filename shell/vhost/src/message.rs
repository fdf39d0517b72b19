//! vhost-user messages on a socket, read and written without blocking.

use crate::descriptors::Descriptors;
use crate::memory_table::REGIONS_MAX;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

const HEADER: usize = 12;
/// Bits of the flags (vhost-user specification, "Header").
const REPLY: u32 = 4;
const NEED_REPLY: u32 = 8;
const VERSION: u32 = 1;

/// A whole message with its descriptors.
#[derive(Debug)]
pub struct Message {
    bytes: Vec<u8>,
    /// The descriptors that came with it.
    pub fds: Descriptors,
}

impl Message {
    /// A message without descriptors.
    pub fn new(request: u32, payload: &[u8], closing: &Arc<AtomicUsize>) -> Message {
        let mut bytes = [request, VERSION, payload.len() as u32].map(u32::to_ne_bytes).concat();
        bytes.extend(payload);
        Message { bytes, fds: Descriptors::new(closing) }
    }

    /// A reply without descriptors.
    pub fn reply(request: u32, payload: &[u8], closing: &Arc<AtomicUsize>) -> Message {
        let mut reply = Message::new(request, payload, closing);
        reply.set_flags(VERSION | REPLY);
        reply
    }

    /// An acknowledgement that a request succeeded or failed.
    pub fn ack(request: u32, done: bool, closing: &Arc<AtomicUsize>) -> Message {
        Message::reply(request, &u64::from(!done).to_ne_bytes(), closing)
    }

    fn word(&self, at: usize) -> u32 {
        self.bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |b| u32::from_ne_bytes(*b))
    }

    fn set_flags(&mut self, flags: u32) {
        self.bytes[4..8].copy_from_slice(&flags.to_ne_bytes());
    }

    /// The request's number.
    pub fn request(&self) -> u32 {
        self.word(0)
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.bytes[HEADER..]
    }

    /// Whether the sender requested an acknowledgement.
    pub fn needs_reply(&self) -> bool {
        self.word(4) & NEED_REPLY != 0
    }

    /// Requests an acknowledgement.
    pub fn set_needs_reply(&mut self) {
        self.set_flags(self.word(4) | NEED_REPLY);
    }

    /// Of an [`Message::ack`]: whether it reports success.
    pub fn says_done(&self) -> bool {
        self.payload() == [0; 8]
    }
}

/// A message that is being received.
#[derive(Debug)]
pub struct Inbox {
    bytes: Vec<u8>,
    fds: Descriptors,
    closing: Arc<AtomicUsize>,
    payload_max: usize,
}

/// The result of a read.
#[derive(Debug)]
pub enum Read {
    /// A whole message.
    Message(Message),
    /// The message is not complete yet.
    Nothing,
    /// The peer closed, or the socket failed.
    Ended,
    /// Not a message of this protocol.
    Broken(&'static str),
}

impl Inbox {
    /// Payloads are at most `payload_max` bytes long.
    pub fn new(closing: &Arc<AtomicUsize>, payload_max: usize) -> Inbox {
        let fds = Descriptors::new(closing);
        Inbox { bytes: Vec::new(), fds, closing: Arc::clone(closing), payload_max }
    }

    /// Total length of the message; the header's until the header has been received.
    fn wanted(&self) -> usize {
        let size = self.bytes.get(8..HEADER).and_then(<[u8]>::first_chunk);
        HEADER + size.map_or(0, |size| u32::from_ne_bytes(*size) as usize)
    }

    /// Reads one message, and no byte of the next one: descriptors belong to the message that they come with.
    pub fn read(&mut self, socket: &OwnedFd) -> Read {
        loop {
            let wanted = self.wanted();
            if wanted > HEADER + self.payload_max {
                return Read::Broken("the message is too long");
            }
            if self.bytes.len() >= HEADER && self.bytes.len() == wanted {
                let fresh = Inbox::new(&self.closing, self.payload_max);
                let Inbox { bytes, fds, .. } = std::mem::replace(self, fresh);
                return Read::Message(Message { bytes, fds });
            }
            match self.receive(socket, wanted) {
                Ok(Some(0)) => return Read::Ended,
                Ok(Some(_)) => {}
                Ok(None) => return Read::Broken("too many descriptors came with it"),
                Err(Errno::AGAIN) => return Read::Nothing,
                Err(Errno::INTR) => {}
                Err(_) => return Read::Ended,
            }
        }
    }

    /// Receives until the message has `wanted` bytes. `None`: it has more descriptors than any message may have.
    fn receive(&mut self, socket: &OwnedFd, wanted: usize) -> Result<Option<usize>, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(REGIONS_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let had = self.bytes.len();
        self.bytes.resize(wanted, 0);
        let mut parts = [IoSliceMut::new(&mut self.bytes[had..])];
        let got = recvmsg(socket, &mut parts, &mut control, RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC);
        self.bytes.truncate(had + got.as_ref().map_or(0, |got| got.bytes));
        let got = got?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(fds) = message {
                fds.for_each(|fd| self.fds.push(fd));
            }
        }
        let all = !got.flags.contains(ReturnFlags::CTRUNC) && self.fds.len() <= REGIONS_MAX;
        Ok(all.then_some(got.bytes))
    }
}

/// A message that is being sent.
#[derive(Debug)]
pub struct Outbox {
    message: Message,
    sent: usize,
}

/// The result of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The message was sent.
    All,
    /// The rest waits for the peer to read.
    Part,
    /// The peer is gone.
    Ended,
}

impl Outbox {
    /// A message of which nothing was sent yet.
    pub fn new(message: Message) -> Outbox {
        Outbox { message, sent: 0 }
    }

    /// Writes as much as the socket takes; descriptors go with the first byte.
    pub fn write(&mut self, socket: &OwnedFd) -> Written {
        while self.sent < self.message.bytes.len() {
            let fds = if self.sent == 0 { self.message.fds.borrowed() } else { Vec::new() };
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(REGIONS_MAX))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
                return Written::Ended;
            }
            let parts = [IoSlice::new(&self.message.bytes[self.sent..])];
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match sendmsg(socket.as_fd(), &parts, &mut control, flags) {
                Ok(n) => self.sent += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Written::Part,
                Err(_) => return Written::Ended,
            }
        }
        Written::All
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    fn ends() -> (UnixStream, OwnedFd) {
        let (peer, ours) = UnixStream::pair().unwrap();
        (peer, ours.into())
    }

    fn closing() -> Arc<AtomicUsize> {
        Arc::default()
    }

    #[test]
    fn one_message_is_read_at_a_time() {
        let (mut peer, ours) = ends();
        let mut inbox = Inbox::new(&closing(), 600);
        let two =
            [Message::new(2, &[7; 8], &closing()).bytes, Message::new(1, &[], &closing()).bytes].concat();
        for byte in &two[..19] {
            assert!(matches!(inbox.read(&ours), Read::Nothing));
            peer.write_all(&[*byte]).unwrap();
        }
        peer.write_all(&two[19..]).unwrap();
        let Read::Message(first) = inbox.read(&ours) else { panic!("{inbox:?}") };
        assert_eq!((first.request(), first.payload(), first.needs_reply()), (2, &[7; 8][..], false));
        let Read::Message(second) = inbox.read(&ours) else { panic!("{inbox:?}") };
        assert_eq!((second.request(), second.payload().len()), (1, 0));
        drop(peer);
        assert!(matches!(inbox.read(&ours), Read::Ended));
    }

    #[test]
    fn descriptors_arrive_with_their_message() {
        let (peer, ours) = ends();
        let mut message = Message::new(12, &[0; 8], &closing());
        message.fds.push(eventfd(0, EventfdFlags::empty()).unwrap());
        assert_eq!(Outbox::new(message).write(&ours), Written::All);
        let Read::Message(got) = Inbox::new(&closing(), 600).read(&peer.into()) else { panic!() };
        assert_eq!(got.fds.len(), 1);
    }

    #[test]
    fn malformed_messages_are_reported() {
        let (mut peer, ours) = ends();
        peer.write_all(&[1u32, 1, u32::MAX].map(u32::to_ne_bytes).concat()).unwrap();
        assert!(matches!(Inbox::new(&closing(), 600).read(&ours), Read::Broken(_)));
    }

    #[test]
    fn write_does_not_block_on_a_peer_that_does_not_read() {
        let (peer, ours) = ends();
        let last = (0..100_000)
            .map(|_| Outbox::new(Message::new(1, &[0; 600], &closing())).write(&ours))
            .find(|w| *w != Written::All);
        assert_eq!(last, Some(Written::Part));
        drop(peer);
        assert_eq!(Outbox::new(Message::new(1, &[], &closing())).write(&ours), Written::Ended);
    }
}
