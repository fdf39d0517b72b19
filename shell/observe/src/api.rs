//! What is served at which path.
//!
//! | path | what |
//! |---|---|
//! | `/` | the web page |
//! | `/metrics` | for Prometheus |
//! | `/api/metrics?name=PREFIX` | the same as JSON; `name` may be repeated |
//! | `/api/drops` | drop reasons with their numbers, and the packets that were dropped last |
//! | `/api/megaflows` | the megaflows with the most packets |
//! | `/api/trace?bridge=BRIDGE&flow=FLOW` | `ofproto/trace`, without effects |
//! | `/api/last-drop?reason=REASON` | `ofproto/trace --last-drop` |

use crate::drops;
use crate::http::conn::Answer;
use crate::megaflows::Megaflows;
use crate::samples::{Own, Sampler};
use crate::shared::Shared;
use crate::view::View;
use http_request::Request;
use metrics::{Format, Samples};
use runtime::cpu_time;
use serde_json::json;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

/// The age at which a view is replaced: a scrape in each second costs the main thread one view in each second.
const VIEW_MAX: u64 = 900_000_000;
/// The age at which samples are made again: many clients cost no more than four a second.
const SAMPLES_MAX: u64 = 250_000_000;
/// Traces in a second, and how many may come at once: a trace costs the main thread up to some milliseconds.
const TRACES: (f64, f64) = (20.0, 10.0);
/// Bytes of the flow of a trace.
const FLOW_MAX: usize = 4096;
const JSON: &str = "application/json";

const PAGE: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

/// How a request is served.
pub enum Served {
    /// With this answer.
    Answer(Answer),
    /// When the main thread has traced.
    Trace(Receiver<Result<String, String>>),
    /// When there is a newer view.
    Outdated,
}

/// What the server remembers between requests.
#[derive(Default)]
pub struct Api {
    /// What it counts about itself.
    pub own: Own,
    sampler: Sampler,
    samples: Option<Made>,
    megaflows: Megaflows,
    traces: Budget,
}

/// How many traces are allowed at a time.
#[derive(Default)]
struct Budget {
    used: f64,
    at: u64,
}

impl Budget {
    /// Whether one more is allowed at this time, in nanoseconds.
    fn take(&mut self, now: u64) -> bool {
        let (rate, burst) = TRACES;
        let passed = now.saturating_sub(self.at) as f64 / 1e9;
        (self.used, self.at) = ((self.used - passed * rate).max(0.0), now);
        let allowed = self.used + 1.0 <= burst;
        self.used += if allowed { 1.0 } else { 0.0 };
        allowed
    }
}

/// Samples, with the texts made of them.
struct Made {
    at: u64,
    serial: u64,
    samples: Samples,
    texts: [Option<Arc<Vec<u8>>>; 2],
}

impl Api {
    /// Serves a request, as far as that is possible at once.
    pub(crate) fn serve(&mut self, shared: &Shared, request: &Request, view: Option<&View>) -> Served {
        match request.path.as_str() {
            "/" => Served::Answer(Answer::new(200, "text/html; charset=utf-8", page())),
            "/metrics" | "/api/metrics" | "/api/drops" | "/api/megaflows" => {
                let age = |view: &View| cpu_time::monotonic().saturating_sub(view.taken);
                match view.filter(|view| age(view) < VIEW_MAX) {
                    Some(view) => Served::Answer(self.of_view(request, view)),
                    None => Served::Outdated,
                }
            }
            "/api/trace" | "/api/last-drop" => match self.traces.take(cpu_time::monotonic()) {
                true => trace(shared, request),
                false => Served::Answer(Answer::text(503, "too many traces")),
            },
            _ => Served::Answer(Answer::text(404, "no such page; see / and /metrics")),
        }
    }

