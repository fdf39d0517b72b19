//! No import cycles between source files: a file can be read after the files that it imports.

use arch::imports::{cycles, imports};
use arch::root;

#[test]
fn files_do_not_import_each_other() {
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
    assert!(found.is_empty(), "{} cycles:\n{}", found.len(), found.join("\n"));
}
