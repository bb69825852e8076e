//! The methods of the Go client, and its calls without values of users with the types of their results.

use std::fmt::Write;

use leafseal_protocol::{FieldInfo, FieldKind, Method, QueryInfo, RecordInfo, ResultShape};

use super::names::{MARK, camel_case_of_go, lower_camel_case};
use super::options::wrapped;
use super::queries::{arguments, is_of_app, result_types};

const WIDTH: usize = 138;

/// The whole file.
pub(super) fn methods(queries: &[QueryInfo]) -> String {
    let mut text = format!("// {MARK}\n\npackage leafseal\n\nimport (\n\t\"context\"\n\t\"time\"\n)\n\n");
    text.push_str("// Methods of the engine.\nconst (\n");
    let width = Method::ALL.iter().map(|method| camel_case_of_go(method.as_str()).len()).max().unwrap_or(0);
    for method in Method::ALL {
        let _ = writeln!(text, "\tmethod{:width$} = \"{}\"", camel_case_of_go(method.as_str()), method.as_str());
    }
    text.push_str(")\n");
    for record in result_types() {
        text += &type_of(record);
        text += &reader(&name_of(record), &format!("found {}", name_of(record)), "found.", record);
    }
    for query in queries {
        text += &call(query);
        if let ResultShape::Field(record) = query.result {
            let info = &record.fields[0];
            let found = format!("found {}", kind_of(info));
            text += &reader(&camel_case_of_go(query.method), &found, "", record);
        }
    }
    text
}

/// The name of a record's type.
fn name_of(record: &RecordInfo) -> String {
    record.name.replace("Api", "API")
}

fn field_name(info: &FieldInfo) -> String {
    let is = if info.kind == FieldKind::Flag { "Is" } else { "" };
    is.to_owned() + &camel_case_of_go(info.field.as_str())
}

fn kind_of(info: &FieldInfo) -> &'static str {
    match info.kind {
        FieldKind::Text | FieldKind::Word(_) => "string",
        FieldKind::Flag => "bool",
        FieldKind::Number if info.is_time() => "time.Time",
        FieldKind::Number => "int64",
        FieldKind::Bytes => "[]byte",
        FieldKind::Texts => "[]string",
    }
}

fn type_of(record: &RecordInfo) -> String {
    let name = name_of(record);
    let is = if name.ends_with('s') { "are" } else { "is" };
    let mut text = format!("\n// {name} {is} {}\ntype {name} struct {{\n", lower_first(&record.about()));
    for info in record.fields {
        let words = match info.kind {
            FieldKind::Word(list) => format!(" One of {}.", list.joined("", ", ", ", ")),
            _ => String::new(),
        };
        text += &wrapped(&(info.about() + &words), "\t// ", WIDTH);
        let _ = writeln!(text, "\t{} {}", field_name(info), kind_of(info));
    }
    text + "}\n"
}

/// The function that reads a record into `found`, or, without a prefix, its only field.
fn reader(name: &str, found: &str, prefix: &str, record: &RecordInfo) -> String {
    let required: Vec<String> =
        record.fields.iter().filter(|info| !info.is_optional).map(|info| format!("\"{}\"", info.field)).collect();
    let mut text = format!(
        "\nfunc read{name}(from []byte) ({found}, rest []byte, failure *Error) {{\n\trest, failure = \
         readRecord(from, []string{{{}}}, func(name string, value []byte) (after []byte, failure *Error) {{\n\t\tswitch name {{\n",
        required.join(", ")
    );
    for info in record.fields {
        let read = match info.kind {
            FieldKind::Text | FieldKind::Word(_) => "readText(value)",
            FieldKind::Flag => "readFlag(value)",
            FieldKind::Number if info.is_time() => "readTime(value)",
            FieldKind::Number => "readNumber(value)",
            FieldKind::Bytes => "readBytes(value)",
            FieldKind::Texts => "readList(value, -1, readText)",
        };
        let target = if prefix.is_empty() { "found".to_owned() } else { format!("{prefix}{}", field_name(info)) };
        let _ = writeln!(text, "\t\tcase \"{}\":\n\t\t\t{target}, after, failure = {read}", info.field);
    }
    text + "\t\t}\n\t\treturn after, failure\n\t})\n\treturn found, rest, failure\n}\n"
}

/// A function of the client.
fn call(query: &QueryInfo) -> String {
    let method = camel_case_of_go(query.method);
    let (kind, read) = match query.result {
        ResultShape::Record(record) => (name_of(record), format!("read{}", name_of(record))),
        ResultShape::Field(record) => (kind_of(&record.fields[0]).to_owned(), format!("read{method}")),
        ResultShape::Facts => ("map[string]string".to_owned(), "readFacts".to_owned()),
    };
    let mut params = String::new();
    let mut encoder = format!("c.encoder(method{method}, false)");
    let (mut about, mut app) = (lower_first(&query.summary()), "");
    if is_of_app(query) {
        params.push_str(", app string");
        about = about.trim_end_matches('.').to_owned() + "; the client's app if app is empty.";
        app = "\tname, err := c.app(app)\n\tif err != nil {\n\t\treturn found, err\n\t}\n";
        encoder.push_str(".required(\"app\", name)");
    }
    for info in arguments(query) {
        let name = lower_camel_case(info.field.as_str());
        let _ = write!(params, ", {name} string");
        let _ = write!(encoder, ".required(\"{}\", {name})", info.field);
    }
    let about = wrapped(&format!("{method} {about}"), "// ", WIDTH);
    format!(
        "\n{about}func (c *Client) {method}(ctx context.Context{params}) (found {kind}, err error) {{\n{app}\t\
         return query(ctx, c, {encoder}, {read})\n}}\n"
    )
}

fn lower_first(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_ascii_lowercase().to_string() + letters.as_str())
}
