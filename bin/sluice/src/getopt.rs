//! Command lines in the style of GNU `getopt_long`: clustered short options, values in the same argument or
//! in the next one, unambiguous abbreviations of long options.

use crate::suggest;

/// Whether an option has a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// No value.
    Nothing,
    /// An optional value, only in the same argument.
    Maybe,
    /// A required value.
    Value,
}

/// An option that a tool knows.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    /// The long name, also used in `Parsed`.
    pub name: &'static str,
    /// The short name.
    pub short: Option<char>,
    /// Whether the option has a value.
    pub takes: Takes,
    /// The name of the value in help texts.
    pub arg: &'static str,
    /// Description for help texts; empty if the option is not listed.
    pub text: &'static str,
}

/// An option without a description.
pub const fn opt(name: &'static str, short: Option<char>, takes: Takes) -> Opt {
    Opt { name, short, takes, arg: "", text: "" }
}

impl Opt {
    /// Adds the name of the value and a description.
    pub const fn described(self, arg: &'static str, text: &'static str) -> Opt {
        Opt { arg, text, ..self }
    }
}

/// The logging options, which every tool has; `log_option` handles them.
pub const LOGGING: [Opt; 4] = [
    opt("verbose", Some('v'), Takes::Maybe)
        .described("SPEC", "log levels: MODULE:DESTINATION:LEVEL, each optional; alone: everything"),
    opt("log-file", None, Takes::Maybe).described("FILE", "logs to a file"),
    opt("syslog-method", None, Takes::Value)
        .described("METHOD", "how to reach the system's log: libc, null, unix:FILE, udp:IP:PORT"),
    opt("syslog-target", None, Takes::Value).described("HOST:PORT", "also logs to a syslog server"),
];

/// Handles one of the `LOGGING` options; the error is for standard error.
pub fn log_option(name: &str, value: Option<&str>, logfile: &std::path::Path) -> Result<(), String> {
    use runtime::log;
    match (name, value) {
        ("verbose", None) => log::set_max_verbosity(),
        ("verbose", Some(spec)) => {
            log::set(spec).map_err(|e| format!("processing \"{spec}\": {e}"))?;
        }
        ("log-file", file) => {
            let path = file.map_or(logfile, std::path::Path::new);
            log::set_file(path).map_err(|e| runtime::error_text(&e))?;
        }
        ("syslog-method", Some(method)) => log::set_syslog_method(method)?,
        ("syslog-target", Some(target)) => log::set_syslog_target(target),
        _ => {}
    }
    Ok(())
}

/// A parsed command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Parsed {
    /// Options by long name, in the order given.
    pub options: Vec<(&'static str, Option<String>)>,
    /// The arguments that are not options.
    pub rest: Vec<String>,
}

impl Parsed {
    /// Whether an option was given.
    pub fn has(&self, option: &str) -> bool {
        self.options.iter().any(|(name, _)| *name == option)
    }

    /// The last value given for an option.
    pub fn value(&self, option: &str) -> Option<&str> {
        self.options.iter().rev().find(|(name, _)| *name == option)?.1.as_deref()
    }
}

/// Where options may stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Before all other arguments, because later arguments may look like options.
    First,
    /// Anywhere.
    Anywhere,
}

/// Parses a command line; the error is the text of `getopt_long` without the program's name.
pub fn parse(known: &[Opt], order: Order, args: &[String]) -> Result<Parsed, String> {
    let mut parsed = Parsed::default();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if arg == "--" {
            break;
        } else if let Some(body) = arg.strip_prefix("--") {
            parsed.options.push(long(known, body, &mut args)?);
        } else if arg.len() > 1 && arg.starts_with('-') {
            short(known, arg, &mut args, &mut parsed.options)?;
        } else {
            parsed.rest.push(arg.clone());
            if order == Order::First {
                break;
            }
        }
    }
    parsed.rest.extend(args.cloned());
    Ok(parsed)
}

