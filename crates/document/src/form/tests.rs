//! Compares the form parser with slow parsers that work differently.

use proptest::prelude::*;

use super::*;
use crate::CaseFold;

fn limits() -> FormLimits {
    FormLimits { fields_max: 50, part_header_size_max: 300, ..FormLimits::default() }
}

/// Names and values of an urlencoded form, by splitting strings.
fn slow_urlencoded(body: &[u8]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let decode = |text: &[u8]| {
        let latin: String = text.iter().map(|&byte| char::from(byte)).collect();
        let mut pieces = latin.replace('+', " ").split('%').map(str::to_owned).collect::<Vec<_>>().into_iter();
        let mut out: Vec<u8> = pieces.next().unwrap_or_default().chars().map(|c| c as u8).collect();
        for piece in pieces {
            let digits = piece.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
            match digits {
                Some(digits) => {
                    out.push(u8::from_str_radix(digits, 16).unwrap());
                    out.extend(piece[2..].chars().map(|c| c as u8));
                }
                None => out.extend(format!("%{piece}").chars().map(|c| c as u8)),
            }
        }
        out
    };
    let fields = body.split(|&byte| byte == b'&');
    fields
        .map(|field| match field.iter().position(|&byte| byte == b'=') {
            Some(at) => (decode(&field[..at]), Some(decode(&field[at + 1..]))),
            None => (decode(field), None),
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn urlencoded_fields_are_those_of_a_slow_reader(body in "[ab=&%+4c\u{e9}]{0,40}") {
        let body = body.as_bytes();
        let slow = slow_urlencoded(body);
        for (names, is_meant) in [(vec!["a"], false), (vec!["*"], true), (vec!["L", "", "b b"], false)] {
            let chosen = FieldNames::new(&names);
            let found = find_fields(body, &chosen, &limits()).unwrap();
            let found: Vec<Vec<u8>> = found.into_iter().map(|range| {
                let mut out = Vec::new();
                urlencoded_decode(&body[range], &mut out);
                out
            }).collect();
            let is_chosen = |name: &[u8]| names.iter().any(|chosen| chosen.as_bytes() == name || chosen.as_bytes() == name.trim_ascii());
            let expected: Vec<Vec<u8>> = slow.iter()
                .filter(|(name, _)| is_meant || is_chosen(name))
                .filter_map(|(_, value)| value.clone()).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn encoded_bytes_decode_again(text in any::<String>()) {
        let mut encoded = Vec::new();
        Syntax::Form.encode(text.as_bytes(), &mut encoded);
        prop_assert!(encoded.iter().all(|byte| byte.is_ascii_graphic() && !b"&=\"".contains(byte)));
        prop_assert_eq!(decode_field(&encoded).unwrap(), text);
    }

    #[test]
    fn parts_are_found_where_they_were_put(
        parts in proptest::collection::vec(("[ab\"\\\\]{1,3}", any::<bool>(), "[-Bx\r\n]{0,12}"), 0..6),
    ) {
        let mut body = Vec::new();
        let mut expected = Vec::new();
        let mut is_plain = true;
        for (name, is_file, content) in &parts {
            body.extend_from_slice(b"--B\r\n");
            let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
            let file = if *is_file { "; filename=\"f\"" } else { "" };
            body.extend_from_slice(format!("Content-Disposition: form-data; name=\"{quoted}\"{file}\r\n\r\n").as_bytes());
            let start = body.len();
            body.extend_from_slice(content.as_bytes());
            is_plain &= !content.contains("--B");
            if name == "a" {
                expected.push(MultipartPart { content: start..body.len(), is_file: *is_file, length_line: None });
            }
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--B--\r\n");
        let found = find_parts(&body, "B", &FieldNames::new(["a"]), &limits());
        if is_plain {
            prop_assert_eq!(found, Ok(expected));
        } else if let Ok(found) = found {
            // Only content that looks like a separator of parts may be read as one.
            prop_assert!(found.iter().all(|part| !String::from_utf8_lossy(&body[part.content.clone()]).contains("--B")));
        }
    }

    #[test]
    fn any_bytes_are_split_as_by_a_slow_parser(body in "(--B|\r\n|-|B|Content-Disposition: form-data; name=a|\r\n\r\n|x|;|\"){0,24}") {
        if let Ok(parts) = find_parts(body.as_bytes(), "B", &FieldNames::new(["*"]), &limits()) {
            let slow: Vec<&str> = body.split("--B").collect();
            prop_assert_eq!(slow.len(), parts.len() + 2, "nothing before, a cut for each part, the end");
            prop_assert_eq!(slow[0], "");
            for (part, text) in parts.iter().zip(&slow[1..]) {
                let (_, content) = text.split_once("\r\n\r\n").unwrap();
                prop_assert_eq!(format!("{}\r\n", &body[part.content.clone()]), content);
            }
        }
    }
}

fn urlencoded_decode(encoded: &[u8], out: &mut Vec<u8>) {
    // Through Latin-1, because a decoded value need not be UTF-8 to be compared.
    for (_, value) in slow_urlencoded(&[b"x=", encoded].concat()) {
        out.extend(value.unwrap());
    }
    if let Ok(text) = decode_field(encoded) {
        assert_eq!(text.as_bytes(), out.as_slice());
    }
}

#[test]
fn bounds_of_forms_are_kept() {
    let limits = FormLimits { fields_max: 2, part_header_size_max: 60, ..FormLimits::default() };
    let names = FieldNames::new(["*"]);
    assert!(find_fields(b"a=1&b=2", &names, &limits).is_ok());
    assert_eq!(find_fields(b"a=1&b=2&c=3", &names, &limits).unwrap_err().kind, FormErrorKind::TooManyFields(2));
    let part = "--B\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n";
    assert_eq!(find_parts(format!("{part}{part}--B--").as_bytes(), "B", &names, &limits).unwrap().len(), 2);
    let three = format!("{part}{part}{part}--B--");
    let error = find_parts(three.as_bytes(), "B", &names, &limits).unwrap_err();
    assert_eq!(error.kind, FormErrorKind::TooManyFields(2));
    let long = format!("--B\r\nX: {}\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--B--", "x".repeat(60));
    let error = find_parts(long.as_bytes(), "B", &names, &limits).unwrap_err();
    assert_eq!(error.kind, FormErrorKind::HeaderTooLong(60));
}

#[test]
fn ambiguous_forms_are_refused() {
    use FormErrorKind::*;
    let part = |header: &str, content: &str| format!("--B\r\n{header}\r\n\r\n{content}\r\n--B--\r\n");
    let disposition = "Content-Disposition: form-data; name=\"a\"";
    let cases = [
        (String::new(), NoBoundary),
        (format!("preamble\r\n{}", part(disposition, "1")), NoBoundary),
        (format!("{}epilogue", part(disposition, "1")), TrailingData),
        (part(disposition, "1").replace("\r\n", "\n"), StrayBoundary),
        (part(disposition, "1\n--B"), StrayBoundary),
        (part(disposition, "1\r\n--B x"), StrayBoundary),
        (part(disposition, "1--B"), StrayBoundary),
        (format!("--B\r\n{disposition}\r\n\r\n1"), UnexpectedEnd),
        (part(&format!("{disposition}\r\n X: folded"), "1"), InvalidHeader),
        (part(&format!("{disposition}\r\nno colon"), "1"), InvalidHeader),
        (part(&format!("{disposition}\nX: bare"), "1"), InvalidHeader),
        (part(&format!("{disposition}\r\n{disposition}"), "1"), InvalidDisposition),
        (part("Content-Disposition: form-data; name=a; name=b", "1"), InvalidDisposition),
        (part("Content-Disposition: form-data; name=a; name*=utf-8''b", "1"), InvalidDisposition),
        (part("Content-Disposition: attachment; name=a", "1"), InvalidDisposition),
        (part("Content-Disposition: form-data", "1"), InvalidDisposition),
        (part("Content-Disposition: form-data; name=\"a", "1"), InvalidDisposition),
        (part("X: y", "1"), InvalidDisposition),
        (part(&format!("{disposition}\r\nContent-Transfer-Encoding: base64"), "MQ=="), EncodedPart),
        (part(&format!("{disposition}\r\nContent-Type: multipart/mixed; boundary=C"), "x"), EncodedPart),
    ];
    for (body, kind) in cases {
        let error = find_parts(body.as_bytes(), "B", &FieldNames::new(["a"]), &limits()).expect_err(&body);
        assert_eq!(error.kind, kind, "{body:?}");
    }
    for boundary in ["", "a b", "é", &"x".repeat(71)] {
        let error = find_parts(b"--", boundary, &FieldNames::new(["a"]), &limits()).unwrap_err();
        assert_eq!(error.kind, NoBoundary, "{boundary:?}");
    }
}

#[test]
fn a_name_is_meant_by_any_of_its_readings() {
    for (written, name) in [
        ("\"a\"", "a"),
        ("a", "a"),
        ("\"a%22b\"", "a\"b"),
        ("\"a%22b\"", "a%22b"),
        ("\"a\\\"b\"", "a\"b"),
        ("\"a\\b\"", "ab"),
        ("\"a\\b\"", "a\\b"),
        ("\"na\u{ef}ve\"", "na\u{ef}ve"),
    ] {
        let body = format!("--B\r\ncontent-disposition: form-data; name={written}\r\n\r\n1\r\n--B--");
        let found = find_parts(body.as_bytes(), "B", &FieldNames::new([name]), &limits()).unwrap();
        assert_eq!(found.len(), 1, "{written} as {name}");
    }
}

#[test]
fn a_length_header_is_found() {
    for header in ["Content-Length: 1\r\nX: y", "X: y\r\ncontent-length: 1"] {
        let body = format!("--B\r\nContent-Disposition: form-data; name=a\r\n{header}\r\n\r\n1\r\n--B--");
        let parts = find_parts(body.as_bytes(), "B", &FieldNames::new(["a"]), &limits()).unwrap();
        let line = parts[0].length_line.clone().unwrap();
        assert!(body[line.clone()].eq_ignore_ascii_case("content-length: 1\r\n"));
        let without = format!("{}{}", &body[..line.start], &body[line.end..]);
        assert_eq!(without, "--B\r\nContent-Disposition: form-data; name=a\r\nX: y\r\n\r\n1\r\n--B--");
    }
}

#[test]
fn media_types() {
    let parse = |text: &str| MediaType::parse(text.as_bytes());
    let json = parse("Application/Problem+JSON ; Charset=\"UTF-8\"").unwrap();
    assert!(json.is_json() && json.charset.as_deref() == Some("utf-8"));
    assert!(parse("text/json;").unwrap().is_json());
    assert!(!parse("application/jsonx").unwrap().is_json());
    let form = parse("multipart/form-data; a=b; boundary=\"x=y\"; c=d").unwrap();
    assert!(form.is_multipart() && form.boundary.as_deref() == Some("x=y"));
    assert!(parse("application/x-www-form-urlencoded;charset=utf-8").unwrap().is_urlencoded());
    for wrong in
        ["", "json", "a/b c", "a/b; boundary", "a/b; boundary=\"x", "a/b; boundary=x; Boundary=y", "a/b; =x", "/b"]
    {
        assert_eq!(parse(wrong), None, "{wrong}");
    }
}

#[test]
fn fields_of_documents_are_detected_by_their_paths() {
    use crate::FieldPath::{Anywhere, Below, Exactly};
    let paths = [
        Exactly("card[number]".to_owned()),
        Anywhere("pin".to_owned()),
        Below { first: Some("cards".to_owned()), name: "cvc".to_owned() },
        Below { first: None, name: "key".to_owned() },
    ];
    let guarded = FieldNames::default().with_paths(&paths).guarded(CaseFold::Refuse, &FieldNames::default());
    assert!(!guarded.is_empty());
    for name in [
        "card[number]",
        "card.number",
        "Card[number][]",
        "card[0][number]",
        "pin",
        "PIN[x]",
        "a[b][pin]",
        "a.pin",
        "a[pin(1i)]",
        "[pin]",
        "cards[x][cvc]",
        "cards.x.cvc",
        "cards[cvc]",
        "cards[1][y][cvc][z]",
        "a[key]",
        "a[b][key]",
        "_json[][key]",
    ] {
        assert!(guarded.means(name.as_bytes()), "{name}");
    }
    for name in
        ["card", "number", "card_number", "pins", "cvc", "cvc[cards]", "card[cvc]", "key", "key[x]", "x[number]", "[]"]
    {
        assert!(!guarded.means(name.as_bytes()), "{name}");
    }
    // A name of thousands of siblings is found by one look-up of each step.
    let many =
        FieldNames::new((0..5000).map(|at| format!("a[b{at}][c]"))).guarded(CaseFold::Refuse, &FieldNames::default());
    assert!(many.means(b"a[b4999].c") && !many.means(b"a[b5000].c"));
}
