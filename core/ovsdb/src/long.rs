//! Long messages, which are not parsed into a JSON tree as a whole.
//!
//! A tree takes many times the memory of its text: 80 bytes for a number, 500 for the smallest object. So the
//! operations of a long `transact` request stay text, and each is parsed when it is executed. Other messages
//! are parsed at once. A single operation or message whose tree is too large is refused.

use crate::stream::{self, StreamError};
use crate::{Error, Message};
use serde_json::Value as Json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

/// Maximum size in bytes of the tree of one operation, or of a message that is not a transaction. A set of a
/// million UUIDs in one operation takes two thirds of it.
const TREE_MAX: usize = 512 << 20;
/// Bytes of an element, with the spare capacity of its array.
const VALUE: usize = 120;
/// Bytes of the smallest array: four elements.
const ARRAY: usize = 320;
/// Bytes of the smallest object: four members and the table of their names.
const OBJECT: usize = 512;

/// The parameters of a `transact` request: the database and the operations.
#[derive(Clone, Debug, PartialEq)]
pub enum Parameters {
    /// Parsed.
    Tree(Json),
    /// The text of a long request.
    Text(Operations),
}

/// Operations as text.
#[derive(Clone, Debug, PartialEq)]
pub struct Operations {
    database: String,
    text: Vec<u8>,
    places: Vec<Range<usize>>,
}

/// A long message.
#[derive(Clone, Debug, PartialEq)]
pub enum Long {
    /// A `transact` request.
    Transact {
        /// Id of the request.
        id: Json,
        /// Its operations.
        operations: Operations,
    },
    /// Any other message.
    Message(Message),
}

impl Long {
    /// Reads a message.
    pub fn parse(text: Vec<u8>) -> Result<Long, StreamError> {
        if let Some((id, database, places)) = transact(&text) {
            let too_large =
                |place: &Range<usize>| tree_len(text.get(place.clone()).unwrap_or_default()) > TREE_MAX;
            if places.iter().any(too_large) {
                return Err(StreamError::TooLarge(TREE_MAX));
            }
            return Ok(Long::Transact { id, operations: Operations { database, text, places } });
        }
        if tree_len(&text) > TREE_MAX {
            return Err(StreamError::TooLarge(TREE_MAX));
        }
        let message = Message::from_json(stream::parse(&text)?);
        message.map(Long::Message).map_err(|fault| StreamError::Syntax(fault.to_owned()))
    }
}

/// Id, database and positions of the operations, if the text is a valid `transact` request. The error for an
/// invalid one comes from parsing it completely.
fn transact(text: &[u8]) -> Option<(Json, String, Vec<Range<usize>>)> {
    let members: BTreeMap<String, &RawValue> = serde_json::from_slice(text).ok()?;
    let read = |name: &str| -> Option<Json> { serde_json::from_str(members.get(name)?.get()).ok() };
    let id = read("id").filter(|id| !id.is_null())?;
    if members.len() != 3 || read("method")? != "transact" {
        return None;
    }
    let params: Vec<&RawValue> = serde_json::from_str(members.get("params")?.get()).ok()?;
    let (database, operations) = params.split_first()?;
    let start = text.as_ptr() as usize;
    let place = |operation: &&RawValue| {
        let at = operation.get().as_ptr() as usize - start;
        at..at + operation.get().len()
    };
    Some((id, serde_json::from_str(database.get()).ok()?, operations.iter().map(place).collect()))
}

/// The maximum size in bytes of the tree of a text.
fn tree_len(text: &[u8]) -> usize {
    let (mut in_string, mut escaped) = (false, false);
    let of = |byte: &u8| {
        match (in_string, byte) {
            (true, _) if escaped => escaped = false,
            (true, b'\\') => escaped = true,
            (true, b'"') => in_string = false,
            (true, _) => return 1,
            (false, b'"') => {
                in_string = true;
                // Overhead of the allocator.
                return 32;
            }
            (false, b'{') => return OBJECT,
            (false, b'[') => return ARRAY,
            (false, b',') => return VALUE,
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
            Parameters::Text(operations) => operations.places.len(),
        }
    }

    /// Whether there are no operations.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Parses one of the operations. The form of the text has been checked; strings and numbers may still be
    /// invalid.
    pub fn operation(&self, at: usize) -> Result<Cow<'_, Json>, Error> {
        let tree = match self {
            Parameters::Tree(params) => params.get(at + 1).map(Cow::Borrowed),
            Parameters::Text(operations) => {
                let text = operations.places.get(at).and_then(|place| operations.text.get(place.clone()));
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

    fn read(message: &Json) -> Long {
        Long::parse(message.to_string().into_bytes()).unwrap()
    }

    #[test]
    fn operations_are_those_of_the_tree() {
        let params = json!(["db", {"op": "insert", "row": {"a": [1, "\\\"é"]}}, {"op": "abort"}, 7]);
        let Long::Transact { id, operations } =
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
                Long::Message(Message::from_json(message.clone()).unwrap()),
                "{message}"
            );
        }
        assert!(Long::parse(br#"{"method":"transact","params":["db",{]],"id":1}"#.to_vec()).is_err());
        let nul = Long::parse(br#"{"method":"transact","params":["db",{},"\u0000"],"id":1}"#.to_vec());
        let Ok(Long::Transact { operations, .. }) = nul else { panic!() };
        let operations = Parameters::Text(operations);
        assert!(operations.operation(0).is_ok() && operations.operation(1).is_err());
    }

    #[test]
    fn too_large_trees_are_refused() {
        let many = |operation: &str| {
            let text = format!(r#"{{"method":"transact","params":["db",{operation}],"id":1}}"#);
            Long::parse(text.into_bytes())
        };
        let objects = vec![r#"{"a":1}"#; 1_100_000].join(",");
        assert_eq!(many(&format!("[{objects}]")), Err(StreamError::TooLarge(TREE_MAX)));
        // As separate operations they are small.
        assert!(matches!(many(&objects), Ok(Long::Transact { .. })));
    }

    proptest! {
        #[test]
        fn texts_are_read_or_refused_as_trees_are(text in r#"\{"method":"transact","params":\["db",[\[\]{}:,"\\a0 ]{0,12}\],"id":[0-9]\}"#) {
            let tree = stream::parse(text.as_bytes()).map(|tree| Message::from_json(tree).unwrap());
            match (Long::parse(text.into_bytes()), tree) {
                (Ok(Long::Message(message)), Ok(known)) => prop_assert_eq!(message, known),
                (Ok(Long::Transact { operations, .. }), Ok(Message::Request { params, .. })) => {
                    let (text, tree) = (Parameters::Text(operations), Parameters::Tree(params));
                    prop_assert!((0..20).all(|at| tree.operation(at) == text.operation(at)));
                }
                (Ok(Long::Transact { operations, .. }), Err(_)) => {
                    let text = Parameters::Text(operations);
                    prop_assert!((0..text.len()).any(|at| text.operation(at).is_err()));
                }
                (Err(_), Err(_)) => {}
                (long, tree) => prop_assert!(false, "{:?} {:?}", long, tree),
            }
        }
    }
}
