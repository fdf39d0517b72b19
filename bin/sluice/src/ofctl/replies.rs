//! Sends a request to a switch and prints the replies.

use super::conn::Conn;
use super::context::Context;
use super::fail::{Fail, print};
use crate::color;
use openflow::message::{Body, Message};
use openflow::text::message_text;

/// Sends a request and prints all replies.
pub fn dump(cx: &mut Context, conn: &mut Conn, target: &str, request: &Message) -> Result<(), Fail> {
    dump_with(cx, conn, target, request, false)
}

/// Sends a request and prints all replies; with `colored`, in colours.
pub fn dump_with(
    cx: &mut Context,
    conn: &mut Conn,
    target: &str,
    request: &Message,
    colored: bool,
) -> Result<(), Fail> {
    let frames = conn.transact_frames(request)?;
    let names = cx.names_to_show(target)?;
    let verbosity = cx.settings.verbosity.saturating_add(1);
    let text = |frame| message_text(frame, &*names, verbosity);
    frames.iter().try_for_each(|frame| print(&if colored { color::flows(&text(frame)) } else { text(frame) }))
}

/// Opens a connection, sends a request and prints all replies.
pub fn print_reply(cx: &mut Context, target: &str, body: Body) -> Result<(), Fail> {
    let mut conn = Conn::open(cx, target)?;
    let request = cx.message(conn.version, body);
    dump(cx, &mut conn, target, &request)
}
