//! One program for every tool: vsctl, ofctl, appctl.

fn main() {}
