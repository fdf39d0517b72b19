//! The served paths and their content.
//!
//! | path | what |
//! |---|---|
//! | `/` | the web page |
//! | `/metrics` | for Prometheus |
//! | `/api/metrics?name=PREFIX` | metrics as JSON; `name` may be repeated |
//! | `/api/drops` | drop reasons with their numbers, and the packets that were dropped last |
//! | `/api/megaflows` | the megaflows with the most packets |
//! | `/api/trace?bridge=BRIDGE&flow=FLOW` | `ofproto/trace`, without effects |
//! | `/api/last-drop?reason=REASON` | `ofproto/trace --last-drop` |
//! | `/api/why?port=PORT&flow=FLOW` | what happens to the packets of a flow |

use crate::drops;
use crate::http::conn::Answer;
use crate::megaflows::Megaflows;
use crate::samples::{Sampler, ServerCounters};
use crate::shared::{AnswerResult, Question, Shared};
use crate::token_bucket::TokenBucket;
use crate::view::View;
use http_request::Request;
use metrics::{Format, Samples};
use runtime::cpu_time;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

/// Maximum age of a view, in ns: with a scrape every second the main thread builds one view per second.
const VIEW_AGE_MAX_NS: u64 = 900_000_000;
/// Maximum age of samples, in ns: they are built at most four times a second, for any number of clients.
const SAMPLES_AGE_MAX_NS: u64 = 250_000_000;
/// Limit of traces: per second, and in a burst. A trace can cost the main thread some milliseconds.
const TRACES: (f64, f64) = (20.0, 10.0);
/// An answer to `/api/why` counts as this many traces: the tracked connections are searched and recent drops traced.
const WHY_COST: f64 = 5.0;
/// Maximum length of a trace's flow in bytes.
const FLOW_MAX: usize = 4096;
const JSON: &str = "application/json";

const PAGE: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

/// The result of serving a request.
pub enum ServeResult {
    /// The answer.
    Answer(Answer),
    /// The main thread must execute a trace first, and sends its result to this channel.
    Trace(Receiver<AnswerResult>),
    /// A newer view is needed first.
    Outdated,
}

/// The state of the server that is kept between requests.
pub struct Api {
    /// Counters of the server itself.
    pub server_counters: ServerCounters,
    sampler: Sampler,
    samples: Option<RenderedSamples>,
    megaflows: Megaflows,
    traces: TokenBucket,
}

impl Default for Api {
    fn default() -> Api {
        Api {
            server_counters: ServerCounters::default(),
            sampler: Sampler::default(),
            samples: None,
            megaflows: Megaflows::default(),
            traces: TokenBucket::new(TRACES.0, TRACES.1),
        }
    }
}

/// Samples, and the texts that were generated from them.
struct RenderedSamples {
    /// When the samples were built, in ns.
    at: u64,
    /// Number of the view from which the samples were built.
    serial: u64,
    samples: Samples,
    /// The text in each format, if it was requested.
    texts: [Option<Arc<Vec<u8>>>; 2],
}

impl Api {
    /// Serves a request, or returns what the request must wait for.
    pub(crate) fn serve(&mut self, shared: &Shared, request: &Request, view: Option<&View>) -> ServeResult {
        match request.path.as_str() {
            "/" => ServeResult::Answer(Answer::new(200, "text/html; charset=utf-8", page())),
            "/metrics" | "/api/metrics" | "/api/drops" | "/api/megaflows" => {
                let age = |view: &View| cpu_time::monotonic().saturating_sub(view.taken);
                match view.filter(|view| age(view) < VIEW_AGE_MAX_NS) {
                    Some(view) => ServeResult::Answer(self.answer_from(request, view)),
                    None => ServeResult::Outdated,
                }
            }
            "/api/trace" | "/api/last-drop" | "/api/why" => {
                let cost = if request.path == "/api/why" { WHY_COST } else { 1.0 };
                match self.traces.try_spend(cost, cpu_time::monotonic()) {
                    true => trace(shared, request),
                    false => ServeResult::Answer(error_answer(
                        503,
                        "too many traces are asked for: try again in a second",
                    )),
                }
            }
            _ => ServeResult::Answer(Answer::text(404, "no such page; see / and /metrics")),
        }
    }

    /// The answer to a request that needs a view.
    pub(crate) fn answer_from(&mut self, request: &Request, view: &View) -> Answer {
        match request.path.as_str() {
            "/metrics" => {
                let format = if request.open_metrics { Format::OpenMetrics } else { Format::Prometheus };
                let rendered = self.rendered(view);
                let text = rendered.texts[format as usize]
                    .get_or_insert_with(|| Arc::new(metrics::render(&rendered.samples, format)));
                Answer { code: 200, kind: format.content_type(), body: Arc::clone(text) }
            }
            "/api/metrics" => {
                let names = request.query.iter().filter(|(name, _)| name == "name");
                let prefixes: Vec<&str> = names.map(|(_, value)| value.as_str()).collect();
                Answer::new(200, JSON, metrics::json(&self.rendered(view).samples, &prefixes))
            }
            "/api/drops" => Answer::new(200, JSON, drops::json(view).to_string()),
            _ => Answer::new(200, JSON, self.megaflows.json(view).to_string()),
        }
    }

