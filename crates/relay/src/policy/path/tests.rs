//! The readings of paths.

use super::*;

const SEGMENTS_MAX: usize = 16;

fn text(path: &RequestPath) -> String {
    let segments: Vec<_> = path.segments().map(String::from_utf8_lossy).collect();
    segments.join("|")
}

fn readings(path: &str) -> Vec<String> {
    let mut steps = Steps::new(usize::MAX);
    let own = RequestPath::parse(path, SEGMENTS_MAX, &mut steps).unwrap();
    let others = RequestPath::other_readings(path, SEGMENTS_MAX, &mut steps).unwrap();
    let mut readings = vec![text(&own)];
    for other in others {
        let other = text(&other.path);
        if !readings.contains(&other) {
            readings.push(other);
        }
    }
    readings
}

#[test]
fn a_path_has_a_reading_for_each_way_to_treat_semicolons_and_empty_segments() {
    for path in ["/a/b", "/a/b/", "/%61/b"] {
        assert_eq!(readings(path), ["a|b"], "{path}");
    }
    for (path, expected) in [
        ("/a/b;x", &["a|b", "a|b;x"][..]),
        ("/a/b%3Bx", &["a|b", "a|b;x"]),
        ("/a;x%3By/b", &["a|b", "a;x;y|b"]),
        ("/a%3bx;y/b", &["a|b", "a;x;y|b", "a;x|b"]),
        ("/a//b", &["a|b", "a||b"]),
    ] {
        assert_eq!(readings(path), expected, "{path}");
    }
}

#[test]
fn a_path_has_a_reading_for_each_server_that_reads_it_otherwise() {
    for (path, own, others) in [
        ("/o/a%2Fb.json", "o|a/b.json", &["o|a|b.json"][..]),
        ("/a%5cb\\c", "a\\b\\c", &["a|b|c", "a\\b|c"]),
        ("/a/../b", "b", &["a|..|b"]),
        ("/a/%2e%2e/b", "b", &["a|..|b"]),
        ("/a/..;x/b", "b", &["a|..;x|b"]),
        ("/a/..%2fb", "a|../b", &["b", "a|..|b"]),
        ("/a//../b", "b", &["a|b", "a||..|b"]),
        ("//evil.test/a", "evil.test|a", &["a", "|evil.test|a"]),
        ("/\\evil.test/a", "\\evil.test|a", &["a", "evil.test|a"]),
        ("/%2563ards", "%63ards", &["cards"]),
        ("/%252563ards", "%2563ards", &["%63ards", "cards"]),
        ("/%u0063ards", "%u0063ards", &["cards"]),
        ("/cards%00.json", "cards\0.json", &["cards", "cards.json"]),
        ("/cards%0a", "cards\n", &["cards"]),
        ("/cards%3Fx", "cards?x", &["cards"]),
        ("/a%252F..%252Fb", "a%2F..%2Fb", &["b", "a/../b"]),
    ] {
        let found = readings(path);
        assert_eq!(found[0], own, "{path}");
        for other in others {
            assert!(found.iter().any(|found| found == other), "{other:?} of {path}: {found:?}");
        }
    }
    for path in ["/items/50%25", "/.well-known/a", "/a.b/c..d", "/caf%C3%A9", "/%zz"] {
        assert_eq!(readings(path).len(), 1, "{path}: {:?}", readings(path));
    }
}

#[test]
fn a_path_of_many_segments_is_refused() {
    let parse = |path: &str| RequestPath::parse(path, SEGMENTS_MAX, &mut Steps::new(1 << 20));
    let path = |count| "/a".repeat(count);
    assert!(parse(&path(SEGMENTS_MAX)).is_ok());
    for path in [path(SEGMENTS_MAX + 1), "/".repeat(SEGMENTS_MAX + 1)] {
        assert_eq!(parse(&path), Err(PathError::TooManySegments(SEGMENTS_MAX)), "{path}");
    }
    let hidden = format!("/a{}", "%2Fa".repeat(SEGMENTS_MAX));
    let others = RequestPath::other_readings(&hidden, SEGMENTS_MAX, &mut Steps::new(1 << 20));
    assert_eq!(others, Err(PathError::TooManySegments(SEGMENTS_MAX)));
}

/// The readings of a path cost its bytes times their number, and are not begun where that exceeds the limit.
#[test]
fn the_work_for_a_path_is_bounded_by_its_bytes_and_readings() {
    let plain = format!("/{}", "é".repeat(14_000));
    let mut steps = Steps::new(1 << 20);
    RequestPath::parse(&plain, SEGMENTS_MAX, &mut steps).unwrap();
    assert_eq!(RequestPath::other_readings(&plain, SEGMENTS_MAX, &mut steps), Ok(Vec::new()));
    assert_eq!(steps.taken(), 2 * plain.len());
    let every_oddity = format!("//a/..;x/%2e%2e/%252F%5c\\%3b%00{}", "é".repeat(1000));
    let others = RequestPath::other_readings(&every_oddity, SEGMENTS_MAX, &mut Steps::new(100_000));
    assert_eq!(others, Err(PathError::TooManySteps(100_000)));
}

#[test]
fn decoding_fully_is_decoding_until_nothing_changes() {
    for text in
        ["%2541", "%25252541", "%%32%35%34%31", "%2%35%34%31", "%25zz", "%", "%2", "%%%252541", "%25%32%35%2541"]
    {
        let mut units = undecoded(text);
        loop {
            let once = decoded_once(&units);
            if once == units {
                break;
            }
            units = once;
        }
        let bytes = |units: &[Unit]| units.iter().map(|&unit| unit as u8).collect::<Vec<_>>();
        assert_eq!(bytes(&decoded_fully(&undecoded(text))), bytes(&units), "{text}");
    }
}
