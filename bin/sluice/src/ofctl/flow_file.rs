//! Flow mods as text: from an argument, a file, or standard input.

use super::fail::Fail;
use flow::text::{NameMap, TextError};
use openflow::flow_mod::{FlowCommand, FlowMod};
use openflow::text::{ParsedFlow, Protocols, parse_flow_line, parse_flow_mod};
use runtime::error_text;
use std::io::Read;
use std::ops::Range;

/// Reads a file, or standard input, including comments and empty lines.
pub fn read(file: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = match file {
        "-" => std::io::stdin().read_to_end(&mut bytes),
        path => std::fs::File::open(path).and_then(|mut f| f.read_to_end(&mut bytes)),
    };
    read.map_err(|e| error_text(&e))?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

/// The lines of a text with their numbers, without comments and empty lines.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.split('#').next().unwrap_or("")));
    lines.filter(|(_, line)| !line.trim().is_empty())
}

/// The source of flow mods.
pub enum Source {
    /// One flow mod, as an argument.
    Text(String),
    /// One flow mod in each line of a file: its name and content.
    File(String, String),
}

impl Source {
    /// A file, or standard input.
    pub fn file(name: &str) -> Result<Source, Fail> {
        let text = read(name).map_err(|e| Fail::Message(format!("{name}: open failed ({e})")))?;
        Ok(Source::File(name.to_owned(), text))
    }

    /// The byte range of the complete text.
    pub fn full_range(&self) -> Range<usize> {
        let (Source::Text(text) | Source::File(_, text)) = self;
        0..text.len()
    }

    /// Byte ranges of about `size` bytes each, in order, which end at line ends. A single flow mod is one range.
    pub fn parts(&self, size: usize) -> Vec<Range<usize>> {
        let (mut parts, mut rest) = (Vec::new(), self.full_range());
        while let Source::File(_, text) = self
            && let Some(behind) = text.as_bytes().get(rest.start + size..)
            && let Some(line) = behind.iter().position(|b| *b == b'\n')
        {
            let end = rest.start + size + line + 1;
            parts.push(rest.start..end);
            rest.start = end;
        }
        parts.push(rest);
        parts
    }

    /// The formats that can express the first flow mod. Errors are ignored here; they are reported when the flow mod is parsed again.
    pub fn first_usable(&self, command: FlowCommand, names: &dyn NameMap) -> Protocols {
        let first = match self {
            Source::Text(text) => Some(parse_flow_mod(text, command, names)),
            Source::File(_, text) => lines(text).next().map(|(_, line)| parse_line(line, command, names)),
        };
        first.and_then(Result::ok).map_or(Protocols::ANY, |parsed| parsed.usable)
    }

    /// Parses the flow mods of a part, in order.
    pub fn for_each_flow(
        &self,
        part: Range<usize>,
        command: FlowCommand,
        names: &dyn NameMap,
        mut f: impl FnMut(ParsedFlow),
    ) -> Result<(), Fail> {
        match self {
            Source::Text(text) => f(parse_flow_mod(text, command, names)?),
            Source::File(file, text) => {
                let (before, rest) = text.split_at(part.start);
                for (number, line) in lines(&rest[..part.len()]) {
                    let at = || before.lines().count() + number;
                    let parsed = parse_line(line, command, names);
                    f(parsed.map_err(|e| Fail::Message(format!("{file}:{}: {}", at(), e.0)))?);
                }
            }
        }
        Ok(())
    }
}

/// Only `add-flow` and `add-flows` allow a line to begin with a command such as `delete`.
fn parse_line(line: &str, command: FlowCommand, names: &dyn NameMap) -> Result<ParsedFlow, TextError> {
    match command {
        FlowCommand::Add => parse_flow_line(line, names),
        command => parse_flow_mod(line, command, names),
    }
}

/// All flow mods of a file, and the formats that can express them.
pub fn read_flows(file: &str, names: &dyn NameMap) -> Result<(Vec<FlowMod>, Protocols), Fail> {
    let (mut mods, mut usable) = (Vec::new(), Protocols::ANY);
    let source = Source::file(file)?;
    source.for_each_flow(source.full_range(), FlowCommand::Add, names, |parsed| {
        usable &= parsed.usable;
        mods.push(*parsed.flow);
    })?;
    Ok((mods, usable))
}
