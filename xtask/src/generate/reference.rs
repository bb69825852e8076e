//! The options in `docs/protocol.md`, `docs/api.md` and `docs/openapi.json`.

use std::fmt::Write;

use leafseal_protocol::{
    DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, Field, Method, OptionInfo, OptionKind,
    RewrapOptions, Surface,
};

use super::marks::insert;
use super::options::is_of_documents;
use super::{GeneratedFile, queries};
use crate::source::SourceFile;

const OPEN_API: &str = "docs/openapi.json";
const BEGIN: &str = "<!-- options: written by cargo xtask generate -->\n";
const END: &str = "<!-- end of the options -->\n";

/// The methods with options, and whether a document is their content.
const METHODS: [(Method, &[OptionInfo], bool); 7] = [
    (Method::Encrypt, EncryptOptions::OPTIONS, false),
    (Method::Decrypt, DecryptOptions::OPTIONS, false),
    (Method::EncryptDocument, EncryptOptions::OPTIONS, true),
    (Method::DecryptDocument, DecryptOptions::OPTIONS, true),
    (Method::EncryptFile, EncryptFileOptions::OPTIONS, false),
    (Method::DecryptFile, DecryptFileOptions::OPTIONS, false),
    (Method::Rewrap, RewrapOptions::OPTIONS, false),
];

/// The calls of the API for documents.
const CALLS: [(&str, &[OptionInfo]); 2] =
    [("/encrypt", EncryptOptions::OPTIONS), ("/decrypt", DecryptOptions::OPTIONS)];

pub(super) fn outputs(sources: &[SourceFile]) -> Result<Vec<GeneratedFile>, String> {
    let source = sources.iter().find(|source| source.path == OPEN_API).ok_or(format!("{OPEN_API} is missing"))?;
    Ok(vec![GeneratedFile { path: OPEN_API.into(), text: open_api(&source.text)? }])
}

/// `docs/protocol.md` with the table of shared options, and the options of each method.
pub(super) fn protocol(page: &str) -> Result<String, String> {
    let mut table = "| field | type | range | meaning |\n|---|---|---|---|\n\
                     | `app` | string | 1 to 128 bytes | the tenant whose keys serve the request |\n"
        .to_owned();
    let mut seen = Vec::new();
    for option in EncryptOptions::OPTIONS.iter().chain(DecryptOptions::OPTIONS) {
        if !seen.contains(&option.field) {
            seen.push(option.field);
            let (kind, range) = type_and_range(option);
            let _ = writeln!(table, "| `{}?` | {kind} |{range} | {} |", option.field, option.full());
        }
    }
    let mut page = insert(page, "docs/protocol.md", (BEGIN, END), &table)?;
    for (method, options, is_document) in METHODS {
        page = with_fields_of(&page, method, options, is_document)?;
    }
    queries::protocol(&page)
}

/// The page with the first line of the method's table, which names the options that are described above: those without a line there.
fn with_fields_of(page: &str, method: Method, options: &[OptionInfo], is_document: bool) -> Result<String, String> {
    let missing = || format!("docs/protocol.md: no section of `{}` with a line for `app`", method.as_str());
    let heading = format!("\n### `{}`\n", method.as_str());
    let start = page.find(&heading).ok_or_else(missing)? + heading.len();
    let size = page[start..].find("\n### ").unwrap_or(page.len() - start);
    let (before, section, after) = (&page[..start], &page[start..start + size], &page[start + size..]);
    let (introduction, table) = section.split_once("\n| `app`").ok_or_else(missing)?;
    let (_, rows) = table.split_once('\n').ok_or_else(missing)?;
    let accepted = options.iter().filter(|option| is_document || !is_of_documents(option));
    let names = accepted.map(|option| format!("`{}?`", option.field));
    let names: String =
        names.filter(|name| !rows.contains(&format!("| {name} |"))).map(|name| format!(", {name}")).collect();
    Ok(format!("{before}{introduction}\n| `app`{names} | | as above |\n{rows}{after}"))
}

