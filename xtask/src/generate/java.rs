//! The names that the Java client uses.

use std::fmt::Write;

use super::GeneratedFile;
use super::names::{MARK, client_codes};
use crate::source::SourceFile;

const CODES: &str = "bindings/java/client/src/main/java/io/leafseal/client/ErrorCode.java";

pub(super) fn outputs(_: &[SourceFile]) -> Result<Vec<GeneratedFile>, String> {
    Ok(vec![GeneratedFile { path: CODES, text: codes() }])
}

fn codes() -> String {
    let mut text = format!("// {MARK}\npackage io.leafseal.client;\n\nimport java.util.Set;\n\n");
    text.push_str("/** Codes of {@link LeafsealException#code}. A newer engine may send others. */\n");
    text.push_str("public final class ErrorCode {\n");
    for code in client_codes() {
        let (about, name) = (code.about(), code.as_str().to_uppercase());
        let _ = writeln!(text, "    /** {about} */\n    public static final String {name} = \"{code}\";");
    }
    let data = client_codes().filter(|code| code.is_caused_by_data());
    let data: Vec<String> = data.map(|code| code.as_str().to_uppercase()).collect();
    text.push_str("\n    /** The codes that a document or values alone can cause. */\n");
    let data = data.join(",\n            ");
    let _ = writeln!(text, "    public static final Set<String> CAUSED_BY_DATA = Set.of(\n            {data});");
    text.push_str("\n    private ErrorCode() {}\n}\n");
    text
}
