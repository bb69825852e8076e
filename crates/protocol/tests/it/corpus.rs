//! Replays the fuzzer's corpus, and keeps its seeds: one message of every kind, and what breaks each limit.
//!
//! `LEAFSEAL_UPDATE=1` regenerates the seeds after the format of a message has changed.

use std::fs;
use std::path::PathBuf;

use leafseal_protocol::{
    Curve, DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, ErrorCode, ErrorObject, Field,
    FieldInfo, FieldKind, GoingAway, Health, InspectOptions, Inspection, Keying, Query, QueryInfo, RecordInfo,
    RecordValue, ResultShape, RewrapFailure, RewrapOptions, Scalar, Scheme, TextKind, WordSet, answer, fuzzing,
    request, write,
};

fn corpus() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/frames")
}

fn seed(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

fn values() -> [Scalar<'static>; 7] {
    [
        Scalar::Nil,
        Scalar::Bool(true),
        Scalar::UInt(300),
        Scalar::Int(-70_000),
        Scalar::Float(12.5),
        Scalar::from("Zoë"),
        Scalar::from("a field of thirty-two characters"),
    ]
}

fn requests() -> Vec<(&'static str, Vec<u8>)> {
    let options = EncryptOptions {
        curve: Some(Curve::K1),
        keying: Some(Keying::Session),
        role: Some("card"),
        deadline_ms: Some(500),
        ..EncryptOptions::new("acme")
    };
    let decrypt = DecryptOptions { role: Some("card"), deadline_ms: Some(70_000), ..DecryptOptions::new("acme") };
    let on_behalf = DecryptOptions { key_id: Some("00ff00aa9b8c7d6e"), ..decrypt };
    let rewrap = RewrapOptions { curve: Some(Curve::R1), ..RewrapOptions::new("acme") };
    let in_context =
        InspectOptions { context: Some("row 17"), accept: WordSet::parse("symmetric"), ..InspectOptions::new("acme") };
    let leaving = InspectOptions { on_failure: Some(RewrapFailure::Leave), ..InspectOptions::new("acme") };
    let envelopes = || ["ev:Tk9D:", "ev:RFVC:number:"].into_iter();
    vec![
        ("encrypt", seed(|out| request::encrypt(1, &options, values().into_iter(), out))),
        ("decrypt", seed(|out| request::decrypt(200, &decrypt, values().into_iter(), out))),
        (
            "encrypt_document",
            seed(|out| request::encrypt_document(70_000, &options, Some(&["$.a"]), b"{\"a\":1}", out)),
        ),
        ("decrypt_document", seed(|out| request::decrypt_document(2, &decrypt, None, b"[\"ev:\"]", out))),
        ("decrypt_document_on_behalf", seed(|out| request::decrypt_document(2, &on_behalf, None, b"[\"ev:\"]", out))),
        ("encrypt_file", seed(|out| request::encrypt_file(3, &EncryptFileOptions::new("acme"), b"\0\xff", out))),
        ("decrypt_file", seed(|out| request::decrypt_file(4, &DecryptFileOptions::new("acme"), b"%EVENC", out))),
        ("rewrap", seed(|out| request::rewrap(5, &rewrap, envelopes(), out))),
        ("inspect", seed(|out| request::inspect(6, Some("acme"), envelopes(), out))),
        ("inspect_in_context", seed(|out| request::inspect_with(6, &in_context, envelopes(), out))),
        ("inspect_bound", seed(|out| request::inspect_bound(6, &leaving, &["row 17", "row 18"], envelopes(), out))),
        ("cancel", seed(|out| request::cancel(8, out))),
    ]
}

fn answers() -> Vec<(&'static str, Vec<u8>)> {
    let inspected = Inspection {
        version: "QkTC".to_owned(),
        scheme: Some(Scheme::PublicKey),
        curve: Some(Curve::R1),
        kind: TextKind::Number,
        debug: false,
        ephemeral: Some(vec![2; 33]),
        symmetric_key_id: None,
        from_public_key: None,
        role: Some("card".to_owned()),
        origin: Some(5),
        encrypted_at: Some(1_700_000_000),
        key_version: None,
        unopened: Some(true),
    };
    let error = ErrorObject::new(ErrorCode::DecryptFailed, "an envelope did not open").at_index(3);
    vec![
        (
            "answer_values",
            seed(|out| {
                answer::begin_values(1, values().len() as u32, out);
                values().iter().for_each(|value| write::scalar(value, out));
            }),
        ),
        (
            "answer_rewrap",
            seed(|out| {
                let answer = answer::OpenRewrap::begin(1, 1, out);
                write::string("ev:", out);
                answer.finish(1, &answer::AnswerReport::default(), out);
            }),
        ),
        (
            "answer_document",
            seed(|out| {
                let open = answer::OpenDocument::begin(1, out);
                out.extend_from_slice(b"{}");
                open.finish(0, out);
            }),
        ),
        (
            "answer_file",
            seed(|out| {
                let open = answer::OpenFile::begin(1, out);
                out.extend_from_slice(b"\0\xff");
                open.finish(out);
            }),
        ),
        (
            "answer_inspect",
            seed(|out| {
                answer::begin_inspect(1, 1, out);
                answer::inspected(&inspected, out);
            }),
        ),
        ("answer_health", seed(|out| answer::health(1, Health::OK, out))),
        ("answer_error", seed(|out| answer::error(1, &error, out))),
        ("connection_error", seed(|out| answer::connection_error(&error, out))),
        ("going_away", seed(|out| answer::going_away(GoingAway::Closed, out))),
    ]
}

/// For each query a request and an answer with every field, and one of each without the optional ones.
fn queries() -> Vec<(&'static str, Vec<u8>)> {
    let stream = |query: &QueryInfo| {
        seed(|out| {
            for has_optional in [true, false] {
                let is_set = |info: &&FieldInfo| has_optional || !info.is_optional;
                let fields = |record: &RecordInfo| record.fields.iter().filter(is_set).map(sample).collect::<Vec<_>>();
                request::given(7, query.method, &fields(query.params), out);
                match query.result {
                    ResultShape::Record(record) | ResultShape::Field(record) => answer::given(7, &fields(record), out),
                    ResultShape::Facts => answer::given(7, &[(Field::Version, Some(RecordValue::Text("0.1.0")))], out),
                }
            }
        })
    };
    Query::ALL.iter().map(|query| (query.method, stream(query))).collect()
}

fn sample(info: &FieldInfo) -> (Field, Option<RecordValue<'static>>) {
    let value = match info.kind {
        FieldKind::Text => RecordValue::Text("00ff"),
        FieldKind::Word(list) => RecordValue::Text(list.words[0].0),
        FieldKind::Flag => RecordValue::Flag(true),
        FieldKind::Number => RecordValue::Number(1_700_000_000),
        FieldKind::Bytes => RecordValue::Bytes(&[2; 33]),
        FieldKind::Texts => RecordValue::Texts(vec!["encrypt", "decrypt"]),
    };
    (info.field, Some(value))
}

fn hostile() -> Vec<(&'static str, Vec<u8>)> {
    let mut wide = vec![0xdc, 0x04, 0x00];
    wide.resize(3 + 1024, 0xc0);
    vec![
        ("empty", vec![]),
        ("depth_bomb", vec![0x91; 64]),
        ("depth_largest", [vec![0x91; 7], vec![0x90]].concat()),
        ("elements_largest", wide),
        ("elements_one_past", vec![0xdc, 0x04, 0x01]),
        ("huge_count", vec![0xdd, 0xff, 0xff, 0xff, 0xff]),
        ("huge_string", vec![0x94, 0x00, 0x01, 0xdb, 0xff, 0xff, 0xff, 0xff]),
        ("reserved_marker", vec![0x94, 0x00, 0x01, 0xc1]),
        ("extension", vec![0x94, 0x00, 0x01, 0xa6, b'h', b'e', b'a', b'l', b't', b'h', 0x91, 0xd6, 0xff, 1, 2, 3, 4]),
        ("number_key", vec![0x94, 0x00, 0x01, 0xa4, b'i', b'n', b'f', b'o', 0x91, 0x81, 0x05, 0xc0]),
        ("http", b"GET / HTTP/1.1\r\nHost: engine\r\n\r\n".to_vec()),
    ]
}

#[test]
fn the_corpus_holds_the_seeds_and_every_property() {
    for (name, bytes) in [requests(), answers(), queries(), hostile()].concat() {
        let path = corpus().join(name);
        if std::env::var_os("LEAFSEAL_UPDATE").is_some() {
            fs::create_dir_all(corpus()).expect("the corpus can be made");
            fs::write(&path, &bytes).expect("the seed can be written");
        }
        let stored = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(stored, bytes, "{name} is as the code writes it; LEAFSEAL_UPDATE=1 renews it");
    }
    let mut replayed = 0;
    for entry in fs::read_dir(corpus()).expect("the corpus is there") {
        let bytes = fs::read(entry.expect("an entry").path()).expect("a file");
        fuzzing::check_frames(&bytes);
        replayed += 1;
    }
    assert!(replayed >= 31, "only {replayed} files");
}

/// The fuzzer's work in small: each seed with each byte changed, cut off, or followed by another seed.
#[test]
fn changed_seeds_hold_every_property() {
    let seeds = [requests(), answers(), queries()].concat();
    for (_, bytes) in &seeds {
        for at in 0..bytes.len() {
            fuzzing::check_frames(&bytes[..at]);
            for value in [0x00, 0x80, 0x90, 0x91, 0xa0, 0xc0, 0xc1, 0xca, 0xd4, 0xdb, 0xdd, 0xdf, 0xff] {
                let mut changed = bytes.clone();
                changed[at] = value;
                fuzzing::check_frames(&changed);
            }
        }
        fuzzing::check_frames(&[&bytes[..], &seeds[0].1].concat());
    }
}
