//! `docs/errors.md`, and the tables of codes in the pages of the interfaces.

use std::collections::BTreeMap;
use std::fmt::Write;

use leafseal_errors::{ErrorCode, Interface, Side};

use super::marks::insert;
use super::{GeneratedFile, reference};
use crate::source::SourceFile;

const PAGE: &str = "docs/errors.md";

const HEAD: &str = "\
# Errors

Every error has a stable code, with the same name and meaning in all interfaces. Its message or `detail` is for people and may change; it
has positions and names, never values. `cargo xtask generate` writes this page from the table in
[codes.rs](../crates/errors/src/codes.rs).

| where | form | whether to retry |
|---|---|---|
| RPC | [error object](protocol.md#errors) with `code` | `retry` and `retry_after_ms` |
| clients | an exception or error with `code` | `retry` |
| HTTPS API | [`application/problem+json`](api.md#errors) with `code` | the status: 503 with `Retry-After`, 504 |
| relay | [`application/problem+json`](relay.md#error-responses) with `code` | the status: 503 with `Retry-After` |
| command line | one line on standard error, and an [exit code](configuration.md#exit-codes) | exit code 3 is temporary |

`retry` is `never` (the same request fails again), `later` (after a pause) or `elsewhere` (another engine, or a new connection, may serve it
now). Where the upstream's response is at fault, the relay answers 502 instead of the status below.
";

const TAIL: &str = "
## The Rust client

`ClientError::code` returns the code; its `kind` has more detail.

| kind | code |
|---|---|
| `Settings`, `Connect`, `Tls`, `Timeout` | `invalid_settings`, `connect_failed`, `tls_failed`, `deadline_exceeded` |
| `ConnectionLost`, `GoingAway` | `connection_lost`, `going_away`; `ConnectionLost` says whether the request may have reached the engine |
| `Engine`, `ConnectionRefused`, `UnknownEngineError` | the engine's, or `unknown_error` |
| `Protocol`, `RequestTooLarge`, `AnswerMemory` | `protocol_error`, `too_large`, `no_memory` |
";

const COLUMNS: &str = "| code | where | status | retry | cause and remedy |\n|---|---|---|---|---|\n";

const SIDES: [(Side, &str, &str); 6] = [
    (Side::Caller, "The request is at fault", "The same request fails again. Correct it."),
    (Side::Data, "Values do not decrypt", "The envelopes are at fault, or the keys that would open them."),
    (Side::Permission, "Permissions", "The caller is not known, or lacks a permission."),
    (
        Side::Temporary,
        "Temporary",
        "Retry after the given pause, with exponential backoff and jitter. If they persist, see \
         [incidents](guides/operations.md#incidents).",
    ),
    (Side::Upstream, "The upstream is at fault", "The server behind the relay."),
    (Side::Service, "Configuration and faults", "The engine, the relay or the client, or their configuration."),
];

/// The table of codes of an interface, in a page that describes it.
struct CodeSection {
    path: &'static str,
    table: fn() -> String,
    /// Writes the tables of options.
    options: fn(&str) -> Result<String, String>,
}

const SECTIONS: [CodeSection; 3] = [
    CodeSection { path: "docs/protocol.md", table: codes_of_rpc, options: reference::protocol },
    CodeSection { path: "docs/api.md", table: || codes_by_status(Interface::Api), options: reference::api },
    CodeSection {
        path: "docs/relay.md",
        table: || codes_by_status(Interface::Relay),
        options: |page| Ok(page.to_owned()),
    },
];

const BEGIN: &str = "<!-- codes: written by cargo xtask generate -->\n";
const END: &str = "<!-- end of the codes -->\n";

pub(super) fn outputs(sources: &[SourceFile]) -> Result<Vec<GeneratedFile>, String> {
    let sections = SECTIONS.iter().map(|section| {
        let page = sources.iter().find(|source| source.path == section.path);
        let page = page.map_or("", |page| &page.text);
        let page = insert(page, section.path, (BEGIN, END), &(section.table)())?;
        (section.options)(&page).map(|text| GeneratedFile { path: section.path.into(), text })
    });
    sections.chain([Ok(GeneratedFile { path: PAGE.into(), text: page() })]).collect()
}

fn page() -> String {
    let mut page = HEAD.to_owned();
    for (side, title, about) in SIDES {
        let _ = write!(page, "\n## {title}\n\n{about}\n\n{COLUMNS}");
        for &code in ErrorCode::ALL.iter().filter(|code| code.side() == side) {
            let places: Vec<&str> = code.interfaces().iter().map(|interface| interface.as_str()).collect();
            let is_http = code.interfaces().iter().any(|it| matches!(it, Interface::Api | Interface::Relay));
            let status = if is_http { code.status().to_string() } else { String::new() };
            let (places, retry, text) =
                (places.join(", "), code.retry().as_str(), [code.about(), code.remedy()].join(" "));
            let _ = writeln!(page, "| `{code}` | {places} | {status} | {retry} | {} |", text.trim_end());
        }
    }
    page + TAIL
}

fn codes_of_rpc() -> String {
    let row = |code: ErrorCode| format!("| `{code}` | {} | {} |\n", code.retry().as_str(), code.about());
    "| code | retry | meaning |\n|---|---|---|\n".to_owned()
        + &ErrorCode::of(Interface::Rpc).map(row).collect::<String>()
}

fn codes_by_status(interface: Interface) -> String {
    let mut codes: BTreeMap<u16, Vec<String>> = BTreeMap::new();
    for code in ErrorCode::of(interface) {
        codes.entry(code.status()).or_default().push(format!("`{code}`"));
    }
    let row = |(status, codes): (u16, Vec<String>)| format!("| {status} | {} |\n", codes.join(", "));
    "| status | codes |\n|---|---|\n".to_owned() + &codes.into_iter().map(row).collect::<String>()
}
