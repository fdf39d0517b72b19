//! Each message of a front-end is judged before the library acts on it.
//!
//! The library calls [`before`] with what it has read, and [`after`] when it has done it, on its own thread and under
//! the locks of the rings: neither may wait for a worker, and neither may panic. What is refused is said in the log, and its
//! descriptors are closed, which the library leaves to whoever handles a message.

use super::callbacks::find;
use super::memory_table::REGIONS_MAX;
use super::rules::{Fields, Message, Objection, request};
use crate::log::{Level, say};
use dpdk_sys as sys;
use std::ffi::{c_int, c_void};
use std::sync::PoisonError;

/// A message as the library hands it to handlers of others: as it came, and its descriptors. Within a version it keeps this
/// layout for them (`vhost_user.h`, "external message handlers rely on them"); no header that is installed has it.
#[repr(C, packed)]
struct Context {
    request: u32,
    flags: u32,
    size: u32,
    payload: [u8; PAYLOAD],
    fds: [c_int; REGIONS_MAX],
    fd_num: c_int,
}

const PAYLOAD: usize = sys::VHOST_USER_PAYLOAD;
const _: () =
    assert!(std::mem::offset_of!(Context, fds) == 12 + PAYLOAD && size_of::<Context>() == 48 + PAYLOAD);

/// What the allocator adds to a descriptor of a ring: two arrays of at most 32 bytes an entry.
const DESCRIPTOR_BYTES: usize = 64;
/// More than a table of regions takes.
const TABLE_BYTES: usize = 4096;

/// Has the messages of a new connection judged. To be called from the callback that tells of it.
pub(super) fn watch(vid: c_int) {
    let handlers =
        sys::rte_vhost_user_extern_ops { pre_msg_handle: Some(before), post_msg_handle: Some(after) };
    // SAFETY: the number is valid in a callback; the handlers are copied, and live for ever.
    unsafe { sys::rte_vhost_extern_callback_register(vid, &handlers, std::ptr::null_mut()) };
}

unsafe extern "C" fn before(vid: c_int, context: *mut c_void) -> sys::rte_vhost_msg_result {
    // SAFETY: the library's message, whose layout is said above; it is this thread's until we return.
    let context = unsafe { &mut *context.cast::<Context>() };
    let Err(objection) = judge(vid, context) else { return sys::RTE_VHOST_MSG_RESULT_NOT_HANDLED };
    let request = context.request;
    if let Some(link) = find(vid) {
        say(Level::Error, &format!("vhost '{}': request {request} is refused: {objection}", link.path));
    }
    context.close();
    sys::RTE_VHOST_MSG_RESULT_ERR
}

unsafe extern "C" fn after(vid: c_int, context: *mut c_void) -> sys::rte_vhost_msg_result {
    // SAFETY: as above.
    let context = unsafe { &mut *context.cast::<Context>() };
    if let (Some(link), Ok(message)) = (find(vid), context.message()) {
        // One that is too short has not come so far.
        let _ = link.rules.lock().unwrap_or_else(PoisonError::into_inner).after(message);
    }
    sys::RTE_VHOST_MSG_RESULT_NOT_HANDLED
}

fn judge(vid: c_int, context: &Context) -> Result<(), Objection> {
    let message = context.message()?;
    let Some(link) = find(vid) else { return Ok(()) };
    link.rules.lock().unwrap_or_else(PoisonError::into_inner).before(negotiated(vid), message)?;
    match message.request {
        request::SET_MEM_TABLE => room_for(vid, TABLE_BYTES),
        request::SET_VRING_NUM => {
            let size = Fields(message.payload).word(4)?;
            room_for(vid, size as usize * DESCRIPTOR_BYTES)
        }
        _ => Ok(()),
    }
}

/// What the library is about to allocate would be there. It forgets to stop a ring for which it is not.
fn room_for(vid: c_int, bytes: usize) -> Result<(), Objection> {
    // SAFETY: the number is valid in a callback; the memory is given back at once.
    let there = unsafe { sys::sluice_heap_has(bytes, sys::rte_vhost_get_numa_node(vid)) };
    if there { Ok(()) } else { Err(Objection::NoMemory) }
}

fn negotiated(vid: c_int) -> u64 {
    let mut features = 0;
    // SAFETY: the number is valid in a callback; the bits are written to `features`.
    if unsafe { sys::rte_vhost_get_negotiated_features(vid, &mut features) } == 0 { features } else { 0 }
}

impl Context {
    fn message(&self) -> Result<Message<'_>, Objection> {
        let payload = self.payload.get(..self.size as usize).ok_or(Objection::Short)?;
        Ok(Message { request: self.request, payload })
    }

    fn fds(&self) -> Vec<c_int> {
        // A copy: the fields of a packed structure have no references.
        let fds = self.fds;
        fds.into_iter().take(usize::try_from(self.fd_num).unwrap_or(0)).collect()
    }

    fn close(&mut self) {
        for fd in self.fds().into_iter().filter(|fd| *fd >= 0) {
            // SAFETY: came with this message; nobody else has seen it.
            unsafe { libc::close(fd) };
        }
        self.fd_num = 0;
    }
}