    /// The answer to a request that needs a view.
    pub(crate) fn of_view(&mut self, request: &Request, view: &View) -> Answer {
        match request.path.as_str() {
            "/metrics" => {
                let format = if request.open_metrics { Format::OpenMetrics } else { Format::Prometheus };
                let made = self.made(view);
                let text = made.texts[format as usize]
                    .get_or_insert_with(|| Arc::new(metrics::render(&made.samples, format)));
                Answer { code: 200, kind: format.content_type(), body: Arc::clone(text) }
            }
            "/api/metrics" => {
                let names = request.query.iter().filter(|(name, _)| name == "name");
                let prefixes: Vec<&str> = names.map(|(_, value)| value.as_str()).collect();
                Answer::new(200, JSON, metrics::json(&self.made(view).samples, &prefixes))
            }
            "/api/drops" => Answer::new(200, JSON, drops::json(view).to_string()),
            _ => Answer::new(200, JSON, self.megaflows.json(view).to_string()),
        }
    }

    fn made(&mut self, view: &View) -> &mut Made {
        let now = cpu_time::monotonic();
        let fresh = |made: &Made| made.serial == view.serial && now.saturating_sub(made.at) < SAMPLES_MAX;
        if !self.samples.as_ref().is_some_and(fresh) {
            self.samples = None;
        }
        self.samples.get_or_insert_with(|| Made {
            at: now,
            serial: view.serial,
            samples: self.sampler.samples(view, &self.own),
            texts: [None, None],
        })
    }
}

/// The web page: one file, with its style and script in it.
fn page() -> String {
    PAGE.replace("/* style.css */", STYLE).replace("/* script.js */", SCRIPT)
}

/// Only these two forms of the command are reachable: neither has an effect.
fn trace_arguments(request: &Request) -> Result<Vec<String>, &'static str> {
    let value = |name: &str| {
        let found = request.query.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.trim().to_owned()).filter(|value| !value.is_empty())
    };
    if request.path == "/api/last-drop" {
        let reason = value("reason").map(|reason| vec!["--reason".to_owned(), reason]);
        return Ok([vec!["--last-drop".to_owned()], reason.unwrap_or_default()].concat());
    }
    let (bridge, flow) = value("bridge").zip(value("flow")).ok_or("a bridge and a flow are needed")?;
    // What begins with a hyphen is an option; some options send the packet.
    if bridge.starts_with('-') || flow.starts_with('-') {
        return Err("options are not accepted here");
    }
    if flow.len() > FLOW_MAX {
        return Err("the flow is too long");
    }
    Ok(vec![bridge, flow])
}

fn trace(shared: &Shared, request: &Request) -> Served {
    let args = match trace_arguments(request) {
        Ok(args) => args,
        Err(why) => return Served::Answer(traced(Err(why.to_owned()))),
    };
    let (send, receive) = sync_channel(1);
    match shared.trace(args, send) {
        true => Served::Trace(receive),
        false => Served::Answer(Answer::text(503, "too many traces are waiting")),
    }
}

/// The answer with the result of a trace.
pub fn traced(result: Result<String, String>) -> Answer {
    match result {
        Ok(text) => Answer::new(200, JSON, json!({ "schema": 1, "text": text }).to_string()),
        Err(why) => Answer::new(400, JSON, json!({ "schema": 1, "error": why }).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_option_gets_into_a_trace() {
        let ask = |path: &str, query: &[(&str, &str)]| {
            let query = query.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            trace_arguments(&Request { path: path.to_owned(), query, ..Request::default() })
        };
        assert_eq!(
            ask("/api/trace", &[("bridge", "br0"), ("flow", " in_port=1 ")]).unwrap(),
            ["br0", "in_port=1"]
        );
        for (bridge, flow) in [("--generate", "in_port=1"), ("br0", " -generate"), ("br0", ""), ("", "ip")] {
            assert!(ask("/api/trace", &[("bridge", bridge), ("flow", flow)]).is_err());
        }
        assert!(ask("/api/trace", &[("bridge", "br0"), ("flow", &"x".repeat(5000))]).is_err());
        let last = ask("/api/last-drop", &[("reason", "--generate")]).unwrap();
        assert_eq!(last, ["--last-drop", "--reason", "--generate"]);
    }

    #[test]
    fn traces_are_limited() {
        let mut budget = Budget::default();
        let now = 1_000_000_000_000;
        assert_eq!((0..50).filter(|_| budget.take(now)).count(), 10);
        assert_eq!((0..50).filter(|_| budget.take(now + 100_000_000)).count(), 2);
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
