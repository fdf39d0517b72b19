//! A stream of JSON-RPC messages: the result does not depend on how the stream is split. A message is equal after conversion to JSON
//! and back. It is also equal if it is parsed as a long message, whose operations stay text.

use ovsdb::json::sorted_string;
use ovsdb::stream::Limits;
use ovsdb::{ClientMessage, Json, Message, Parameters, Splitter};

/// Limits of a message. They are smaller than those of a connection, so that inputs can reach them.
const VALUE_MAX: Limits = Limits { bytes: 512, values: 100 };
const LEN_MAX: usize = 4096;

/// The first byte is the length of the parts in which the stream arrives.
pub fn run(data: &[u8]) {
    let Some((&size, stream)) = data.split_first().filter(|(_, s)| s.len() <= LEN_MAX) else { return };
    let whole = values(stream.chunks(LEN_MAX));
    let pieces = values(stream.chunks(usize::from(size).max(1)));
    assert_eq!(whole, pieces);
    for value in whole.0 {
        let text = sorted_string(&value);
        long(&text, &value);
        assert_eq!(serde_json::from_str::<Json>(&text).ok().as_ref(), Some(&value), "{text}");
        let Ok(message) = Message::from_json(value) else { continue };
        assert_eq!(Message::from_json(message.to_json()).as_ref(), Ok(&message));
        let text = message.to_string();
        let read: Json = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(read, message.to_json());
    }
}

/// Checks that the operations of a transaction parsed as a long message are equal to those of the parsed tree.
fn long(text: &str, tree: &Json) {
    let known = Message::from_json(tree.clone());
    match (ClientMessage::parse(text.as_bytes().to_vec()), known) {
        (Ok(ClientMessage::Message(message)), known) => assert_eq!(known.as_ref(), Ok(&message)),
        (Ok(ClientMessage::Transact { id, operations }), Ok(Message::Request { params, id: known, .. })) => {
            assert_eq!(id, known);
            let (long, tree) = (Parameters::Text(operations), Parameters::Tree(params));
            assert_eq!((long.database(), long.len()), (tree.database(), tree.len()));
            for at in 0..tree.len() {
                assert_eq!(long.operation(at), tree.operation(at));
            }
        }
        (Err(_), Err(_)) => {}
        (long, known) => panic!("{text}: {long:?} {known:?}"),
    }
}

/// Returns the values of a stream, and whether it ended with an error.
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
