//! Threads, clocks, event loop, timers, signals, log, daemon start-up.
