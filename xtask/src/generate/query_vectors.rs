//! Samples of the queries, `vectors/client/queries.json`, which every client plays: what a call sends, and what it returns for an answer.

use leafseal_protocol::{
    Field, FieldInfo, FieldKind, QueryInfo, RecordInfo, RecordValue, ResultShape, answer, request,
};
use serde_json::{Map, Value, json};

use super::GeneratedFile;
use super::queries::{arguments, checked};
use crate::source::SourceFile;

const VECTORS: &str = "vectors/client/queries.json";
/// A text in the range of every parameter.
const TEXT: &str = "00ff";
/// Size of the heads of a request and of an answer with the id 0, which clients write in other formats.
const HEADS: (usize, usize) = (3, 4);

type Sampled = Vec<(Field, Option<RecordValue<'static>>)>;

pub(super) fn outputs(_: &[SourceFile]) -> Result<Vec<GeneratedFile>, String> {
    let vectors: Vec<Value> = checked()?.iter().map(vector).collect();
    let text = serde_json::to_string_pretty(&vectors).map_err(|error| error.to_string())? + "\n";
    Ok(vec![GeneratedFile { path: VECTORS.into(), text }])
}

fn vector(query: &QueryInfo) -> Value {
    let params: Sampled = query.params.fields.iter().filter(|info| !info.is_optional).map(sample).collect();
    let mut sent = Vec::new();
    request::given(0, query.method, &params, &mut sent);
    let (returns, results, incomplete) = match query.result {
        ResultShape::Record(record) => ("record", results(record), incomplete(record)),
        ResultShape::Field(record) => ("field", results(record), incomplete(record)),
        ResultShape::Facts => ("facts", vec![result(&[(Field::Version, Some(RecordValue::Text(TEXT)))])], Vec::new()),
    };
    json!({
        "method": query.method,
        "params": named(&params),
        "arguments": arguments(query).map(|_| TEXT).collect::<Vec<_>>(),
        "request": hex(&sent[HEADS.0..]),
        "returns": returns,
        "results": results,
        "incomplete": incomplete,
    })
}

/// With every field, and without the optional ones.
fn results(record: &RecordInfo) -> Vec<Value> {
    let all: Sampled = record.fields.iter().map(sample).collect();
    let required: Sampled = record.fields.iter().filter(|info| !info.is_optional).map(sample).collect();
    if all.len() == required.len() { vec![result(&all)] } else { vec![result(&all), result(&required)] }
}

fn result(fields: &[(Field, Option<RecordValue<'_>>)]) -> Value {
    json!({ "answer": answer_of(fields), "result": named(fields) })
}

/// Answers without one of the fields that must be there.
fn incomplete(record: &RecordInfo) -> Vec<String> {
    let required = record.fields.iter().filter(|info| !info.is_optional);
    let without = |missing: &FieldInfo| -> Sampled {
        record.fields.iter().filter(|info| info.field != missing.field).map(sample).collect()
    };
    required.map(|missing| answer_of(&without(missing))).collect()
}

fn answer_of(fields: &[(Field, Option<RecordValue<'_>>)]) -> String {
    let mut bytes = Vec::new();
    answer::given(0, fields, &mut bytes);
    hex(&bytes[HEADS.1..])
}

fn sample(info: &FieldInfo) -> (Field, Option<RecordValue<'static>>) {
    let value = match info.kind {
        FieldKind::Text => RecordValue::Text(TEXT),
        FieldKind::Word(list) => RecordValue::Text(list.words[0].0),
        FieldKind::Flag => RecordValue::Flag(true),
        FieldKind::Number => RecordValue::Number(1_700_000_000),
        FieldKind::Bytes => RecordValue::Bytes(&[2; 33]),
        FieldKind::Texts => RecordValue::Texts(vec!["encrypt", "ü"]),
    };
    (info.field, Some(value))
}

/// The fields as JSON: bytes in hexadecimal.
fn named(fields: &[(Field, Option<RecordValue<'_>>)]) -> Value {
    let json = |value: &RecordValue<'_>| match value {
        RecordValue::Text(text) => json!(text),
        RecordValue::Flag(flag) => json!(flag),
        RecordValue::Number(number) => json!(number),
        RecordValue::Bytes(bytes) => json!(hex(bytes)),
        RecordValue::Texts(texts) => json!(texts),
    };
    let fields = fields.iter().filter_map(|(field, value)| Some((field.as_str().to_owned(), json(value.as_ref()?))));
    Value::Object(fields.collect::<Map<String, Value>>())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
