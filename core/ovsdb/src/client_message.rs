//! Messages of clients. The operations of a long `transact` request are parsed one by one.
//!
//! A JSON tree takes many times the memory of its text: 80 bytes for a number, 500 for the smallest object. So the
//! operations of a long `transact` request stay text, and each is parsed when it is executed. Other messages are parsed
//! completely. An operation or other message whose tree would be too large is refused.

use crate::stream::{self, StreamError};
use crate::{Error, Message, json};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum memory in bytes of the tree of one operation, or of a message that is not a transaction. A set of about
/// 800,000 UUIDs in one operation reaches this limit.
const TREE_MAX: usize = 512 << 20;
/// Estimated memory of an array element or object member in bytes, including the array's spare capacity.
const VALUE_MEMORY: usize = 120;
/// Estimated memory of the smallest array in bytes: four elements.
const ARRAY_MEMORY: usize = 320;
/// Estimated memory of the smallest object in bytes: four members and the table of their names.
const OBJECT_MEMORY: usize = 512;

/// The parameters of a `transact` request: the database and the operations.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameters {
    /// A parsed request.
    Tree(Json),
    /// A long request, whose operations are still text.
    Text(Operations),
}

/// The operations of a long `transact` request, as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Operations {
    database: String,
    /// The text of the complete request.
    text: Vec<u8>,
    /// The byte range of each operation in `text`.
    ranges: Vec<Range<usize>>,
}

/// A message of a client.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientMessage {
    /// A long `transact` request.
    Transact {
        /// Id of the request.
        id: Json,
        /// Its operations.
        operations: Operations,
    },
    /// Any other message, parsed.
    Message(Message),
}

impl ClientMessage {
    /// Parses a long message. A valid `transact` request becomes [`ClientMessage::Transact`].
    pub fn parse(text: Vec<u8>) -> Result<ClientMessage, StreamError> {
        if let Some((id, database, ranges)) = parse_transact(&text) {
            let too_large =
                |range: &Range<usize>| tree_memory(text.get(range.clone()).unwrap_or_default()) > TREE_MAX;
            if ranges.iter().any(too_large) {
                return Err(StreamError::TooLarge(TREE_MAX));
            }
            return Ok(ClientMessage::Transact { id, operations: Operations { database, text, ranges } });
        }
        if tree_memory(&text) > TREE_MAX {
            return Err(StreamError::TooLarge(TREE_MAX));
        }
        let message = Message::from_json(stream::parse(&text)?);
        message.map(ClientMessage::Message).map_err(|fault| StreamError::Syntax(fault.to_owned()))
    }
}

/// Id, database and byte ranges of the operations, if the text is a valid `transact` request. Returns `None` for an
/// invalid request: the caller then parses the complete text, which gives the error.
fn parse_transact(text: &[u8]) -> Option<(Json, String, Vec<Range<usize>>)> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(text).ok()?;
    let read = |name: &str| -> Option<Json> { serde_json::from_str(members.get(name)?.get()).ok() };
    let id = read("id").filter(|id| !id.is_null())?;
    if members.len() != 3 || read("method")? != "transact" {
        return None;
    }
    let params: Vec<&RawValue> = serde_json::from_str(members.get("params")?.get()).ok()?;
    let (database, operations) = params.split_first()?;
    let start = text.as_ptr() as usize;
    let range = |operation: &&RawValue| {
        let at = operation.get().as_ptr() as usize - start;
        at..at + operation.get().len()
    };
    Some((id, serde_json::from_str(database.get()).ok()?, operations.iter().map(range).collect()))
}

/// Upper estimate, in bytes, of the memory of the JSON tree of `text`.
fn tree_memory(text: &[u8]) -> usize {
    let (mut in_string, mut escaped) = (false, false);
    let of = |byte: &u8| {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (true, b'"') => in_string = false,
            (true, _) => return 1,
            (false, b'"') => {
                in_string = true;
                // A string is an allocation of its own: 32 bytes of overhead.
                return 32;
            }
            (false, b'{') => return OBJECT_MEMORY,
            (false, b'[') => return ARRAY_MEMORY,
            (false, b',') => return VALUE_MEMORY,
            _ => {}
        }
        0
    };
    text.iter().map(of).sum()
}

impl Parameters {
    /// The name of the database.
    pub fn database(&self) -> Option<&str> {
        match self {
            Parameters::Tree(params) => params.get(0).and_then(Json::as_str),
            Parameters::Text(operations) => Some(&operations.database),
        }
    }

    /// Number of operations.
    pub fn len(&self) -> usize {
        match self {
            Parameters::Tree(params) => params.as_array().map_or(0, |items| items.len().saturating_sub(1)),
            Parameters::Text(operations) => operations.ranges.len(),
        }
    }

