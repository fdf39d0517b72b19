//! Keeping megaflows right. A change is looked up in what megaflows were made from: those that it may concern are translated
//! again and compared, the others are left alone (`xlate::Dependencies`). What concerns everything, as a port's coming does, has all
//! of them translated again.
//!
//! Nothing here holds a lock while it translates; a megaflow published meanwhile was made from the snapshot that is used
//! here or from a newer one (`UpcallHandler::is_current`), so nothing escapes.
//!
//! | file | what |
//! |---|---|
//! | `check.rs` | one megaflow: translated again, compared, repaired |
//! | `history.rs` | what changed lately, for the log line about a megaflow that no change had found |
//! | `passes.rs` | which megaflows: those of a change, all, and a few at a time to be safe |
//! | `thread.rs` | the thread that does it, beside the main loop |

pub mod check;
mod history;
mod passes;
pub mod thread;
