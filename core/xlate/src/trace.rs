//! The trace of a translation: the tree that `ofproto/trace` prints.
//!
//! Scripts parse the text, so its layout is that of Open vSwitch 3.7, byte for byte. A new line is added below the current
//! line; the lines of bridges, tables, buckets and thaws become current while their contents are reported.

use std::fmt::Write;

/// Approximate maximum length of a trace in bytes: the trace of a resubmit loop would have gigabytes.
const BYTES_MAX: usize = 1 << 20;
/// Bytes that a line counts in addition to its text: the node in memory, and the newline.
const OVERHEAD: usize = 64;
/// Number of errors that are stored after a trace is full: the error that ended the walk is among the first.
const ERRORS_MAX: usize = 16;

/// The kind of a trace line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    /// Entry to a bridge.
    Bridge,
    /// A table look-up.
    Table,
    /// A group bucket.
    Bucket,
    /// A frozen translation continues.
    Thaw,
    /// An action.
    Action,
    /// A detail of an action.
    Detail,
    /// A warning: an action has no effect.
    Warn,
    /// An error.
    Error,
}

impl LineKind {
    /// Whether lines below a line of this kind are indented more than this line, even if no sibling of this line follows.
    fn is_terminal(self) -> bool {
        !matches!(self, LineKind::Bridge | LineKind::Table | LineKind::Thaw)
    }
}

#[derive(Clone, Debug)]
struct Node {
    kind: LineKind,
    text: String,
    /// Indices of the lines below it.
    subs: Vec<usize>,
    /// Number of lines that it is nested in.
    depth: usize,
}

/// A position for new lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor(Option<usize>);

/// The lines of a translation, as a tree of bounded size.
#[derive(Clone, Debug)]
pub struct Trace {
    nodes: Vec<Node>,
    roots: Vec<usize>,
    /// The current position: new lines are added below this line.
    at: Cursor,
    /// An upper bound of the length of `text`.
    bytes: usize,
    /// A line was shortened or left out because the trace is full.
    cut: bool,
    /// Errors that were reported when the trace was full.
    late_errors: Vec<String>,
}

impl Default for Trace {
    fn default() -> Trace {
        Trace {
            nodes: Vec::new(),
            roots: Vec::new(),
            at: Cursor(None),
            bytes: 0,
            cut: false,
            late_errors: Vec::new(),
        }
    }
}

impl Trace {
    /// Returns whether the trace is full, so that only errors are accepted and other lines need not be formatted.
    pub fn is_full(&self) -> bool {
        self.bytes >= BYTES_MAX
    }

    /// Adds a line below the current one, and returns the position below the new line. A full trace accepts only
    /// errors.
    pub fn report(&mut self, kind: LineKind, mut text: String) -> Cursor {
        if self.is_full() {
            self.cut = true;
            if kind == LineKind::Error && self.late_errors.len() < ERRORS_MAX {
                self.late_errors.push(text);
            }
            return self.at;
        }
        if text.len() > BYTES_MAX - self.bytes {
            text.truncate(text.floor_char_boundary(BYTES_MAX - self.bytes));
            self.cut = true;
        }
        let depth = self.at.0.and_then(|p| self.nodes.get(p)).map_or(0, |parent| parent.depth + 1);
        // Each level is indented by at most eight columns. Below the line of a bridge is a line of dashes with the same length.
        let lines = if kind == LineKind::Bridge { 2 } else { 1 };
        self.bytes += lines * (text.len() + 8 * (depth + 1)) + OVERHEAD;
        let id = self.nodes.len();
        self.nodes.push(Node { kind, text, subs: Vec::new(), depth });
        match self.at.0.and_then(|p| self.nodes.get_mut(p)) {
            Some(parent) => parent.subs.push(id),
            None => self.roots.push(id),
        }
        Cursor(Some(id))
    }

    /// The current position.
    pub fn cursor(&self) -> Cursor {
        self.at
    }

