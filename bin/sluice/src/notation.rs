//! Values in the notation of command lines (`[a, b]`, `{k=v}`, `1-5`, quoted strings): parser and printer.
//!
//! Scripts depend on the error texts, so they are the same as those of ovs-vsctl.

use ovsdb::json::parse_uuid;
use ovsdb::types::{AtomicType, BaseType, Type};
use ovsdb::value::Real;
use ovsdb::{Atom, Datum, Uuid};
use std::collections::BTreeMap;

/// Maximum number of integers in a range.
const MAX_RANGE: i64 = 4096;

/// A row to which a command line assigns a name (`--id=@name`).
#[derive(Clone, Copy, Debug)]
pub struct Symbol {
    /// The row.
    pub uuid: Uuid,
    /// Whether a command created or found the row.
    pub created: bool,
    /// Whether there is a strong reference to the row, or the row needs none (a row of a root table, or an existing row).
    pub strong: bool,
    /// Whether there is a weak reference to the row.
    pub weak: bool,
}

/// The symbols of one run of the commands.
#[derive(Default)]
pub struct Symbols(pub BTreeMap<String, Symbol>);

impl Symbols {
    /// Returns the symbol of this name, which is created at the first call.
    pub fn get_or_create(&mut self, name: &str) -> &mut Symbol {
        let fresh = || Symbol { uuid: Uuid::new_v4(), created: false, strong: false, weak: false };
        self.0.entry(name.to_owned()).or_insert_with(fresh)
    }
}

fn is_delimiter(c: char) -> bool {
    ":=, []{}!<>".contains(c)
}

/// Splits the first token off `text`: it ends at a delimiter that is neither quoted nor escaped. Quotation
/// marks stay in the token.
pub fn token(text: &str) -> Result<(String, &str), String> {
    let mut out = String::new();
    let mut quoted = false;
    let mut chars = text.char_indices();
    let mut rest = "";
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            if quoted {
                out.push('\\');
            }
            let (_, next) = chars.next().ok_or_else(|| format!("{text}: backslash at end of argument"))?;
            out.push(next);
        } else if !quoted && is_delimiter(c) {
            rest = text.get(at..).unwrap_or("");
            break;
        } else {
            quoted ^= c == '"';
            out.push(c);
        }
    }
    if quoted {
        return Err(format!("{text}: quoted string extends past end of argument"));
    }
    Ok((out, rest))
}

/// The integer at the beginning of `text`, and the rest.
pub fn leading_integer(text: &str) -> Option<(i64, &str)> {
    let trimmed = text.trim_start();
    let digits = trimmed.strip_prefix(['+', '-']).unwrap_or(trimmed);
    let count = digits.bytes().take_while(u8::is_ascii_digit).count();
    let end = trimmed.len() - digits.len() + count;
    let number = trimmed.get(..end)?.parse().ok()?;
    Some((number, trimmed.get(end..)?))
}

