//! A call of a `dpctl/*` command: parses its options, holds its output, and finds its datapath.

use switch::{Backer, Switch};

pub(crate) const EINVAL: &str = "Invalid argument";

/// The options of a call and its output so far.
pub(crate) struct Call {
    pub(crate) verbose: bool,
    pub(crate) names: bool,
    pub(crate) statistics: bool,
    pub(crate) may_create: bool,
    progname: String,
    pub(crate) text: String,
}

/// The call failed; the reason is in the call's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed;

impl Call {
    /// Parses the options. Returns the other arguments, too. The error is the text of the reply.
    pub(crate) fn new<'a>(progname: &str, args: &'a [String]) -> Result<(Call, &'a [String]), String> {
        let (mut verbose, mut names, mut statistics, mut may_create) = (false, None, false, false);
        let mut rest = args;
        while let [arg, after @ ..] = rest {
            if arg.starts_with("--") {
                match arg.as_str() {
                    "--statistics" => statistics = true,
                    "--clear" => {}
                    "--may-create" => may_create = true,
                    "--more" => verbose = true,
                    "--names" => names = Some(true),
                    "--no-names" => names = Some(false),
                    _ => return Err(format!("Unrecognized option {arg}")),
                }
            } else if let Some(letters) = arg.strip_prefix('-').filter(|l| !l.is_empty()) {
                for letter in letters.chars() {
                    match letter {
                        'm' => verbose = true,
                        's' => statistics = true,
                        _ => return Err(format!("Unrecognized option -{letter}")),
                    }
                }
            } else {
                break;
            }
            rest = after;
        }
        let names = names.unwrap_or(verbose);
        let progname = progname.to_owned();
        Ok((Call { verbose, names, statistics, may_create, progname, text: String::new() }, rest))
    }

    /// Adds an error to the output.
    pub(crate) fn error(&mut self, text: &str, why: Option<&str>) -> Failed {
        let why = why.map_or(String::new(), |why| format!(" ({why})"));
        self.text += &format!("{}: {text}{why}\n", self.progname);
        Failed
    }
}

/// The full name `TYPE@NAME`. Without a type, `system` is assumed.
pub(crate) fn full_name(name: &str) -> String {
    if name.contains('@') { name.to_owned() } else { format!("system@{name}") }
}

/// All datapaths; the datapaths of bridges come first.
pub(crate) fn all(switch: &Switch) -> impl Iterator<Item = &Backer> {
    switch.datapaths.all()
}

/// The datapath with this name, if it exists.
pub(crate) fn find<'s>(switch: &'s Switch, name: &str) -> Option<&'s Backer> {
    let name = full_name(name);
    all(switch).find(|b| b.name() == name)
}

/// The datapath of a command, and the other arguments. The datapath is the one that the first argument names. If the
/// first argument names no datapath, the only datapath is used, unless there are as many arguments as the command allows
/// (`most`): then the first argument must be a name.
pub(crate) fn select_datapath<'s, 'a>(
    switch: &'s Switch,
    call: &mut Call,
    args: &'a [String],
    most: usize,
) -> Result<(&'s Backer, &'a [String]), Failed> {
    let named = args.first().and_then(|name| find(switch, name));
    let (backer, rest) = match named {
        Some(backer) => (Some(backer), args.get(1..).unwrap_or_default()),
        None if args.len() == most => (None, args),
        None => {
            let mut all = all(switch);
            match (all.next(), all.next()) {
                (Some(only), None) => (Some(only), args),
                (first, _) => {
                    let text = match first {
                        None => "no datapaths exist",
                        Some(_) => "multiple datapaths, specify one",
                    };
                    call.error(text, None);
                    (None, args)
                }
            }
        }
    };
    backer.map(|b| (b, rest)).ok_or_else(|| call.error("datapath not found", Some(EINVAL)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(list: &[&str]) -> Vec<String> {
        list.iter().map(|s| (*s).to_owned()).collect()
    }

    #[test]
    fn options_come_first() {
        let all = args(&["-ms", "--no-names", "dp", "-x"]);
        let (call, rest) = Call::new("ovs-vswitchd", &all).unwrap_or_else(|e| panic!("{e}"));
        assert!(call.verbose && call.statistics && !call.names);
        assert_eq!(rest, args(&["dp", "-x"]));
        assert_eq!(Call::new("x", &args(&["-x"])).err(), Some("Unrecognized option -x".to_owned()));
        assert_eq!(Call::new("x", &args(&["--foo"])).err(), Some("Unrecognized option --foo".to_owned()));
    }
}
