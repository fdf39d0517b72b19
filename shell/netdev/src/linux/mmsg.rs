//! Receives or sends many frames by one system call: `recvmmsg(2)` and `sendmmsg(2)`.
//!
//! The message headers of a batch are kept between calls. Their pointers refer only to buffers of the call in progress and to
//! other fields of the same allocation. All pointers are written before each call and never dereferenced by our code, so the
//! [`Mmsg`] may move between threads.

use packet::vnet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// Maximum number of frames per call.
pub const BATCH: usize = 32;

/// Space for the control messages of one frame: a `tpacket_auxdata` (36 bytes with its header) and some reserve.
const CONTROL_BYTES: usize = 64;

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL_BYTES]);

/// Metadata of a received frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrameMetadata {
    /// Length of the frame in its buffer, in bytes.
    pub len: usize,
    /// Its offload request, as a virtio-net header.
    pub vnet: [u8; vnet::LEN],
    /// The outer VLAN tag that the kernel removed: TPID and TCI.
    pub vlan: Option<(u16, u16)>,
    /// The interface sent this frame, instead of receiving it.
    pub outgoing: bool,
    /// The buffer was too small, or the vnet header was missing.
    pub damaged: bool,
}

/// The message headers of one batch.
pub struct Mmsg {
    messages: [libc::mmsghdr; BATCH],
    vectors: [[libc::iovec; 3]; BATCH],
    addresses: [libc::sockaddr_ll; BATCH],
    controls: [Control; BATCH],
    vnets: [[u8; vnet::LEN]; BATCH],
}

// SAFETY: the raw pointers are only used during calls (see the module's comment); our code never dereferences them.
unsafe impl Send for Mmsg {}

impl Mmsg {
    /// Creates message headers with all fields zero.
    pub fn new() -> Box<Mmsg> {
        // SAFETY: every field is an integer, a raw pointer or an array of these: all zeros are a valid value.
        Box::new(unsafe { std::mem::zeroed() })
    }

