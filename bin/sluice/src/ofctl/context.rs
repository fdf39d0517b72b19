//! State that all commands share: settings, transaction IDs, port names.

use super::names::{Names, Ports};
use super::options::Settings;
use openflow::Version;
use openflow::message::{Body, Message, Xid};
use runtime::Dirs;
use std::collections::HashMap;
use std::io::IsTerminal;
use std::sync::Arc;

/// State that all commands share.
pub struct Context {
    /// The parsed options.
    pub settings: Settings,
    /// Directories of sockets and other files.
    pub dirs: Dirs,
    /// The tool's name in messages.
    pub progname: String,
    xid: u32,
    /// The ports that switches have reported, by target of the switch.
    pub ports: HashMap<String, Arc<Ports>>,
    /// The names of ports and tables that switches have reported, by target of the switch.
    pub names: HashMap<String, Arc<Names>>,
    interactive: bool,
}

impl Context {
    /// The state at the start.
    pub fn new(settings: Settings, dirs: Dirs, progname: String) -> Context {
        let interactive = std::io::stdout().is_terminal();
        Context {
            settings,
            dirs,
            progname,
            xid: 0,
            ports: HashMap::new(),
            names: HashMap::new(),
            interactive,
        }
    }

    /// Returns a new transaction ID.
    pub fn next_xid(&mut self) -> Xid {
        self.xids(1)
    }

    /// Reserves `n` consecutive transaction IDs and returns the first.
    pub fn xids(&mut self, n: u32) -> Xid {
        let first = self.xid + 1;
        self.xid += n;
        Xid(first)
    }

    /// A message with a new transaction ID.
    pub fn message(&mut self, version: Version, body: Body) -> Message {
        Message::new(version, self.next_xid(), body)
    }

    /// Returns whether output has names of ports and tables: as `--names` or `--no-names` selects, otherwise on a terminal only.
    pub fn shows_names(&self) -> bool {
        self.settings.names.unwrap_or(self.interactive)
    }
}