    fn rendered(&mut self, view: &View) -> &mut RenderedSamples {
        let now = cpu_time::monotonic();
        let fresh = |rendered: &RenderedSamples| {
            rendered.serial == view.serial && now.saturating_sub(rendered.at) < SAMPLES_AGE_MAX_NS
        };
        if !self.samples.as_ref().is_some_and(fresh) {
            self.samples = None;
        }
        self.samples.get_or_insert_with(|| RenderedSamples {
            at: now,
            serial: view.serial,
            samples: self.sampler.samples(view, &self.server_counters),
            texts: [None, None],
        })
    }
}

/// The web page: one file that contains style and script.
fn page() -> String {
    PAGE.replace("/* style.css */", STYLE).replace("/* script.js */", SCRIPT)
}

/// The trace that a request asks for. Only traces without effects can be requested.
fn parse_question(request: &Request) -> Result<Question, &'static str> {
    let value = |name: &str| {
        let found = request.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    if request.path == "/api/last-drop" {
        let reason = value("reason").map(|reason| vec!["--reason".to_owned(), reason]);
        return Ok(Question::Trace([vec!["--last-drop".to_owned()], reason.unwrap_or_default()].concat()));
    }
    if value("flow").is_some_and(|flow| flow.len() > FLOW_MAX) {
        return Err("the flow is too long");
    }
    if request.path == "/api/why" {
        return Ok(Question::Why { port: value("port"), flow: value("flow").ok_or("a flow is needed")? });
    }
    let (bridge, flow) = value("bridge").zip(value("flow")).ok_or("a bridge and a flow are needed")?;
    // A word that begins with a hyphen is an option, and some options send the packet.
    if bridge.starts_with('-') || flow.starts_with('-') {
        return Err("options are not accepted here");
    }
    Ok(Question::Trace(vec![bridge, flow]))
}

fn trace(shared: &Shared, request: &Request) -> ServeResult {
    let question = match parse_question(request) {
        Ok(question) => question,
        Err(why) => return ServeResult::Answer(trace_answer(Err(why.to_owned()))),
    };
    let (send, receive) = sync_channel(1);
    match shared.ask(question, send) {
        true => ServeResult::Trace(receive),
        false => ServeResult::Answer(error_answer(503, "too many traces are waiting: try again in a second")),
    }
}

/// The answer to a trace request.
pub fn trace_answer(result: Result<Value, String>) -> Answer {
    match result {
        Ok(Value::String(text)) => Answer::new(200, JSON, json!({ "schema": 1, "text": text }).to_string()),
        Ok(mut object) => {
            object["schema"] = Value::from(1);
            Answer::new(200, JSON, object.to_string())
        }
        Err(why) => error_answer(400, &why),
    }
}

/// An answer that reports an error.
pub fn error_answer(code: u16, why: &str) -> Answer {
    Answer::new(code, JSON, json!({ "schema": 1, "error": why }).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_gets_into_a_trace() {
        let trace = |words: &[&str]| Question::Trace(words.iter().map(|w| (*w).to_owned()).collect());
        let ask = |path: &str, query: &[(&str, &str)]| {
            let query = query.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            parse_question(&Request { path: path.to_owned(), query, ..Request::default() })
        };
        assert_eq!(
            ask("/api/trace", &[("bridge", "br0"), ("flow", " in_port=1 ")]).unwrap(),
            trace(&["br0", "in_port=1"])
        );
        for (bridge, flow) in [("--generate", "in_port=1"), ("br0", " -generate"), ("br0", ""), ("", "ip")] {
            assert!(ask("/api/trace", &[("bridge", bridge), ("flow", flow)]).is_err());
        }
        assert!(ask("/api/trace", &[("bridge", "br0"), ("flow", &"x".repeat(5000))]).is_err());
        let last = ask("/api/last-drop", &[("reason", "--generate")]).unwrap();
        assert_eq!(last, trace(&["--last-drop", "--reason", "--generate"]));
        let why = |query| ask("/api/why", query);
        let wanted = Question::Why { port: Some("-x".to_owned()), flow: "ip".to_owned() };
        assert_eq!(why(&[("port", "-x"), ("flow", "ip")]), Ok(wanted));
        assert!(why(&[("port", "p1")]).is_err() && why(&[("flow", &"x".repeat(5000))]).is_err());
    }

    #[test]
    fn the_page_is_one_file() {
        let page = page();
        assert!(
            page.contains("</html>")
                && !page.contains("/* style.css */")
                && !page.contains("/* script.js */")
        );
        for external in [" src=", "href=\"http", "url(", "@import"] {
            assert!(!page.contains(external), "{external}");
        }
    }
}