    /// Sets the current position.
    pub fn go(&mut self, at: Cursor) {
        self.at = at;
    }

    /// The lines as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // The tree may be as deep as the pipeline nests, so it is walked with an explicit stack.
        let mut todo: Vec<(&[usize], usize)> = vec![(&self.roots, 0)];
        while let Some((ids, level)) = todo.pop() {
            let Some((&id, rest)) = ids.split_first() else { continue };
            todo.push((rest, level));
            let Some(node) = self.nodes.get(id) else { continue };
            let more = usize::from(!rest.is_empty() || node.kind.is_terminal());
            write_node(&mut out, node, 4 * (level + more));
            todo.push((&node.subs, level + 2 * more));
        }
        if self.cut {
            let _ = writeln!(out, " >> the trace is truncated after {} KiB", BYTES_MAX >> 10);
        }
        for error in &self.late_errors {
            let _ = writeln!(out, " >>>> {error} <<<<");
        }
        out
    }
}

fn write_node(out: &mut String, node: &Node, indent: usize) {
    let text = &node.text;
    // Writing to a String cannot fail.
    let _ = match node.kind {
        LineKind::Detail => writeln!(out, "{:indent$} -> {text}", ""),
        LineKind::Warn => writeln!(out, "{:indent$} >> {text}", ""),
        LineKind::Error => writeln!(out, "{:indent$} >>>> {text} <<<<", ""),
        LineKind::Bridge => {
            let rule = "-".repeat(text.len());
            writeln!(out, "\n{:indent$}{text}\n{:indent$}{rule}", "", "")
        }
        LineKind::Table | LineKind::Bucket | LineKind::Thaw | LineKind::Action => {
            writeln!(out, "{:indent$}{text}", "")
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nests_as_the_tools_expect() {
        let mut t = Trace::default();
        let bridge = t.report(LineKind::Bridge, "bridge(\"br0\")".into());
        t.go(bridge);
        let table = t.report(LineKind::Table, " 0. in_port=1, priority 32768".into());
        t.go(table);
        t.report(LineKind::Action, "output:2".into());
        t.report(LineKind::Action, "NORMAL".into());
        t.report(LineKind::Detail, "no learned MAC for destination, flooding".into());
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
    fn a_trace_is_cut_and_says_so_and_keeps_the_error() {
        let mut t = Trace::default();
        for i in 0..BYTES_MAX {
            let inside = t.report(LineKind::Table, format!("{i}. priority 1"));
            t.go(inside);
        }
        t.report(LineKind::Action, "x".repeat(2 * BYTES_MAX));
        t.report(LineKind::Error, "over max translation depth 64".into());
        let text = t.text();
        assert!(text.len() < BYTES_MAX + 1000, "{}", text.len());
        assert!(t.nodes.len() * OVERHEAD <= BYTES_MAX);
        let tail = " >> the trace is truncated after 1024 KiB\n >>>> over max translation depth 64 <<<<\n";
        assert!(text.ends_with(tail), "{}", &text[text.len() - 200..]);
    }

    #[test]
    fn one_line_of_any_length_is_cut() {
        let mut t = Trace::default();
        t.report(LineKind::Action, "é".repeat(BYTES_MAX));
        assert!(t.text().len() < BYTES_MAX + 1000);
        assert!(t.is_full() && t.text().ends_with("the trace is truncated after 1024 KiB\n"));
    }

    #[test]
    fn a_table_before_others_is_indented() {
        let mut t = Trace::default();
        let bridge = t.report(LineKind::Bridge, "bridge(\"br0\")".into());
        t.go(bridge);
        t.report(LineKind::Action, "resubmit(,1)".into());
        let table = t.report(LineKind::Table, " 1. No match.".into());
        t.go(table);
        t.report(LineKind::Action, "drop".into());
        t.go(bridge);
        t.report(LineKind::Action, "output:3".into());
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
