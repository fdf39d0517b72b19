//! A pure function: (snapshot, flow) to actions, wildcards, side effects and trace.
