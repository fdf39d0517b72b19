//! JSON-RPC 1.0 messages, as used by OVSDB and the control socket.

use serde_json::Value as Json;
use serde_json::json;
use std::fmt;

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Expects a reply with the same id.
    Request {
        /// Name of the method.
        method: String,
        /// Its arguments.
        params: Json,
        /// Identifies the reply.
        id: Json,
    },
    /// Expects no reply.
    Notify {
        /// Name of the method.
        method: String,
        /// Its arguments.
        params: Json,
    },
    /// A successful reply.
    Reply {
        /// The result of the request.
        result: Json,
        /// ID of the request.
        id: Json,
    },
    /// An error reply.
    Error {
        /// The error; its form depends on the method.
        error: Json,
        /// ID of the request.
        id: Json,
    },
}

impl Message {
    /// A request.
    pub fn request(method: &str, params: Json, id: impl Into<Json>) -> Message {
        Message::Request { method: method.to_owned(), params, id: id.into() }
    }

    /// A notification.
    pub fn notify(method: &str, params: Json) -> Message {
        Message::Notify { method: method.to_owned(), params }
    }

    /// The text of a successful reply. `result`: the encoded result.
    pub fn reply_text(result: &str, id: &Json) -> String {
        format!("{{\"error\":null,\"id\":{id},\"result\":{result}}}")
    }

    /// Decodes a message; the error says which rule of JSON-RPC the message breaks.
    pub fn from_json(json: Json) -> Result<Message, &'static str> {
        let Json::Object(mut object) = json else { return Err("message is not a JSON object") };
        let mut take = |name: &str| object.remove(name).filter(|value| !value.is_null());
        let (method, params, id) = (take("method"), take("params"), take("id"));
        let (result, error) = (take("result"), take("error"));
        if params.as_ref().is_some_and(|p| !p.is_array()) {
            return Err("\"params\" must be JSON array");
        }
        let message = match (method, id) {
            (Some(Json::String(method)), id) => {
                if result.is_some() || error.is_some() {
                    return Err("request must not have \"result\" or \"error\"");
                }
                let params = params.ok_or("request must have \"params\"")?;
                match id {
                    Some(id) => Message::Request { method, params, id },
                    None => Message::Notify { method, params },
                }
            }
            (Some(_), _) => return Err("method is not a JSON string"),
            (None, None) => return Err("message has neither \"method\" nor \"id\""),
            (None, Some(_)) if params.is_some() => return Err("reply must not have \"params\""),
            (None, Some(id)) => match (error, result) {
                (Some(error), None) => Message::Error { error, id },
                (None, Some(result)) => Message::Reply { result, id },
                _ => return Err("reply must have either \"result\" or \"error\""),
            },
        };
        if object.keys().any(|k| !matches!(k.as_str(), "method" | "params" | "id" | "result" | "error")) {
            return Err("message has unexpected member");
        }
        Ok(message)
    }

    /// The message as JSON.
    pub fn to_json(&self) -> Json {
        match self {
            Message::Request { method, params, id } => json!({"id": id, "method": method, "params": params}),
            Message::Notify { method, params } => json!({"id": null, "method": method, "params": params}),
            Message::Reply { result, id } => json!({"error": null, "id": id, "result": result}),
            Message::Error { error, id } => json!({"error": error, "id": id, "result": null}),
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // A result can be long: do not build another JSON tree that contains it.
            Message::Reply { result, id } => f.write_str(&Message::reply_text(&result.to_string(), id)),
            _ => write!(f, "{}", self.to_json()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let messages = [
            Message::request("echo", json!([]), 1),
            Message::notify("update", json!([1])),
            Message::Reply { result: json!({}), id: json!("x") },
            Message::Error { error: json!("unknown method"), id: json!(2) },
        ];
        for message in messages {
            assert_eq!(Message::from_json(message.to_json()).as_ref(), Ok(&message));
            assert_eq!(message.to_string(), message.to_json().to_string());
        }
    }

    #[test]
    fn faulty_forms_are_refused() {
        for json in [
            json!(1),
            json!({}),
            json!({"method": 1, "id": 1}),
            json!({"method": "x", "params": 3, "id": 1}),
            json!({"method": "x", "params": {}, "id": 1}),
            json!({"params": [], "id": 1}),
            json!({"result": null, "error": null, "id": 1}),
        ] {
            assert!(Message::from_json(json).is_err());
        }
    }
}
