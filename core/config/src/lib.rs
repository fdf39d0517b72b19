//! Typed desired state from database rows, and the plan that reaches it.
