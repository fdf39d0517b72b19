//! `ovs/route/*`: routes and policy rules of the underlay.

use crate::answer::{Answer, unknown};
use ovsdb::Json;
use router::{NewRoute, Prefix, Route, Rule, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, with_table_header};
use std::net::IpAddr;
use switch::Switch;
use unixctl::{Format, Reply};

/// The routing tables that are shown by default.
const SHOWN: [u32; 3] = [TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT];

pub(crate) fn execute(switch: &mut Switch, name: &str, args: &[String], format: Format) -> Answer {
    match (name, args) {
        ("ovs/route/show", _) => show(switch, args.first(), format).into(),
        ("ovs/route/add", [to, dev, options @ ..]) => add(switch, to, dev, options).into(),
        ("ovs/route/del", [to, options @ ..]) => del(switch, to, options).into(),
        ("ovs/route/lookup", [to, options @ ..]) => lookup(switch, to, options).into(),
        ("ovs/route/rule/show", _) => show_rules(switch, args.first(), format).into(),
        ("ovs/route/rule/add", _) => add_rule(switch, args).into(),
        ("ovs/route/rule/del", _) => del_rule(switch, args).into(),
        _ => unknown(name),
    }
}

/// The number after `key=`; `None`: the text does not begin with `key=`. `Err`: the text after it is not a number.
fn numbered(text: &str, key: &str) -> Option<Result<u32, ()>> {
    let value = text.strip_prefix(key)?.strip_prefix('=')?;
    Some(value.parse().map_err(|_| ()))
}

/// The options after the prefix in the arguments of `ovs/route/*`.
#[derive(Default)]
struct Options {
    mark: u32,
    source: Option<IpAddr>,
    gateway: Option<IpAddr>,
    table: Option<u32>,
}

impl Options {
    /// Parses options. `wrong`: the error text for an unknown argument.
    fn parse(args: &[String], ipv4: bool, wrong: &str) -> Result<Options, String> {
        let mut out = Options::default();
        let address = |text: &str| text.parse::<IpAddr>().ok().filter(|a| a.is_ipv4() == ipv4);
        for arg in args {
            if let Some(Ok(mark)) = numbered(arg, "pkt_mark") {
                out.mark = mark;
            } else if let Some(source) = arg.strip_prefix("src=").and_then(address) {
                out.source = Some(source);
            } else if let Some(gateway) = address(arg) {
                out.gateway = Some(gateway);
            } else if let Some(table) = numbered(arg, "table") {
                out.table = Some(table.map_err(|()| "Invalid table format".to_owned())?);
            } else {
                return Err(wrong.to_owned());
            }
        }
        Ok(out)
    }
}

fn add(switch: &mut Switch, to: &str, dev: &str, options: &[String]) -> Result<String, String> {
    let prefix = Prefix::parse(to).ok_or("Invalid 'ip/plen' parameter")?;
    let given = Options::parse(options, prefix.is_ipv4(), "Invalid pkt_mark, IP gateway or src_ip")?;
    let given_address = |a: Option<IpAddr>| a.filter(|a| !a.is_unspecified());
    let route = NewRoute {
        prefix,
        mark: given.mark,
        dev,
        gateway: given_address(given.gateway),
        source: given_address(given.source),
        user: true,
        metric: 0,
    };
    let table = given.table.unwrap_or(TABLE_MAIN);
    switch.underlay.router.add(table, &route).map_err(|e| e.to_string())?;
    switch.routes_changed();
    Ok("OK".to_owned())
}

fn del(switch: &mut Switch, to: &str, options: &[String]) -> Result<String, String> {
    let prefix = Prefix::parse(to).ok_or("Invalid parameters")?;
    let wrong = "Invalid pkt_mark or table";
    let given = Options::parse(options, prefix.is_ipv4(), wrong)?;
    if given.gateway.is_some() || given.source.is_some() {
        return Err(wrong.to_owned());
    }
    let router = &mut switch.underlay.router;
    match given.table {
        Some(table) if router.table(table).is_none() => {
            return Err(format!("Table table={table} not found"));
        }
        None if router.table(TABLE_MAIN).is_none() => return Err("Table not found".to_owned()),
        _ => {}
    }
    if !router.remove(given.table.unwrap_or(TABLE_MAIN), &prefix, given.mark, true) {
        return Err("Not found".to_owned());
    }
    switch.routes_changed();
    Ok("OK".to_owned())
}

