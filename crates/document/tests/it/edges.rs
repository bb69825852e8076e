//! Edge cases and hostile input: faults and their positions, every limit at and past its bound, and slow shapes.

use leafseal_document::fuzzing::walk;
use leafseal_document::{
    DocumentError, DocumentErrorKind as Kind, DocumentLimits, DocumentWalk, Expected, Match, OtherEncoding, Purpose,
    ScalarKind, Selection, SelectorErrorKind, Strategy, TextErrorKind, WalkProgress, Walker, escape_into, is_number,
    select, unescape,
};

const WHOLE: (usize, usize) = (usize::MAX, usize::MAX);

fn parse(selectors: &[&str]) -> Selection {
    Selection::parse(selectors, &DocumentLimits::default()).expect("they are valid")
}

fn walk_with(document: &[u8], selection: &Selection, limits: &DocumentLimits) -> Result<Vec<Match>, DocumentError> {
    walk(document, selection, Purpose::Encrypt, limits, WHOLE)
}

fn fault(document: &[u8]) -> (Kind, usize) {
    // The three paths through the walker must find the same fault at the same position.
    let [stream, count, tree] = ["$", "$[-1]", "$[?@.a]"].map(|selector| {
        let error = walk_with(document, &parse(&[selector]), &DocumentLimits::default()).expect_err("it is broken");
        (error.kind, error.offset)
    });
    assert_eq!((stream, stream), (count, tree));
    stream
}

