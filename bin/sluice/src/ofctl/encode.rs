//! Encodes flow mods from text. A file may have a million flow mods, so threads encode parts of the file in parallel.

use super::fail::Fail;
use super::flow_file::Source;
use super::requests::{Format, Requests};
use flow::text::NameMap;
use openflow::flow_mod::FlowCommand;
use openflow::message::Body;
use openflow::text::{ParsedFlow, Protocols};
use runtime::Module;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

static OFP_MATCH: Module = Module::new("ofp_match");

/// Bytes of text in one part: a few thousand flows.
const PART_SIZE: usize = 128 << 10;
/// Maximum number of threads, if there are as many cores. More threads would not help, because the switch executes flow mods
/// in one thread, and that takes longer than encoding them.
const THREADS_MAX: usize = 4;

/// The encoded flow mods of a source, all in one format.
pub struct EncodedFlows {
    /// The encoded requests.
    pub requests: Requests,
    /// The formats that can express all flows.
    pub usable: Protocols,
    /// Matches from which fields were removed: the text before and after.
    normalized: Vec<(String, String)>,
}

impl EncodedFlows {
    fn new(format: Format) -> EncodedFlows {
        EncodedFlows { requests: Requests::new(format), usable: Protocols::ANY, normalized: Vec::new() }
    }

    fn push(&mut self, parsed: ParsedFlow) {
        self.usable &= parsed.usable;
        if let Some(written) = &parsed.written {
            self.normalized.push((written.to_string(), parsed.flow.matching.to_string()));
        }
        self.requests.push(Body::FlowMod(parsed.flow));
    }

    fn append(&mut self, other: EncodedFlows) {
        self.usable &= other.usable;
        self.normalized.extend(other.normalized);
        self.requests.append(other.requests);
    }

    /// Logs the fields that were removed because their prerequisites are missing: usually a mistake of the
    /// user.
    pub fn note_normalization(&self) {
        for (written, kept) in &self.normalized {
            runtime::info!(OFP_MATCH, "normalization changed ofp_match, details:");
            runtime::info!(OFP_MATCH, " pre: {written}");
            runtime::info!(OFP_MATCH, "post: {kept}");
        }
    }
}

/// The result of a part: its flow mods up to the first error, and the error if there is one.
type PartResult = (EncodedFlows, Result<(), Fail>);

/// Encodes all flow mods of a source, in order, up to the first error.
pub fn encode(
    source: &Source,
    command: FlowCommand,
    names: &(dyn NameMap + Sync),
    format: Format,
) -> (EncodedFlows, Result<(), Fail>) {
    let one = |part: Range<usize>| -> PartResult {
        let mut encoded = EncodedFlows::new(format);
        let read = source.for_each_flow(part, command, names, |parsed| encoded.push(parsed));
        (encoded, read)
    };
    let mut all = EncodedFlows::new(format);
    for (encoded, read) in in_parallel(&source.parts(PART_SIZE), one) {
        all.append(encoded);
        if read.is_err() {
            return (all, read);
        }
    }
    (all, Ok(()))
}

/// Processes parts in several threads. Returns the results in the order of the parts; results of parts after the
/// first error may be missing.
fn in_parallel(parts: &[Range<usize>], one: impl Fn(Range<usize>) -> PartResult + Sync) -> Vec<PartResult> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(part) = parts.get(at) else { return done };
            let result = one(part.clone());
            if result.1.is_err() {
                next.store(parts.len(), Ordering::Relaxed);
            }
            done.push((at, result));
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX).min(parts.len());
    let mut done = thread::scope(|scope| {
        // If a thread cannot be started, the other threads process its parts.
        let others: Vec<_> =
            (1..threads).filter_map(|_| thread::Builder::new().spawn_scoped(scope, work).ok()).collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::text::NoNames;
    use openflow::Version;

    fn encoded(text: &str) -> (EncodedFlows, Result<(), Fail>) {
        let source = Source::File("flows.txt".to_owned(), text.to_owned());
        encode(&source, FlowCommand::Add, &NoNames, Format::initial(Version::V14))
    }

    fn flow(i: usize) -> String {
        format!(
            "priority={},ip,nw_dst=10.{}.{}.1,actions=output:{}\n",
            i % 65536,
            i >> 8 & 255,
            i & 255,
            i % 1000
        )
    }

    /// The parts give the same requests as one thread.
    #[test]
    fn parts_come_in_order() {
        let text: String = (0..20_000).map(flow).collect();
        let (all, read) = encoded(&text);
        assert!(read.is_ok());
        let mut reference = EncodedFlows::new(Format::initial(Version::V14));
        let source = Source::File(String::new(), text);
        source
            .for_each_flow(source.full_range(), FlowCommand::Add, &NoNames, |parsed| reference.push(parsed))
            .unwrap();
        assert!(all.requests.frames().eq(reference.requests.frames()));
        assert_eq!((all.requests.frames().count(), all.usable), (20_000, reference.usable));
    }

    #[test]
    fn the_first_wrong_line_is_told_with_its_number() {
        let mut lines: Vec<String> = (0..20_000).map(flow).collect();
        lines[100] = "# a comment: \u{fc} has two bytes\n".to_owned();
        for wrong in [19_999, 12_345, 6_789] {
            lines[wrong] = "nonsense=1,actions=drop\n".to_owned();
            let (all, read) = encoded(&lines.concat());
            let Err(Fail::Message(why)) = read else { panic!("line {wrong}") };
            assert!(why.starts_with(&format!("flows.txt:{}: ", wrong + 1)), "{why}");
            assert_eq!(all.requests.frames().count(), wrong - 1);
        }
    }

    #[test]
    fn what_was_dropped_is_told_in_order() {
        let text: String = (0..20_000).map(|i| format!("tp_src={i},actions=drop\n")).collect();
        let (all, read) = encoded(&text);
        assert!(read.is_ok());
        let expected = (0..20_000).map(|i| format!("tp_src={i}"));
        assert!(all.normalized.iter().map(|(written, _)| written.clone()).eq(expected));
    }
}
