//! Shared by the queries of all clients in other languages: methods without values of users, with their parameters and results.
//!
//! Clients offer the required parameters. The app is an option, by default that of the client; the others are arguments.

use std::fmt::Write;

use leafseal_protocol::{
    Field, FieldInfo, FieldKind, Inspection, Query, QueryInfo, RecordInfo, ResultShape, WireRecord,
};

use super::marks::insert;
use super::options::wrapped;

/// The records that clients have a type for: the elements of `inspect`, and the results of queries.
pub(super) fn result_types() -> impl Iterator<Item = &'static RecordInfo> {
    let records = of_clients().filter_map(|query| match query.result {
        ResultShape::Record(record) => Some(record),
        ResultShape::Field(_) | ResultShape::Facts => None,
    });
    std::iter::once(<Inspection as WireRecord<'_>>::RECORD).chain(records)
}

/// The queries that clients offer.
fn of_clients() -> impl Iterator<Item = &'static QueryInfo> {
    Query::ALL.iter().filter(|query| query.is_for_clients)
}

/// Whether the query is about an app.
pub(super) fn is_of_app(query: &QueryInfo) -> bool {
    query.params.fields.iter().any(|info| info.field == Field::App)
}

/// The parameters that are arguments of a call.
pub(super) fn arguments(query: &QueryInfo) -> impl Iterator<Item = &'static FieldInfo> {
    query.params.fields.iter().filter(|info| info.field != Field::App && !info.is_optional)
}

/// The queries, if clients can encode their parameters.
///
/// # Errors
/// A parameter that is no text.
pub(super) fn checked() -> Result<Vec<QueryInfo>, String> {
    for query in of_clients() {
        if let Some(info) = query.params.fields.iter().find(|info| !matches!(info.kind, FieldKind::Text)) {
            let (method, field) = (query.method, info.field);
            return Err(format!("{method}: clients write parameters that are texts, and `{field}` is none"));
        }
    }
    Ok(of_clients().copied().collect())
}

const PAGE: &str = "docs/protocol.md";
const QUERIES: (&str, &str) = ("<!-- queries: written by cargo xtask generate -->\n", "<!-- end of the queries -->\n");
const INSPECTION: (&str, &str) =
    ("<!-- inspection: written by cargo xtask generate -->\n", "<!-- end of the inspection -->\n");
/// Characters of a line of a page.
const LINE: usize = 140;

/// `docs/protocol.md` with the sections of the queries, and the fields of an element of `inspect`.
///
/// # Errors
/// If the marks are missing.
pub(super) fn protocol(page: &str) -> Result<String, String> {
    let inspection = "| field of an element | type | |\n|---|---|---|\n".to_owned()
        + &rows(<Inspection as WireRecord<'_>>::RECORD, "");
    let page = insert(page, PAGE, INSPECTION, &inspection)?;
    let sections: Vec<String> = Query::ALL.iter().map(section).collect();
    insert(&page, PAGE, QUERIES, &(sections.join("\n") + "\n"))
}

fn section(query: &QueryInfo) -> String {
    let mut text = format!("### `{}`\n", query.method);
    let mut paragraphs = query.full();
    if query.params.fields.is_empty() {
        paragraphs[0].insert_str(0, "No fields. ");
    }
    for paragraph in paragraphs {
        let _ = write!(text, "\n{}", wrapped(&paragraph, "", LINE));
    }
    let result = match query.result {
        ResultShape::Record(record) | ResultShape::Field(record) => rows(record, "→ "),
        ResultShape::Facts => String::new(),
    };
    let rows = rows(query.params, "") + &result;
    if !rows.is_empty() {
        let _ = write!(text, "\n| field | type | |\n|---|---|---|\n{rows}");
    }
    text
}

fn rows(record: &RecordInfo, arrow: &str) -> String {
    let mut rows = String::new();
    for info in record.fields {
        let mark = if info.is_optional { "?" } else { "" };
        let kind = match info.kind {
            FieldKind::Text => "string".to_owned(),
            FieldKind::Word(list) => format!("string: {}", list.joined("`", ", ", ", ")),
            FieldKind::Flag => "boolean".to_owned(),
            FieldKind::Number => "integer".to_owned(),
            FieldKind::Bytes => "binary".to_owned(),
            FieldKind::Texts => "list of strings".to_owned(),
        };
        // Ranges are those of parameters.
        let range = info.field.range().filter(|_| arrow.is_empty() && record.name.ends_with("Params"));
        let range = range.map(|range| format!(", {range}")).unwrap_or_default();
        let _ = writeln!(rows, "| {arrow}`{}{mark}` | {kind}{range} | {} |", info.field, info.about());
    }
    rows
}
