//! JSON Lines: a walk through all lines finds what walks through each of them find.

use leafseal_document::{
    DocumentError, DocumentErrorKind as Kind, DocumentLimits, DocumentWalk, Match, Purpose, Selection, WalkProgress,
};

/// Selectors of the three ways to walk: in one pass, with a pass before, and with a tree.
const SELECTORS: [&[&str]; 4] = [&["$.card", "$.list[*].x"], &["$.list[-1]"], &["$..[?@.x > 1]", "$.card"], &["$"]];

const TEXT: &str = "{\"card\":\"4242\",\"list\":[1,{\"x\":2}]}\r\n\n \t\n7\n\
    {\"list\":[],\"card\":{\"a\":[true,null]}}\n[]\n{\"list\":[{\"x\":5},3]}";

fn parse(selectors: &[&str], limits: &DocumentLimits) -> Selection {
    Selection::parse(selectors, limits).expect("they are valid")
}

/// Matches, their paths, and the number of matches of each selector; in batches of these sizes.
type Found = (Vec<Match>, Vec<String>, Vec<u64>);

fn run(mut walk: DocumentWalk, text: &[u8], (matches_max, bytes_max): (usize, usize)) -> Result<Found, DocumentError> {
    let (mut all, mut paths) = (Vec::new(), Vec::new());
    loop {
        let mut matches = Vec::new();
        let progress = walk.next_batch(text, &mut matches, matches_max, bytes_max)?;
        let of_batch = walk.take_paths();
        paths.extend((0..matches.len()).map(|index| of_batch.path(text, index)));
        let position = walk.position();
        assert!(progress == WalkProgress::Done || matches.iter().all(|found| found.end <= position), "at {position}");
        all.extend(matches);
        if progress == WalkProgress::Done {
            return Ok((all, paths, walk.matched().to_vec()));
        }
    }
}

fn lines(
    text: &[u8],
    selectors: &[&str],
    limits: &DocumentLimits,
    sizes: (usize, usize),
) -> Result<Found, DocumentError> {
    let walk = DocumentWalk::new(text.len(), &parse(selectors, limits), Purpose::Encrypt, limits)?;
    let plain = run(walk.lines(), text, sizes)?;
    let walk = DocumentWalk::new(text.len(), &parse(selectors, limits), Purpose::Encrypt, limits)?;
    let located = run(walk.with_paths().lines(), text, sizes)?;
    assert_eq!((&plain.0, &plain.2), (&located.0, &located.2));
    Ok(located)
}

/// The same by a walk through each line.
fn each_line(text: &str, selectors: &[&str], limits: &DocumentLimits) -> Found {
    let (mut all, mut paths, mut matched) = (Vec::new(), Vec::new(), vec![0; selectors.len()]);
    let mut start = 0;
    for (number, line) in (1..).zip(text.split('\n')) {
        if !line.trim().is_empty() {
            let walk =
                DocumentWalk::new(line.len(), &parse(selectors, limits), Purpose::Encrypt, limits).expect("it fits");
            let found = run(walk.with_paths(), line.as_bytes(), (1000, 1 << 20)).expect("each line is JSON");
            all.extend(found.0.iter().map(|it| Match { start: it.start + start, end: it.end + start, ..*it }));
            paths.extend(found.1.iter().map(|path| format!("line {number}: {path}")));
            matched.iter_mut().zip(found.2).for_each(|(all, of_line)| *all += of_line);
        }
        start += line.len() + 1;
    }
    (all, paths, matched)
}

#[test]
fn lines_are_walked_one_by_one() {
    let limits = DocumentLimits::default();
    for text in [TEXT.to_owned(), format!("{TEXT}\n"), format!("\n\n{TEXT}\n\n"), String::new(), "\n \r\n".to_owned()] {
        for selectors in SELECTORS {
            let expected = each_line(&text, selectors, &limits);
            for matches_max in [1, 2, 1000] {
                for bytes_max in [1, 7, 64, 1 << 20] {
                    let found = lines(text.as_bytes(), selectors, &limits, (matches_max, bytes_max));
                    assert_eq!(
                        found.as_ref(),
                        Ok(&expected),
                        "{selectors:?} of {text:?} by {matches_max}, {bytes_max}"
                    );
                }
            }
        }
    }
}

