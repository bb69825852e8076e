//! The report of an answer: a header with one JSON object, because the body contains only the document.

use hyper::header::HeaderValue;
use leafseal_engine::RequestReport;
use leafseal_service::api::CallReport;
use serde_json::{Map, Value, json};

/// The header's name.
pub(super) const REPORT: &str = "leafseal-report";

/// Maximum size of the header in bytes: proxies and clients limit the headers of an answer. Paths that do not fit are omitted.
const REPORT_SIZE_MAX: usize = 4096;

/// Returns the header, unless it would contain only the count.
pub(super) fn header(call: &CallReport) -> Option<HeaderValue> {
    let RequestReport { matched, resealed, skipped, rewrapped, symmetric, failed, failures } = &call.report;
    let mut fields = Map::from_iter([("count".to_owned(), json!(call.count))]);
    if !matched.is_empty() {
        fields.insert("matched".to_owned(), json!(matched));
    }
    let numbers = [("resealed", resealed), ("skipped", skipped), ("rewrapped", rewrapped), ("symmetric", symmetric)];
    for (name, number) in numbers {
        if *number > 0 {
            fields.insert(name.to_owned(), json!(number));
        }
    }
    let mut paths: Vec<&str> = failures.iter().map(|failure| failure.path.as_str()).collect();
    if call.reports_failures {
        fields.insert("failed".to_owned(), json!(failed));
        fields.insert("failures".to_owned(), json!(paths));
    }
    if fields.len() == 1 {
        return None;
    }
    loop {
        let text = in_ascii(&Value::Object(fields.clone()).to_string());
        if text.len() <= REPORT_SIZE_MAX {
            return HeaderValue::try_from(text).ok();
        }
        if paths.pop().is_none() {
            fields.remove("matched")?;
        }
        if call.reports_failures {
            fields.insert("failures".to_owned(), json!(paths));
        }
    }
}

/// Escapes every character of JSON strings that a header cannot contain.
fn in_ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        match character {
            ' '..='~' => text.push(character),
            _ => {
                let mut units = [0; 2];
                character.encode_utf16(&mut units).iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use leafseal_engine::Failure;

    use super::*;

    #[test]
    fn a_report_is_one_header_of_bounded_size() {
        assert_eq!(header(&CallReport { count: 3, ..CallReport::default() }), None);
        let failure = |path: String| Failure { position: 0, path };
        let report = RequestReport {
            matched: vec![1, 0],
            resealed: 2,
            skipped: 0,
            rewrapped: 0,
            symmetric: 0,
            failed: 900,
            failures: (0..100).map(|number| failure(format!("$['\u{1d11e}é{}'][{number}]", "x".repeat(90)))).collect(),
        };
        let value = header(&CallReport { count: 3, report, reports_failures: true })
            .expect("the report has more than the count");
        assert!(value.len() <= REPORT_SIZE_MAX);
        let read: Value = serde_json::from_slice(value.as_bytes()).expect("JSON");
        assert_eq!(read["failures"][0], format!("$['\u{1d11e}é{}'][0]", "x".repeat(90)));
        assert_eq!(
            (&read["count"], &read["matched"], &read["resealed"], &read["failed"], read.get("skipped")),
            (&json!(3), &json!([1, 0]), &json!(2), &json!(900), None)
        );
        let many = RequestReport { matched: vec![1_000_000; 2000], resealed: 1, ..RequestReport::default() };
        let value = header(&CallReport { report: many, ..CallReport::default() }).expect("some of it");
        assert_eq!(value, r#"{"count":0,"resealed":1}"#);
    }
}
