//! Commands for ports.

use super::conn::Conn;
use super::context::Context;
use super::fail::{Fail, fail};
use super::replies::dump;
use flow::text::{NoNames, port_from_text};
use openflow::message::Body;
use openflow::port::{PortConfig, PortMod};
use units::OfPort;

/// Returns the number of a port, given by name or number.
pub fn number(cx: &mut Context, target: &str, text: &str) -> Result<OfPort, Fail> {
    if let Some(port) = port_from_text(text, &NoNames) {
        return Ok(port);
    }
    let unknown = || fail(format!("{target}: unknown port `{text}'"));
    if cx.settings.names == Some(false) {
        return unknown();
    }
    let names = cx.port_names(target)?;
    port_from_text(text, &*names).map_or_else(unknown, Ok)
}

fn chosen(cx: &mut Context, args: &[String]) -> Result<OfPort, Fail> {
    match args.get(1) {
        Some(text) => number(cx, &args[0], text),
        None => Ok(OfPort::NONE),
    }
}

/// `dump-ports`
pub fn stats(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let mut conn = Conn::open(cx, &args[0])?;
    let port = chosen(cx, args)?;
    let request = cx.message(conn.version, Body::PortStatsRequest(port));
    dump(cx, &mut conn, &args[0], &request)
}

/// `dump-ports-desc`
pub fn desc(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let mut conn = Conn::open(cx, &args[0])?;
    let port = chosen(cx, args)?;
    let request = cx.message(conn.version, Body::PortDescRequest(port));
    dump(cx, &mut conn, &args[0], &request)
}

/// A configuration bit, and whether the action of `mod-port` without "no" sets it.
type Bit = (fn(&mut PortConfig) -> &mut bool, bool);

/// The bit that an action of `mod-port` changes.
fn bit(name: &str) -> Option<Bit> {
    Some(match name {
        "up" => (|c| &mut c.port_down, false),
        "down" => (|c| &mut c.port_down, true),
        "stp" => (|c| &mut c.no_stp, false),
        "receive" => (|c| &mut c.no_recv, false),
        "receive-stp" => (|c| &mut c.no_recv_stp, false),
        "flood" => (|c| &mut c.no_flood, false),
        "forward" => (|c| &mut c.no_fwd, false),
        "packet-in" => (|c| &mut c.no_packet_in, false),
        _ => return None,
    })
}

/// `mod-port`
pub fn modify(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    let [target, name, action] = args else { return Ok(()) };
    let ports = cx.fetch_ports(target)?;
    let number = name.parse::<u16>().ok().map(OfPort);
    let found = ports.iter().find(|p| match number {
        Some(number) => p.number == number,
        None => p.name == *name,
    });
    let Some(port) = found else { return fail(format!("{target}: couldn't find port `{name}'")) };
    let lower = action.to_ascii_lowercase();
    let (command, not) = match lower.strip_prefix("no-").or_else(|| lower.strip_prefix("no")) {
        Some(command) => (command, true),
        None => (lower.as_str(), false),
    };
    let Some((bit, on)) = bit(command) else { return fail(format!("unknown mod-port command '{action}'")) };
    let mut m = PortMod { number: port.number, hw_addr: port.hw_addr, ..PortMod::default() };
    *bit(&mut m.mask) = true;
    *bit(&mut m.config) = on != not;
    let mut conn = Conn::open(cx, target)?;
    let request = cx.message(conn.version, Body::PortMod(m));
    conn.execute(cx, target, &request)
}