/// Lines that need no tree, others, and long ones follow each other.
#[test]
fn what_is_kept_between_lines_changes_nothing() {
    let limits = DocumentLimits::default();
    let long = format!("{{\"list\":[{}{{\"x\":7}}],\"card\":3}}", "{\"y\":[1,2]},".repeat(4000));
    let some = format!("{{\"list\":[{}{{\"x\":5}}]}}", "1,".repeat(3000));
    let short =
        ["1", "{\"card\":1}", "[[1,2],[3]]", "{\"list\":[{\"x\":2},{\"x\":3}]}", "\"a\"", "{\"list\":{\"x\":4}}"];
    let trivial = ["1", "0", "-7", "{}", "[]", "\"\"", "null", "true\r", " 12", "1.5", "12 ", "-0"];
    let text = [&short[..], &trivial, &[&long], &short, &[&some, &some], &short, &[&long]].concat().join("\n");
    let extra: [&[&str]; 4] = [
        &["$.list[?@.x > 2].x", "$[-1]"],
        &["$..[?match(@.x, $.list[0].x)]"],
        &["$.*[-1]"],
        &["$[-2][-1]", "$.list[-1:].x"],
    ];
    for selectors in SELECTORS.into_iter().chain(extra) {
        let expected = each_line(&text, selectors, &limits);
        for sizes in [(1, 1 << 10), (1000, 1 << 20)] {
            assert_eq!(lines(text.as_bytes(), selectors, &limits, sizes).as_ref(), Ok(&expected), "{selectors:?}");
        }
    }
}

#[test]
fn faults_have_their_place_in_the_text() {
    let limits = DocumentLimits { depth_max: 2, ..DocumentLimits::default() };
    for (text, kind, offset) in [
        ("{\"a\":1}\n{\"a\":}\n", Kind::Unexpected(leafseal_document::Expected::Value), 13),
        ("1\n\n1 2", Kind::Unexpected(leafseal_document::Expected::EndOfDocument), 5),
        ("{\"a\":1}\n{\"a\n\":1}", Kind::UnexpectedEnd, 11),
        ("1\n[[[]]]", Kind::TooDeep(2), 4),
        ("1\n\"\u{1}\"", Kind::ControlCharacter, 3),
        ("1\n01", Kind::Unexpected(leafseal_document::Expected::EndOfDocument), 3),
        ("[]]\n", Kind::Unexpected(leafseal_document::Expected::EndOfDocument), 2),
    ] {
        for selectors in SELECTORS {
            for bytes_max in [1, 1 << 20] {
                let error = lines(text.as_bytes(), selectors, &limits, (1, bytes_max)).expect_err(text);
                assert_eq!((error.kind, error.offset), (kind, offset), "{text:?} {selectors:?}");
            }
        }
    }
    let error = lines(b"1\n\"\xff\"", &["$"], &limits, (9, 99)).expect_err("no UTF-8");
    assert_eq!((error.kind, error.offset), (Kind::InvalidUtf8, 3));
}

#[test]
fn all_lines_share_the_work_of_filters() {
    let selectors: &[&str] = &["$..[?@..x]"];
    let line = format!("{}{{\"x\":1}}{}", "[".repeat(40), "]".repeat(40));
    let steps_max = (1..).map(|power| 1_u64 << power).find(|&filter_steps_max| {
        let limits = DocumentLimits { filter_steps_max, ..DocumentLimits::default() };
        lines(line.as_bytes(), selectors, &limits, (1000, 1 << 20)).is_ok()
    });
    let limits =
        DocumentLimits { filter_steps_max: steps_max.expect("some number suffices"), ..DocumentLimits::default() };
    let many = [&*line; 20].join("\n");
    let error = lines(many.as_bytes(), selectors, &limits, (1000, 1 << 20)).expect_err("twenty times the work");
    assert!(matches!(error.kind, Kind::FilterTooCostly(_)), "{error}");
}

/// Walks strictly; returns the fault, by batches of these sizes.
fn strictly(text: &str, selectors: &[&str], sizes: (usize, usize)) -> Option<(Kind, usize)> {
    let limits = DocumentLimits::default();
    let walk =
        || DocumentWalk::new(text.len(), &parse(selectors, &limits), Purpose::Encrypt, &limits).expect("it fits");
    let plain = run(walk().strict(true).lines(), text.as_bytes(), sizes).map(|found| found.2);
    let located = run(walk().with_paths().strict(true).lines(), text.as_bytes(), sizes).map(|found| found.2);
    assert_eq!(plain, located);
    plain.err().map(|error| (error.kind, error.offset))
}

