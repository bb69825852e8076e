//! Long values, documents and files are processed in pieces, and their errors are those of short ones.

use super::*;

/// The number of passes over this many bytes in pieces of [`STEP_BYTES`].
fn passes(steps: &Steps, size: usize) -> f64 {
    (steps.count * STEP_BYTES) as f64 / size as f64
}

/// Bytes per step in the following tests.
const STEP_BYTES: usize = 2048;
/// The length of a text in them: many steps.
const LONG: usize = 100 * STEP_BYTES + 7;

fn long_fixture() -> Fixture {
    fixture_with(Settings { step_bytes_max: STEP_BYTES, ..Settings::default() }, 1 << 30)
}

/// Checks the output of each step: a piece, grown by base64 or escape sequences, and the text around it.
fn is_bounded(steps: &Steps, growth: f64) -> bool {
    steps.written_max as f64 <= STEP_BYTES as f64 * growth + 200.0
}

fn values_of(answer: &[u8]) -> Vec<Vec<u8>> {
    let values = ValuesResult::decode(result(answer)).expect("values").values;
    values.strings().map(|text| text.expect("a string").as_bytes().to_vec()).collect()
}

/// A long value in a list: each pass over it takes one step per piece, and each step writes at most one piece.
#[test]
fn long_values_of_lists_are_done_in_pieces() {
    let fixture = long_fixture();
    let long = "long é ".repeat(LONG / 8);
    let list = [Scalar::from("before"), Scalar::from(long.as_str()), Scalar::from("behind")];
    let options = EncryptOptions::new("acme");
    let (answer, steps) = run_watched(&fixture, frame(|out| request::encrypt(9, &options, list.iter().copied(), out)));
    assert!(is_bounded(&steps, 4.0 / 3.0), "{} bytes", steps.written_max);
    assert!(passes(&steps, LONG) >= 2.0, "UTF-8 and sealing: {}", steps.count);
    let sealed = values_of(&answer);

    let texts: Vec<&str> = sealed.iter().map(|text| std::str::from_utf8(text).expect("ASCII")).collect();
    let envelopes: Vec<Scalar<'_>> = texts.iter().map(|text| Scalar::from(*text)).collect();
    let options = DecryptOptions::new("acme");
    let decrypt = |list: &[Scalar<'_>]| {
        run_watched(&fixture, frame(|out| request::decrypt(9, &options, list.iter().copied(), out)))
    };
    let (answer, steps) = decrypt(&envelopes);
    assert_eq!(values_of(&answer), [b"before", long.as_bytes(), b"behind"]);
    assert!(is_bounded(&steps, 1.0), "{} bytes", steps.written_max);
    assert!(passes(&steps, LONG) >= 4.0 * 4.0 / 3.0 - 1.5, "UTF-8, opening, UTF-8, writing: {}", steps.count);

    let (answer, steps) = decrypt(&list);
    assert_eq!(values_of(&answer), [b"before", long.as_bytes(), b"behind"], "values that are not envelopes stay");
    assert!(is_bounded(&steps, 1.0) && passes(&steps, LONG) >= 2.0, "{}", steps.count);

    let (answer, steps) =
        run_watched(&fixture, frame(|out| request::inspect(9, Some("acme"), texts.iter().copied(), out)));
    assert_eq!(InspectResult::decode(result(&answer)).expect("a result").count(), 3);
    assert!(is_bounded(&steps, 1.0) && passes(&steps, LONG) >= 2.0, "{}", steps.count);

    fixture.engine.engine.store().rotate(&AppName::parse("acme").expect("a name")).expect("rotated");
    fixture.service.maintain();
    let (answer, steps) = decrypt(&envelopes[1..2]);
    assert_eq!(values_of(&answer), [long.as_bytes()]);
    assert!(is_bounded(&steps, 1.0), "{} bytes", steps.written_max);
    let passes_of_one_key = 4.0 * 4.0 / 3.0 - 1.5..7.0;
    assert!(
        passes_of_one_key.contains(&passes(&steps, LONG)),
        "the version that opened last comes first: {}",
        steps.count
    );
    let rewrap = frame(|out| request::rewrap(9, &RewrapOptions::new("acme"), texts.iter().copied(), out));
    let (answer, steps) = run_watched(&fixture, rewrap);
    assert!(is_bounded(&steps, 4.0 / 3.0), "{} bytes", steps.written_max);
    assert!(passes(&steps, LONG) >= 4.4, "UTF-8, opening, UTF-8, sealing: {}", steps.count);
    let rewrapped = RewrapResult::decode(result(&answer)).expect("rewrapped");
    assert_eq!(rewrapped.count, 3);
    let again: Vec<Scalar<'_>> =
        rewrapped.values.strings().map(|text| Scalar::from(text.expect("a string").as_str())).collect();
    assert_eq!(values_of(&decrypt(&again).0), [b"before", long.as_bytes(), b"behind"]);
}

