//! The entries of a table of rules: anything with a match and a priority.

use super::sparse::SparseMatch;

/// One dimension of a conjunctive match: "clause `clause` of `n_clauses` of conjunction `id`".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conjunction {
    /// What `conj_id` will be when all clauses are met.
    pub id: u32,
    /// From 0.
    pub clause: u8,
    /// 2 to 64.
    pub n_clauses: u8,
}

/// What a table holds: anything with a match and a priority, neither of which changes.
pub trait Classified {
    /// What it matches.
    fn matching(&self) -> &SparseMatch;
    /// The higher wins.
    fn priority(&self) -> u32;
    /// The conjunctions that it is a part of; a rule with some is never itself the result of a look-up.
    fn conjunctions(&self) -> &[Conjunction] {
        &[]
    }
}