fn integer(text: &str) -> Option<i64> {
    leading_integer(text).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

/// Parses a range: two integers with a hyphen between.
fn range(text: &str) -> Option<(i64, i64)> {
    let (start, rest) = leading_integer(text)?;
    Some((start, integer(rest.strip_prefix('-')?)?))
}

fn unquote(text: &str) -> Result<String, String> {
    let inner = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    let inner = inner.ok_or_else(|| format!("{text}: missing quote at end of quoted string"))?;
    let mut escaped = false;
    for c in inner.chars() {
        match c {
            '"' if !escaped => return Err(format!("{text}: quoted string may not include unescaped \"")),
            c if escaped && !"\"\\/bfnrtu".contains(c) => return Err(format!("{text}: bad escape \\{c}")),
            _ => {}
        }
        escaped = c == '\\' && !escaped;
    }
    if escaped {
        return Err(format!("{text}: quoted string may not end with backslash"));
    }
    // Unlike in JSON, control characters are allowed unescaped here.
    let json: String = inner.chars().fold(String::new(), |mut json, c| {
        match c.is_control() {
            true => json.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => json.push(c),
        }
        json
    });
    serde_text(&json).ok_or_else(|| format!("{text}: malformed \\u escape"))
}

fn serde_text(inner: &str) -> Option<String> {
    let json: ovsdb::Json = format!("\"{inner}\"").parse().ok()?;
    json.as_str().map(str::to_owned)
}

fn string(text: &str) -> Result<String, String> {
    match text.chars().next() {
        None => {
            Err("An empty string is not valid as input; use \"\" to represent the empty string".to_owned())
        }
        Some('"') => unquote(text),
        Some(_) => Ok(text.to_owned()),
    }
}

fn uuid(base: &BaseType, text: &str, symbols: &mut Symbols) -> Result<Uuid, String> {
    if !text.starts_with('@') {
        return parse_uuid(text).ok_or_else(|| format!("\"{text}\" is not a valid UUID"));
    }
    let symbol = symbols.get_or_create(text);
    if let Some(refers_to) = &base.refers_to {
        match refers_to.strong {
            true => symbol.strong = true,
            false => symbol.weak = true,
        }
    }
    Ok(symbol.uuid)
}

/// Parses one atom and checks its constraints.
pub fn atom(base: &BaseType, text: &str, symbols: &mut Symbols) -> Result<Atom, String> {
    let atom = match base.kind {
        AtomicType::Integer => {
            Atom::Integer(integer(text).ok_or_else(|| format!("\"{text}\" is not a valid integer or range"))?)
        }
        AtomicType::Real => {
            let real = text.trim_start().parse().ok().and_then(Real::new);
            Atom::Real(real.ok_or_else(|| format!("\"{text}\" is not a valid real number"))?)
        }
        AtomicType::Boolean => match text {
            "true" | "yes" | "on" | "1" => Atom::Boolean(true),
            "false" | "no" | "off" | "0" => Atom::Boolean(false),
            _ => return Err(format!("\"{text}\" is not a valid boolean (use \"true\" or \"false\")")),
        },
        AtomicType::String => string(text)?.into(),
        AtomicType::Uuid => Atom::Uuid(uuid(base, text, symbols)?),
    };
    base.check(&atom).map_err(|e| e.to_string())?;
    Ok(atom)
}

/// Parses one atom, or a range of integers.
fn atoms(base: &BaseType, text: &str, symbols: &mut Symbols) -> Result<Vec<Atom>, String> {
    let range = if base.kind == AtomicType::Integer { range(text) } else { None };
    let Some((start, end)) = range else {
        return atom(base, text, symbols).map(|atom| vec![atom]);
    };
    if end < start {
        return Err(format!("\"{text}\" is not a valid range. Range end cannot be before start."));
    }
    for limit in [start, end] {
        base.check(&Atom::Integer(limit)).map_err(|e| e.to_string())?;
    }
    if end.checked_sub(start).is_none_or(|size| size >= MAX_RANGE) {
        return Err(format!(
            "constraint violation: Range \"{start}-{end}\" is too big. Maximum allowed size is {MAX_RANGE}."
        ));
    }
    let all: Vec<Atom> = (start..=end).map(Atom::Integer).collect();
    all.iter().try_for_each(|atom| base.check(atom)).map_err(|e| e.to_string())?;
    Ok(all)
}

/// The elements of a set or a map.
type Elements = Vec<(Atom, Option<Atom>)>;

fn element<'a>(
    ty: &Type,
    text: &'a str,
    symbols: &mut Symbols,
    into: &mut Elements,
) -> Result<&'a str, String> {
    let (key, mut rest) = token(text)?;
    let keys = atoms(&ty.key, &key, symbols)?;
    let mut value = None;
    if let Some(base) = &ty.value {
        rest = rest.trim_start();
        let Some(after) = rest.strip_prefix('=') else {
            // At the end of the text, the message of ovs-vsctl ends here.
            let found = rest.chars().next().map(|c| format!("{c}\" expecting \"=\""));
            return Err(format!("{text}: syntax error at \"{}", found.unwrap_or_default()));
        };
        let (word, after) = token(after.trim_start())?;
        value = Some(atom(base, &word, symbols)?);
        rest = after;
    }
    into.extend(keys.into_iter().map(|key| (key, value.clone())));
    Ok(rest)
}

/// Parses a complete value of a column.
pub fn datum(ty: &Type, text: &str, symbols: &mut Symbols) -> Result<Datum, String> {
    let (open, close) = if ty.is_map() { ('{', '}') } else { ('[', ']') };
    let mut rest = text.trim_start();
    if rest.is_empty() {
        let kind = if ty.is_map() { "map" } else { "set" };
        return Err(format!("use \"{open}{close}\" to specify the empty {kind}"));
    }
    let enclosed = rest.strip_prefix(open);
    rest = enclosed.map_or(rest, str::trim_start);
    let mut elements = Elements::new();
    while let Some(c) = rest.chars().next().filter(|c| enclosed.is_none() || *c != close) {
        if is_delimiter(c) {
            return Err(format!("{text}: unexpected \"{c}\" parsing {}", ty.english()));
        }
        rest = element(ty, rest, symbols, &mut elements)?.trim_start();
        rest = rest.strip_prefix(',').map_or(rest, str::trim_start);
    }
    if enclosed.is_some() {
        let after = rest.strip_prefix(close);
        let after = after.ok_or_else(|| format!("{text}: missing \"{close}\" at end of data"))?;
        if !after.trim_start().is_empty() {
            return Err(format!("{text}: trailing garbage after \"{close}\""));
        }
    }
    collect(ty, text, elements)
}

fn collect(ty: &Type, text: &str, elements: Elements) -> Result<Datum, String> {
    let what = if ty.is_map() { "pair(s)" } else { "value(s)" };
    let len = elements.len();
    if len < ty.min as usize {
        return Err(format!("{text}: {len} {what} specified but the minimum number is {}", ty.min));
    }
    if !ty.admits_len(len) {
        return Err(format!("{text}: {len} {what} specified but the maximum number is {}", ty.max));
    }
    let (datum, kind) = match ty.is_map() {
        true => {
            let pairs = elements.into_iter().filter_map(|(key, value)| Some((key, value?)));
            (Datum::map(pairs), "map contains duplicate key")
        }
        false => (Datum::set(elements.into_iter().map(|(key, _)| key)), "set contains duplicate value"),
    };
    if datum.len() < len { Err(format!("{text}: {kind}")) } else { Ok(datum) }
}

