//! A stream of JSON-RPC messages: the pieces in which it comes do not matter, and a message comes back from its JSON.

use ovsdb::json::sorted_string;
use ovsdb::{Json, Message, Splitter};

/// What a connection allows is more; a limit that can be reached is tried, too.
const VALUE_MAX: usize = 512;
const LEN_MAX: usize = 4096;

/// The first byte says how long the pieces are.
pub fn run(data: &[u8]) {
    let Some((&size, stream)) = data.split_first().filter(|(_, s)| s.len() <= LEN_MAX) else { return };
    let whole = values(stream.chunks(LEN_MAX));
    let pieces = values(stream.chunks(usize::from(size).max(1)));
    assert_eq!(whole, pieces);
    for value in whole.0 {
        let text = sorted_string(&value);
        assert_eq!(serde_json::from_str::<Json>(&text).ok().as_ref(), Some(&value), "{text}");
        let Ok(message) = Message::from_json(value) else { continue };
        assert_eq!(Message::from_json(message.to_json()).as_ref(), Ok(&message));
        let text = message.to_string();
        let read: Json = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(read, message.to_json());
    }
}

/// The values of a stream, and whether it ended in an error.
fn values<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> (Vec<Json>, bool) {
    let mut splitter = Splitter::new(VALUE_MAX);
    let mut found = Vec::new();
    for piece in pieces {
        splitter.push(piece);
        loop {
            match splitter.next_value() {
                Ok(Some(value)) => found.push(value),
                Ok(None) => break,
                Err(_) => return (found, true),
            }
        }
    }
    (found, false)
}