fn lookup(switch: &Switch, to: &str, options: &[String]) -> Result<String, String> {
    let prefix = Prefix::parse(to).filter(Prefix::is_host).ok_or("Invalid 'ip/plen' parameter")?;
    let wrong = "Invalid pkt_mark or src";
    let given = Options::parse(options, prefix.is_ipv4(), wrong)?;
    if given.gateway.is_some() || given.table.is_some() {
        return Err(wrong.to_owned());
    }
    let found = switch.underlay.router.lookup(given.mark, prefix.addr(), given.source);
    let hop = found.ok_or("Not found")?;
    let gateway = hop.gateway.map_or_else(|| "::".to_owned(), |g| g.to_string());
    Ok(format!("src {}\ngateway {gateway}\ndev {}\n", hop.source, hop.dev))
}

/// The tables that `ovs/route/show` shows.
enum WhichTables {
    Standard,
    All,
    One(u32),
}

fn show(switch: &Switch, which: Option<&String>, format: Format) -> Result<Reply, String> {
    let router = &switch.underlay.router;
    let tables = match which.map(String::as_str) {
        None => WhichTables::Standard,
        Some("table=all") => WhichTables::All,
        Some(text) => match numbered(text, "table") {
            Some(Ok(number)) if router.table(number).is_none() => {
                return Err(format!("Table '{text}' not found"));
            }
            Some(Ok(number)) => WhichTables::One(number),
            _ => return Err("Invalid table format".to_owned()),
        },
    };
    let numbers: Vec<u32> = match tables {
        WhichTables::Standard => SHOWN.to_vec(),
        WhichTables::All => router.tables().map(|(number, _)| number).collect(),
        WhichTables::One(number) => vec![number],
    };
    if format == Format::Json {
        let routes = numbers.iter().filter_map(|n| Some((*n, router.table(*n)?)));
        let objects = routes.flat_map(|(n, table)| table.sorted().into_iter().map(move |r| object(r, n)));
        return Ok(Reply::Json(objects.collect()));
    }
    // The title precedes the first table. There is no title if each line names its table.
    let named = matches!(tables, WhichTables::All);
    let mut out = String::new();
    for (i, number) in numbers.into_iter().enumerate() {
        let table = router.table(number);
        out += &match (i, named) {
            (0, false) => with_table_header(number, table),
            _ => table.map_or(String::new(), |t| t.text(number, named)),
        };
    }
    Ok(Reply::Text(out))
}

fn members<const N: usize>(pairs: [(&str, Json); N]) -> impl Iterator<Item = (String, Json)> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value))
}

fn object(route: &Route, table: u32) -> Json {
    let text = |text: &dyn ToString| Json::from(text.to_string());
    let gateway = route.gateway.map(|g| ("gateway".to_owned(), text(&g)));
    let hop: Json = members([("dev", text(&route.dev))]).chain(gateway).collect();
    let mark = (route.mark != 0).then(|| ("mark".to_owned(), Json::from(route.mark)));
    members([
        ("table", table.into()),
        ("user", route.user.into()),
        ("local", (table == TABLE_LOCAL && !route.user).into()),
        ("prefix", route.prefix.len().into()),
        ("dst", text(&route.prefix.addr())),
        ("prefsrc", text(&route.source)),
        ("nexthops", vec![hop].into()),
    ])
    .chain(mark)
    .collect()
}

fn show_rules(switch: &Switch, option: Option<&String>, format: Format) -> Reply {
    let ipv4 = option.is_none_or(|o| o != "-6");
    let rules = switch.underlay.router.rules.iter().filter(|r| r.from.is_ipv4() == ipv4);
    match format {
        Format::Text => Reply::Text(rules.map(Rule::line).collect()),
        Format::Json => Reply::Json(rules.map(rule_object).collect()),
    }
}

