//! Checks each message of a front-end before the library executes it.
//!
//! The library calls [`before`] with the message that it has read, and [`after`] when it has executed the message, on its own
//! thread and under the locks of the rings. So neither may wait for a worker or panic. If a message is refused, it is logged and
//! its file descriptors are closed, because the library leaves that to the handler.

use super::ports::find;
use dpdk_sys as sys;
use std::ffi::{c_int, c_void};
use std::sync::PoisonError;
use vhost::log::{Level, say};
use vhost::memory_table::REGIONS_MAX;
use vhost::rules::{Fields, Message, Refusal, request};

/// A message as the library passes it to external handlers: its bytes and file descriptors. The library does not change this layout
/// within a version (`vhost_user.h`, "external message handlers rely on them"). No installed header contains it.
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

/// Bytes that the library allocates for each descriptor of a ring: two arrays with at most 32 bytes per descriptor.
const DESCRIPTOR_BYTES: usize = 64;
/// Upper limit of the memory that a memory table needs, in bytes.
const TABLE_BYTES: usize = 4096;

/// Installs the checks for a new connection. Call it from the callback that reports the connection.
pub(super) fn install(vid: c_int) {
    let handlers =
        sys::rte_vhost_user_extern_ops { pre_msg_handle: Some(before), post_msg_handle: Some(after) };
    // SAFETY: the vid is valid during a callback; the library copies the handlers, which are static functions.
    unsafe { sys::rte_vhost_extern_callback_register(vid, &handlers, std::ptr::null_mut()) };
}

unsafe extern "C" fn before(vid: c_int, context: *mut c_void) -> sys::rte_vhost_msg_result {
    // SAFETY: the pointer is to the library's message, which has the layout above. Only this thread uses it until this function returns.
    let context = unsafe { &mut *context.cast::<Context>() };
    let Err(refusal) = check(vid, context) else { return sys::RTE_VHOST_MSG_RESULT_NOT_HANDLED };
    let request = context.request;
    if let Some(port) = find(vid) {
        say(Level::Error, &format!("vhost '{}': request {request} is refused: {refusal}", port.path));
    }
    context.close();
    sys::RTE_VHOST_MSG_RESULT_ERR
}

unsafe extern "C" fn after(vid: c_int, context: *mut c_void) -> sys::rte_vhost_msg_result {
    // SAFETY: the pointer is to the library's message, which has the layout above. Only this thread uses it until this function returns.
    let context = unsafe { &mut *context.cast::<Context>() };
    if let (Some(port), Ok(message)) = (find(vid), context.message()) {
        // Fails only for messages that are too short, which `before` has refused.
        let _ = port.rules.lock().unwrap_or_else(PoisonError::into_inner).after(message);
    }
    sys::RTE_VHOST_MSG_RESULT_NOT_HANDLED
}

fn check(vid: c_int, context: &Context) -> Result<(), Refusal> {
    let message = context.message()?;
    let Some(port) = find(vid) else { return Ok(()) };
    port.rules.lock().unwrap_or_else(PoisonError::into_inner).before(negotiated(vid), message)?;
    match message.request {
        request::SET_MEM_TABLE => check_heap(vid, TABLE_BYTES),
        request::SET_VRING_NUM => {
            let size = Fields(message.payload).word(4)?;
            check_heap(vid, size as usize * DESCRIPTOR_BYTES)
        }
        _ => Ok(()),
    }
}

/// Checks that the memory which the library is about to allocate is available. If the allocation failed, the library
/// would not stop the ring.
fn check_heap(vid: c_int, bytes: usize) -> Result<(), Refusal> {
    // SAFETY: the vid is valid during a callback; the function frees the memory at once.
    let is_available = unsafe { sys::sluice_heap_has(bytes, sys::rte_vhost_get_numa_node(vid)) };
    if is_available { Ok(()) } else { Err(Refusal::NoMemory) }
}

fn negotiated(vid: c_int) -> u64 {
    let mut features = 0;
    // SAFETY: the vid is valid during a callback; the call writes to `features`.
    if unsafe { sys::rte_vhost_get_negotiated_features(vid, &mut features) } == 0 { features } else { 0 }
}

impl Context {
    fn message(&self) -> Result<Message<'_>, Refusal> {
        let payload = self.payload.get(..self.size as usize).ok_or(Refusal::Short)?;
        Ok(Message { request: self.request, payload })
    }

    fn fds(&self) -> Vec<c_int> {
        // Copied, because fields of a packed structure cannot be referenced.
        let fds = self.fds;
        fds.into_iter().take(usize::try_from(self.fd_num).unwrap_or(0)).collect()
    }

    fn close(&mut self) {
        for fd in self.fds().into_iter().filter(|fd| *fd >= 0) {
            // SAFETY: the file descriptor belongs to this message, and nothing else has used it.
            unsafe { libc::close(fd) };
        }
        self.fd_num = 0;
    }
}