/// `docs/api.md` with the table of options.
pub(super) fn api(page: &str) -> Result<String, String> {
    let mut table = "| option | call | meaning |\n|---|---|---|\n\
                     | `select` | both | A JSONPath selector (RFC 9535), percent-encoded. Repeat it to select the union of several. \
                     Default: everything. |\n"
        .to_owned();
    for (call, options) in CALLS {
        for option in of_api(options) {
            let others = CALLS.iter().filter(|(other, _)| *other != call);
            let mut others = others.flat_map(|(_, options)| of_api(options));
            let is_of_both = others.any(|other| other.field == option.field && other.summary() == option.summary());
            if is_of_both && call == "/decrypt" {
                continue;
            }
            let value = match option.kind {
                OptionKind::Flag => "=true".to_owned(),
                OptionKind::Word(list) => format!("={}", list.joined("", "\\|", "\\|")),
                OptionKind::Words(list) => format!("={}", list.joined("", ",", ",")),
                OptionKind::Text | OptionKind::Number => "=…".to_owned(),
            };
            let calls = if is_of_both { "both".to_owned() } else { format!("`{call}`") };
            let _ = writeln!(table, "| `{}{value}` | {calls} | {} |", option.field, option.summary());
        }
    }
    insert(page, "docs/api.md", (BEGIN, END), &table)
}

fn of_api(options: &'static [OptionInfo]) -> impl Iterator<Item = &'static OptionInfo> {
    options.iter().filter(|option| option.surfaces.contains(&Surface::Api))
}

fn type_and_range(option: &OptionInfo) -> (&'static str, String) {
    match option.kind {
        OptionKind::Text => ("string", option.field.range().map(|range| format!(" {range}")).unwrap_or_default()),
        OptionKind::Word(list) => ("string", format!(" {}", list.joined("`", ", ", ", "))),
        OptionKind::Words(list) => ("string", format!(" of {}, separated by commas", list.joined("`", ", ", ", "))),
        OptionKind::Flag => ("boolean", String::new()),
        OptionKind::Number => ("integer", " 1 to 4294967295".to_owned()),
    }
}

/// The document with the parameters of the calls. What follows them, `select`, is not an option of the protocol and stays.
fn open_api(text: &str) -> Result<String, String> {
    const FIRST: &str = "\"parameters\": [\n";
    const REST: &str = "     {\n      \"name\": \"select\"";
    let mut text = text.to_owned();
    for (call, options) in CALLS {
        let missing = || format!("{OPEN_API}: {call} has no parameters that end with `select`");
        let path = text.find(&format!("\n  \"{call}\": {{\n")).ok_or_else(missing)?;
        let start = path + text[path..].find(FIRST).ok_or_else(missing)? + FIRST.len();
        let end = start + text[start..].find(REST).ok_or_else(missing)?;
        text.replace_range(start..end, &of_api(options).map(parameter).collect::<String>());
    }
    Ok(text)
}

fn parameter(option: &OptionInfo) -> String {
    let schema = match option.kind {
        OptionKind::Text if option.field == Field::Role => {
            r#""type": "string", "pattern": "^[a-z0-9-]{1,20}$""#.to_owned()
        }
        OptionKind::Text => r#""type": "string""#.to_owned(),
        OptionKind::Words(list) => {
            let word = format!("({})", list.joined("", "|", "|"));
            format!(r#""type": "string", "pattern": "^{word}(,{word})*$""#)
        }
        OptionKind::Word(list) => format!(r#""enum": [{}]"#, list.joined("\"", ", ", ", ")),
        OptionKind::Flag => r#""enum": ["true", "false"]"#.to_owned(),
        OptionKind::Number => r#""type": "integer", "minimum": 1"#.to_owned(),
    };
    let (name, about) = (option.field, option.summary());
    format!(
        "     {{\n      \"name\": \"{name}\",\n      \"in\": \"query\",\n      \"required\": false,\n      \
         \"schema\": {{{schema}}},\n      \"description\": {about:?}\n     }},\n"
    )
}