#[test]
fn broken_documents_are_refused_with_the_place_of_the_fault() {
    let unexpected = Kind::Unexpected;
    let rows: &[(&[u8], Kind, usize)] = &[
        (b"", Kind::Empty, 0),
        (b" \n", Kind::Empty, 2),
        (b"\xef\xbb\xbf", Kind::Empty, 3),
        (b"\xef\xbb\xbf\xef\xbb\xbf{}", Kind::ByteOrderMark, 3),
        (b" \xef\xbb\xbf{}", Kind::ByteOrderMark, 1),
        (b"{}\xef\xbb\xbf", Kind::ByteOrderMark, 2),
        (b"[1\xef\xbb\xbf]", Kind::ByteOrderMark, 2),
        (b"{\xef\xbb\xbf\"a\":1}", Kind::ByteOrderMark, 1),
        (b"\xef\xbb\xbf[1,]", unexpected(Expected::Value), 6),
        (b"\xef\xbb{}", unexpected(Expected::Value), 0),
        (b"\xff\xfe{\0}\0", Kind::OtherEncoding(OtherEncoding::Utf16Le), 0),
        (b"\0{\0}", Kind::OtherEncoding(OtherEncoding::Utf16Be), 0),
        (b" \0{\0}\0", Kind::OtherEncoding(OtherEncoding::Utf16Le), 0),
        (b"\0\0\xfe\xff\0\0\x001", Kind::OtherEncoding(OtherEncoding::Utf32Be), 0),
        (b"{} {}", unexpected(Expected::EndOfDocument), 3),
        (b"1 2", unexpected(Expected::EndOfDocument), 2),
        (b"[1]\0", unexpected(Expected::EndOfDocument), 3),
        (b"[", Kind::UnexpectedEnd, 1),
        (b"[1,", Kind::UnexpectedEnd, 3),
        (b"{\"a\"", Kind::UnexpectedEnd, 4),
        (b"{\"a\":", Kind::UnexpectedEnd, 5),
        (b"\"abc", Kind::UnexpectedEnd, 4),
        (b"\"abc\\", Kind::UnexpectedEnd, 5),
        (b"\"\\u12", Kind::UnexpectedEnd, 5),
        (b"-", Kind::UnexpectedEnd, 1),
        (b"1.", Kind::UnexpectedEnd, 2),
        (b"1e", Kind::UnexpectedEnd, 2),
        (b"tru", Kind::UnexpectedEnd, 3),
        (b"trve", Kind::InvalidLiteral, 0),
        (b"[nul]", Kind::InvalidLiteral, 1),
        (b"[True]", unexpected(Expected::ValueOrEnd), 1),
        (b"[1,]", unexpected(Expected::Value), 3),
        (b"[,1]", unexpected(Expected::ValueOrEnd), 1),
        (b"[1 2]", unexpected(Expected::CommaOrArrayEnd), 3),
        (b"[1}", unexpected(Expected::CommaOrArrayEnd), 2),
        (b"{\"a\":1]", unexpected(Expected::CommaOrObjectEnd), 6),
        (b"{1:2}", unexpected(Expected::NameOrEnd), 1),
        (b"{\"a\":1,}", unexpected(Expected::Name), 7),
        (b"{\"a\" 1}", unexpected(Expected::Colon), 5),
        (b"{\"a\":}", unexpected(Expected::Value), 5),
        (b"[01]", unexpected(Expected::CommaOrArrayEnd), 2),
        (b"[1.x]", Kind::InvalidNumber, 3),
        (b"[-x]", Kind::InvalidNumber, 2),
        (b"[1e+]", Kind::InvalidNumber, 4),
        (b"[+1]", unexpected(Expected::ValueOrEnd), 1),
        (b"[.5]", unexpected(Expected::ValueOrEnd), 1),
        (b"['a']", unexpected(Expected::ValueOrEnd), 1),
        (b"[1]//", unexpected(Expected::EndOfDocument), 3),
        (b"\"a\x1f\"", Kind::ControlCharacter, 2),
        (b"\"a\nb\"", Kind::ControlCharacter, 2),
        (b"\"a\\x\"", Kind::InvalidEscape, 2),
        (b"\"a\\u12g4\"", Kind::InvalidEscape, 2),
        (b"\"\xff\"", Kind::InvalidUtf8, 1),
        (b"\"ab\xc3\"", Kind::InvalidUtf8, 3),
        (b"\"\xed\xa0\x80\"", Kind::InvalidUtf8, 1),
        (b"\"\xf4\x90\x80\x80\"", Kind::InvalidUtf8, 1),
        (b"{\"\xc0\x80\":1}", Kind::InvalidUtf8, 2),
        // Of two faults the first is reported.
        (b"[\"\xff\", x]", Kind::InvalidUtf8, 2),
        (b"[x, \"\xff\"]", unexpected(Expected::ValueOrEnd), 1),
    ];
    for (document, kind, offset) in rows {
        assert_eq!(fault(document), (*kind, *offset), "{}", String::from_utf8_lossy(document));
    }
}

#[test]
fn faults_far_into_a_document_are_found_where_nothing_is_selected_too() {
    for size in [15_000, 16_383, 16_384, 16_385, 70_000] {
        let mut document = format!("{{\"skipped\":[{}", "[0],".repeat(size / 4)).into_bytes();
        let place = document.len();
        document.extend_from_slice(b"\"\xe9\"]}");
        let error = walk_with(&document, &parse(&["$.a"]), &DocumentLimits::default()).expect_err("it is not UTF-8");
        assert_eq!((error.kind, error.offset), (Kind::InvalidUtf8, place + 1));
        document[place + 1] = b'e';
        assert_eq!(walk_with(&document, &parse(&["$.a"]), &DocumentLimits::default()), Ok(Vec::new()));
        document.pop();
        let error = walk_with(&document, &parse(&["$.a"]), &DocumentLimits::default()).expect_err("it is cut off");
        assert_eq!((error.kind, error.offset), (Kind::UnexpectedEnd, document.len()));
    }
}

#[test]
fn matches_before_a_fault_are_well_formed_tokens() {
    let document = b"[\"a\", \"b\", \"\xff\", \"c\"]";
    let mut walker = Walker::new(document, &Selection::everything(), Purpose::Encrypt, &DocumentLimits::default())
        .expect("it is small");
    let mut matches = Vec::new();
    let error = walker.next_batch(&mut matches, 10, 1000).expect_err("it is not UTF-8");
    assert_eq!((error.kind, error.offset), (Kind::InvalidUtf8, 12));
    assert_eq!(matches.iter().map(|found| found.start..found.end).collect::<Vec<_>>(), [1..4, 6..9]);
    assert_eq!(walker.next_batch(&mut matches, 10, 1000), Err(error), "the fault stays");
    assert_eq!(matches.len(), 2);
}

