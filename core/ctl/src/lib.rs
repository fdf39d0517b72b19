//! The table of all control commands: for each command its name, usage, number of arguments, the programs that offer it, and
//! help. Also builds the replies that need only this table (`list-commands`, errors for unknown names and wrong numbers
//! of arguments).
//!
//! Names, usage and error texts are those of Open vSwitch 3.7, because scripts parse them.

mod command;
mod table;

pub use command::{Command, OfferedBy};
pub use table::names;

/// The command with this name.
pub fn find(name: &str) -> Option<&'static Command> {
    let at = table::COMMANDS.binary_search_by(|c| c.name.cmp(name)).ok()?;
    table::COMMANDS.get(at)
}

/// The names of the commands that any of these programs offers.
pub fn offered_by(by: OfferedBy) -> impl Iterator<Item = &'static str> {
    table::COMMANDS.iter().filter(move |c| c.offered_by.intersects(by)).map(|c| c.name)
}

/// All commands, sorted by name.
pub fn all() -> &'static [Command] {
    table::COMMANDS
}

/// Checks name and number of arguments of a call. `offered`: whether the process offers the command with a name. The error is
/// the text of the reply.
pub fn check(name: &str, n_args: usize, offered: impl Fn(&str) -> bool) -> Result<&'static Command, String> {
    let command = find(name).filter(|c| offered(c.name)).ok_or_else(|| {
        format!(
            "\"{name}\" is not a valid command (use \"list-commands\" to see a list of valid \
             commands)"
        )
    })?;
    if n_args < command.min_args {
        let n = command.min_args;
        return Err(format!("\"{name}\" command requires at least {n} arguments"));
    }
    if n_args > command.max_args {
        let n = command.max_args;
        return Err(format!("\"{name}\" command takes at most {n} arguments"));
    }
    Ok(command)
}

/// The reply to `list-commands`.
pub fn list_text(offered: impl Fn(&str) -> bool) -> String {
    let mut out = String::from("The available commands are:\n");
    for c in table::COMMANDS.iter().filter(|c| c.listed && offered(c.name)) {
        out += &format!("  {:<23} {}\n", c.name, c.usage);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_sane() {
        assert!(all().windows(2).all(|w| w[0].name < w[1].name));
        assert!(all().iter().all(|c| c.min_args <= c.max_args));
    }

    #[test]
    fn wrong_calls_are_refused_with_the_known_text() {
        let any = |_: &str| true;
        assert_eq!(check("fdb/show", 1, any).map(|c| c.name), Ok("fdb/show"));
        assert_eq!(
            check("fdb/show", 0, any),
            Err("\"fdb/show\" command requires at least 1 arguments".into())
        );
        assert_eq!(check("version", 1, any), Err("\"version\" command takes at most 0 arguments".into()));
        assert!(check("nosuch", 0, any).unwrap_err().starts_with("\"nosuch\" is not a valid"));
        assert!(check("version", 0, |_| false).is_err());
        assert!(list_text(any).contains("  bond/list               \n"));
        assert!(check("revalidator/pause", 0, any).is_ok() && !list_text(any).contains("revalidator/pause"));
    }

    #[test]
    fn commands_for_tests_need_an_option() {
        let has = |by, name| offered_by(by).any(|n| n == name);
        assert!(
            has(OfferedBy::SWITCH, names::DPIF_SHOW)
                && has(OfferedBy::SWITCH | OfferedBy::DATABASE, names::VLOG_SET)
        );
        assert!(
            !has(OfferedBy::SWITCH, names::TIME_WARP)
                && has(OfferedBy::SWITCH_WITH_DUMMIES, names::TIME_WARP)
        );
        assert!(!has(OfferedBy::ANY_SWITCH, names::PANIC) && has(OfferedBy::SWITCH_WITH_PANIC, names::PANIC));
        assert!(
            !has(OfferedBy::SWITCH, names::DPDK_LCORE_LIST)
                && has(OfferedBy::ANY_SWITCH, names::DPDK_LCORE_LIST)
        );
        assert!(!has(OfferedBy::ANY_SWITCH, names::OVSDB_SERVER_COMPACT));
        assert!(!has(OfferedBy::all(), names::LIST_COMMANDS), "it is the socket's own");
    }
}
