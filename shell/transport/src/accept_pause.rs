//! The pause after a failed `accept`.

use units::Millis;

/// No attempt to accept is made for this time after one has failed, because the cause, for example a lack of file descriptors,
/// usually lasts.
const LENGTH: Millis = Millis(100);

/// A pause after a failed `accept`. The client still waits, so the listener stays readable; while the pause lasts, the owner must not
/// watch its listeners, because a sleep would end at once.
#[derive(Debug, Default)]
pub struct AcceptPause {
    end: Option<Millis>,
}

impl AcceptPause {
    /// Begins the pause.
    pub fn begin(&mut self, now: Millis) {
        self.end = Some(now + LENGTH);
    }

    /// Ends the pause if its time is over. Returns whether it lasts.
    pub fn lasts(&mut self, now: Millis) -> bool {
        self.end = self.end.filter(|end| *end > now);
        self.end.is_some()
    }

    /// The end of the pause, unless [`lasts`](Self::lasts) has ended it.
    pub fn end(&self) -> Option<Millis> {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_after_its_length() {
        let mut pause = AcceptPause::default();
        assert!(!pause.lasts(Millis(5)));
        pause.begin(Millis(5));
        assert_eq!((pause.lasts(Millis(104)), pause.end()), (true, Some(Millis(105))));
        assert_eq!((pause.lasts(Millis(105)), pause.end()), (false, None));
    }
}
