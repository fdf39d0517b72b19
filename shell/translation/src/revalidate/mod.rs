//! Revalidation: keeps megaflows consistent with the tables. The dependencies of megaflows' translations tell which
//! megaflows a change may concern (`xlate::Dependencies`): these are translated again and compared, the others are
//! left alone. After a change that concerns everything, like a new port, all are translated again.
//!
//! No lock is held during a translation. A megaflow that is published meanwhile was made from the snapshot used here
//! or from a newer one (`UpcallHandler::is_current`), so none is missed.
//!
//! | file | what |
//! |---|---|
//! | `check.rs` | one megaflow: translated again, compared, repaired |
//! | `history.rs` | recent changes, for the log line about a megaflow that no change had found |
//! | `passes.rs` | which megaflows: those of a change, all, and the sweep |
//! | `thread.rs` | the thread |

pub mod check;
mod history;
mod passes;
pub mod thread;
