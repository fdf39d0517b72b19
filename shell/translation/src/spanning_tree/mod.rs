//! Spanning trees of bridges (`bridge::spanning_tree` has the protocols).

pub mod trees;