type Given = (&'static str, Option<String>);

fn long<'a>(known: &[Opt], body: &str, args: &mut impl Iterator<Item = &'a String>) -> Result<Given, String> {
    let (name, value) = match body.split_once('=') {
        Some((n, v)) => (n, Some(v.to_string())),
        None => (body, None),
    };
    let fits: Vec<&Opt> = match known.iter().find(|o| o.name == name) {
        Some(exact) => vec![exact],
        None => known.iter().filter(|o| o.name.starts_with(name)).collect(),
    };
    let option = match fits.as_slice() {
        [one] => *one,
        [] => {
            let hint = suggest::hint(name, known.iter().map(|o| o.name));
            return Err(format!("unrecognized option '--{name}'{hint}"));
        }
        several => {
            let all: String = several.iter().map(|o| format!(" '--{}'", o.name)).collect();
            return Err(format!("option '--{body}' is ambiguous; possibilities:{all}"));
        }
    };
    match (option.takes, value) {
        (Takes::Nothing, Some(_)) => Err(format!("option '--{}' doesn't allow an argument", option.name)),
        (Takes::Value, None) => {
            let value = args.next().cloned();
            let missing = || format!("option '--{}' requires an argument", option.name);
            Ok((option.name, Some(value.ok_or_else(missing)?)))
        }
        (_, value) => Ok((option.name, value)),
    }
}

fn short<'a>(
    known: &[Opt],
    arg: &str,
    args: &mut impl Iterator<Item = &'a String>,
    options: &mut Vec<Given>,
) -> Result<(), String> {
    let mut letters = arg.chars();
    letters.next();
    while let Some(letter) = letters.next() {
        let option = known.iter().find(|o| o.short == Some(letter));
        let option = option.ok_or_else(|| format!("invalid option -- '{letter}'"))?;
        if option.takes == Takes::Nothing {
            options.push((option.name, None));
            continue;
        }
        let mut value = Some(letters.as_str().to_string()).filter(|v| !v.is_empty());
        if value.is_none() && option.takes == Takes::Value {
            let next = args.next().cloned();
            value = Some(next.ok_or_else(|| format!("option requires an argument -- '{letter}'"))?);
        }
        options.push((option.name, value));
        return Ok(());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Opt; 5] = [
        opt("target", Some('t'), Takes::Value),
        opt("timeout", Some('T'), Takes::Value),
        opt("pretty", None, Takes::Nothing),
        opt("help", Some('h'), Takes::Nothing),
        opt("verbose", Some('v'), Takes::Maybe),
    ];

    fn shown(order: Order, line: &str) -> String {
        let args: Vec<String> = line.split(' ').map(str::to_string).collect();
        match parse(&KNOWN, order, &args) {
            Ok(p) => {
                let options = p.options.iter().map(|(n, v)| match v {
                    Some(v) => format!("{n}={v} "),
                    None => format!("{n} "),
                });
                format!("{}| {}", options.collect::<String>(), p.rest.join(" "))
            }
            Err(e) => e,
        }
    }

    #[test]
    fn forms() {
        use Order::{Anywhere, First};
        assert_eq!(shown(First, "-t a -T5 --pretty x -h"), "target=a timeout=5 pretty | x -h");
        assert_eq!(shown(Anywhere, "x -h y -- -z"), "help | x y -z");
        assert_eq!(shown(First, "--timeo=3 --tar b -hvany x"), "timeout=3 target=b help verbose=any | x");
        assert_eq!(shown(First, "-v x"), "verbose | x");
        assert_eq!(shown(First, "- x"), "| - x");
    }

    #[test]
    fn complaints() {
        let c = |line| shown(Order::First, line);
        assert_eq!(c("--bogus=1"), "unrecognized option '--bogus'");
        assert_eq!(c("-z"), "invalid option -- 'z'");
        assert_eq!(c("-t"), "option requires an argument -- 't'");
        assert_eq!(c("--target"), "option '--target' requires an argument");
        assert_eq!(c("--pretty=1"), "option '--pretty' doesn't allow an argument");
        assert_eq!(c("--t=3"), "option '--t=3' is ambiguous; possibilities: '--target' '--timeout'");
    }
}
