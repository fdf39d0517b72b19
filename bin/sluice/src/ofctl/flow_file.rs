//! The text of flow mods: one argument, a file, or standard input.

use super::context::Fail;
use flow::text::NameMap;
use openflow::flow_mod::{FlowCommand, FlowMod};
use openflow::text::{ParsedFlow, Protocols, parse_flow_line, parse_flow_mod};
use runtime::{Module, error_text};
use std::io::Read;

static OFP_MATCH: Module = Module::new("ofp_match");

/// A file, or standard input, as it is: comments and empty lines too.
pub fn read(file: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    let read = match file {
        "-" => std::io::stdin().read_to_end(&mut bytes),
        path => std::fs::File::open(path).and_then(|mut f| f.read_to_end(&mut bytes)),
    };
    read.map_err(|e| error_text(&e))?;
    Ok(String::from_utf8(bytes).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

/// The lines of a text, with their numbers: without comments and empty ones.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(i, line)| (i + 1, line.split('#').next().unwrap_or("")));
    lines.filter(|(_, line)| !line.trim().is_empty())
}

/// Where flow mods are written.
pub enum Source {
    /// One, given as it is.
    Text(String),
    /// One in each line of a file: its name and what it holds.
    File(String, String),
}

impl Source {
    /// A file or standard input.
    pub fn file(name: &str) -> Result<Source, Fail> {
        let text = read(name).map_err(|e| Fail::Says(format!("{name}: open failed ({e})")))?;
        Ok(Source::File(name.to_owned(), text))
    }

    /// Reads all flow mods, in order.
    pub fn each(
        &self,
        command: FlowCommand,
        names: &dyn NameMap,
        mut f: impl FnMut(ParsedFlow),
    ) -> Result<(), Fail> {
        match self {
            Source::Text(text) => f(parse_flow_mod(text, command, names)?),
            Source::File(file, text) => {
                for (number, line) in lines(text) {
                    // Only where flows are added lines may say what to do.
                    let parsed = match command {
                        FlowCommand::Add => parse_flow_line(line, names),
                        command => parse_flow_mod(line, command, names),
                    };
                    f(parsed.map_err(|e| Fail::Says(format!("{file}:{number}: {}", e.0)))?);
                }
            }
        }
        Ok(())
    }
}

/// All flow mods of a file, and the formats that can carry them.
pub fn read_flows(file: &str, names: &dyn NameMap) -> Result<(Vec<FlowMod>, Protocols), Fail> {
    let (mut mods, mut usable) = (Vec::new(), Protocols::ANY);
    Source::file(file)?.each(FlowCommand::Add, names, |parsed| {
        usable &= parsed.usable;
        mods.push(*parsed.flow);
    })?;
    Ok((mods, usable))
}

/// Says what the switch will not match, since the fields that it needs are missing: mostly a slip of the author's.
pub fn note_normalization(parsed: &ParsedFlow) {
    if let Some(written) = &parsed.written {
        runtime::info!(OFP_MATCH, "normalization changed ofp_match, details:");
        runtime::info!(OFP_MATCH, " pre: {written}");
        runtime::info!(OFP_MATCH, "post: {}", parsed.flow.matching);
    }
}