#[test]
fn each_line_must_match_where_the_walk_is_strict() {
    let line = "{\"card\":\"4242\",\"list\":[1,{\"x\":2}]}";
    let misses = |selector, offset| Some((Kind::Unmatched(selector), offset));
    for (text, selectors, expected) in [
        (format!("{line}\n\n {line}\r\n"), &["$.card", "$.list[*].x"][..], None),
        (format!("{line}\n{{\"list\":[{{\"x\":1}}]}}\n{line}"), &["$.card", "$.list[*].x"], misses(0, line.len() + 1)),
        (format!("\n\n{line}\n \n{{\"card\":1}}"), &["$.card", "$.list[*].x"], misses(1, line.len() + 5)),
        (format!("{line}\n{{\"card\":null,\"list\":[9]}}"), &["$.list[-1]", "$.card"], None),
        (format!("{line}\n{{\"card\":null,\"list\":[]}}"), &["$.card", "$.list[-1]"], misses(1, line.len() + 1)),
        (format!("{line}\n{{\"list\":[{{\"x\":1}}]}}"), &["$..[?@.x > 1]"], misses(0, line.len() + 1)),
        (format!("{line}\n{line}\n"), &["$..[?@.x > 1]", "$.card"], None),
        ("[]\n".to_owned(), &["$"], misses(0, 0)),
        ("7\n\u{feff}7".to_owned(), &["$"], Some((Kind::ByteOrderMark, 2))),
        ("\u{feff}\n7".to_owned(), &["$"], None),
        ("\u{feff}7\n7".to_owned(), &["$"], None),
        ("\n \r\n".to_owned(), &["$.card"], None),
        // Two selectors that share a set of the automaton, and many of the same values.
        (format!("{line}\n{line}"), &["$.card", "$..card", "$.*", "$.card"], None),
        (format!("[{line},{line}]\n{{\"a\":1,\"b\":1}}"), &["$..x", "$.*"], misses(0, 2 * line.len() + 4)),
    ] {
        for sizes in [(1, 1), (1, 1 << 20), (1000, 7), (1000, 1 << 20)] {
            assert_eq!(strictly(&text, selectors, sizes), expected, "{selectors:?} of {text:?} by {sizes:?}");
        }
    }
}

#[test]
fn a_strict_walk_fails_at_the_end_of_its_document() {
    let limits = DocumentLimits::default();
    for selectors in SELECTORS {
        for (document, is_whole) in [("{\"card\":1,\"list\":[{\"x\":2}]}", true), ("{}", true), ("{\"card\":", false)] {
            let walk = DocumentWalk::new(document.len(), &parse(selectors, &limits), Purpose::Encrypt, &limits)
                .expect("it fits");
            let lenient = run(walk, document.as_bytes(), (1000, 1 << 20));
            let walk = DocumentWalk::new(document.len(), &parse(selectors, &limits), Purpose::Encrypt, &limits)
                .expect("it fits");
            let strict = run(walk.with_paths().strict(true), document.as_bytes(), (1000, 1 << 20));
            match (lenient, strict) {
                (Ok(lenient), strict) => {
                    let unmatched = lenient.2.iter().position(|&matched| matched == 0).map(Kind::Unmatched);
                    assert_eq!(strict.err().map(|error| error.kind), unmatched, "{selectors:?} of {document}");
                }
                (Err(error), strict) => assert!(!is_whole && strict.err() == Some(error)),
            }
        }
    }
}

/// Batches that a walk takes, each of this much work.
fn batches(text: &[u8], selectors: &[&str], work: usize) -> usize {
    let limits = DocumentLimits::default();
    let mut walk =
        DocumentWalk::new(text.len(), &parse(selectors, &limits), Purpose::Encrypt, &limits).expect("it fits").lines();
    let mut matches = Vec::new();
    (1..)
        .find(|_| walk.next_batch(text, &mut matches, 1000, work).expect("lines") == WalkProgress::Done)
        .expect("it ends")
}

#[test]
fn blank_lines_cost_their_bytes_and_others_their_beginning() {
    const SIZE: usize = 1 << 20;
    let (newlines, numbers) = (b"\n".repeat(SIZE), b"1\n".repeat(SIZE / 16));
    for selectors in SELECTORS {
        assert!(batches(&newlines, selectors, 16 << 10) <= SIZE / (16 << 10) + 1, "{selectors:?}");
        // Each line has a part of a batch, which therefore stays short.
        assert!(batches(&numbers, selectors, 16 << 10) >= SIZE / 16 * 64 / (16 << 10), "{selectors:?}");
    }
    // Lines in which nothing can be selected cost no more with filters, or with indexes from the end.
    for selectors in [&["$.a[?@.x].b"][..], &["$[?@]"], &["$[-1]"], &["$.a[-2:]", "$..b[?@>1]"]] {
        assert!(batches(&numbers, selectors, 16 << 10) <= SIZE / 16 * 72 / (16 << 10) + 1, "{selectors:?}");
    }
}

/// Some readers end a line there, and read a document in the rest.
#[test]
fn a_carriage_return_within_a_line_is_refused_where_values_are_hidden() {
    let text = "{\"card\":1,\"x\":\r{\"card\":2}\r}\n";
    let limits = DocumentLimits::default();
    for selectors in SELECTORS {
        let mut builder = Selection::builder(&limits).unambiguous(true);
        selectors.iter().for_each(|selector| builder.add(selector).expect("it is valid"));
        let selection = builder.finish();
        let walk = DocumentWalk::new(text.len(), &selection, Purpose::Encrypt, &limits).expect("it fits");
        let error = run(walk.lines(), text.as_bytes(), (10, 3)).expect_err("refused");
        assert_eq!((error.kind, error.offset), (Kind::CarriageReturn, 14), "{selectors:?}");
        lines(text.as_bytes(), selectors, &limits, (10, 3)).expect("white space otherwise");
    }
}
