//! Tables of values in the formats of `--format` and `--data`.

use crate::appctl::indented;
use crate::getopt::{Opt, Takes, opt};
use crate::notation;
use ovsdb::json::{parse_uuid, sorted_string};
use ovsdb::types::Type;
use ovsdb::{Datum, Json};

/// The options for tables.
pub const TABLE: [Opt; 6] = [
    opt("format", Some('f'), Takes::Value)
        .described("FORMAT", "layout of tables: table, list, html, csv or json"),
    opt("data", Some('d'), Takes::Value).described("FORMAT", "values in tables: string, bare or json"),
    opt("no-headings", None, Takes::Nothing).described("", "no headings above columns"),
    opt("pretty", None, Takes::Nothing).described("", "indents JSON"),
    opt("bare", None, Takes::Nothing).described("", "--format=list --data=bare --no-headings"),
    opt("max-column-width", None, Takes::Value).described("N", "cuts columns of --format=table"),
];

/// The layout of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Columns side by side.
    Table,
    /// A line per value.
    List,
    /// HTML.
    Html,
    /// Comma-separated values.
    Csv,
    /// One JSON object.
    Json,
}

/// The notation of values in cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataFormat {
    /// In the notation of command lines.
    String,
    /// Without punctuation.
    Bare,
    /// As in the OVSDB protocol.
    Json,
}

/// The output options.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// `--format`
    pub layout: Layout,
    /// `--data`
    pub cells: DataFormat,
    /// The opposite of `--no-headings`.
    pub headings: bool,
    /// `--pretty`
    pub pretty: bool,
    /// `--max-column-width`, in bytes; 0 for no limit.
    pub max_width: usize,
}

impl Style {
    /// The style without options.
    pub const DEFAULT: Style = Style {
        layout: Layout::List,
        cells: DataFormat::String,
        headings: true,
        pretty: false,
        max_width: 0,
    };