#[test]
fn every_limit_holds_at_its_bound_and_one_past() {
    let everything = Selection::everything();
    let filter = parse(&["$[?@ == 1]"]);
    let with = |change: fn(&mut DocumentLimits)| {
        let mut limits = DocumentLimits::default();
        change(&mut limits);
        limits
    };
    let size = with(|limits| limits.document_size_max = 4);
    assert!(walk_with(b"[ 1]", &everything, &size).is_ok());
    let error = walk_with(b"[ 1 ]", &everything, &size).expect_err("too large");
    assert_eq!((error.kind, error.offset), (Kind::TooLarge(4), 5));
    assert!(select(b"[ 1 ]", &everything, &size, Strategy::Tree).is_err());

    let depth = with(|limits| limits.depth_max = 2);
    for selection in [&everything, &filter, &parse(&["$..[-1]"])] {
        assert!(walk_with(b"[{\"a\":1}]", selection, &depth).is_ok());
        let error = walk_with(b"[{\"a\":[]}]", selection, &depth).expect_err("too deep");
        assert_eq!((error.kind, error.offset), (Kind::TooDeep(2), 6));
    }
    let scalar_only = with(|limits| limits.depth_max = 0);
    assert!(walk_with(b"1", &everything, &scalar_only).is_ok());
    assert!(walk_with(b"[]", &everything, &scalar_only).is_err());

    let nodes = with(|limits| limits.tree_nodes_max = 3);
    assert!(walk_with(b"[1,2]", &filter, &nodes).is_ok());
    let error = walk_with(b"[1,2,3]", &filter, &nodes).expect_err("too many");
    assert_eq!((error.kind, error.offset), (Kind::TooManyNodes(3), 5));
    assert!(walk_with(b"[1,2,3]", &everything, &nodes).is_ok(), "without a filter there is no tree");

    let steps = with(|limits| limits.filter_steps_max = 3);
    assert!(walk_with(b"[1]", &parse(&["$[?@ == 1]"]), &steps).is_ok());
    let error = walk_with(b"[1,2,3]", &filter, &steps).expect_err("too much work");
    assert_eq!(error.kind, Kind::FilterTooCostly(3));
}

/// Each pattern alone is within its limit; a document with many of them must stay within the limit of its filters.
#[test]
fn compiling_patterns_counts_by_its_cost() {
    let limits = DocumentLimits { filter_steps_max: 1_500_000, ..DocumentLimits::default() };
    let document = |patterns: usize, pattern: &dyn Fn(usize) -> String| {
        let patterns: Vec<String> = (0..patterns).map(|number| format!("\"{}\"", pattern(number))).collect();
        format!("[{}]", patterns.join(","))
    };
    let large = document(100, &|number| format!(r"\\p{{L}}a{{{number}}}"));
    let small = document(100, &|number| format!("ba{{{number}}}"));
    let walk = |document: &str, selector| walk_with(document.as_bytes(), &parse(&[selector]), &limits);
    assert!(walk(&small, "$[?match('a', @)]").is_ok());
    let error = walk(&large, "$[?match('a', @)]").expect_err("too much work");
    assert_eq!(error.kind, Kind::FilterTooCostly(1_500_000));
    let fixed: Vec<String> = (0..32).map(|number| format!(r"match(@, '\\p{{L}}{{2}}a{{{number}}}')")).collect();
    let limits = DocumentLimits { filter_steps_max: 600_000, ..DocumentLimits::default() };
    let selector = format!("$[?{}]", fixed.join(" || "));
    let error = walk_with(b"[\"1\"]", &parse(&[&selector]), &limits).expect_err("too much work");
    assert_eq!(error.kind, Kind::FilterTooCostly(600_000));
}

