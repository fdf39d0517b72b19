//! vhost-user messages, read from and written to a socket without blocking.

use crate::file_descriptors::PeerFds;
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

/// Bytes of a message's header: request, flags, length of the payload (vhost-user specification, "Header").
const HEADER: usize = 12;
/// Flag: the message is a reply.
const REPLY: u32 = 4;
/// Flag: the sender requests an acknowledgement.
const NEED_REPLY: u32 = 8;
/// The protocol version, in the lowest bits of the flags.
const VERSION: u32 = 1;

/// A complete message with its file descriptors.
#[derive(Debug)]
pub struct Message {
    bytes: Vec<u8>,
    /// The file descriptors that were received with the message, or are sent with it.
    pub fds: PeerFds,
}

impl Message {
    /// A message without file descriptors. `closing`: see [`PeerFds::new`].
    pub fn new(request: u32, payload: &[u8], closing: &Arc<AtomicUsize>) -> Message {
        let mut bytes = [request, VERSION, payload.len() as u32].map(u32::to_ne_bytes).concat();
        bytes.extend(payload);
        Message { bytes, fds: PeerFds::new(closing) }
    }

    /// A reply without file descriptors.
    pub fn reply(request: u32, payload: &[u8], closing: &Arc<AtomicUsize>) -> Message {
        let mut reply = Message::new(request, payload, closing);
        reply.set_flags(VERSION | REPLY);
        reply
    }

    /// A reply that acknowledges a request. `done`: the request succeeded.
    pub fn ack(request: u32, done: bool, closing: &Arc<AtomicUsize>) -> Message {
        Message::reply(request, &u64::from(!done).to_ne_bytes(), closing)
    }

    fn word(&self, at: usize) -> u32 {
        self.bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |b| u32::from_ne_bytes(*b))
    }

    fn set_flags(&mut self, flags: u32) {
        self.bytes[4..8].copy_from_slice(&flags.to_ne_bytes());
    }

    /// The request number.
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

    /// Requests an acknowledgement from the receiver.
    pub fn set_needs_reply(&mut self) {
        self.set_flags(self.word(4) | NEED_REPLY);
    }

    /// Whether this [`Message::ack`] reports success.
    pub fn reports_success(&self) -> bool {
        self.payload() == [0; 8]
    }
}

/// A message that is being received.
#[derive(Debug)]
pub struct Inbox {
    bytes: Vec<u8>,
    fds: PeerFds,
    closing: Arc<AtomicUsize>,
    payload_max: usize,
}

/// The result of a read.
#[derive(Debug)]
pub enum ReadResult {
    /// A complete message.
    Message(Message),
    /// The message is not complete yet.
    Incomplete,
    /// The peer closed the socket, or the socket failed.
    Ended,
    /// The data is not a valid message of this protocol.
    Broken(&'static str),
}

impl Inbox {
    /// Creates an empty inbox. A message with more than `payload_max` bytes of payload is invalid.
    pub fn new(closing: &Arc<AtomicUsize>, payload_max: usize) -> Inbox {
        let fds = PeerFds::new(closing);
        Inbox { bytes: Vec::new(), fds, closing: Arc::clone(closing), payload_max }
    }

    /// Total length of the message in bytes. Until the header has been received: the length of the header.
    fn wanted(&self) -> usize {
        let size = self.bytes.get(8..HEADER).and_then(<[u8]>::first_chunk);
        HEADER + size.map_or(0, |size| u32::from_ne_bytes(*size) as usize)
    }

    /// Reads one message, and no byte of the next one, because file descriptors belong to the message with which they are received.
    pub fn read(&mut self, socket: &OwnedFd) -> ReadResult {
        loop {
            let wanted = self.wanted();
            if wanted > HEADER + self.payload_max {
                return ReadResult::Broken("the message is too long");
            }
            if self.bytes.len() >= HEADER && self.bytes.len() == wanted {
                let fresh = Inbox::new(&self.closing, self.payload_max);
                let Inbox { bytes, fds, .. } = std::mem::replace(self, fresh);
                return ReadResult::Message(Message { bytes, fds });
            }
            match self.receive(socket, wanted) {
                Ok(Some(0)) => return ReadResult::Ended,
                Ok(Some(_)) => {}
                Ok(None) => return ReadResult::Broken("the message has too many file descriptors"),
                Err(Errno::AGAIN) => return ReadResult::Incomplete,
                Err(Errno::INTR) => {}
                Err(_) => return ReadResult::Ended,
            }
        }
    }

    /// Receives until the message has `wanted` bytes. `None`: the message has more file descriptors than any message may have.
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
pub enum WriteResult {
    /// The message was sent.
    All,
    /// A part was sent; the rest can be sent when the peer has read.
    Part,
    /// The peer closed the socket, or the socket failed.
    Ended,
}

impl Outbox {
    /// Creates an outbox; nothing of the message has been sent yet.
    pub fn new(message: Message) -> Outbox {
        Outbox { message, sent: 0 }
    }

    /// Writes as much as the socket accepts. The file descriptors are sent with the first byte.
    pub fn write(&mut self, socket: &OwnedFd) -> WriteResult {
        while self.sent < self.message.bytes.len() {
            let fds = if self.sent == 0 { self.message.fds.borrowed() } else { Vec::new() };
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(REGIONS_MAX))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
                return WriteResult::Ended;
            }
            let parts = [IoSlice::new(&self.message.bytes[self.sent..])];
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match sendmsg(socket.as_fd(), &parts, &mut control, flags) {
                Ok(n) => self.sent += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return WriteResult::Part,
                Err(_) => return WriteResult::Ended,
            }
        }
        WriteResult::All
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
            assert!(matches!(inbox.read(&ours), ReadResult::Incomplete));
            peer.write_all(&[*byte]).unwrap();
        }
        peer.write_all(&two[19..]).unwrap();
        let ReadResult::Message(first) = inbox.read(&ours) else { panic!("{inbox:?}") };
        assert_eq!((first.request(), first.payload(), first.needs_reply()), (2, &[7; 8][..], false));
        let ReadResult::Message(second) = inbox.read(&ours) else { panic!("{inbox:?}") };
        assert_eq!((second.request(), second.payload().len()), (1, 0));
        drop(peer);
        assert!(matches!(inbox.read(&ours), ReadResult::Ended));
    }

    #[test]
    fn descriptors_arrive_with_their_message() {
        let (peer, ours) = ends();
        let mut message = Message::new(12, &[0; 8], &closing());
        message.fds.push(eventfd(0, EventfdFlags::empty()).unwrap());
        assert_eq!(Outbox::new(message).write(&ours), WriteResult::All);
        let ReadResult::Message(got) = Inbox::new(&closing(), 600).read(&peer.into()) else { panic!() };
        assert_eq!(got.fds.len(), 1);
    }

    #[test]
    fn malformed_messages_are_reported() {
        let (mut peer, ours) = ends();
        peer.write_all(&[1u32, 1, u32::MAX].map(u32::to_ne_bytes).concat()).unwrap();
        assert!(matches!(Inbox::new(&closing(), 600).read(&ours), ReadResult::Broken(_)));
    }

    #[test]
    fn write_does_not_block_on_a_peer_that_does_not_read() {
        let (peer, ours) = ends();
        let last = (0..100_000)
            .map(|_| Outbox::new(Message::new(1, &[0; 600], &closing())).write(&ours))
            .find(|w| *w != WriteResult::All);
        assert_eq!(last, Some(WriteResult::Part));
        drop(peer);
        assert_eq!(Outbox::new(Message::new(1, &[], &closing())).write(&ours), WriteResult::Ended);
    }
}
