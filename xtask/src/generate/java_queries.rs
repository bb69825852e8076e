//! The calls of the Java client without values of users, and the types of their results.

use std::fmt::Write;

use leafseal_protocol::{FieldInfo, FieldKind, QueryInfo, RecordInfo, ResultShape};

use super::names::{MARK, lower_camel_case};
use super::options::wrapped;
use super::queries::{arguments, is_of_app, result_types};

const WIDTH: usize = 138;

const HEAD: &str = "package io.leafseal.client;

import io.leafseal.client.Answers.Response;
import io.leafseal.client.Calls.Prepared;
import io.leafseal.client.Request.Encoder;
import java.io.IOException;
import java.time.Instant;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.function.Supplier;

/** The calls of a client that carry no values of users. */
abstract class QueryCalls {
    abstract <T> T run(Prepared<T> call);

    abstract <T> CompletableFuture<T> submit(Supplier<Prepared<T>> preparing);

    abstract <T> Prepared<T> plain(String method, CallOptions options, Function<Response, T> read, Function<Encoder, Encoder> fields);

    abstract String app(Options<?> options);
";

/// The class that the client extends.
pub(super) fn calls(queries: &[QueryInfo]) -> String {
    let mut text = format!("// {MARK}\n{HEAD}");
    for query in queries {
        text += &call(query);
    }
    for record in result_types() {
        text += &reader(record, &format!(" new {}(", record.name), ")", record.name);
    }
    for query in queries {
        if let ResultShape::Field(record) = query.result {
            text += &reader(record, "", "", &kind_of(&record.fields[0]));
        }
    }
    text + "}\n"
}

/// The blocking call, and the one that returns a future.
fn call(query: &QueryInfo) -> String {
    let (constant, name) = (query.method.to_uppercase(), lower_camel_case(query.method));
    let (kind, read) = match query.result {
        ResultShape::Record(record) => {
            (record.name.to_owned(), format!("Answers.record(QueryCalls::read{})", record.name))
        }
        ResultShape::Field(record) => {
            (kind_of(&record.fields[0]), format!("Answers.record(QueryCalls::read{})", record.name))
        }
        ResultShape::Facts => ("Map<String, String>".to_owned(), "Answers::facts".to_owned()),
    };
    let (mut params, mut given, mut encoder) = (String::new(), String::new(), "encoder".to_owned());
    if is_of_app(query) {
        encoder.push_str(".text(\"app\", app(options))");
    }
    for info in arguments(query) {
        let name = lower_camel_case(info.field.as_str());
        let _ = write!(params, "String {name}, ");
        let _ = write!(given, "{name}, ");
        let _ = write!(encoder, ".required(\"{}\", {name}, \"{name}\")", info.field);
    }
    let about = doc(&query.summary(), "    ");
    format!(
        "\n{about}    public {kind} {name}({params}CallOptions options) {{\n        return run({name}Call({given}options));\n    }}\n"
    ) + &format!(
        "\n    /** As {{@link #{name}}}. */\n    public CompletableFuture<{kind}> {name}Async({params}CallOptions options) {{\n        \
         return submit(() -> {name}Call({given}options));\n    }}\n"
    ) + &format!(
        "\n    private Prepared<{kind}> {name}Call({params}CallOptions options) {{\n        \
         return plain(Method.{constant}, options, {read},\n                encoder -> {encoder});\n    }}\n"
    )
}

/// The function that reads a record, or its only field.
fn reader(record: &RecordInfo, begin: &str, end: &str, kind: &str) -> String {
    let name = record.name;
    let values: Vec<String> = record.fields.iter().map(|info| value_of(info, "found")).collect();
    format!(
        "\n    static {kind} read{name}(In in) throws IOException {{\n        \
         Map<String, Object> found = Answers.members(in, Set.of({}));\n        return{begin}\n                {}{end};\n    }}\n",
        lists(record),
        values.join(",\n                ")
    )
}

/// The names of the fields that are lists.
fn lists(record: &RecordInfo) -> String {
    let lists = record.fields.iter().filter(|info| info.kind == FieldKind::Texts);
    lists.map(|info| format!("\"{}\"", info.field)).collect::<Vec<_>>().join(", ")
}

fn value_of(info: &FieldInfo, found: &str) -> String {
    let field = info.field;
    let optional = match info.kind {
        FieldKind::Text | FieldKind::Word(_) => format!("Answers.optional({found}, \"{field}\", String.class)"),
        FieldKind::Flag => format!("Answers.optional({found}, \"{field}\", Boolean.class)"),
        FieldKind::Number if info.is_time() => {
            format!("Answers.optional({found}, \"{field}\", Long.class).map(Instant::ofEpochSecond)")
        }
        FieldKind::Number => format!("Answers.number({found}, \"{field}\")"),
        FieldKind::Bytes => format!("Answers.optional({found}, \"{field}\", byte[].class)"),
        FieldKind::Texts => format!("Answers.texts({found}, \"{field}\")"),
    };
    optional + if info.is_optional { "" } else { ".orElseThrow(In::unreadable)" }
}

fn kind_of(info: &FieldInfo) -> String {
    let (kind, boxed) = match info.kind {
        FieldKind::Text | FieldKind::Word(_) => ("String", "String"),
        FieldKind::Flag => ("boolean", "Boolean"),
        FieldKind::Number if info.is_time() => ("Instant", "Instant"),
        FieldKind::Number => ("long", "Long"),
        FieldKind::Bytes => ("byte[]", "byte[]"),
        FieldKind::Texts => ("List<String>", "List<String>"),
    };
    match (info.is_optional, kind) {
        (false, _) => kind.to_owned(),
        (true, "long") => "OptionalLong".to_owned(),
        (true, _) => format!("Optional<{boxed}>"),
    }
}

fn name_of(info: &FieldInfo) -> String {
    let name = lower_camel_case(info.field.as_str());
    match (info.kind, name.get(..1)) {
        (FieldKind::Flag, Some(first)) => format!("is{}{}", first.to_uppercase(), &name[1..]),
        _ => name,
    }
}

/// The type of a result.
pub(super) fn type_of(record: &RecordInfo) -> String {
    let kinds: Vec<String> = record.fields.iter().map(kind_of).collect();
    let mut imports = String::new();
    for (class, package) in [("Instant", "time"), ("List", "util"), ("Optional<", "util"), ("OptionalLong", "util")] {
        if kinds.iter().any(|kind| kind.contains(class)) {
            let _ = writeln!(imports, "import java.{package}.{};", class.trim_end_matches('<'));
        }
    }
    if !imports.is_empty() {
        imports.push('\n');
    }
    let mut text = format!("// {MARK}\npackage io.leafseal.client;\n\n{imports}/**\n");
    text += &wrapped(&record.about(), " * ", WIDTH);
    text.push_str(" *\n");
    for info in record.fields {
        let words = match info.kind {
            FieldKind::Word(list) => format!(" One of {}.", list.joined("`", ", ", ", ")),
            _ => String::new(),
        };
        text += &wrapped(&with_code(&format!("@param {} {}{words}", name_of(info), info.about())), " * ", WIDTH);
    }
    let fields: Vec<String> =
        record.fields.iter().zip(kinds).map(|(info, kind)| format!("        {kind} {}", name_of(info))).collect();
    let _ = write!(text, " */\npublic record {}(\n{}) {{}}\n", record.name, fields.join(",\n"));
    text
}

/// A comment of documentation, with code between the marks of Java.
pub(super) fn doc(about: &str, indent: &str) -> String {
    let about = with_code(about);
    let line = format!("{indent}/** {about} */\n");
    if line.len() <= WIDTH {
        return line;
    }
    format!("{indent}/**\n{}{indent} */\n", wrapped(&about, &format!("{indent} * "), WIDTH))
}

/// The text with code between the marks of Java.
fn with_code(text: &str) -> String {
    let pieces = text.split('`').enumerate();
    pieces.map(|(at, piece)| if at % 2 == 1 { format!("{{@code {piece}}}") } else { piece.to_owned() }).collect()
}