/// An atom without quotation marks.
pub fn bare_atom(atom: &Atom) -> String {
    atom.as_str().map_or_else(|| atom.to_string(), str::to_owned)
}

fn join(datum: &Datum, separator: &str, show: impl Fn(&Atom) -> String) -> String {
    let words: Vec<String> = match datum {
        Datum::Set(atoms) => atoms.iter().map(show).collect(),
        Datum::Map(pairs) => pairs.iter().map(|(k, v)| format!("{}={}", show(k), show(v))).collect(),
    };
    words.join(separator)
}

/// The value of a column of type `ty` in the notation that [`datum`] reads.
pub fn text(datum: &Datum, ty: &Type) -> String {
    let inner = join(datum, ", ", Atom::to_string);
    match (ty.max > 1 || datum.is_empty(), ty.is_map()) {
        (false, _) => inner,
        (true, true) => format!("{{{inner}}}"),
        (true, false) => format!("[{inner}]"),
    }
}

/// The value of a column as words separated by blanks (`--data=bare`).
pub fn bare(datum: &Datum) -> String {
    join(datum, " ", bare_atom)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ty(json: &str) -> Type {
        Type::from_json(&json.parse().unwrap()).unwrap()
    }

    fn show(json: &str, line: &str) -> String {
        let ty = ty(json);
        datum(&ty, line, &mut Symbols::default()).map_or_else(|e| e, |d| text(&d, &ty))
    }

    const INTS: &str = r#"{"key": "integer", "min": 0, "max": "unlimited"}"#;
    const MAP: &str = r#"{"key": "string", "value": "string", "min": 0, "max": "unlimited"}"#;

    #[test]
    fn sets_and_ranges() {
        assert_eq!(show(INTS, "3,1 2"), "[1, 2, 3]");
        assert_eq!(show(INTS, "[1-3, 7]"), "[1, 2, 3, 7]");
        assert_eq!(show(INTS, "[]"), "[]");
        assert_eq!(show(INTS, "3-1"), "\"3-1\" is not a valid range. Range end cannot be before start.");
        assert_eq!(show(INTS, "1,1"), "1,1: set contains duplicate value");
        assert_eq!(show(INTS, "[1"), "[1: missing \"]\" at end of data");
        assert_eq!(show(INTS, "[1] 2"), "[1] 2: trailing garbage after \"]\"");
        assert_eq!(show(INTS, "1=2"), "1=2: unexpected \"=\" parsing set of integers");
        assert_eq!(show(INTS, ""), "use \"[]\" to specify the empty set");
        assert_eq!(show("\"integer\"", "1,2"), "1,2: 2 value(s) specified but the maximum number is 1");
        assert_eq!(show("\"integer\"", "x"), "\"x\" is not a valid integer or range");
    }

    #[test]
    fn maps_and_strings() {
        assert_eq!(show(MAP, "b=1,a=\"x y\""), "{a=\"x y\", b=\"1\"}");
        assert_eq!(show(MAP, r"a=x\=y"), "{a=\"x=y\"}");
        assert_eq!(show(MAP, "a"), "a: syntax error at \"");
        assert_eq!(show(MAP, "a,b"), "a,b: syntax error at \",\" expecting \"=\"");
        assert_eq!(show(MAP, "a=1,a=2"), "a=1,a=2: map contains duplicate key");
        assert_eq!(show("\"string\"", "eth0.1-x"), "eth0.1-x");
        assert_eq!(show("\"string\"", "\"a\\tb\""), "\"a\\tb\"");
        assert_eq!(show("\"string\"", "\"a"), "\"a: quoted string extends past end of argument");
        assert_eq!(show("\"string\"", "x\\"), "x\\: backslash at end of argument");
        assert_eq!(show("\"boolean\"", "on"), "true");
        assert_eq!(show("\"real\"", "1.50"), "1.5");
    }

    #[test]
    fn names_of_rows() {
        let ty = ty(r#"{"key": "uuid", "min": 0, "max": 1}"#);
        let mut symbols = Symbols::default();
        let first = datum(&ty, "@a", &mut symbols).unwrap();
        assert_eq!(datum(&ty, "@a", &mut symbols).unwrap(), first);
        assert!(!symbols.0["@a"].created);
    }

    proptest::proptest! {
        #[test]
        fn reading_never_panics(line in ".{0,40}") {
            for json in [INTS, MAP, "\"string\"", "\"uuid\"", "\"real\""] {
                let _ = datum(&ty(json), &line, &mut Symbols::default());
            }
        }

        #[test]
        fn text_reads_back(keys in proptest::collection::btree_map(".{1,8}", ".{0,8}", 0..4)) {
            let ty = ty(MAP);
            let map = Datum::map(keys.iter().map(|(k, v)| (k.as_str(), v.as_str())));
            let read = datum(&ty, &text(&map, &ty), &mut Symbols::default());
            proptest::prop_assert_eq!(read, Ok(map));
        }
    }
}