#[test]
fn faults_of_long_values_are_reported_like_those_of_short_ones() {
    let fixture = long_fixture();
    let long = "x".repeat(LONG);
    let sealed = |list: &[Scalar<'_>]| {
        values_of(
            &run(&fixture, frame(|out| request::encrypt(9, &EncryptOptions::new("acme"), list.iter().copied(), out))).0,
        )
    };
    let good = String::from_utf8(sealed(&[Scalar::from(long.as_str())]).remove(0)).expect("ASCII");
    let changed = |place: usize, with: &str| [&good[..place], with, &good[place + 1..]].concat();
    let other = if good.as_bytes()[LONG] == b'A' { "B" } else { "A" };
    for (text, code) in [
        (changed(LONG, other), "decrypt_failed"),
        (changed(LONG, "!"), "invalid_envelope"),
        (good.replace(":$", ""), "invalid_envelope"),
        // The type is not authenticated in this version: the decrypted text is not a number.
        (good.replacen("Tk9D:", "Tk9D:number:", 1), "decrypt_failed"),
    ] {
        let list = [Scalar::from("before"), Scalar::from(text.as_str())];
        let (answer, _) =
            run(&fixture, frame(|out| request::decrypt(9, &DecryptOptions::new("acme"), list.iter().copied(), out)));
        assert_eq!(fault(&answer), (code.to_owned(), Some(1), None));
    }
    let digits = format!("[{}]", "7".repeat(LONG));
    let document = frame(|out| {
        request::encrypt_document(9, &EncryptOptions::new("acme"), None, digits.as_bytes(), out);
    });
    let (answer, _) = run(&fixture, document);
    let sealed = DocumentResult::decode(result(&answer)).expect("a document").document.to_vec();
    let number = std::str::from_utf8(&sealed[2..sealed.len() - 2]).expect("ASCII");
    let list = [Scalar::from(number)];
    let (answer, _) =
        run(&fixture, frame(|out| request::decrypt(9, &DecryptOptions::new("acme"), list.iter().copied(), out)));
    assert_eq!(fault(&answer), ("number_out_of_range".to_owned(), Some(0), None));

    let mut not_text =
        frame(|out| request::encrypt(9, &EncryptOptions::new("acme"), [Scalar::from(long.as_str())].into_iter(), out));
    let place = not_text.len() - LONG / 2;
    not_text[place] = 0xff;
    let short = run(&fixture, {
        let list = [Scalar::from("short")];
        let mut frame = frame(|out| request::encrypt(9, &EncryptOptions::new("acme"), list.iter().copied(), out));
        *frame.last_mut().expect("a byte") = 0xff;
        frame
    });
    assert_eq!(fault(&run(&fixture, not_text).0), fault(&short.0), "what is no UTF-8");
}

