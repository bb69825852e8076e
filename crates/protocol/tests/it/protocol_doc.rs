//! Compares `docs/protocol.md` with the code: every name, code and limit is in it, and the worked example is what is sent.

use leafseal_protocol::{
    ALPN, CANCEL, CONNECTION_ERROR, Curve, EncryptOptions, ErrorCode, ErrorObject, Field, FrameLimits, GOING_AWAY,
    GoingAway, Keying, Method, OnFailure, PORT, Retry, Scalar, answer, request, write,
};

const DOC: &str = include_str!("../../../../docs/protocol.md");
const ENVELOPE: &str =
    "ev:Tk9D:number:uHtddW8RwjjAeZsF:At2Nq8Wc/sB0utHg3MJggJzdQ6KhriHbYABYTd4KJCUk:r8o5J/lXEcmbks8dUIprCcSx:$";

/// The bytes of the fenced block `hex NAME`: two digits each, up to the `|` that begins a line's explanation.
fn hex_block(name: &str) -> Vec<u8> {
    let start = format!("```hex {name}\n");
    let block = DOC.split(&start).nth(1).and_then(|rest| rest.split("```").next()).expect("the block is there");
    let digits = block.lines().flat_map(|line| line.split('|').next().unwrap_or_default().split_whitespace());
    digits.map(|byte| u8::from_str_radix(byte, 16).expect("two hex digits")).collect()
}

#[test]
fn the_worked_example_matches_the_encoder() {
    let options = EncryptOptions { deadline_ms: Some(500), ..EncryptOptions::new("acme") };
    let mut out = Vec::new();
    request::encrypt(7, &options, [Scalar::UInt(42), Scalar::Nil].into_iter(), &mut out);
    assert_eq!(hex_block("request"), out);

    let mut out = Vec::new();
    answer::begin_values(7, 2, &mut out);
    write::string(ENVELOPE, &mut out);
    write::nil(&mut out);
    assert_eq!(hex_block("answer"), out);

    let mut out = Vec::new();
    answer::error(7, &ErrorObject::new(ErrorCode::DecryptFailed, "envelope did not open").at_index(3), &mut out);
    assert_eq!(hex_block("error"), out);
}

#[test]
fn every_method_has_its_section_and_no_other() {
    let methods = DOC.split("\n## Methods\n").nth(1).and_then(|rest| rest.split("\n## ").next()).expect("the part");
    let sections: Vec<&str> =
        methods.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
    let expected: Vec<&str> = Method::ALL.iter().map(|method| method.as_str()).collect();
    assert_eq!(sections, expected);
}

#[test]
fn every_name_and_limit_is_explained() {
    let limits = FrameLimits::default();
    let mut names: Vec<String> = Field::ALL.iter().map(|field| field.as_str().to_owned()).collect();
    names.extend([CANCEL, CONNECTION_ERROR, GOING_AWAY].map(str::to_owned));
    names.extend(GoingAway::ALL.iter().map(|reason| reason.as_str().to_owned()));
    names.extend(Curve::ALL.iter().map(|curve| curve.as_str().to_owned()));
    names.extend(OnFailure::ALL.iter().map(|on_failure| on_failure.as_str().to_owned()));
    names.extend(Keying::ALL.iter().map(|keying| keying.as_str().to_owned()));
    names.extend(Retry::ALL.iter().map(|retry| retry.as_str().to_owned()));
    names.push(String::from_utf8(ALPN.to_vec()).expect("ASCII"));
    for name in names {
        let (plain, optional) = (format!("`{name}`"), format!("`{name}?`"));
        assert!(DOC.contains(&plain) || DOC.contains(&optional), "{name} is not explained");
    }
    assert!(DOC.contains(&format!("port {PORT} ")));
    assert!(DOC.contains(&format!("bytes | {} (1 GiB)", limits.frame_size_max)));
    assert!(DOC.contains(&format!("pairs of a map | {} (2^24)", limits.elements_max)));
    assert!(DOC.contains(&format!("array counted | {} |", limits.depth_max)));
}
