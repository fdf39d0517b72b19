//! What a translation tells of itself: the tree behind `ofproto/trace`.
//!
//! The layout is text that scripts read, byte for byte that of Open vSwitch 3.7. A node is reported below the current
//! one; bridges, tables and thaws become current for what follows in them.

use std::fmt::Write;

/// What a line of a trace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A bridge is entered.
    Bridge,
    /// A table look-up.
    Table,
    /// A group bucket.
    Bucket,
    /// A frozen translation goes on.
    Thaw,
    /// An action.
    Action,
    /// How an action went.
    Detail,
    /// It had no effect.
    Warn,
    /// It went wrong.
    Error,
}

impl Kind {
    /// Lines below it are indented once more where it stands alone.
    fn is_terminal(self) -> bool {
        !matches!(self, Kind::Bridge | Kind::Table | Kind::Thaw)
    }
}

#[derive(Clone, Debug)]
struct Node {
    kind: Kind,
    text: String,
    subs: Vec<usize>,
}

/// Where new lines go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(Option<usize>);

/// The lines of a translation, as a tree.
#[derive(Clone, Debug)]
pub struct Trace {
    nodes: Vec<Node>,
    roots: Vec<usize>,
    at: Cursor,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace { nodes: Vec::new(), roots: Vec::new(), at: Cursor(None) }
    }
}

impl Trace {
    /// Adds a line below the current one, and says where lines below the new one go.
    pub fn report(&mut self, kind: Kind, text: String) -> Cursor {
        let id = self.nodes.len();
        self.nodes.push(Node { kind, text, subs: Vec::new() });
        match self.at.0.and_then(|p| self.nodes.get_mut(p)) {
            Some(parent) => parent.subs.push(id),
            None => self.roots.push(id),
        }
        Cursor(Some(id))
    }

    /// Where new lines go now.
    pub fn cursor(&self) -> Cursor {
        self.at
    }

    /// New lines go there from now on.
    pub fn go(&mut self, at: Cursor) {
        self.at = at;
    }

    /// The lines as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // The tree may be as deep as the pipeline nests: it is walked with a stack of its own.
        let mut todo: Vec<(&[usize], usize)> = vec![(&self.roots, 0)];
        while let Some((ids, level)) = todo.pop() {
            let Some((&id, rest)) = ids.split_first() else { continue };
            todo.push((rest, level));
            let Some(node) = self.nodes.get(id) else { continue };
            let more = usize::from(!rest.is_empty() || node.kind.is_terminal());
            write_node(&mut out, node, 4 * (level + more));
            todo.push((&node.subs, level + 2 * more));
        }
        out
    }
}

fn write_node(out: &mut String, node: &Node, indent: usize) {
    let text = &node.text;
    // Writing to a String cannot fail.
    let _ = match node.kind {
        Kind::Detail => writeln!(out, "{:indent$} -> {text}", ""),
        Kind::Warn => writeln!(out, "{:indent$} >> {text}", ""),
        Kind::Error => writeln!(out, "{:indent$} >>>> {text} <<<<", ""),
        Kind::Bridge => {
            let rule = "-".repeat(text.len());
            writeln!(out, "\n{:indent$}{text}\n{:indent$}{rule}", "", "")
        }
        Kind::Table | Kind::Bucket | Kind::Thaw | Kind::Action => writeln!(out, "{:indent$}{text}", ""),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nests_as_the_tools_expect() {
        let mut t = Trace::default();
        let bridge = t.report(Kind::Bridge, "bridge(\"br0\")".into());
        t.go(bridge);
        let table = t.report(Kind::Table, " 0. in_port=1, priority 32768".into());
        t.go(table);
        t.report(Kind::Action, "output:2".into());
        t.report(Kind::Action, "NORMAL".into());
        t.report(Kind::Detail, "no learned MAC for destination, flooding".into());
        let expected = "
bridge(\"br0\")
-------------
 0. in_port=1, priority 32768
    output:2
    NORMAL
     -> no learned MAC for destination, flooding
";
        assert_eq!(t.text(), expected);
    }

    #[test]
    fn a_table_before_others_is_indented() {
        let mut t = Trace::default();
        let bridge = t.report(Kind::Bridge, "bridge(\"br0\")".into());
        t.go(bridge);
        t.report(Kind::Action, "resubmit(,1)".into());
        let table = t.report(Kind::Table, " 1. No match.".into());
        t.go(table);
        t.report(Kind::Action, "drop".into());
        t.go(bridge);
        t.report(Kind::Action, "output:3".into());
        let expected = "
bridge(\"br0\")
-------------
    resubmit(,1)
     1. No match.
            drop
    output:3
";
        assert_eq!(t.text(), expected);
    }
}
