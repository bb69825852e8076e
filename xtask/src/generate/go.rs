//! The names that the Go client uses.

use std::fmt::Write;

use super::GeneratedFile;
use super::names::{MARK, camel_case_of_go, client_codes};
use crate::source::SourceFile;

const PATH: &str = "clients/go/names_generated.go";

pub(super) fn outputs(_: &[SourceFile]) -> Result<Vec<GeneratedFile>, String> {
    Ok(vec![GeneratedFile { path: PATH, text: names() }])
}

fn names() -> String {
    let mut text = format!("// {MARK}\n\npackage leafseal\n\n");
    text.push_str("// Codes of errors. A newer engine may send others.\nconst (\n");
    for code in client_codes() {
        let _ = writeln!(text, "\t// {}\n\tCode{} = \"{code}\"", code.about(), camel_case_of_go(code.as_str()));
    }
    text.push_str(")\n");
    text
}
