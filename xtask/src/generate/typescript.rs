//! The names that `@leafseal/client` and its browser build use.

use std::fmt::Write;

use leafseal_errors::{ErrorCode, Interface};

use super::GeneratedFile;
use super::names::{MARK, client_codes};
use crate::source::SourceFile;

const CODES: &str = "bindings/node/client/src/codes_generated.ts";
const CODES_OF_BROWSERS: &str = "bindings/node/client/src/browser/codes_generated.ts";

pub(super) fn outputs(_: &[SourceFile]) -> Result<Vec<GeneratedFile>, String> {
    let mut codes = union("The codes of errors. A newer engine may send others.", "KnownErrorCode", client_codes());
    codes.push_str(
        "\n/** The codes that a document or values alone can cause, with the HTTP status that goes with each. */\n",
    );
    codes.push_str("export const CAUSED_BY_DATA: Readonly<Record<string, number>> = {\n");
    for code in client_codes().filter(|code| code.is_caused_by_data()) {
        let _ = writeln!(codes, "  {code}: {},", code.status());
    }
    codes.push_str("};\n");
    let browser = union("What went wrong. Codes are stable.", "ErrorCode", ErrorCode::of(Interface::Browser));
    Ok(vec![GeneratedFile { path: CODES, text: codes }, GeneratedFile { path: CODES_OF_BROWSERS, text: browser }])
}

fn union(about: &str, name: &str, codes: impl Iterator<Item = ErrorCode>) -> String {
    let mut text = format!("// {MARK}\n\n/** {about} */\nexport type {name} =");
    for code in codes {
        let _ = write!(text, "\n  /** {} */\n  | '{code}'", code.about());
    }
    text + ";\n"
}
