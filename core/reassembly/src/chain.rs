//! Slots with stable numbers, and linked lists of slots with constant-time operations.

/// The slot number that means "no slot".
pub(crate) const NONE: u32 = u32::MAX;

/// Values in numbered slots. A value keeps its slot number until it is removed.
#[derive(Debug)]
pub(crate) struct Slots<V> {
    values: Vec<Option<V>>,
    free: Vec<u32>,
}

impl<V> Default for Slots<V> {
    fn default() -> Slots<V> {
        Slots { values: Vec::new(), free: Vec::new() }
    }
}

impl<V> Slots<V> {
    /// Stores a value in a free slot and returns the slot's number.
    pub(crate) fn insert(&mut self, value: V) -> u32 {
        match self.free.pop() {
            Some(at) => {
                self.values[at as usize] = Some(value);
                at
            }
            None => {
                self.values.push(Some(value));
                self.values.len() as u32 - 1
            }
        }
    }

    pub(crate) fn remove(&mut self, at: u32) -> Option<V> {
        let value = self.values.get_mut(at as usize)?.take()?;
        self.free.push(at);
        Some(value)
    }

    pub(crate) fn get(&self, at: u32) -> Option<&V> {
        self.values.get(at as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut V> {
        self.values.get_mut(at as usize)?.as_mut()
    }
}

/// First and last slot of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    pub(crate) first: u32,
    last: u32,
}

impl Default for Chain {
    fn default() -> Chain {
        Chain { first: NONE, last: NONE }
    }
}

/// The neighbours of each slot in its list. A slot is in at most one list of a `Links`.
#[derive(Debug, Default)]
pub(crate) struct Links(Vec<Link>);

#[derive(Clone, Copy, Debug)]
struct Link {
    before: u32,
    after: u32,
}

impl Links {
    /// Appends a slot to a list. The slot must be in no list.
    pub(crate) fn push(&mut self, chain: &mut Chain, at: u32) {
        let none = Link { before: NONE, after: NONE };
        if self.0.len() <= at as usize {
            self.0.resize(at as usize + 1, none);
        }
        self.0[at as usize] = Link { before: chain.last, after: NONE };
        match self.0.get_mut(chain.last as usize) {
            Some(last) => last.after = at,
            None => chain.first = at,
        }
        chain.last = at;
    }

    /// Removes a slot from its list.
    pub(crate) fn remove(&mut self, chain: &mut Chain, at: u32) {
        let Link { before, after } = self.0[at as usize];
        match self.0.get_mut(before as usize) {
            Some(link) => link.after = after,
            None => chain.first = after,
        }
        match self.0.get_mut(after as usize) {
            Some(link) => link.before = before,
            None => chain.last = before,
        }
    }

    /// The next slot in the list of a slot; [`NONE`] at the end.
    pub(crate) fn after(&self, at: u32) -> u32 {
        self.0.get(at as usize).map_or(NONE, |link| link.after)
    }
}