    /// Handles one of the `TABLE` options, or `--json`; returns false for another option.
    pub fn handle_option(&mut self, name: &str, value: Option<&str>) -> Result<bool, String> {
        let text = value.unwrap_or_default();
        match name {
            "format" => self.set_layout(text)?,
            "json" => self.layout = Layout::Json,
            "data" => self.set_cells(text)?,
            "no-headings" => self.headings = false,
            "pretty" => self.pretty = true,
            "bare" => (self.layout, self.cells, self.headings) = (Layout::List, DataFormat::Bare, false),
            "max-column-width" => self.max_width = text.parse().unwrap_or(0),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_layout(&mut self, name: &str) -> Result<(), String> {
        self.layout = match name {
            "table" => Layout::Table,
            "list" => Layout::List,
            "html" => Layout::Html,
            "csv" => Layout::Csv,
            "json" => Layout::Json,
            _ => return Err(format!("unknown output format \"{name}\"")),
        };
        Ok(())
    }

    fn set_cells(&mut self, name: &str) -> Result<(), String> {
        self.cells = match name {
            "string" => DataFormat::String,
            "bare" => DataFormat::Bare,
            "json" => DataFormat::Json,
            _ => return Err(format!("unknown data format \"{name}\"")),
        };
        Ok(())
    }
}

/// The content of a table cell.
#[derive(Clone, Debug, Default)]
pub enum Cell {
    /// Nothing.
    #[default]
    Empty,
    /// A text.
    Text(String),
    /// A value of a column.
    Value(Datum, Box<Type>),
    /// Another JSON value.
    Json(Json),
}

impl Cell {
    fn text(&self, style: &Style) -> String {
        match self {
            Cell::Empty => String::new(),
            Cell::Text(text) => text.clone(),
            Cell::Json(json) => sorted_string(json),
            Cell::Value(datum, ty) => match style.cells {
                DataFormat::String => notation::text(datum, ty),
                DataFormat::Bare => notation::bare(datum),
                DataFormat::Json => sorted_string(&datum.to_json()),
            },
        }
    }

    fn json(&self) -> Json {
        match self {
            Cell::Empty => Json::Null,
            Cell::Text(text) => text.as_str().into(),
            Cell::Json(json) => json.clone(),
            Cell::Value(datum, _) => datum.to_json(),
        }
    }
}

/// A table.
#[derive(Debug, Default)]
pub struct Table {
    /// The heading of each column.
    pub headings: Vec<String>,
    /// The cells of each row.
    pub rows: Vec<Vec<Cell>>,
    /// The text above the table.
    pub caption: Option<String>,
    /// The time of the table's data.
    pub time: Option<String>,
}

impl Table {
    /// Renders the table. `first`: whether this is the first table in the output.
    pub fn render(&self, style: &Style, first: bool) -> String {
        if style.layout == Layout::Json {
            return self.json(style);
        }
        let rows: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(|cell| cell.text(style)).collect()).collect();
        let gap = if first || style.layout == Layout::Html { "" } else { "\n" };
        let body = match style.layout {
            Layout::Table => self.columns(&rows, style),
            Layout::Html => self.html(&rows, style),
            Layout::Csv => self.csv(&rows, style),
            Layout::List | Layout::Json => self.list(&rows, style),
        };
        let above = match style.layout {
            Layout::Table | Layout::Csv | Layout::List => [&self.time, &self.caption],
            Layout::Html => [&self.time, &None],
            Layout::Json => [&None, &None],
        };
        let above: String = above.into_iter().flatten().map(|line| format!("{line}\n")).collect();
        format!("{gap}{above}{body}")
    }

    fn columns(&self, rows: &[Vec<String>], style: &Style) -> String {
        let width = |(x, heading): (usize, &String)| {
            let widest = rows.iter().filter_map(|row| row.get(x)).map(String::len).max().unwrap_or(0);
            let limit = if style.max_width > 0 { style.max_width } else { usize::MAX };
            widest.min(limit).max(if style.headings { heading.len() } else { 0 })
        };
        let widths: Vec<usize> = self.headings.iter().enumerate().map(width).collect();
        let mut out = String::new();
        if style.headings {
            line(&mut out, &self.headings, &widths);
            let rules: Vec<String> = widths.iter().map(|w| "-".repeat(*w)).collect();
            line(&mut out, &rules, &widths);
        }
        rows.iter().for_each(|row| line(&mut out, row, &widths));
        out
    }

    fn list(&self, rows: &[Vec<String>], style: &Style) -> String {
        let record = |row: &Vec<String>| {
            let value = |(heading, text): (&String, &String)| match style.headings {
                true => format!("{heading:<20}: {text}\n"),
                false => format!("{text}\n"),
            };
            self.headings.iter().zip(row).map(value).collect::<String>()
        };
        rows.iter().map(record).collect::<Vec<_>>().join("\n")
    }

    fn csv(&self, rows: &[Vec<String>], style: &Style) -> String {
        let headings = style.headings.then_some(&self.headings);
        let lines = headings.into_iter().chain(rows);
        lines.map(|row| row.iter().map(|text| csv_cell(text)).collect::<Vec<_>>().join(",") + "\n").collect()
    }

    fn html(&self, rows: &[Vec<String>], style: &Style) -> String {
        let mut out = String::from("<table border=1>\n");
        out.extend(self.caption.iter().map(|caption| html_cell("caption", caption)));
        if style.headings {
            let cells = self.headings.iter().map(|heading| html_cell("th", heading));
            out.push_str(&format!("  <tr>\n{}  </tr>\n", cells.collect::<String>()));
        }
        for row in rows {
            let cells = self.headings.iter().zip(row).map(|(heading, text)| match heading.as_str() {
                "_uuid" => {
                    let short = text.get(..8).unwrap_or(text);
                    format!("    <td><a name=\"{}\">{}</a></td>\n", html_text(text), html_text(short))
                }
                _ => html_cell("td", text),
            });
            out.push_str(&format!("  <tr>\n{}  </tr>\n", cells.collect::<String>()));
        }
        out + "</table>\n"
    }

    fn json(&self, style: &Style) -> String {
        let headings: Vec<Json> = self.headings.iter().map(|h| h.as_str().into()).collect();
        let row = |row: &Vec<Cell>| Json::Array(row.iter().map(Cell::json).collect());
        let data: Vec<Json> = self.rows.iter().map(row).collect();
        let mut json = Json::from_iter([("headings", Json::Array(headings)), ("data", Json::Array(data))]);
        for (name, text) in [("caption", &self.caption), ("time", &self.time)] {
            if let (Some(text), Json::Object(members)) = (text, &mut json) {
                members.insert(name.into(), text.as_str().into());
            }
        }
        let mut out = String::new();
        match style.pretty {
            true => indented(&json, 1, &mut out),
            false => out = sorted_string(&json),
        }
        out + "\n"
    }
}

/// Appends one line of cells, each cut or padded to its width in bytes.
fn line(out: &mut String, cells: &[String], widths: &[usize]) {
    let padded = cells.iter().zip(widths).map(|(text, width)| {
        let end = (0..=*width.min(&text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let cut = text.get(..end).unwrap_or_default();
        format!("{cut}{}", " ".repeat(width - cut.len()))
    });
    let joined = padded.collect::<Vec<_>>().join(" ");
    out.push_str(joined.trim_end_matches(' '));
    out.push('\n');
}

fn csv_cell(text: &str) -> String {
    match text.contains(['\n', '"', ',']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

fn html_text(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A cell in which each UUID is a link to the row with this UUID.
fn html_cell(element: &str, text: &str) -> String {
    let mut content = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let uuid = rest.get(..36).filter(|head| parse_uuid(head).is_some());
        let taken = match uuid {
            Some(uuid) => {
                content.push_str(&format!("<a href=\"#{uuid}\">{}</a>", uuid.get(..8).unwrap_or(uuid)));
                uuid.len()
            }
            None => {
                content.push_str(&html_text(c.encode_utf8(&mut [0; 4])));
                c.len_utf8()
            }
        };
        rest = rest.get(taken..).unwrap_or_default();
    }
    format!("    <{element}>{content}</{element}>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ovsdb::types::AtomicType;

    fn sample() -> Table {
        let ty = || Type::scalar(AtomicType::String);
        let cell = |text: &str| Cell::Value(Datum::scalar(text), Box::new(ty()));
        let rows =
            [["br0", "a,b"], ["b", "<1>"]].iter().map(|row| row.iter().map(|t| cell(t)).collect()).collect();
        Table { headings: vec!["name".into(), "x".into()], rows, ..Table::default() }
    }

    fn shown(change: impl Fn(&mut Style)) -> String {
        let mut style = Style { cells: DataFormat::Bare, ..Style::DEFAULT };
        change(&mut style);
        sample().render(&style, true)
    }

    #[test]
    fn layouts() {
        assert_eq!(
            shown(|_| {}),
            "name                : br0\nx                   : a,b\n\nname                : b\nx                   : <1>\n"
        );
        assert_eq!(shown(|s| s.layout = Layout::Table), "name x\n---- ---\nbr0  a,b\nb    <1>\n");
        assert_eq!(
            shown(|s| (s.layout, s.max_width) = (Layout::Table, 2)),
            "name x\n---- --\nbr0  a,\nb    <1\n"
        );
        assert_eq!(shown(|s| s.layout = Layout::Csv), "name,x\nbr0,\"a,b\"\nb,<1>\n");
        assert_eq!(
            shown(|s| s.layout = Layout::Json),
            "{\"data\":[[\"br0\",\"a,b\"],[\"b\",\"<1>\"]],\"headings\":[\"name\",\"x\"]}\n"
        );
        let html = shown(|s| (s.layout, s.headings) = (Layout::Html, false));
        assert!(html.contains("    <td>&lt;1&gt;</td>\n"));
        assert_eq!(
            html_cell("td", "[2c3e2b1a-0000-4000-8000-000000000001]"),
            "    <td>[<a href=\"#2c3e2b1a-0000-4000-8000-000000000001\">2c3e2b1a</a>]</td>\n"
        );
    }
}
