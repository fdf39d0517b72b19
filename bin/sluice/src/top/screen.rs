//! Shows lines on a terminal and reads keys, with ANSI escape sequences and POSIX terminal modes.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::io::{self, Write, stdin, stdout};
use std::time::Duration;

/// A key that `top` uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    Up,
    Down,
    Enter,
    Tab,
    Char(char),
}

/// The terminal in the mode that `top` needs; dropping the object restores the previous mode.
pub struct Screen {
    previous_mode: Termios,
}

impl Screen {
    pub fn open() -> io::Result<Screen> {
        let previous_mode = tcgetattr(stdin())?;
        let mut mode = previous_mode.clone();
        // Keys are read one by one without echo. Ctrl-C still ends the program.
        mode.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(stdin(), OptionalActions::Now, &mode)?;
        write("\x1b[?1049h\x1b[?25l")?;
        Ok(Screen { previous_mode })
    }

    /// Shows lines, cut to the terminal's width and to one row less than its height.
    pub fn show(&self, lines: &[String]) -> io::Result<()> {
        let (rows, columns) = tcgetwinsize(stdout()).map_or((24, 80), |s| (s.ws_row.max(1), s.ws_col.max(1)));
        let mut text = "\x1b[H".to_owned();
        for line in lines.iter().take(usize::from(rows) - 1) {
            text.extend(line.chars().take(usize::from(columns)));
            text.push_str("\x1b[K\n");
        }
        write(&(text + "\x1b[J"))
    }

    /// Waits for a key for at most the time `within`.
    pub fn key(&self, within: Duration) -> io::Result<Option<Key>> {
        let input = stdin();
        let mut fds = [PollFd::new(&input, PollFlags::IN)];
        let time = Timespec { tv_sec: within.as_secs() as i64, tv_nsec: within.subsec_nanos().into() };
        if poll(&mut fds, Some(&time))? == 0 {
            return Ok(None);
        }
        let mut bytes = [0; 8];
        match rustix::io::read(&input, &mut bytes)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            n => Ok(key(&bytes[..n])),
        }
    }
}

/// The key for these input bytes.
fn key(bytes: &[u8]) -> Option<Key> {
    match bytes {
        b"\x1b[A" | b"\x1bOA" | b"k" => Some(Key::Up),
        b"\x1b[B" | b"\x1bOB" | b"j" => Some(Key::Down),
        b"\n" | b"\r" => Some(Key::Enter),
        b"\t" => Some(Key::Tab),
        [c] if c.is_ascii_graphic() => Some(Key::Char(char::from(*c))),
        _ => None,
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = stdout();
    out.write_all(text.as_bytes())?;
    out.flush()
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = write("\x1b[?25h\x1b[?1049l");
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.previous_mode);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        assert_eq!(
            [b"\x1b[A".as_slice(), b"j", b"\n", b"q", b"\x1b[Z", b""].map(key),
            [Some(Key::Up), Some(Key::Down), Some(Key::Enter), Some(Key::Char('q')), None, None]
        );
    }
}
