//! `Buffer`: memory with one owner, which returns to its source when it is dropped.
//!
//! Most buffers are on the heap. A device that needs packets in its own memory (a DPDK pool) attaches a
//! [`Source`], which allocates and frees such memory. Code that reads and edits packets uses a buffer like a
//! slice; only receiving, freeing and transmitting depend on the source.
//!
//! This crate contains unsafe code, so that `packet`, which builds on it, need not.
//!
//! # Invariants
//!
//! * While a `Buffer` exists, its bytes are accessed through it only: no device, guest or other code writes
//!   them.
//! * While a tail is absent, bytes behind the present ones are accessed by [`tail`] only, which copies it before anything else
//!   sees them.
//! * Its handle is freed once: by `Drop`, in a group by [`Returns`], or by the caller of
//!   [`Buffer::into_handle`].

mod charged;
mod lender;
mod memory;
pub mod tail;

pub use charged::Release;
pub use lender::Lender;
pub use memory::{Buffer, Handle, Memory, Returns, Source};
