//! `vectors/forms`: forms in which a field is found, or that are refused because parsers could split them differently or read a name as
//! another.

use leafseal_document::CaseFold;
use leafseal_document::form::{
    FieldNames, FormErrorKind, FormLimits, MediaType, Syntax, find_fields, find_parts, holds_field,
};
use serde_json::Value;

/// The relay's view of the form: the values of the selected field, or the name of the error.
fn read(media_type: &str, body: &[u8], selected: &str, other_case: CaseFold) -> Result<Vec<String>, String> {
    let limits = FormLimits::default();
    let names = FieldNames::new([selected]).guarded(other_case, &FieldNames::default());
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

fn file(name: &str) -> Value {
    let path = format!("{}/../../vectors/forms/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&std::fs::read(path).expect("the file is part of the project")).unwrap()
}

#[test]
fn no_form_passes_that_hides_a_field_from_some_parsers() {
    let file = file("card.json");
    let (mut count, mut faults) = (0, Vec::new());
    for group in file["groups"].as_array().unwrap() {
        for case in group["cases"].as_array().unwrap() {
            count += 1;
            let text = |key: &str| case[key].as_str().unwrap();
            let read = read(text("type"), text("body").as_bytes(), "card", CaseFold::Refuse);
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

/// The name in form encoding.
fn urlencoded(name: &str) -> String {
    let mut out = Vec::new();
    Syntax::Form.encode(name.as_bytes(), &mut out);
    String::from_utf8(out).expect("it is ASCII")
}

#[test]
fn no_name_passes_that_a_parser_reads_as_a_selected_one() {
    let file = file("names.json");
    let (mut count, mut faults) = (0, Vec::new());
    for group in file["groups"].as_array().unwrap() {
        for case in group["cases"].as_array().unwrap() {
            let text = |key: &str| case[key].as_str().unwrap();
            let (selected, name) = (text("selected"), text("name"));
            let expected = match text("is") {
                "selected" => Ok(vec!["4242".to_owned()]),
                "other" => Ok(vec![]),
                "ambiguous" => Err("AmbiguousName".to_owned()),
                word => panic!("{word}"),
            };
            let other_case = match case.get("other_case").map(|word| word.as_str().unwrap()) {
                None | Some("refuse") => CaseFold::Refuse,
                Some("same") => CaseFold::Same,
                Some("other") => CaseFold::Other,
                Some(word) => panic!("{word}"),
            };
            let form = format!("x=1&{}=4242", urlencoded(name));
            let quoted = name.replace('"', "\\\"");
            let parts = format!("--B\r\nContent-Disposition: form-data; name=\"{quoted}\"\r\n\r\n4242\r\n--B--\r\n");
            for (media_type, body) in
                [("application/x-www-form-urlencoded", form), ("multipart/form-data; boundary=B", parts)]
            {
                // A control character in a part's header, and a part without a name, are refused as such.
                if media_type.starts_with("multipart") && (name.contains(char::is_control) || name.is_empty()) {
                    continue;
                }
                count += 1;
                let read = read(media_type, body.as_bytes(), selected, other_case);
                if read != expected {
                    faults.push(format!("{}: {case}: {media_type}: {read:?}", group["rule"]));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{} of {count}:\n{}", faults.len(), faults.join("\n"));
    assert!(count > 100, "only {count} cases were found");
}

#[test]
fn bytes_of_another_kind_hold_a_field_in_either_way_to_separate_them() {
    let names = FieldNames::new(["card"]).guarded(CaseFold::Refuse, &FieldNames::default());
    let held =
        ["card=1", "a=1&card=1", "a=1;card=1", "a;card=1", "card:int;b=1", "a&card:int;b=1", "{\"a\":\"&ca%72d=1"];
    for text in held {
        assert!(holds_field(text.as_bytes(), &names, &FormLimits::default()), "{text}");
    }
    for text in ["", "card", "a;card", "a=card", "a=1;b=card", "card;b=1", "cards=1"] {
        assert!(!holds_field(text.as_bytes(), &names, &FormLimits::default()), "{text}");
    }
}

#[test]
fn a_name_within_long_padding_is_selected_only_if_nothing_but_white_space_surrounds_it() {
    let names = FieldNames::new(["card"]);
    let count = |body: String, names: &FieldNames| {
        find_fields(body.as_bytes(), names, &FormLimits::default()).map(|found| found.len())
    };
    let guarded = names.clone().guarded(CaseFold::Refuse, &FieldNames::default());
    let space = " ".repeat(2_000);
    for whole in [format!("{space}card=1"), format!("card{space}=1"), format!("{space}card{space}\0x=1")] {
        assert_eq!(count(whole.clone(), &names), Ok(1));
        assert_eq!(count(whole, &guarded), Ok(1));
    }
    let other = format!("{space}\u{16}card=1");
    assert_eq!(count(other.clone(), &names), Ok(0));
    assert_eq!(count(other, &guarded).unwrap_err().kind, FormErrorKind::AmbiguousName);
    // No reader takes this name for the selected one, and all of it is read.
    assert_eq!(count(format!("card{space}x=1"), &guarded), Ok(0));
    // A name that is not read to its end is refused.
    let long = format!("card{}x=1", " ".repeat(5_000));
    assert_eq!(count(long.clone(), &names), Ok(0));
    assert_eq!(count(long, &guarded).unwrap_err().kind, FormErrorKind::NameTooLong(4 << 10));
    let odd = FieldNames::new(["[][[[[[[[[[[[[card"]);
    assert_eq!(count("[][[[[[[[[[[[[card=1".to_owned(), &odd), Ok(1));
    // Everything after a NUL is no name, to any of the readers.
    assert_eq!(count(format!("{space}\0card=1"), &guarded), Ok(0));
}
