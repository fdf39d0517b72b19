//! The macros that log.

/// Logs at a level: `log_at!(LOG, Level::Dbg, "…")`.
#[macro_export]
macro_rules! log_at { ($m:expr, $l:expr, $($a:tt)*) => { $m.log($l, format_args!($($a)*)) } }
/// Logs that the process is about to die.
#[macro_export]
macro_rules! emer { ($m:expr, $($a:tt)*) => { $crate::log_at!($m, $crate::log::Level::Emer, $($a)*) } }
/// Logs an error.
#[macro_export]
macro_rules! err { ($m:expr, $($a:tt)*) => { $crate::log_at!($m, $crate::log::Level::Err, $($a)*) } }
/// Logs a warning.
#[macro_export]
macro_rules! warn { ($m:expr, $($a:tt)*) => { $crate::log_at!($m, $crate::log::Level::Warn, $($a)*) } }
/// Logs an event of normal operation.
#[macro_export]
macro_rules! info { ($m:expr, $($a:tt)*) => { $crate::log_at!($m, $crate::log::Level::Info, $($a)*) } }
/// Logs a detail.
#[macro_export]
macro_rules! debug { ($m:expr, $($a:tt)*) => { $crate::log_at!($m, $crate::log::Level::Dbg, $($a)*) } }
/// Logs within a rate limit: `log_rl!(LOG, LIMIT, Level::Warn, "…")`.
#[macro_export]
macro_rules! log_rl { ($m:expr, $rl:expr, $l:expr, $($a:tt)*) => { $m.log_limited(&$rl, $l, format_args!($($a)*)) } }
/// Logs a warning within a rate limit: `warn_rl!(LOG, LIMIT, "…")`.
#[macro_export]
macro_rules! warn_rl { ($m:expr, $rl:expr, $($a:tt)*) => { $crate::log_rl!($m, $rl, $crate::log::Level::Warn, $($a)*) } }
