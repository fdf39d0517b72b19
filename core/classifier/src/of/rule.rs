//! The interface of the rules in a table.

use super::sparse::SparseMatch;

/// One dimension of a conjunctive match: "clause `clause` of `n_clauses` of conjunction `id`".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conjunction {
    /// The value of `conj_id` for the second look-up, when all clauses are met.
    pub id: u32,
    /// Index of the clause, from 0.
    pub clause: u8,
    /// Number of clauses of the conjunction, 2 to 64.
    pub n_clauses: u8,
}

/// A rule in a table. Its match and its priority never change.
pub trait ClassifierRule {
    /// The match.
    fn matching(&self) -> &SparseMatch;
    /// The priority: if several rules match a packet, the one with the highest priority is the result.
    fn priority(&self) -> u32;
    /// The conjunctions of which the rule is a part. A rule with conjunctions is never itself the result of a look-up.
    fn conjunctions(&self) -> &[Conjunction] {
        &[]
    }
}
