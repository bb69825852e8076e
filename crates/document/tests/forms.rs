//! `vectors/forms`: forms in which a field is found, or that are refused, as two readers could cut them differently.

use fieldseal_document::form::{FieldNames, FormErrorKind, FormLimits, MediaType, find_fields, find_parts};
use serde_json::Value;

/// What a relay makes of the form: the values of `card`, or the word for why it is refused.
fn read(media_type: &str, body: &[u8]) -> Result<Vec<String>, String> {
    let (names, limits) = (FieldNames::new(["card"]), FormLimits::default());
    let media = MediaType::parse(media_type.as_bytes()).filter(MediaType::is_utf8).ok_or("type")?;
    let kind = |kind: FormErrorKind| format!("{kind:?}");
    let ranges = if media.is_urlencoded() {
        find_fields(body, &names, &limits).map_err(|error| kind(error.kind))?
    } else {
        let boundary = media.boundary.as_deref().filter(|_| media.is_multipart()).ok_or("type")?;
        let parts = find_parts(body, boundary, &names, &limits).map_err(|error| kind(error.kind))?;
        parts.into_iter().map(|part| part.content).collect()
    };
    Ok(ranges.into_iter().map(|range| String::from_utf8_lossy(&body[range]).into_owned()).collect())
}

#[test]
fn no_form_hides_a_field_from_one_reader_alone() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/forms/card.json");
    let file: Value = serde_json::from_slice(&std::fs::read(path).expect("the file is part of the project")).unwrap();
    let (mut count, mut faults) = (0, Vec::new());
    for group in file["groups"].as_array().unwrap() {
        for case in group["cases"].as_array().unwrap() {
            count += 1;
            let text = |key: &str| case[key].as_str().unwrap();
            let read = read(text("type"), text("body").as_bytes());
            let expected = match case.get("refused") {
                Some(why) => Err(why.as_str().unwrap().to_owned()),
                None => {
                    let found = case["found"].as_array().unwrap().iter();
                    Ok(found.map(|value| value.as_str().unwrap().to_owned()).collect())
                }
            };
            if read != expected {
                faults.push(format!("{}: {case}: {read:?}", group["rule"]));
            }
        }
    }
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n"));
    assert!(count > 70, "only {count} cases were found");
}
