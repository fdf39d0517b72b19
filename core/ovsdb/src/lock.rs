//! Named locks of a server's sessions: `lock`, `steal`, `unlock` (RFC 7047 section 4.1.8). The operation `assert`
//! (section 5.2.10) checks [`LockTable::owns`].

use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of locks that one session may own, wait for, or have lost to `steal` without unlocking them since.
pub const MAX_LOCKS: usize = 1000;

/// The owner of each lock and the sessions that wait for it. `S` identifies a session.
#[derive(Default)]
pub struct LockTable<S> {
    locks: BTreeMap<String, Queue<S>>,
    /// The names of the locks whose queue contains the session, so that the end of a session reads only these.
    names: BTreeMap<S, BTreeSet<String>>,
}

struct Queue<S> {
    /// The owner first, then the waiting sessions in the order of their requests.
    sessions: Vec<S>,
    /// Sessions that lost the lock to `steal` and have not unlocked since.
    lost: Vec<S>,
}

/// Reason for refusing a lock request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockError {
    /// The session has already requested the lock.
    AlreadyRequested,
    /// The session has not requested the lock.
    NotRequested,
    /// The session has [`MAX_LOCKS`] locks.
    TooMany,
}

impl<S: Copy + Ord> LockTable<S> {
    /// A table without locks.
    pub fn new() -> Self {
        LockTable { locks: BTreeMap::new(), names: BTreeMap::new() }
    }

    /// Requests a lock; returns whether the session now owns it.
    pub fn lock(&mut self, name: &str, session: S) -> Result<bool, LockError> {
        let queue = self.queue_for_new(name, session)?;
        queue.sessions.push(session);
        Ok(queue.sessions.len() == 1)
    }

    /// Makes the session the owner of a lock; returns the session that lost the lock, if there was an owner.
    pub fn steal(&mut self, name: &str, session: S) -> Result<Option<S>, LockError> {
        let queue = self.queue_for_new(name, session)?;
        let old_owner = (!queue.sessions.is_empty()).then(|| queue.sessions.remove(0));
        queue.lost.extend(old_owner);
        queue.sessions.insert(0, session);
        Ok(old_owner)
    }

    /// Releases a lock, or stops waiting for it; returns the new owner, if the owner changed.
    pub fn unlock(&mut self, name: &str, session: S) -> Result<Option<S>, LockError> {
        let queue = self.locks.get_mut(name).ok_or(LockError::NotRequested)?;
        if !queue.contains_session(session) {
            return Err(LockError::NotRequested);
        }
        let was_owner = queue.sessions.first() == Some(&session);
        queue.sessions.retain(|s| *s != session);
        queue.lost.retain(|s| *s != session);
        let next_owner = if was_owner { queue.sessions.first().copied() } else { None };
        if queue.sessions.is_empty() && queue.lost.is_empty() {
            self.locks.remove(name);
        }
        if let Some(names) = self.names.get_mut(&session) {
            names.remove(name);
            if names.is_empty() {
                self.names.remove(&session);
            }
        }
        Ok(next_owner)
    }

    /// Removes a session from all locks; returns the locks that got a new owner, each with this owner.
    pub fn end_session(&mut self, session: S) -> Vec<(String, S)> {
        let names = self.names.get(&session).cloned().unwrap_or_default();
        let pass =
            |name: String| self.unlock(&name, session).ok().flatten().map(|next_owner| (name, next_owner));
        names.into_iter().filter_map(pass).collect()
    }

    /// Whether the session owns the lock.
    pub fn owns(&self, name: &str, session: S) -> bool {
        self.locks.get(name).is_some_and(|q| q.sessions.first() == Some(&session))
    }

    /// Three lists: the locks that the session owns, those that it waits for, and those that it has lost to
    /// `steal`.
    pub fn of_session(&self, session: S) -> [Vec<&str>; 3] {
        let mut lists = [const { Vec::new() }; 3];
        for name in self.names.get(&session).into_iter().flatten() {
            let Some(queue) = self.locks.get(name) else { continue };
            let place = match queue.sessions.iter().position(|s| *s == session) {
                Some(0) => 0,
                Some(_) => 1,
                None if queue.lost.contains(&session) => 2,
                None => continue,
            };
            lists[place].push(name.as_str());
        }
        lists
    }

    /// Records that the session requests the lock, and returns the lock's queue, to which the caller adds the
    /// session. An error if the session has requested the lock before, or has too many locks.
    fn queue_for_new(&mut self, name: &str, session: S) -> Result<&mut Queue<S>, LockError> {
        let names = self.names.get(&session);
        if names.is_some_and(|names| names.contains(name)) {
            return Err(LockError::AlreadyRequested);
        }
        if names.is_some_and(|names| names.len() >= MAX_LOCKS) {
            return Err(LockError::TooMany);
        }
        self.names.entry(session).or_default().insert(name.to_owned());
        let empty = || Queue { sessions: Vec::new(), lost: Vec::new() };
        Ok(self.locks.entry(name.to_owned()).or_insert_with(empty))
    }
}

impl<S: Copy + Eq> Queue<S> {
    fn contains_session(&self, session: S) -> bool {
        self.sessions.contains(&session) || self.lost.contains(&session)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_stealing_and_passing_on() {
        let mut locks = LockTable::new();
        assert_eq!(locks.lock("a", 1), Ok(true));
        assert_eq!(locks.lock("a", 2), Ok(false));
        assert_eq!(locks.lock("a", 2), Err(LockError::AlreadyRequested));
        assert_eq!(locks.steal("a", 3), Ok(Some(1)));
        assert!(locks.owns("a", 3) && !locks.owns("a", 1));
        assert_eq!(locks.lock("a", 1), Err(LockError::AlreadyRequested));
        assert_eq!(
            [1, 2, 3].map(|s| locks.of_session(s).map(|names| names.len())),
            [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
        );
        assert_eq!(locks.unlock("a", 1), Ok(None));
        assert_eq!(locks.end_session(3), [("a".to_owned(), 2)]);
        assert_eq!(locks.unlock("b", 2), Err(LockError::NotRequested));
    }
    #[test]
    fn a_session_has_a_limited_number_of_locks() {
        let mut locks = LockTable::new();
        for at in 0..MAX_LOCKS {
            assert_eq!(locks.lock(&format!("l{at}"), 1), Ok(true));
        }
        assert_eq!(locks.lock("more", 1), Err(LockError::TooMany));
        assert_eq!(locks.steal("more", 1), Err(LockError::TooMany));
        // A lock that was lost still counts until the session unlocks it.
        assert_eq!(locks.steal("l0", 2), Ok(Some(1)));
        assert_eq!(locks.lock("more", 1), Err(LockError::TooMany));
        assert_eq!(locks.unlock("l0", 1), Ok(None));
        assert_eq!(locks.lock("more", 1), Ok(true));
        // The other session is not affected.
        assert_eq!(locks.lock("more", 2), Ok(false));
        assert_eq!(locks.end_session(1), [("more".to_owned(), 2)]);
        assert_eq!(locks.of_session(1).map(|names| names.len()), [0, 0, 0]);
        assert_eq!(locks.locks.len(), 2);
        assert_eq!(locks.names.len(), 1);
    }
}
