//! Revalidation: keeps megaflows consistent with the tables. The dependencies of a megaflow's translation tell whether a
//! change may affect the megaflow (`xlate::Dependencies`). The affected megaflows are translated again, and updated or
//! removed. After a change that may affect every megaflow, like a new port, all are translated again.
//!
//! No lock is held during a translation. A megaflow that is installed meanwhile was translated with the snapshot used here
//! or with a newer one (`UpcallHandler::is_current`), so no outdated megaflow is missed.
//!
//! | file | what |
//! |---|---|
//! | `affected.rs` | finds the megaflows that changes affect |
//! | `check.rs` | translates one megaflow again, compares and repairs it |
//! | `history.rs` | recent changes, for the log line about a wrong megaflow that only the sweep found |
//! | `rounds.rs` | decides which megaflows are checked, and when: after a change, in a round over all, by the sweep |
//! | `thread.rs` | the revalidator thread |

mod affected;
pub mod check;
mod history;
mod rounds;
pub mod thread;
