//! Wireshark's interface to external captures (extcap): Wireshark calls the tool to query interfaces, link types and options, and then to
//! write packets into a named pipe.

use super::control::{ports, session};
use crate::appctl::Failure;
use crate::call::Call;
use crate::getopt::{Opt, Parsed, Takes, opt};

/// The options of extcap. Only Wireshark passes them, so the help page does not list them.
pub const OPTIONS: [Opt; 8] = [
    opt("extcap-interfaces", None, Takes::Nothing),
    opt("extcap-version", None, Takes::Maybe),
    opt("extcap-interface", None, Takes::Value),
    opt("extcap-dlts", None, Takes::Nothing),
    opt("extcap-config", None, Takes::Nothing),
    opt("extcap-capture-filter", None, Takes::Value),
    opt("capture", None, Takes::Nothing),
    opt("fifo", None, Takes::Value),
];

/// The interface that captures packets of all ports.
const ALL_INTERFACE: &str = "sluice-all";
const DROPS_INTERFACE: &str = "sluice-drops";
/// Prefix of the interfaces that capture packets of one port.
const PORT_PREFIX: &str = "sluice-port-";

/// Answers a query of Wireshark. `None`: the command line has no query of extcap, or requests a capture.
pub fn answer(call: &Call, parsed: &Parsed) -> Option<Result<(), Failure>> {
    if parsed.has("extcap-interfaces") {
        // Without a switch this fails, so that Wireshark shows no interfaces. Wireshark ignores the error message.
        let ports = session(call, parsed).and_then(|mut daemon| ports(&mut daemon));
        return Some(ports.map(|ports| print!("{}", interfaces(&ports))));
    }
    let interface = parsed.value("extcap-interface")?;
    if parsed.has("extcap-dlts") {
        println!("dlt {{number=1}}{{name={interface}}}{{display=Ethernet}}");
        return Some(Ok(()));
    }
    if parsed.has("extcap-config") {
        print!("{CONFIG}");
        return Some(Ok(()));
    }
    // A capture filter without `--capture` is a query whether the filter is valid; an empty answer means that it is.
    if !parsed.has("capture") {
        let text = parsed.value("extcap-capture-filter").unwrap_or_default();
        if let Err(e) = openflow::text::parse_flow_filter(text, &flow::text::NoNames) {
            println!("{e}");
        }
        return Some(Ok(()));
    }
    if parsed.value("fifo").is_none() {
        return Some(Err(Failure::Fatal("--capture needs --fifo".to_owned())));
    }
    None
}

fn interfaces(ports: &[String]) -> String {
    let mut out = format!(
        "extcap {{version={}}}{{help=https://www.wireshark.org/docs/man-pages/extcap.html}}\n",
        env!("CARGO_PKG_VERSION")
    );
    let mut add = |value: &str, display: &str| {
        out += &format!("interface {{value={value}}}{{display=Sluice: {display}}}\n")
    };
    add(ALL_INTERFACE, "all ports");
    add(DROPS_INTERFACE, "dropped packets");
    for port in ports {
        add(&format!("{PORT_PREFIX}{port}"), &format!("port {port}"));
    }
    out
}

const CONFIG: &str = "\
arg {number=0}{call=--every}{display=One packet of}\
    {tooltip=Keep one packet of this many}{type=unsigned}{default=1}{group=Load}
arg {number=1}{call=--rate}{display=Packets in a second}\
    {tooltip=Keep at most this many packets a second; 0: no limit}{type=unsigned}{default=100000}{group=Load}
arg {number=2}{call=--snaplen}{display=Bytes of each packet}{type=unsigned}{default=262144}{group=Load}
arg {number=3}{call=--passes}{display=Also recirculated packets}{type=boolflag}{default=false}{group=Packets}
arg {number=4}{call=--reason}{display=Drop reason contains}\
    {tooltip=Part of the name of a counter, as in mtu}{type=string}{required=false}{group=Packets}
";

/// The arguments of `capture/start` for the interface that the user has chosen in Wireshark.
pub fn start_arguments(parsed: &Parsed) -> Vec<String> {
    let interface = parsed.value("extcap-interface").unwrap_or_default();
    match interface {
        DROPS_INTERFACE => vec!["sides=drops".to_owned()],
        _ => interface.strip_prefix(PORT_PREFIX).map(|port| format!("port={port}")).into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_listed() {
        let text = interfaces(&["p1".to_owned()]);
        assert!(text.starts_with("extcap {version="), "{text}");
        assert!(text.ends_with("interface {value=sluice-port-p1}{display=Sluice: port p1}\n"), "{text}");
        assert_eq!(text.lines().count(), 4);
    }
}