    /// Estimated memory in bytes.
    pub fn memory(&self) -> usize {
        match self {
            Parameters::Tree(params) => json::memory(params),
            Parameters::Text(Operations { database, text, ranges }) => {
                database.len() + text.capacity() + ranges.capacity() * size_of::<Range<usize>>()
            }
        }
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Parses one of the operations. The JSON structure has been checked before; strings and numbers may still be
    /// invalid.
    pub fn operation(&self, at: usize) -> Result<Cow<'_, Json>, Error> {
        let tree = match self {
            Parameters::Tree(params) => params.get(at + 1).map(Cow::Borrowed),
            Parameters::Text(operations) => {
                let text = operations.ranges.get(at).and_then(|range| operations.text.get(range.clone()));
                let tree = text.map(stream::parse).transpose();
                tree.map_err(|error| Error::bare_syntax(error.to_string()))?.map(Cow::Owned)
            }
        };
        tree.ok_or_else(|| Error::bare_syntax("no such operation"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn read(message: &Json) -> ClientMessage {
        ClientMessage::parse(message.to_string().into_bytes()).unwrap()
    }

    #[test]
    fn operations_are_those_of_the_tree() {
        let params = json!(["db", {"op": "insert", "row": {"a": [1, "\\\"é"]}}, {"op": "abort"}, 7]);
        let ClientMessage::Transact { id, operations } =
            read(&json!({"method": "transact", "params": params, "id": [4]}))
        else {
            panic!()
        };
        let (tree, text) = (Parameters::Tree(params), Parameters::Text(operations));
        assert_eq!((id, tree.database(), tree.len()), (json!([4]), text.database(), text.len()));
        assert!((0..5).all(|at| tree.operation(at) == text.operation(at)));
    }

    #[test]
    fn unusual_transactions_are_messages() {
        for message in [
            json!({"method": "transact", "params": [], "id": 1}),
            json!({"method": "transact", "params": [1], "id": 1}),
            json!({"method": "transact", "params": ["db"], "id": null}),
            json!({"method": "echo", "params": ["db"], "id": 1}),
        ] {
            assert_eq!(
                read(&message),
                ClientMessage::Message(Message::from_json(message.clone()).unwrap()),
                "{message}"
            );
        }
        assert!(
            ClientMessage::parse(br#"{"method":"transact","params":["db",{]],"id":1}"#.to_vec()).is_err()
        );
        let nul =
            ClientMessage::parse(br#"{"method":"transact","params":["db",{},"\u0000"],"id":1}"#.to_vec());
        let Ok(ClientMessage::Transact { operations, .. }) = nul else { panic!() };
        let operations = Parameters::Text(operations);
        assert!(operations.operation(0).is_ok() && operations.operation(1).is_err());
    }

    #[test]
    fn too_large_trees_are_refused() {
        let many = |operation: &str| {
            let text = format!(r#"{{"method":"transact","params":["db",{operation}],"id":1}}"#);
            ClientMessage::parse(text.into_bytes())
        };
        let objects = vec![r#"{"a":1}"#; 1_100_000].join(",");
        assert_eq!(many(&format!("[{objects}]")), Err(StreamError::TooLarge(TREE_MAX)));
        // Each operation on its own is small enough.
        assert!(matches!(many(&objects), Ok(ClientMessage::Transact { .. })));
    }

    #[test]
    fn memory_of_parameters_includes_the_ranges_of_operations() {
        let (short, long) = (json!(["db", 1]), json!(vec![json!("db"); 1000]));
        let text = read(&json!({"method": "transact", "params": long, "id": 1}));
        let ClientMessage::Transact { operations, .. } = text else { panic!() };
        assert!(Parameters::Text(operations).memory() > 5000 + 999 * size_of::<Range<usize>>());
        let of_tree = |params: &Json| Parameters::Tree(params.clone()).memory();
        assert!(of_tree(&long) > of_tree(&short) + 998 * size_of::<Json>());
    }

    proptest! {
        #[test]
        fn text_and_tree_parsing_agree(text in r#"\{"method":"transact","params":\["db",[\[\]{}:,"\\a0 ]{0,12}\],"id":[0-9]\}"#) {
            let tree = stream::parse(text.as_bytes()).map(|tree| Message::from_json(tree).unwrap());
            match (ClientMessage::parse(text.into_bytes()), tree) {
                (Ok(ClientMessage::Message(message)), Ok(known)) => prop_assert_eq!(message, known),
                (Ok(ClientMessage::Transact { operations, .. }), Ok(Message::Request { params, .. })) => {
                    let (text, tree) = (Parameters::Text(operations), Parameters::Tree(params));
                    prop_assert!((0..20).all(|at| tree.operation(at) == text.operation(at)));
                }
                (Ok(ClientMessage::Transact { operations, .. }), Err(_)) => {
                    let text = Parameters::Text(operations);
                    prop_assert!((0..text.len()).any(|at| text.operation(at).is_err()));
                }
                (Err(_), Err(_)) => {}
                (long, tree) => prop_assert!(false, "{:?} {:?}", long, tree),
            }
        }
    }
}