#[test]
fn every_limit_of_filters_holds_at_its_bound_and_one_past() {
    let kind = |document: &str, selector: &str, limits: &DocumentLimits| {
        walk_with(document.as_bytes(), &parse(&[selector]), limits).map(|found| found.len()).map_err(|error| error.kind)
    };
    let limits = DocumentLimits { filter_comparison_max: 4, filter_members_max: 2, ..DocumentLimits::default() };
    let long = Err(Kind::ComparisonTooLong(4));
    for (document, selector, expected) in [
        (r#"["abcd"]"#, "$[?@ == 'abcd']", Ok(1)),
        (r#"["abcde"]"#, "$[?@ == 'abcde']", long),
        (r#"["abcde"]"#, "$[?@ == 'abcdef']", Ok(0)),
        (r#"["abcde"]"#, "$[?@ < 'abce']", Ok(1)),
        (r#"["abcde"]"#, "$[?@ < 'abcef']", long),
        (r#"["\n\n"]"#, r"$[?@ == '\n\n']", Ok(1)),
        (r#"["\n\nx"]"#, r"$[?@ == '\n\nx']", long),
        (r#"["\n\nx"]"#, "$[?@ == 'too long for it']", Ok(0)),
        ("[1234]", "$[?@ == 1234]", Ok(1)),
        ("[12345]", "$[?@ == 1]", long),
        (r#"[[12345],[12345]]"#, "$[?@ == $[0]]", long),
        (r#"[{"a":1,"b":[]},{"b":[],"a":1}]"#, "$[?@ == $[0]]", Ok(2)),
        (r#"[{"a":1,"b":2,"c":3},{"b":[],"a":1}]"#, "$[?@ == $[1]]", Err(Kind::TooManyMembers(2))),
        (r#"[{"ab":1},{"ab":1}]"#, "$[?@ == $[1]]", Ok(2)),
        (r#"[{"abcde":1},{"ab":1}]"#, "$[?@ == $[1]]", long),
        // Measuring, matching and distinguishing values of different kinds have no limit.
        (r#"["abcdef", [1,2,3,4,5]]"#, "$[?length(@) > 4]", Ok(6)),
        (r#"["abcdef"]"#, "$[?match(@, '[a-f]{6}')]", Ok(1)),
        (r#"["abcdef"]"#, "$[?@ == 123456]", Ok(0)),
    ] {
        assert_eq!(kind(document, selector, &limits), expected, "{selector} on {document}");
    }
    let limits = DocumentLimits {
        pattern_size_max: 2048,
        selector_length_max: 40,
        patterns_max: 2,
        ..DocumentLimits::default()
    };
    assert_eq!(kind(r#"["aa"]"#, "$[?match(@, 'a{2}')]", &limits), Ok(1));
    for (document, selector) in [
        (r#"["aa"]"#, "$[?match(@, 'a{1000}')]"),
        (r#"["a{1000}"]"#, "$[?match('aa', @)]"),
        (&format!(r#"["{}"]"#, "a".repeat(41)), "$[?match('aa', @)]"),
    ] {
        assert_eq!(kind(document, selector, &limits), Err(Kind::PatternTooLarge(2048)), "{selector}");
    }
    assert_eq!(kind("[1]", "$[?match(@, 'a{1000}')]", &limits), Err(Kind::PatternTooLarge(2048)), "whatever the text");
    let parse = |selectors: &[&str]| Selection::parse(selectors, &limits).map(drop).map_err(|error| error.kind);
    assert_eq!(parse(&["$[?match(@, 'a')]", "$[?search(@, 'a')]"]), Ok(()));
    let selectors = ["$[?match(@, 'a')]", "$[?search(@, 'a')]", "$[?match(@.a, @.b)]"];
    assert_eq!(parse(&selectors), Err(SelectorErrorKind::TooManyPatterns(2)));
}

#[test]
fn a_filter_pauses_within_a_predicate_and_resumes() {
    let long = "\\u00e9x".repeat(20_000);
    let list = (0..3000).map(|number| format!("{{\"n\":{number}}}")).collect::<Vec<_>>().join(",");
    let document = format!(r#"{{"text":"{long}","plain":"{}","list":[{list}],"same":[{list}]}}"#, "ab".repeat(50_000));
    for (selector, count) in [
        ("$[?length(@) == 40000]", 1),
        ("$[?length(@) == 100000]", 1),
        ("$[?match(@, '(\u{e9}x)*')]", 1),
        ("$[?search(@, 'b[ab]{9}b$')]", 1),
        ("$[?search(@, 'zz')]", 0),
        ("$[?@ == $.list]", 6000),
        ("$[?@[?@.n > 2998]]", 6000),
        ("$[?count(@..n) == 3000]", 6000),
        ("$[?@.n == 1 || @[?@.n == 2999 && !@.m]]", 6000),
        ("$[?value(@[?@.n == 2999].n) == 2999]", 6000),
    ] {
        let selection = parse(&[selector]);
        let mut walk = DocumentWalk::new(document.len(), &selection, Purpose::Encrypt, &DocumentLimits::default())
            .expect("it is small");
        let (mut matches, mut batches) = (Vec::new(), 0);
        let mut next = || walk.next_batch(document.as_bytes(), &mut matches, usize::MAX, 4096).map(|_| walk.position());
        while next().expect("well-formed") == 0 {
            batches += 1;
        }
        // Reading the document takes a batch per 4,096 bytes.
        assert!(batches > document.len() / 4096 + 10, "{selector}: {batches} batches");
        while walk.next_batch(document.as_bytes(), &mut matches, 1, 1).expect("well-formed") == WalkProgress::More {}
        assert_eq!(matches.len(), count, "{selector}");
    }
}

#[test]
fn every_limit_of_selectors_holds_at_its_bound_and_one_past() {
    let limits = DocumentLimits {
        selectors_max: 2,
        selector_length_max: 40,
        segments_max: 4,
        filter_depth_max: 3,
        ..DocumentLimits::default()
    };
    let parse = |selectors: &[&str]| {
        Selection::parse(selectors, &limits).map(drop).map_err(|error| (error.selector, error.position, error.kind))
    };
    assert_eq!(parse(&["$.a", "$.b"]), Ok(()));
    assert_eq!(parse(&["$", "$", "$"]), Err((2, 0, SelectorErrorKind::TooMany(2))));
    let exact = format!("$['{}']", "x".repeat(35));
    assert_eq!(parse(&[&exact]), Ok(()));
    assert_eq!(parse(&["$", &exact.replace('$', "$ ")]), Err((1, 0, SelectorErrorKind::TooLong(40))));
    assert_eq!(parse(&["$.a.b", "$..c.d"]), Ok(()));
    assert_eq!(parse(&["$.a.b", "$.c.d.e"]), Err((1, 5, SelectorErrorKind::TooManySegments(4))));
    assert_eq!(parse(&["$[?@.a.b.c]"]), Ok(()), "the segments of filters count");
    assert_eq!(parse(&["$[?@.a.b.c.d]"]), Err((0, 10, SelectorErrorKind::TooManySegments(4))));
    assert_eq!(parse(&["$[?((@))]"]), Ok(()));
    assert_eq!(parse(&["$[?(((@)))]"]), Err((0, 6, SelectorErrorKind::TooDeep(3))));
    assert_eq!(parse(&["$[?@[?@[?@]]]"]), Ok(()));
    assert_eq!(parse(&["$[?@[?@[?@[?@]]]]"]), Err((0, 12, SelectorErrorKind::TooDeep(3))));
    assert_eq!(parse(&["$[?length(value($)) == length($)]"]), Ok(()));
}

#[test]
fn depth_bombs_end_at_the_limit_without_reading_on() {
    for opening in [&b"["[..], b"{\"a\":"] {
        let document = opening.repeat(10_000_000 / opening.len());
        for selector in ["$", "$..a", "$[-1]", "$[?@]"] {
            let error = walk_with(&document, &parse(&[selector]), &DocumentLimits::default()).expect_err("too deep");
            assert_eq!((error.kind, error.offset / opening.len()), (Kind::TooDeep(128), 128));
        }
    }
    let limits = DocumentLimits { depth_max: usize::MAX, ..DocumentLimits::default() };
    let document = "[".repeat(2000) + &"]".repeat(2000);
    let error = walk_with(document.as_bytes(), &parse(&["$[?@ == $[0]]"]), &limits).expect_err("above the ceiling");
    assert_eq!(error.kind, Kind::TooDeep(leafseal_document::DEPTH_CEILING));
}

#[test]
fn deep_equality_at_the_depth_ceiling_stays_on_the_stack_of_a_thread() {
    let limits = DocumentLimits { depth_max: usize::MAX, ..DocumentLimits::default() };
    let half = leafseal_document::DEPTH_CEILING - 1;
    let nest = "{\"a\":".repeat(half) + "1" + &"}".repeat(half);
    let document = format!("[{nest},{nest}]");
    let found = walk_with(document.as_bytes(), &parse(&["$[?@ == $[1]]"]), &limits).expect("well-formed");
    assert_eq!(found.len(), 2);
}

#[test]
fn selectors_with_exponentially_many_sets_of_states_stay_bounded() {
    // 2^18 sets of states are possible; the automaton keeps some thousands and must still be correct.
    let selectors = ["$..a..*..*..a..*..*..a..*..*..a..*..*..a", "$..a.*.*.*.*.*.*.*.*.*.*.*.b"];
    let mut document = String::new();
    let mut random = 88_172_645_463_325_252_u64;
    for _ in 0..3000 {
        let names = std::iter::repeat_with(|| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if random.is_multiple_of(3) { "{\"a\":" } else { "{\"b\":" }
        });
        document += if document.is_empty() { "[" } else { "," };
        document.extend(names.take(40));
        document += "1";
        document += &"}".repeat(40);
    }
    document += "]";
    let selection = parse(&selectors);
    let streamed = select(document.as_bytes(), &selection, &DocumentLimits::default(), Strategy::Automatic);
    let on_tree = select(document.as_bytes(), &selection, &DocumentLimits::default(), Strategy::Tree);
    assert_eq!(streamed, on_tree);
    assert!(streamed.is_ok_and(|nodes| nodes.len() > 1000));
    let matches = walk_with(document.as_bytes(), &selection, &DocumentLimits::default()).expect("well-formed");
    assert!(matches.len() > 100);
}

#[test]
fn many_selectors_cost_no_more_than_their_look_up() {
    let names: Vec<_> = (0..64).map(|number| format!("$.name{number:02}[*]")).collect();
    let members: Vec<_> = (0..100).map(|number| format!("\"name{number:02}\":[1,2]")).collect();
    let document = format!("{{{}}}", members.join(","));
    let selection = Selection::parse(&names, &DocumentLimits::default()).expect("64 are allowed");
    let matches = walk_with(document.as_bytes(), &selection, &DocumentLimits::default()).expect("well-formed");
    assert_eq!(matches.len(), 128);
    let indexes = format!("$[{}]", (0..1000).step_by(2).map(|index| index.to_string()).collect::<Vec<_>>().join(","));
    let document = format!("[{}]", vec!["7"; 2000].join(","));
    let matches = walk_with(document.as_bytes(), &parse(&[&indexes]), &DocumentLimits::default()).expect("well-formed");
    assert_eq!(matches.len(), 500);
    assert_eq!(matches[1].start, 5);
}

#[test]
fn nested_descendant_filters_end_at_the_step_limit() {
    let document = "[".repeat(120) + &"1,".repeat(1000) + "1" + &"]".repeat(120);
    let limits = DocumentLimits { filter_steps_max: 1 << 22, ..DocumentLimits::default() };
    let error = walk_with(document.as_bytes(), &parse(&["$..[?@..[?@..[?@..[?@..a]]]]"]), &limits);
    assert_eq!(error.map_err(|error| error.kind), Err(Kind::FilterTooCostly(1 << 22)));
    let hostile_patterns: Vec<_> = (0..1000).map(|number| format!("\"(a{{{number}}}|b*)+\"")).collect();
    let document = format!("[{}]", hostile_patterns.join(","));
    let error = walk_with(document.as_bytes(), &parse(&["$[?match('aaaaaaaa', @)]"]), &limits);
    assert_eq!(error.map_err(|error| error.kind), Err(Kind::FilterTooCostly(1 << 22)));
}

#[test]
fn a_query_from_the_root_in_a_filter_is_evaluated_once() {
    let document = format!("{{\"list\":[{}],\"wanted\":\"7\"}}", vec!["\"7\",\"8\""; 20_000].join(","));
    // Once each, not once per element: otherwise 40,000 times 40,000 values.
    let limits = DocumentLimits { filter_steps_max: 1 << 20, ..DocumentLimits::default() };
    for (selector, count) in
        [("$.list[?@ == $.wanted]", 20_000), ("$.list[?count($..*) > 40000]", 40_000), ("$.list[?$..nix]", 0)]
    {
        let matches = walk_with(document.as_bytes(), &parse(&[selector]), &limits).expect("within the limit");
        assert_eq!(matches.len(), count, "{selector}");
    }
}

#[test]
fn a_walk_can_rest_beside_its_document_and_move_between_threads() {
    let document = format!("[{}]", vec!["\"x\""; 1000].join(",")).into_bytes();
    let mut walk =
        DocumentWalk::new(document.len(), &Selection::everything(), Purpose::Encrypt, &DocumentLimits::default())
            .expect("small");
    let mut matches = Vec::new();
    while walk.next_batch(&document, &mut matches, 100, usize::MAX).expect("well-formed") == WalkProgress::More {
        walk = std::thread::spawn(move || walk).join().expect("it is Send");
    }
    assert_eq!(matches.len(), 1000);
    assert_eq!(walk.next_batch(&document, &mut matches, 100, 100), Ok(WalkProgress::Done), "done stays done");
    assert_eq!((matches.len(), walk.position()), (1000, document.len()));
}

#[test]
fn a_batch_keeps_to_its_bytes_save_for_one_member() {
    let document = format!("[{}]", vec!["{\"name\":\"value\"}"; 20_000].join(",")).into_bytes();
    for selector in ["$.absent", "$..name"] {
        let selection = parse(&[selector]);
        let mut walker =
            Walker::new(&document, &selection, Purpose::Encrypt, &DocumentLimits::default()).expect("small");
        let mut before = 0;
        while walker.next_batch(&mut Vec::new(), usize::MAX, 1000).expect("well-formed") == WalkProgress::More {
            assert!((before + 1000..before + 1032).contains(&walker.position()), "{before} to {}", walker.position());
            before = walker.position();
        }
    }
}

#[test]
fn text_edges() {
    let decode = |token: &[u8]| {
        let mut scratch = String::from("left over");
        unescape(token, &mut scratch).map(str::to_owned).map_err(|error| (error.kind, error.offset))
    };
    assert_eq!(decode(b"\"\""), Ok(String::new()));
    assert_eq!(decode(b"\"\\ud834\\uDD1E\\u0000\""), Ok("\u{1d11e}\0".to_owned()));
    let rows: [(&[u8], TextErrorKind, usize); 13] = [
        (b"", TextErrorKind::NotAString, 0),
        (b"\"", TextErrorKind::NotAString, 0),
        (b"12", TextErrorKind::NotAString, 0),
        (b"\"a\"b\"", TextErrorKind::NotAString, 2),
        (b"\"a\x01\"", TextErrorKind::NotAString, 2),
        (b"\"a\\\"", TextErrorKind::InvalidEscape, 2),
        (b"\"\\x\"", TextErrorKind::InvalidEscape, 1),
        (b"\"ab\\u12\"", TextErrorKind::InvalidEscape, 3),
        (b"\"a\\ud800\"", TextErrorKind::LoneSurrogate, 2),
        (b"\"a\\udc00\\ud800\"", TextErrorKind::LoneSurrogate, 2),
        (b"\"\\ud800\\u0041\"", TextErrorKind::LoneSurrogate, 1),
        (b"\"\\ud800\\n\"", TextErrorKind::LoneSurrogate, 1),
        (b"\"a\xff\"", TextErrorKind::InvalidUtf8, 2),
    ];
    for (token, kind, offset) in rows {
        assert_eq!(decode(token), Err((kind, offset)), "{}", String::from_utf8_lossy(token));
    }
    let mut out = b"before:".to_vec();
    escape_into("\u{0}\u{8}\u{9}\u{a}\u{b}\u{c}\u{d}\u{1f} \"\\/\u{7f}é\u{2028}", &mut out);
    assert_eq!(out, "before:\"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f \\\"\\\\/\u{7f}é\u{2028}\"".as_bytes());
    assert!(!is_number(b"") && !is_number(b"1 ") && !is_number(b"01") && is_number(b"-0.0e-0"));
}

#[test]
fn kinds_are_distinguished() {
    let document = b"[\"a\", \"\\n\", -1e5, true, false, null, {}, []]";
    let found = walk_with(document, &Selection::everything(), &DocumentLimits::default()).expect("well-formed");
    let kinds: Vec<_> = found.iter().map(|found| found.kind).collect();
    let (plain, escaped) = (ScalarKind::String { escaped: false }, ScalarKind::String { escaped: true });
    assert_eq!(kinds, [plain, escaped, ScalarKind::Number, ScalarKind::Boolean, ScalarKind::Boolean]);
}

#[test]
fn errors_name_places_and_never_quote_the_document() {
    let error = walk_with(b"[\"secret\" x]", &Selection::everything(), &DocumentLimits::default()).expect_err("broken");
    assert_eq!(error.to_string(), "expected ',' or ']' at byte 10");
    let error = Selection::parse(&["$.a", "$[?@.b = 1]"], &DocumentLimits::default()).expect_err("broken");
    assert_eq!(error.to_string(), "selector 1, byte 7: expected ',' or ']'");
}

/// Consecutive descendant wildcards make more sets than are kept: the counts of evicted sets must be kept.
#[test]
fn counts_survive_sets_that_are_forgotten() {
    let mut document = String::new();
    for number in 0..6000 {
        let path = format!("{number:013b}").replace('0', "{\"a\":").replace('1', "{\"b\":");
        document.push_str(if number == 0 { "[" } else { "," });
        document.push_str(&format!("{path}1{}", "}".repeat(13)));
    }
    document.push(']');
    let wild = format!("$..a{}", "[*]".repeat(11));
    let selectors = ["$..b", "$[7]", &wild, "$[5999:]..a", "$.none"];
    let limits = DocumentLimits::default();
    let count = |selectors: &[&str]| {
        let selection = Selection::parse(selectors, &limits).expect("valid");
        let mut walk = DocumentWalk::new(document.len(), &selection, Purpose::Encrypt, &limits).expect("small");
        let mut matches = Vec::new();
        while walk.next_batch(document.as_bytes(), &mut matches, 1000, 4096).expect("well-formed") == WalkProgress::More
        {
        }
        walk.matched().to_vec()
    };
    let alone: Vec<u64> = selectors.iter().flat_map(|selector| count(&[selector])).collect();
    assert_eq!(count(&selectors), alone);
    assert_eq!((alone[0], alone[1], alone[4]), (5999, 1, 0));
    assert!(alone[2] > 1000 && alone[3] == 1);
}
