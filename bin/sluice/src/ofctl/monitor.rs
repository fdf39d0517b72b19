//! `monitor` and `snoop`: print the messages of a switch.

use super::conn::Conn;
use super::context::Context;
use super::fail::{Fail, fail, print};
use super::replies::dump;
use super::tables::fetch_config;
use flow::text::NoNames;
use openflow::message::{Body, Message};
use openflow::packet_io::PacketInFormat;
use openflow::session::SwitchConfig;
use openflow::text::{message_text, parse_flow_monitor};
use openflow::{Dialect, Version, VersionSet, decode, encode};
use runtime::error_text;

/// `monitor`
pub fn monitor(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    if args.iter().any(|a| a == "invalid_ttl") {
        only_with_invalid_ttl(cx)?;
    }
    let mut conn = Conn::open(cx, &args[0])?;
    let mut watches = 0;
    for arg in &args[1..] {
        if let Some(what) = arg.strip_prefix("watch:") {
            watch(cx, &mut conn, &args[0], (watches, what))?;
            watches += 1;
        } else if arg.starts_with(|c: char| c.is_ascii_digit()) {
            let digits: String = arg.chars().take_while(char::is_ascii_digit).collect();
            let config = fetch_config(cx, &mut conn)?;
            let miss_send_len = digits.parse().unwrap_or(u16::MAX);
            set_config(cx, &mut conn, &args[0], SwitchConfig { miss_send_len, ..config })?;
        } else if arg == "invalid_ttl" {
            let config = fetch_config(cx, &mut conn)?;
            let config = SwitchConfig { invalid_ttl_to_controller: Some(true), ..config };
            set_config(cx, &mut conn, &args[0], config)?;
        } else {
            return fail(format!("{arg}: unsupported \"monitor\" argument"));
        }
    }
    let wanted = cx.settings.packet_in_format;
    let set = |cx: &mut Context, conn: &mut Conn, format| {
        let request = cx.message(conn.version, Body::SetPacketInFormat(format));
        Ok::<bool, Fail>(conn.transact_noreply(cx, &request)?.is_none())
    };
    match wanted {
        Some(format) => {
            let request = cx.message(conn.version, Body::SetPacketInFormat(format));
            conn.execute(cx, &args[0], &request)?;
        }
        None => {
            if !set(cx, &mut conn, PacketInFormat::Nxt2)? && conn.version == Version::V10 {
                set(cx, &mut conn, PacketInFormat::Nxt)?;
            }
        }
    }
    follow(cx, conn, &args[0], true)
}

/// Restricts the offered versions to those before OpenFlow 1.3, because later versions have no setting for invalid TTLs.
fn only_with_invalid_ttl(cx: &mut Context) -> Result<(), Fail> {
    let with: VersionSet = [Version::V10, Version::V11, Version::V12].into_iter().collect();
    let both = cx.settings.versions.and(with);
    if both.newest().is_none() {
        return fail(
            "invalid_ttl requires one of the OpenFlow versions OpenFlow10, OpenFlow11, OpenFlow12 but none is \
             enabled (use -O)",
        );
    }
    cx.settings.versions = both;
    Ok(())
}

/// Requests a flow monitor, and prints the reply with the initial flows.
fn watch(cx: &mut Context, conn: &mut Conn, target: &str, (id, what): (u32, &str)) -> Result<(), Fail> {
    let names = cx.names_to_accept(target)?;
    let (monitor, usable) = parse_flow_monitor(what, id, &*names)?;
    let allowed = cx.settings.flow_formats;
    if (usable & allowed).is_empty() {
        return fail(format!(
            "none of the usable flow formats ({usable}) is among the allowed flow formats ({allowed})"
        ));
    }
    let request = cx.message(conn.version, Body::FlowMonitorRequest(vec![monitor]));
    if cx.settings.verbosity > 0 {
        let frames = encode(&request, Dialect::default()).map_err(|e| Fail::Message(e.name().to_owned()))?;
        print(&message_text(&frames.concat(), &NoNames, cx.settings.verbosity.saturating_add(2)))?;
    }
    dump(cx, conn, target, &request)
}

fn set_config(cx: &mut Context, conn: &mut Conn, target: &str, config: SwitchConfig) -> Result<(), Fail> {
    let request = cx.message(conn.version, Body::SetConfig(config));
    conn.execute(cx, target, &request)
}

/// `snoop`
pub fn snoop(cx: &mut Context, args: &[String]) -> Result<(), Fail> {
    // The snoop socket answers no requests, so names cannot be requested.
    cx.settings.names = Some(false);
    let conn = Conn::open_socket(cx, &args[0], "snoop")?;
    follow(cx, conn, &args[0], false)
}

/// Prints all messages to standard error until the connection ends. With `answers`, replies to echo requests.
fn follow(cx: &mut Context, mut conn: Conn, target: &str, answers: bool) -> Result<(), Fail> {
    let names = cx.names_to_show(target)?;
    let verbosity = cx.settings.verbosity.saturating_add(2);
    loop {
        let frame = conn.receive().map_err(|e| Fail::Message(format!("vconn_recv ({})", error_text(&e))))?;
        let stamp = if cx.settings.timestamp { now() } else { String::new() };
        eprint!("{stamp}{}", message_text(&frame, &*names, verbosity));
        if !answers {
            continue;
        }
        if let Ok(Message { xid, version, body: Body::EchoRequest(data), .. }) =
            decode(&frame, Dialect::default())
        {
            let reply = Message::new(version, xid, Body::EchoReply(data));
            conn.send(&reply)
                .map_err(|e| Fail::Message(format!("failed to send echo reply ({})", error_text(&e))))?;
        }
    }
}

/// The date and time of day in UTC, in milliseconds.
fn now() -> String {
    let ms = runtime::clock::wall_ms();
    let (days, of_day) = (ms / 86_400_000, ms % 86_400_000);
    let (year, month, day) = date(days);
    let (h, m, s, ms) = (of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60, of_day % 1000);
    format!("{year:04}-{month:02}-{day:02} {h:02}:{m:02}:{s:02}.{ms:03}: ")
}

/// The date `days` days after 1970-01-01, in the Gregorian calendar.
fn date(mut days: u64) -> (u64, u64, u64) {
    let leap = |y: u64| y.is_multiple_of(4) && (!y.is_multiple_of(100) || y.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    (year, month as u64 + 1, days + 1)
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(11_016), (2000, 2, 29));
        assert_eq!(date(20_453), (2025, 12, 31));
    }
}
