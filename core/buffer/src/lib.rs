//! `Buffer`: memory with one owner. When the buffer is dropped, the memory returns to its source.
//!
//! Most buffers are on the heap. A device that needs packets in its own memory (a DPDK pool) attaches a [`Source`],
//! which allocates and frees such memory. Code that reads and edits packets uses a buffer like a slice; only
//! receiving, freeing and transmitting depend on the source.
//!
//! This crate contains the unsafe code, so that `packet`, which uses it, needs none.
//!
//! # Invariants
//!
//! * While a `Buffer` exists, its bytes are accessed only through it: no device, guest or other code writes them.
//! * While a tail is absent, bytes behind the present ones are accessed only by [`tail`], which copies the tail
//!   before other code gets access to them.
//! * The handle of a buffer is freed once: by `Drop`, in a group by [`FreeBatch`], or by the caller of [`Buffer::into_handle`].

mod charged;
mod memory;
pub mod tail;
mod tail_owner;

pub use charged::BufferAccount;
pub use memory::{Buffer, FreeBatch, Handle, Memory, Source};
pub use tail_owner::TailOwner;
