//! The table of drop reasons (core/dpif/src/drop_reason.rs) and the code agree.

use arch::imports::without_tests;
use arch::{root, rust_files};
use dpif::DropReason;
use dpif::drop_reason::Stage;

/// The code without unit tests.
fn code(file: &std::path::Path) -> String {
    without_tests(&std::fs::read_to_string(file).unwrap()).to_owned()
}

fn mentions(text: &str, reason: DropReason) -> bool {
    let name = format!("DropReason::{reason:?}");
    text.match_indices(&name).any(|(at, _)| !text[at + name.len()..].starts_with(char::is_alphanumeric))
}

#[test]
fn each_stage_drops_for_its_reasons() {
    for stage in Stage::ALL {
        let text: String = stage.files().iter().map(|file| code(&root().join(file))).collect();
        let of_stage = DropReason::ALL.iter().filter(|reason| reason.stage() == stage);
        let missing: Vec<_> = of_stage.filter(|r| stage != Stage::None && !mentions(&text, **r)).collect();
        assert!(missing.is_empty(), "{stage:?}: not in {:?}: {missing:?}", stage.files());
    }
}

#[test]
fn reasons_of_no_stage_are_not_used() {
    let mut files = Vec::new();
    ["core", "shell"].iter().for_each(|folder| rust_files(&root().join(folder), &mut files));
    let text: String = files.iter().map(|file| code(file)).collect();
    let unused = DropReason::ALL.iter().filter(|reason| reason.stage() == Stage::None);
    let used: Vec<_> = unused.filter(|reason| mentions(&text, **reason)).collect();
    assert!(used.is_empty(), "the table gives no stage to {used:?}");
}
