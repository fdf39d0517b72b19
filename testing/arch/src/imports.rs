//! Imports between the source files of a crate: `use` declarations, and paths in the code.
//!
//! The files are searched as text and not parsed as Rust, which is enough for code formatted by rustfmt. Unit tests are
//! ignored: everything after the first `#[cfg(test)]` that is not followed by `mod name;`.

use crate::rust_files;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// For each file of a crate, the files that it imports from.
pub type Imports = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// Returns the imports between the files below `src`.
pub fn imports(src: &Path) -> Imports {
    let mut files = Vec::new();
    rust_files(src, &mut files);
    files.retain(|f| !f.ends_with("tests.rs") && !f.components().any(|c| c.as_os_str() == "tests"));
    let modules: BTreeMap<Vec<String>, PathBuf> =
        files.iter().map(|f| (module_path(src, f), f.clone())).collect();
    let named: BTreeMap<&Vec<String>, Vec<Vec<String>>> = modules
        .iter()
        .map(|(module, file)| {
            let children: BTreeSet<&str> = children(module, &modules).collect();
            (module, paths(&std::fs::read_to_string(file).unwrap(), module, &children))
        })
        .collect();
    let mut imports = Imports::new();
    for (module, file) in &modules {
        let to = imports.entry(file.clone()).or_default();
        for path in &named[module] {
            if let Some(target) = resolve(path, &modules, &named, 0).filter(|target| *target != file) {
                to.insert(target.clone());
            }
        }
    }
    imports
}

/// Returns the names of a module's children.
fn children<'m>(
    module: &'m [String],
    modules: &'m BTreeMap<Vec<String>, PathBuf>,
) -> impl Iterator<Item = &'m str> {
    let below = modules.keys().filter(|m| m.len() == module.len() + 1 && m.starts_with(module));
    below.filter_map(|m| m.last()).map(String::as_str)
}

/// Returns the groups of files that import each other, directly or through other files of the group.
pub fn cycles(imports: &Imports) -> Vec<BTreeSet<PathBuf>> {
    let reach: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> =
        imports.keys().map(|file| (file, reachable(file, imports))).collect();
    let mut found = BTreeSet::new();
    for (file, targets) in &reach {
        let group: BTreeSet<PathBuf> = targets
            .iter()
            .filter(|t| reach.get(**t).is_some_and(|back| back.contains(file)))
            .map(|t| (*t).clone())
            .collect();
        if group.len() > 1 {
            found.insert(group);
        }
    }
    found.into_iter().collect()
}

fn reachable<'i>(from: &'i PathBuf, imports: &'i Imports) -> BTreeSet<&'i PathBuf> {
    let (mut reached, mut to_visit) = (BTreeSet::new(), vec![from]);
    while let Some(file) = to_visit.pop() {
        to_visit.extend(imports.get(file).into_iter().flatten().filter(|next| reached.insert(*next)));
    }
    reached
}

/// Returns the path of a file's module. `src/path/mod.rs` and `src/path.rs` are the module `path`; `lib.rs` and `main.rs` are
/// the crate's root.
fn module_path(src: &Path, file: &Path) -> Vec<String> {
    let inside = file.strip_prefix(src).unwrap().with_extension("");
    let mut names: Vec<String> = inside.iter().map(|n| n.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|n| n == "mod" || n == "lib" || n == "main") {
        names.pop();
    }
    names
}

/// Maximum number of re-exports that are followed from one to the next.
const REEXPORTS_MAX: usize = 4;

/// Returns the file of the longest module with which the path begins. If that module imports the next name of the path from
/// another module, this is a re-export, and the result is the other module's file. So a crate root that re-exports names is not
/// a cycle.
fn resolve<'m>(
    path: &[String],
    modules: &'m BTreeMap<Vec<String>, PathBuf>,
    named: &BTreeMap<&Vec<String>, Vec<Vec<String>>>,
    depth: usize,
) -> Option<&'m PathBuf> {
    let n = (0..=path.len()).rev().find(|n| modules.contains_key(&path[..*n]))?;
    let module = path[..n].to_vec();
    if let Some(name) = path.get(n).filter(|_| depth < REEXPORTS_MAX) {
        let from = named[&module].iter().find(|p| p.last() == Some(name) && p[..p.len() - 1] != module[..]);
        if let Some(file) = from.and_then(|from| resolve(from, modules, named, depth + 1)) {
            return Some(file);
        }
    }
    modules.get(&module)
}

/// Returns a file's text before its module of unit tests. If the tests are in another file, the text does not end there.
pub fn without_tests(text: &str) -> &str {
    let starts = ["\n#[cfg(test)]", "\n#[cfg(all(test, "];
    let attributes = starts.iter().flat_map(|start| text.match_indices(start).map(|(at, _)| at));
    let tests = attributes.filter(|at| !is_file_of_tests(&text[*at..])).min();
    &text[..tests.unwrap_or(text.len())]
}

/// Returns whether the attribute at the beginning of the text is followed by `mod name;`.
fn is_file_of_tests(text: &str) -> bool {
    let next = text.lines().skip(1).find(|line| !line.starts_with('#')).unwrap_or("");
    next.starts_with("mod ") && next.ends_with(';')
}

