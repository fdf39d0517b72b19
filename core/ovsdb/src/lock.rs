//! Named locks that sessions of one server take, steal and assert (RFC 7047 section 4.1.8).

use std::collections::BTreeMap;

/// Who holds or awaits each lock. `S` tells sessions apart.
#[derive(Default)]
pub struct LockTable<S> {
    locks: BTreeMap<String, Queue<S>>,
}

struct Queue<S> {
    /// The owner first, then those waiting, in order.
    sessions: Vec<S>,
    /// Sessions robbed of the lock that have not unlocked since.
    robbed: Vec<S>,
}

/// Why a request for a lock is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockError {
    /// The session has asked for the lock before and not unlocked.
    Already,
    /// The session has never asked for the lock.
    Never,
}

impl<S: Copy + Eq> LockTable<S> {
    /// No locks.
    pub fn new() -> Self {
        LockTable { locks: BTreeMap::new() }
    }

    /// Asks for a lock; the answer says whether the session owns it at once.
    pub fn lock(&mut self, name: &str, session: S) -> Result<bool, LockError> {
        let queue = self.fresh_queue(name, session)?;
        queue.sessions.push(session);
        Ok(queue.sessions.len() == 1)
    }

    /// Takes a lock; the answer is the session that lost it.
    pub fn steal(&mut self, name: &str, session: S) -> Result<Option<S>, LockError> {
        let queue = self.fresh_queue(name, session)?;
        let victim = (!queue.sessions.is_empty()).then(|| queue.sessions.remove(0));
        queue.robbed.extend(victim);
        queue.sessions.insert(0, session);
        Ok(victim)
    }

    /// Gives a lock back, or stops waiting; the answer is the session that owns it now.
    pub fn unlock(&mut self, name: &str, session: S) -> Result<Option<S>, LockError> {
        let queue = self.locks.get_mut(name).ok_or(LockError::Never)?;
        if !queue.knows(session) {
            return Err(LockError::Never);
        }
        let was_owner = queue.sessions.first() == Some(&session);
        queue.sessions.retain(|s| *s != session);
        queue.robbed.retain(|s| *s != session);
        let heir = if was_owner { queue.sessions.first().copied() } else { None };
        if queue.sessions.is_empty() && queue.robbed.is_empty() {
            self.locks.remove(name);
        }
        Ok(heir)
    }

    /// Ends a session; the answer lists the locks that passed on, and to whom.
    pub fn end_session(&mut self, session: S) -> Vec<(String, S)> {
        let names: Vec<String> =
            self.locks.iter().filter(|(_, q)| q.knows(session)).map(|(name, _)| name.clone()).collect();
        let pass = |name: String| self.unlock(&name, session).ok().flatten().map(|heir| (name, heir));
        names.into_iter().filter_map(pass).collect()
    }

    /// Whether the session owns the lock.
    pub fn owns(&self, name: &str, session: S) -> bool {
        self.locks.get(name).is_some_and(|q| q.sessions.first() == Some(&session))
    }

    /// The locks that the session holds, waits for, and was robbed of.
    pub fn of(&self, session: S) -> [Vec<&str>; 3] {
        let mut lists = [const { Vec::new() }; 3];
        for (name, queue) in &self.locks {
            let place = match queue.sessions.iter().position(|s| *s == session) {
                Some(0) => 0,
                Some(_) => 1,
                None if queue.robbed.contains(&session) => 2,
                None => continue,
            };
            lists[place].push(name.as_str());
        }
        lists
    }

    fn fresh_queue(&mut self, name: &str, session: S) -> Result<&mut Queue<S>, LockError> {
        let queue = self
            .locks
            .entry(name.to_owned())
            .or_insert_with(|| Queue { sessions: Vec::new(), robbed: Vec::new() });
        if queue.knows(session) { Err(LockError::Already) } else { Ok(queue) }
    }
}

impl<S: Copy + Eq> Queue<S> {
    fn knows(&self, session: S) -> bool {
        self.sessions.contains(&session) || self.robbed.contains(&session)
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
        assert_eq!(locks.lock("a", 2), Err(LockError::Already));
        assert_eq!(locks.steal("a", 3), Ok(Some(1)));
        assert!(locks.owns("a", 3) && !locks.owns("a", 1));
        assert_eq!(locks.lock("a", 1), Err(LockError::Already));
        assert_eq!(
            [1, 2, 3].map(|s| locks.of(s).map(|names| names.len())),
            [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
        );
        assert_eq!(locks.unlock("a", 1), Ok(None));
        assert_eq!(locks.end_session(3), [("a".to_owned(), 2)]);
        assert_eq!(locks.unlock("b", 2), Err(LockError::Never));
    }
}