/// Long tokens of documents, selected and unselected, and gaps.
#[test]
fn long_tokens_of_documents_are_done_in_pieces() {
    let fixture = long_fixture();
    let (plain, escaped) = ("x".repeat(LONG), "\\u00e9\\n\\\\".repeat(LONG / 10));
    let (space, digits) = (" ".repeat(LONG), "7".repeat(LONG));
    let cases = [
        (format!("{{\"a\": \"{plain}\", \"b\": 1}}"), "$.a"),
        (format!("{{\"a\": \"{escaped}\", \"b\": 1}}"), "$.a"),
        (format!("{{\"a\": {digits}, \"b\": 1}}"), "$.a"),
        (format!("{{\"a\": \"{plain}\", \"b\": 1}}"), "$.b"),
        (format!("{{\"a\": {space} 1, \"b\": 1}} {space}"), "$.b"),
        (format!("{{\"{escaped}\": 1, \"b\": 1}}"), "$.b"),
    ];
    for (document, selector) in &cases {
        let options = EncryptOptions::new("acme");
        let sealing = frame(|out| {
            request::encrypt_document(9, &options, Some(&[selector]), document.as_bytes(), out);
        });
        let (answer, steps) = run_watched(&fixture, sealing);
        assert!(is_bounded(&steps, 4.0 / 3.0), "{selector}: {} bytes", steps.written_max);
        assert!(
            passes(&steps, LONG) >= 2.8,
            "{selector}: walking, at half the bytes a step, and writing: {}",
            steps.count
        );
        let sealed = DocumentResult::decode(result(&answer)).expect("a document");
        assert_eq!(sealed.count, 1);
        let sealed = sealed.document.to_vec();

        let opening = frame(|out| {
            request::decrypt_document(9, &DecryptOptions::new("acme"), None, &sealed, out);
        });
        let (answer, steps) = run_watched(&fixture, opening);
        assert!(is_bounded(&steps, 6.0), "{selector}: {} bytes", steps.written_max);
        assert!(passes(&steps, sealed.len()) >= 2.7, "{selector}: walking, and opening or copying: {}", steps.count);
        let opened = DocumentResult::decode(result(&answer)).expect("a document").document.to_vec();
        let expected = document.replace("\\u00e9", if *selector == "$.a" { "é" } else { "\\u00e9" });
        assert!(opened == expected.as_bytes(), "{selector} comes back");
    }
}

#[test]
fn files_are_done_in_pieces() {
    let fixture = long_fixture();
    let content: Vec<u8> = (0..LONG).map(|i| (i % 251) as u8).collect();
    let options = EncryptFileOptions::new("acme");
    let (answer, steps) = run_watched(&fixture, frame(|out| request::encrypt_file(9, &options, &content, out)));
    assert!(is_bounded(&steps, 1.0) && passes(&steps, LONG) >= 1.0, "{} steps", steps.count);
    let file = FileResult::decode(result(&answer)).expect("a file").data.to_vec();
    let options = DecryptFileOptions::new("acme");
    let decrypt = |file: &[u8]| run_watched(&fixture, frame(|out| request::decrypt_file(9, &options, file, out)));
    let (answer, steps) = decrypt(&file);
    assert!(is_bounded(&steps, 1.0) && passes(&steps, LONG) >= 2.0, "checksum and cipher: {} steps", steps.count);
    assert_eq!(FileResult::decode(result(&answer)).expect("a file").data, content);
    let mut damaged = file;
    damaged[LONG / 2] ^= 1;
    assert_eq!(fault(&decrypt(&damaged).0).0, "invalid_envelope");
}

/// Each key version that is tried for a value is a separate step.
#[test]
fn the_search_for_a_key_pauses_at_each_version() {
    const VERSIONS: usize = 12;
    let fixture = fixture();
    let list = [Scalar::from("text")];
    let (answer, _) =
        run(&fixture, frame(|out| request::encrypt(9, &EncryptOptions::new("acme"), list.iter().copied(), out)));
    let sealed = values_of(&answer);
    for _ in 0..VERSIONS {
        fixture.engine.engine.store().rotate(&AppName::parse("acme").expect("a name")).expect("rotated");
    }
    fixture.service.maintain();
    let texts: Vec<&str> = sealed.iter().map(|text| std::str::from_utf8(text).expect("ASCII")).collect();
    let envelopes: Vec<Scalar<'_>> = texts.iter().map(|text| Scalar::from(*text)).collect();
    let (answer, steps) =
        run(&fixture, frame(|out| request::decrypt(9, &DecryptOptions::new("acme"), envelopes.iter().copied(), out)));
    assert_eq!(values_of(&answer), [b"text"]);
    assert!(steps > VERSIONS, "{steps} steps");
    fixture.service.maintain();
    let before = fixture.engine.engine.counters().opening_agreements;
    assert_eq!(before as usize, VERSIONS + 1, "each is tried once");
}