fn rule_object(rule: &Rule) -> Json {
    let from = if rule.from.matches_all() { "all".to_owned() } else { rule.from.addr().to_string() };
    members([
        ("priority", rule.priority.into()),
        ("user", rule.user.into()),
        ("invert", rule.invert.into()),
        ("ipv4", rule.from.is_ipv4().into()),
        ("src-prefix", rule.from.len().into()),
        ("lookup", rule.table.into()),
        ("from", from.into()),
    ])
    .collect()
}

/// Parses a rule. Priority 0 means that no priority is given.
fn parse_rule(args: &[String]) -> Result<Rule, String> {
    let mut args = args.iter().map(String::as_str).peekable();
    let mut ipv4 = args.next_if(|a| *a == "-6").is_none();
    let invert = args.next_if(|a| *a == "not").is_some();
    let from = args.next().and_then(|a| a.strip_prefix("from=")).ok_or("Invalid 'from' parameter")?;
    let from = match from {
        "all" => None,
        text => Some(Prefix::parse(text).ok_or("Invalid from=ip/plen")?),
    };
    ipv4 = from.map_or(ipv4, |f| f.is_ipv4());
    let few = "Not enough arguments";
    let priority = match numbered(args.peek().ok_or(few)?, "prio") {
        Some(Ok(priority)) => args.next().map(|_| priority).unwrap_or_default(),
        _ => 0,
    };
    let table = match args.next().ok_or(few)? {
        "table=local" => TABLE_LOCAL,
        "table=main" => TABLE_MAIN,
        "table=default" => TABLE_DEFAULT,
        text => numbered(text, "table").and_then(Result::ok).ok_or("Invalid 'table' format")?,
    };
    let all = Rule::for_all(ipv4, priority, table);
    Ok(Rule { invert, user: true, from: from.unwrap_or(all.from), ..all })
}

fn add_rule(switch: &mut Switch, args: &[String]) -> Result<String, String> {
    let mut rule = parse_rule(args)?;
    let rules = &mut switch.underlay.router.rules;
    if rule.priority == 0 {
        rule.priority = rules.free_priority();
    }
    rules.add(rule);
    switch.routes_changed();
    Ok("OK".to_owned())
}

fn del_rule(switch: &mut Switch, args: &[String]) -> Result<String, String> {
    if !switch.underlay.router.rules.remove(&parse_rule(args)?) {
        return Err("Failed to delete router rule: -2 (No such file or directory)".to_owned());
    }
    switch.routes_changed();
    Ok("OK".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Result<String, String> {
        let args: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        parse_rule(&args).map(|r| r.line())
    }

    #[test]
    fn rules_and_errors_in_rules() {
        let line = |text: &str| Ok(text.to_owned());
        assert_eq!(rule("from=all table=10"), line("User: 0: from all lookup 10\n"));
        assert_eq!(
            rule("-6 not from=2001:db8::/32 prio=7 table=main"),
            line("User: 7: not from 2001:db8::/32  lookup main\n")
        );
        assert_eq!(rule("from=10.0.0.1 table=local"), line("User: 0: from 10.0.0.1 lookup local\n"));
        for (text, why) in [
            ("to=all table=1", "Invalid 'from' parameter"),
            ("from=x table=1", "Invalid from=ip/plen"),
            ("from=all prio=3", "Not enough arguments"),
            ("from=all", "Not enough arguments"),
            ("from=all table=x", "Invalid 'table' format"),
        ] {
            assert_eq!(rule(text), Err(why.to_owned()), "{text}");
        }
    }

    #[test]
    fn options_of_a_family() {
        let parse = |args: &[&str], ipv4| {
            let args: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
            Options::parse(&args, ipv4, "wrong").map(|o| (o.mark, o.gateway.is_some(), o.table))
        };
        assert_eq!(parse(&["10.0.0.1", "pkt_mark=7", "table=3"], true), Ok((7, true, Some(3))));
        assert_eq!(parse(&["10.0.0.1"], false), Err("wrong".to_owned()));
        assert_eq!(parse(&["pkt_mark=baz"], true), Err("wrong".to_owned()));
        assert_eq!(parse(&["table=x"], true), Err("Invalid table format".to_owned()));
    }
}
