//! OpenFlow ports in text: numbers, reserved names, and the names of devices.

use super::NameMap;
use super::quotes::{quoted, unquoted};
use units::OfPort;

/// The text of a port: its reserved name, its device name (in quotes if necessary), or its number.
pub fn port_text(port: OfPort, names: &dyn NameMap) -> String {
    if let Some(reserved) = port.reserved_name() {
        return reserved.to_owned();
    }
    match names.port_name(port) {
        Some(name) => quoted(&name),
        None => port.0.to_string(),
    }
}

/// Parses a port: a number in 16-bit or 32-bit form, a reserved name in upper or lower case, or a device name.
pub fn port_from_text(text: &str, names: &dyn NameMap) -> Option<OfPort> {
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return match text.parse::<u32>().ok()? {
            n @ 0..=0xffff => Some(OfPort(n as u16)),
            n => OfPort::from_u32(n),
        };
    }
    OfPort::from_reserved_name(text).or_else(|| match text.starts_with('"') {
        true => names.port_number(&unquoted(text)?),
        false => names.port_number(text),
    })
}
