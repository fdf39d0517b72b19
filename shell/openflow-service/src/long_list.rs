//! Replies that are lists: a short one is a message, a long one is sent in parts as fast as the peer reads them (docs/adr/0037).
//!
//! The main loop or a background thread selects the items. The thread of the sockets makes an entry of the reply from each item when it makes
//! the part that contains the entry, so the memory of the reply is that of one part.

use crate::request_context::{RequestContext, RequestResult};
use crate::unfinished::Dump;
use ofconn::Parts;
use openflow::{Body, Message};
use units::Millis;

/// Maximum number of items in one part, and of items and their actions in a reply of one message.
const ITEMS_MAX: usize = 256;
/// A part with this many actions gets no more items. A flow may have thousands of actions, so 256 flows could take 16 MiB.
const ACTIONS_MAX: usize = 4096;

/// A reply that lists items of type `T`, with entries of type `E`.
pub(crate) struct LongList<T, E> {
    pub(crate) items: Vec<T>,
    /// Number of actions, buckets or bands of an item.
    pub(crate) actions: fn(&T) -> usize,
    /// Makes the entry of an item.
    pub(crate) entry: fn(&T, Millis) -> E,
    /// Makes the body of a reply.
    pub(crate) body: fn(Vec<E>) -> Body,
}

impl<T: Send + 'static, E: 'static> LongList<T, E> {
    /// Whether one message of a few KiB contains the list.
    pub(crate) fn is_short(&self) -> bool {
        let sum = || self.items.iter().map(|item| 1 + (self.actions)(item)).sum::<usize>();
        self.items.len() <= ITEMS_MAX && sum() <= ITEMS_MAX
    }

    /// The complete list.
    pub(crate) fn whole(&self, now: Millis) -> Body {
        (self.body)(self.items.iter().map(|item| (self.entry)(item, now)).collect())
    }

    /// Generator of the replies to `request`.
    pub(crate) fn parts(self, request: Message) -> Parts {
        let LongList { items, actions, entry, body } = self;
        let (mut items, mut more) = (items.into_iter(), true);
        Parts::new(move |now| {
            if !more {
                return None;
            }
            let count = items_of_part(items.as_slice(), actions);
            let part = items.by_ref().take(count).map(|item| entry(&item, now)).collect();
            more = items.len() != 0;
            Some(Message { more, ..request.reply(body(part)) })
        })
    }
}

/// Number of items in the next part.
fn items_of_part<T>(items: &[T], actions: fn(&T) -> usize) -> usize {
    let mut sum = 0;
    let is_full = |item| {
        let was_full = sum >= ACTIONS_MAX;
        sum += actions(item);
        was_full
    };
    let items = items.get(..ITEMS_MAX).unwrap_or(items);
    items.iter().position(is_full).unwrap_or(items.len())
}

impl RequestContext<'_> {
    /// Replies with a list. Returns no reply if the list is long: the reply is then sent in parts, and further requests of the connection
    /// wait.
    pub(crate) fn list<T: Send + 'static, E: 'static>(
        &mut self,
        list: LongList<T, E>,
        message: &Message,
    ) -> RequestResult {
        if list.is_short() {
            return Ok(Some(list.whole(self.now)));
        }
        self.session()?.send_parts(list.parts(message.clone()));
        self.bridge.unfinished.dumps.insert(self.conn, Dump::Sent);
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_at_most_256_items_and_one_item_beyond_4096_actions() {
        let count = |actions: &[usize]| items_of_part(actions, |n| *n);
        assert_eq!(count(&[]), 0);
        assert_eq!(count(&[0; 300]), 256);
        assert_eq!(count(&[16; 300]), 256);
        assert_eq!(count(&[4000, 90, 6000, 1]), 3);
        assert_eq!(count(&[5000, 1]), 1);
    }
}