/// Returns all paths of the crate in a file, relative to the crate's root. `children`: the children of the file's module.
fn paths(text: &str, module: &[String], children: &BTreeSet<&str>) -> Vec<Vec<String>> {
    let code: String = without_tests(text)
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let mut out = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(start) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| is_name_char(c) || c == ':' || c == '$') {
                continue;
            }
            // An indented `use super::` is in a module within this file.
            let line = code[..at].rsplit('\n').next().unwrap_or("");
            let inner = start == "super::" && line.starts_with(' ') && line.trim() == "use";
            let path_at = at + if inner { start.len() } else { 0 };
            let inside = |path: &[String]| match inner && path.first().is_none_or(|name| name != "super") {
                true => [module, path].concat(),
                false => absolute(path, module),
            };
            expand(&code[path_at..], &[], &mut |path| out.push(inside(path)));
        }
    }
    // A module with children can write `use child::Name` without `self::`.
    for (at, _) in code.match_indices("use ") {
        let rest = &code[at + 4..];
        if !["crate::", "super::", "self::"].iter().any(|s| rest.starts_with(s)) {
            expand(rest, &[], &mut |path| out.push([module, path].concat()));
        }
    }
    // It can also write `child::function()`.
    for (at, _) in code.match_indices("::") {
        let name_at = code[..at].rfind(|c: char| !is_name_char(c)).map_or(0, |end| end + 1);
        let before = &code[..name_at];
        let is_first = !before.ends_with([':', '.', '$', '\'']) && !before.ends_with("use ");
        if is_first && children.contains(&code[name_at..at]) {
            expand(&code[name_at..], &[], &mut |path| out.push([module, path].concat()));
        }
    }
    out
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Calls `found` with every path of a use tree: `a::{b, c::d}` contains `a::b` and `a::c::d`. Returns the rest of the text.
fn expand<'t>(text: &'t str, before: &[String], found: &mut dyn FnMut(&[String])) -> &'t str {
    let mut path = before.to_vec();
    let mut rest = text.trim_start();
    loop {
        if let Some(inner) = rest.strip_prefix('{') {
            rest = inner;
            loop {
                rest = expand(rest, &path, found).trim_start();
                match rest.strip_prefix(',') {
                    Some(next) if !next.trim_start().starts_with('}') => rest = next,
                    Some(next) => {
                        rest = next.trim_start();
                        break;
                    }
                    None => break,
                }
            }
            return rest.strip_prefix('}').unwrap_or("");
        }
        let end = rest.find(|c: char| !is_name_char(c)).unwrap_or(rest.len());
        if end > 0 {
            path.push(rest[..end].to_owned());
        }
        rest = &rest[end..];
        match rest.strip_prefix("::") {
            Some(next) if end > 0 => rest = next,
            _ => break,
        }
    }
    found(&path);
    // `as name`
    let rest = rest.trim_start();
    rest.strip_prefix("as ").map_or(rest, |alias| alias.trim_start_matches(is_name_char))
}

/// Converts a path in a module to one relative to the crate's root.
fn absolute(path: &[String], module: &[String]) -> Vec<String> {
    let supers = path.iter().take_while(|p| *p == "super").count();
    match path.first().map(String::as_str) {
        Some("crate") => path[1..].to_vec(),
        Some("self") => [module, &path[1..]].concat(),
        _ => [&module[..module.len().saturating_sub(supers)], &path[supers..]].concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, module: &[&str]) -> Vec<String> {
        let module: Vec<String> = module.iter().map(|m| (*m).to_owned()).collect();
        paths(text, &module, &["child"].into()).into_iter().map(|p| p.join("::")).collect()
    }

    #[test]
    fn paths_are_read_from_the_root() {
        assert_eq!(of("use crate::a::{b, c::{D, e as f}};", &["x"]), ["a::b", "a::c::D", "a::c::e"]);
        assert_eq!(of("use super::inbox::Inbox;", &["workers", "sleeps"]), ["workers::inbox::Inbox"]);
        assert_eq!(of("    crate::a::f(1);\n// crate::no", &["x"]), ["a::f"]);
        assert_eq!(of("use child::Name;", &["x"]), ["x::child::Name"]);
        assert_eq!(of("use crate::a;\n#[cfg(test)]\nuse crate::b;", &["x"]), ["a"]);
        assert_eq!(of("fn f() {\n    child::g(other::h())", &["x"]), ["x::child::g"]);
        assert_eq!(of("#[cfg(test)]\nmod tests;\nuse crate::a;", &["x"]), ["a"]);
        assert_eq!(of("use super::{\n    a,\n    b,\n};", &["x", "y"]), ["x::a", "x::b"]);
    }

    #[test]
    fn cycles_are_groups_that_reach_each_other() {
        let edge = |from: &str, to: &[&str]| (from.into(), to.iter().map(PathBuf::from).collect());
        let imports =
            Imports::from([edge("a", &["b"]), edge("b", &["c"]), edge("c", &["a"]), edge("d", &["a"])]);
        assert_eq!(cycles(&imports), [["a", "b", "c"].iter().map(PathBuf::from).collect()]);
    }
}