    /// Receives up to `BATCH` frames without blocking, each into a pair of buffers. The second buffer gets the bytes that do not fit
    /// the first. Returns the number of frames, 0 if there are none (`EAGAIN`).
    pub fn receive(&mut self, fd: &OwnedFd, buffers: &mut [[&mut [u8]; 2]]) -> io::Result<usize> {
        let n = buffers.len().min(BATCH);
        for (i, [first, second]) in buffers.iter_mut().take(n).enumerate() {
            self.vectors[i][0] = io_vector(self.vnets[i].as_mut_ptr(), vnet::LEN);
            self.vectors[i][1] = io_vector(first.as_mut_ptr(), first.len());
            self.vectors[i][2] = io_vector(second.as_mut_ptr(), second.len());
            let header = &mut self.messages[i].msg_hdr;
            header.msg_name = (&raw mut self.addresses[i]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            header.msg_iov = self.vectors[i].as_mut_ptr();
            header.msg_iovlen = 3;
            header.msg_control = (&raw mut self.controls[i]).cast();
            header.msg_controllen = CONTROL_BYTES as _;
            header.msg_flags = 0;
        }
        loop {
            // SAFETY: the first `n` headers were just written. Each points to its own address, vectors
            // and control block inside `self`, and to the caller's two buffers with their lengths, all of which
            // stay borrowed until the call returns.
            let result = unsafe {
                libc::recvmmsg(
                    fd.as_raw_fd(),
                    self.messages.as_mut_ptr(),
                    n as libc::c_uint,
                    libc::MSG_DONTWAIT,
                    std::ptr::null_mut(),
                )
            };
            match super::check(result as isize) {
                Ok(received) => return Ok(received),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Metadata of frame `i` of the last `receive`.
    pub fn metadata(&self, i: usize) -> FrameMetadata {
        let message = &self.messages[i];
        let total = message.msg_len as usize;
        let damaged = message.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 || total < vnet::LEN;
        let control = &self.controls[i].0;
        let used = message.msg_hdr.msg_controllen.min(CONTROL_BYTES);
        FrameMetadata {
            len: total.saturating_sub(vnet::LEN),
            vnet: self.vnets[i],
            vlan: control.get(..used).and_then(vlan_of),
            outgoing: self.addresses[i].sll_pkttype == libc::PACKET_OUTGOING,
            damaged,
        }
    }

    /// Index of the interface that received frame `i` of the last `receive`.
    pub fn ifindex_of(&self, i: usize) -> u32 {
        u32::try_from(self.addresses[i].sll_ifindex).unwrap_or(0)
    }

    /// Sends up to `BATCH` frames without blocking. Returns how many the kernel accepted; an error is that of the first
    /// frame. `to`: the interface, for a socket that is not bound to one.
    pub fn send(
        &mut self,
        fd: &OwnedFd,
        to: Option<u32>,
        frames: &[([u8; vnet::LEN], &[u8])],
    ) -> io::Result<usize> {
        let n = frames.len().min(BATCH);
        for (i, (vnet, frame)) in frames.iter().take(n).enumerate() {
            self.vnets[i] = *vnet;
            self.vectors[i][0] = io_vector(self.vnets[i].as_mut_ptr(), vnet::LEN);
            self.vectors[i][1] = io_vector(frame.as_ptr().cast_mut(), frame.len());
            let header = &mut self.messages[i].msg_hdr;
            header.msg_name = std::ptr::null_mut();
            header.msg_namelen = 0;
            if let Some(ifindex) = to {
                self.addresses[i] = address_of(ifindex);
                header.msg_name = (&raw mut self.addresses[i]).cast();
                header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            }
            header.msg_iov = self.vectors[i].as_mut_ptr();
            header.msg_iovlen = 2;
            header.msg_control = std::ptr::null_mut();
            header.msg_controllen = 0;
            header.msg_flags = 0;
        }
        loop {
            // SAFETY: the first `n` headers were just written; each points to its own address and vectors inside `self` and to the
            // caller's frame. sendmmsg only reads through the vectors and addresses, so they may point to shared slices.
            let result = unsafe {
                libc::sendmmsg(
                    fd.as_raw_fd(),
                    self.messages.as_mut_ptr(),
                    n as libc::c_uint,
                    libc::MSG_DONTWAIT,
                )
            };
            match super::check(result as isize) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }
}

/// The address of an interface. If the index is too large for any interface, the result makes the kernel refuse the packet.
fn address_of(ifindex: u32) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0,
        sll_ifindex: libc::c_int::try_from(ifindex).unwrap_or(0),
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

fn io_vector(base: *mut u8, len: usize) -> libc::iovec {
    libc::iovec { iov_base: base.cast(), iov_len: len }
}

/// The VLAN tag (TPID and TCI) in the control messages: `struct tpacket_auxdata` of linux/if_packet.h.
fn vlan_of(mut control: &[u8]) -> Option<(u16, u16)> {
    const HEADER: usize = size_of::<libc::cmsghdr>();
    const WORD: usize = size_of::<usize>();
    const ETHERTYPE_VLAN: u16 = 0x8100;
    while control.len() >= HEADER {
        let len = usize::from_ne_bytes(control.get(..WORD)?.try_into().ok()?);
        let level = i32::from_ne_bytes(control.get(WORD..WORD + 4)?.try_into().ok()?);
        let kind = i32::from_ne_bytes(control.get(WORD + 4..WORD + 8)?.try_into().ok()?);
        let data = control.get(HEADER..len)?;
        if level == libc::SOL_PACKET && kind == libc::PACKET_AUXDATA {
            let status = u32::from_ne_bytes(data.get(..4)?.try_into().ok()?);
            let tci = u16::from_ne_bytes(data.get(16..18)?.try_into().ok()?);
            let tpid = u16::from_ne_bytes(data.get(18..20)?.try_into().ok()?);
            if status & libc::TP_STATUS_VLAN_VALID == 0 {
                return None;
            }
            let has_tpid = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            return Some((if has_tpid { tpid } else { ETHERTYPE_VLAN }, tci));
        }
        control = control.get(len.next_multiple_of(WORD)..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn auxdata(status: u32, tci: u16, tpid: u16) -> Vec<u8> {
        let mut v = Vec::new();
        v.extend(36usize.to_ne_bytes());
        v.extend(libc::SOL_PACKET.to_ne_bytes());
        v.extend(libc::PACKET_AUXDATA.to_ne_bytes());
        v.extend(status.to_ne_bytes());
        v.extend([0; 12]);
        v.extend(tci.to_ne_bytes());
        v.extend(tpid.to_ne_bytes());
        v.resize(40, 0);
        v
    }

    #[test]
    fn the_tag_is_found() {
        let both = libc::TP_STATUS_VLAN_VALID | libc::TP_STATUS_VLAN_TPID_VALID;
        assert_eq!(vlan_of(&auxdata(both, 0x6064, 0x88a8)), Some((0x88a8, 0x6064)));
        assert_eq!(vlan_of(&auxdata(libc::TP_STATUS_VLAN_VALID, 5, 0)), Some((0x8100, 5)));
        assert_eq!(vlan_of(&auxdata(0, 5, 0)), None);
        assert_eq!(vlan_of(&[]), None);
    }

    proptest! {
        #[test]
        fn any_control_block_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = vlan_of(&bytes);
        }
    }
}
