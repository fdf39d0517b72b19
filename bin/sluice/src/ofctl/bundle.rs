//! Sends several requests as one bundle (OpenFlow 1.4.1 §6.9).

use super::conn::{Conn, xid_of};
use super::context::Context;
use super::fail::{Fail, fail};
use super::requests::Requests;
use openflow::message::{Body, Message};
use openflow::session::{BundleControl, BundleControlType, bundle_flags};
use openflow::text::message_text;
use openflow::{Dialect, decode};
use runtime::error_text;

/// The bundle ID. It is constant, because a connection has only one bundle.
const BUNDLE: u32 = 0;
const FLAGS: u16 = bundle_flags::ATOMIC | bundle_flags::ORDERED;

/// Sends the requests as an atomic bundle: the switch applies all of them, or none.
pub fn transact(cx: &mut Context, conn: &mut Conn, target: &str, requests: &Requests) -> Result<(), Fail> {
    let header = requests.bundle_header(BUNDLE, FLAGS)?;
    send_control(cx, conn, target, requests, BundleControlType::OpenRequest)?;
    let sent = conn.send_frames(requests.frames(), &header);
    sent.map_err(|e| Fail::Message(format!("talking to {} ({})", conn.name, error_text(&e))))?;
    send_control(cx, conn, target, requests, BundleControlType::CloseRequest)?;
    send_control(cx, conn, target, requests, BundleControlType::CommitRequest)
}

/// Sends one bundle control message and receives its reply. Errors of the bundle's messages may arrive before
/// the reply; they have other transaction IDs.
fn send_control(
    cx: &mut Context,
    conn: &mut Conn,
    target: &str,
    requests: &Requests,
    kind: BundleControlType,
) -> Result<(), Fail> {
    let control = BundleControl { bundle: BUNDLE, kind, flags: FLAGS };
    let request = cx.message(conn.version, Body::BundleControl(control));
    let broken =
        |name: &str, e: std::io::Error| Fail::Message(format!("talking to {name} ({})", error_text(&e)));
    conn.send(&request).map_err(|e| broken(&conn.name, e))?;
    loop {
        let frame = conn.receive().map_err(|e| broken(&conn.name, e))?;
        let Some(xid) = xid_of(&frame) else { continue };
        let about = requests.find(xid);
        if xid != request.xid && about.is_none() {
            continue;
        }
        if let Ok(Message { body: Body::BundleControl(_), .. }) = decode(&frame, Dialect::default()) {
            return Ok(());
        }
        explain(cx, target, &frame, about)?;
        if xid == request.xid {
            return fail(format!("talking to {} (Protocol error)", conn.name));
        }
    }
}

/// Prints "Error … for: " and `about`, the message to which the error refers.
fn explain(cx: &mut Context, target: &str, error: &[u8], about: Option<&[u8]>) -> Result<(), Fail> {
    let Ok(Message { body: Body::Error(body), .. }) = decode(error, Dialect::default()) else {
        eprint!("***decode error***");
        return Ok(());
    };
    let names = cx.names_to_show(target)?;
    let name = body.error.map_or("unknown", |e| e.name());
    let request = about.unwrap_or(&body.data);
    eprint!("Error {name} for: {}", message_text(request, &*names, cx.settings.verbosity.saturating_add(1)));
    Ok(())
}
