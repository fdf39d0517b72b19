//! Import cycles between source files. A file outside of cycles can be read after the files that it imports.
//!
//! `file_cycles_max` of arch.toml is the maximum, which must only decrease.

use arch::imports::{cycles, imports};
use arch::root;

#[test]
fn import_cycles_do_not_grow() {
    let arch: toml::Table = std::fs::read_to_string(root().join("arch.toml")).unwrap().parse().unwrap();
    let most = arch["file_cycles_max"].as_integer().unwrap() as usize;
    let mut found = Vec::new();
    for folder in ["core", "shell", "bin", "testing"] {
        for entry in std::fs::read_dir(root().join(folder)).unwrap().map(Result::unwrap) {
            let src = entry.path().join("src");
            if src.is_dir() {
                for cycle in cycles(&imports(&src)) {
                    let names = cycle.iter().map(|f| f.strip_prefix(root()).unwrap().display().to_string());
                    found.push(names.collect::<Vec<_>>().join(" "));
                }
            }
        }
    }
    assert!(found.len() <= most, "{} cycles, at most {most}:\n{}", found.len(), found.join("\n"));
}
