//! Retries blocked transactions, after a change of a table that their `wait` operations read, or after their timeout.
//!
//! Each transaction that succeeds may change the result of all others, so the total work has no useful upper limit. It is
//! done in rounds of a few milliseconds: requests of other sessions are executed, and answered, between two rounds.

use crate::core::{Core, Work};
use crate::session::{Blocked, Retries, Session, SessionId, TransactRequest};
use ovsdb::{Error, Json};
use std::time::{Duration, Instant};

/// Maximum number of blocked transactions of all sessions.
const MAX_BLOCKED_OF_ALL: usize = if cfg!(test) { 2000 } else { 10_000 };
/// Maximum number of blocked transactions of one session.
const MAX_BLOCKED: usize = 1000;
/// A round starts no further retry after this time. The last retry may take a few milliseconds more.
const ROUND_TIME: Duration = Duration::from_millis(2);
/// Maximum number of retries of one session in a round. 2 ms are enough for a few hundred retries of short transactions.
const RETRIES_OF_SESSION: usize = 256;
/// A blocked transaction fails when all of its retries together have taken longer than this: 3,000 retries in a table of
/// 5,000 rows.
const MAX_RETRY_TIME: Duration = Duration::from_secs(10);

impl Core {
    /// The blocked transactions to retry in the next round, one of each session in turn. Empty: there is nothing to retry.
    pub fn next_retries(&mut self) -> Retries {
        let now = Instant::now();
        let mut ranked = Vec::new();
        let after = self.sessions.range(self.last_retried.saturating_add(1)..);
        let sessions = after.chain(self.sessions.range(..=self.last_retried));
        for (id, session) in sessions.filter(|(_, session)| !session.blocked.is_empty()) {
            let later = session.blocked.range(session.last_retried.saturating_add(1)..);
            let all = later.chain(session.blocked.range(..=session.last_retried));
            let due = all.filter(|(_, blocked)| self.is_due(blocked, now)).take(RETRIES_OF_SESSION);
            ranked.extend(due.enumerate().map(|(rank, (number, _))| (rank, *id, *number)));
        }
        if ranked.is_empty() {
            // Transactions that the same change unblocks are answered in the order of their requests.
            self.sessions.values_mut().for_each(|session| session.last_retried = 0);
        }
        // The sort is stable, so sessions keep their order.
        ranked.sort_by_key(|(rank, ..)| *rank);
        ranked.into_iter().map(|(_, id, number)| (id, number)).collect()
    }

    /// Returns whether there is a blocked transaction to retry.
    pub fn may_retry(&self) -> bool {
        let now = Instant::now();
        self.sessions.values().flat_map(|s| s.blocked.values()).any(|blocked| self.is_due(blocked, now))
    }

    /// The earliest timeout of a blocked transaction.
    pub fn earliest_deadline(&self) -> Option<Instant> {
        self.sessions.values().flat_map(|s| s.blocked.values().filter_map(|b| b.deadline)).min()
    }

    fn is_due(&self, blocked: &Blocked, now: Instant) -> bool {
        let served = blocked.request.params.database().and_then(|name| self.databases.get(name));
        blocked.deadline.is_some_and(|at| at <= now)
            || served.is_some_and(|served| served.has_changed(&blocked.tables, blocked.version))
    }

    /// Executes one round of retries. `in_job`: a job has the core. Otherwise the round ends before a transaction that
    /// needs a job.
    pub(crate) fn retry(&mut self, retries: Retries, in_job: bool) {
        let began = Instant::now();
        for (id, number) in retries {
            if !in_job && self.needs_job_to_retry((id, number)) {
                break;
            }
            let Some(session) = self.sessions.get_mut(&id).filter(|s| !s.is_over()) else { continue };
            let Some(blocked) = session.blocked.remove(&number) else { continue };
            session.last_retried = number;
            self.last_retried = id;
            self.transact(id, blocked.request);
            if began.elapsed() > ROUND_TIME {
                break;
            }
        }
    }

    /// Keeps a transaction that is blocked, or lets it fail if a limit is exceeded. `is_new`: it was not blocked before.
    pub(crate) fn block(
        &mut self,
        session: SessionId,
        blocked: Blocked,
        is_new: bool,
        mut results: Vec<Json>,
    ) {
        let all = || self.sessions.values().map(|s| s.blocked.len()).sum::<usize>();
        let of_session = self.sessions.get(&session).map_or(0, |s| s.blocked.len());
        let text = if is_new && of_session >= MAX_BLOCKED {
            format!("the session has {MAX_BLOCKED} blocked transactions")
        } else if is_new && all() >= MAX_BLOCKED_OF_ALL {
            format!("the server has {MAX_BLOCKED_OF_ALL} blocked transactions")
        } else if blocked.request.spent > MAX_RETRY_TIME {
            let seconds = MAX_RETRY_TIME.as_secs();
            format!("retries of the blocked transaction took more than {seconds} s")
        } else {
            if let Some(session) = self.sessions.get_mut(&session) {
                session.blocked.insert(blocked.request.number, blocked);
            }
            return;
        };
        let TransactRequest { id, params, .. } = blocked.request;
        let served = params.database().and_then(|name| self.databases.get_mut(name));
        let Some(served) = served else { return };
        results.push(Error::new("resources exhausted", text).to_json());
        results.resize(params.len(), Json::Null);
        served.add_without_changes(session, id, results);
    }
}

impl Work {
    /// A round of retries.
    pub fn of_retries(retries: Retries) -> Work {
        Work { retries, ..Work::default() }
    }
}

impl Session {
    /// The number of the next transaction.
    pub fn next_transaction_number(&mut self) -> u64 {
        self.transactions += 1;
        self.transactions
    }
}
