//! Lines for the log from the library's threads, which have no logger: the main thread takes them.

use crate::log::{Level, Note};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// So many lines wait at most: a guest that comes and goes all the time must not fill the memory.
const WAITING: usize = 256;

static NEWS: Mutex<VecDeque<Note>> = Mutex::new(VecDeque::new());

/// Leaves a line; the oldest is lost where too many wait.
pub(super) fn say(level: Level, text: String) {
    let mut news = NEWS.lock().unwrap_or_else(PoisonError::into_inner);
    if news.len() >= WAITING {
        news.pop_front();
    }
    news.push_back(Note { level, text });
}

/// Takes the lines that wait, oldest first.
pub fn take() -> Vec<Note> {
    NEWS.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
}
