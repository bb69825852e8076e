//! The router against a comparison of a request with every entry, and the steps that it takes.

use proptest::prelude::*;

use super::trie::COMPARISON_STEPS;
use super::*;

#[derive(Debug)]
struct Owned {
    hosts: Vec<HostPattern>,
    methods: Vec<Method>,
    paths: Vec<PathPattern>,
    hides: bool,
    reveals: bool,
}

impl Owned {
    fn new(path: &str) -> Self {
        let paths = vec![PathPattern::parse(path).unwrap()];
        Owned { hosts: Vec::new(), methods: Vec::new(), paths, hides: false, reveals: false }
    }

    fn entry(&self) -> Entry<'_> {
        let Owned { hosts, methods, paths, hides, reveals } = self;
        Entry { hosts, methods, paths, hides: *hides, reveals: *reveals }
    }

    fn takes(&self, asked: &Asked<'_>, case: Case, path: &RequestPath) -> bool {
        let is_method = |method: &Method| method.as_str().eq_ignore_ascii_case(asked.method.as_str());
        (self.hosts.is_empty() || self.hosts.iter().any(|pattern| pattern.matches(asked.host)))
            && (self.methods.is_empty() || self.methods.iter().any(is_method))
            && (self.paths.is_empty() || self.paths.iter().any(|pattern| pattern.matches_in(case, path)))
    }
}

fn certain(place: usize) -> Choice {
    Choice { place, is_certain: true }
}

/// Compares the request with every entry, in all readings.
fn slow(entries: &[Owned], asked: &Asked<'_>, other_case: OtherCase) -> Result<Option<Choice>, RouteError> {
    let first = |case, path: &RequestPath| entries.iter().position(|entry| entry.takes(asked, case, path));
    let choose = |path: &RequestPath| {
        let found = first(Case::AsWritten, path);
        let like = first(Case::Any, path);
        match other_case {
            OtherCase::Other => Ok(found),
            OtherCase::Same => Ok(like),
            OtherCase::Refuse if like != found && like.is_some_and(|like| entries[like].hides) => {
                Err(RouteError::OtherCase)
            }
            OtherCase::Refuse => Ok(found),
        }
    };
    let mut steps = Steps::new(usize::MAX);
    let mut is_certain = true;
    let found = choose(&RequestPath::parse(asked.path, asked.segments_max, &mut steps)?)?;
    for reading in RequestPath::other_readings(asked.path, asked.segments_max, &mut steps)? {
        let other = choose(&reading.path)?;
        let is_hidden = other.is_some_and(|other| entries[other].hides);
        let is_revealed = reading.is_unusual && found.is_some_and(|found| entries[found].reveals);
        let has_both = is_revealed && found.is_some_and(|found| entries[found].hides);
        if other != found && (is_hidden || has_both) {
            return Err(RouteError::OtherReading);
        }
        is_certain &= other == found || !is_revealed;
    }
    Ok(found.map(|place| Choice { place, is_certain }))
}

fn router(entries: &[Owned]) -> Router {
    Router::new(entries.iter().map(Owned::entry))
}

fn entries() -> impl Strategy<Value = Vec<Owned>> {
    let segment = prop::sample::select(vec!["a", "b", "A", "*", "a*", "*b", "a*b", "*a*", "*a*b*", "**", "k", "aa*"]);
    let path = prop::collection::vec(segment, 0..4).prop_map(|segments| format!("/{}", segments.join("/")));
    let hosts = prop::sample::subsequence(vec!["x.test", "*.test", "*.y.test", "*", "192.0.2.1", "[::1]"], 0..3);
    let methods = prop::sample::subsequence(vec!["GET", "PUT", "get"], 0..2);
    let paths = prop::collection::vec(path, 0..3);
    let entry =
        (hosts, methods, paths, any::<bool>(), any::<bool>()).prop_map(|(hosts, methods, paths, hides, reveals)| {
            Owned {
                hosts: hosts.into_iter().map(|host| HostPattern::parse(host).unwrap()).collect(),
                methods: methods.into_iter().map(|method| Method::from_bytes(method.as_bytes()).unwrap()).collect(),
                paths: paths.iter().map(|path| PathPattern::parse(path).unwrap()).collect(),
                hides,
                reveals,
            }
        });
    prop::collection::vec(entry, 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_router_chooses_as_a_comparison_with_every_entry(
        entries in entries(),
        path in "(/(a|b|A|ab|ba|aab|k|\u{212a}|%61|%2e|%2F|\\.\\.|;|%3b|)(a|b|;x|%2Fa|%252e|)){0,5}",
        host in prop::sample::select(vec!["x.test", "a.y.test", "test", "192.0.2.1", "[::1]", "[::2]"]),
        method in prop::sample::select(vec!["GET", "get", "PUT", "POST"]),
        other_case in prop::sample::select(vec![OtherCase::Refuse, OtherCase::Same, OtherCase::Other]),
    ) {
        let (host, method) = (Host::parse(host).unwrap(), Method::from_bytes(method.as_bytes()).unwrap());
        let path = if path.is_empty() { "/".to_owned() } else { path };
        let asked = Asked { host: &host, method: &method, path: &path, segments_max: usize::MAX };
        let router = router(&entries);
        let found = router.choose(&asked, other_case, &mut Steps::new(usize::MAX));
        prop_assert_eq!(found, slow(&entries, &asked, other_case), "{} {} {}", method, host, path);
        let has_host = entries.iter().any(|it| it.hosts.is_empty() || it.hosts.iter().any(|it| it.matches(&host)));
        prop_assert_eq!(router.has_host(&host), has_host);
    }
}

/// The steps to choose among `entries`.
fn steps(entries: &[Owned], path: &str) -> usize {
    let host = Host::parse("h5.test").unwrap();
    let asked = Asked { host: &host, method: &Method::GET, path, segments_max: 256 };
    let mut steps = Steps::new(usize::MAX);
    let found = router(entries).choose(&asked, OtherCase::Refuse, &mut steps).unwrap();
    assert!(found.is_some(), "{path}");
    steps.taken()
}

/// For each shape of pattern, the work for a request is the same for 10 and for 10,000 of them.
#[test]
fn the_work_does_not_depend_on_the_number_of_routes() {
    for (pattern, path) in [
        ("/{}", "/5"),
        ("/{}/**", "/5/x/y"),
        ("/v1/{}/cards/*", "/v1/5/cards/7"),
        ("/*/{}", "/x/5"),
        ("/**/{}", "/x/y/5"),
        ("/x-{}-*", "/x-5-a"),
        ("/*-{}", "/a-5"),
        ("/a*-{}.json", "/ab-5.json"),
    ] {
        let with = |count: usize| {
            let entries: Vec<Owned> = (0..count)
                .map(|number| Owned { hides: true, ..Owned::new(&pattern.replace("{}", &number.to_string())) })
                .collect();
            steps(&entries, path)
        };
        let (few, many) = (with(10), with(10_000));
        // Numbers have up to four lengths, and each length of a prefix or suffix is looked up.
        assert!(
            many <= few + 2 * 3 * (COMPARISON_STEPS + path.len()),
            "{pattern}: {few} steps with 10, {many} with 10,000"
        );
    }
}

#[test]
fn the_work_does_not_depend_on_the_number_of_hosts_and_methods() {
    let with = |count: usize| {
        let host = |number: usize| Owned {
            hosts: vec![HostPattern::parse(&format!("h{number}.test")).unwrap()],
            methods: vec![Method::from_bytes(format!("M{number}").as_bytes()).unwrap(), Method::GET],
            hides: true,
            ..Owned::new("/a/*")
        };
        steps(&(0..count).map(host).collect::<Vec<_>>(), "/a/b")
    };
    assert_eq!(with(10), with(10_000));
}

/// The bound holds for any patterns and path: where they would take more, the request is refused.
#[test]
fn a_request_never_takes_more_than_its_steps() {
    let entries: Vec<Owned> =
        (0..2000).map(|number| Owned { hides: true, ..Owned::new(&format!("/**/*x{number}*/b")) }).collect();
    let host = Host::parse("a").unwrap();
    let path = "/x1x2x3x4x5x6x7x8x9".repeat(20);
    let asked = Asked { host: &host, method: &Method::GET, path: &path, segments_max: 256 };
    let error = router(&entries).choose(&asked, OtherCase::Refuse, &mut Steps::new(100_000)).unwrap_err();
    assert_eq!(error, RouteError::Path(PathError::TooManySteps(100_000)));
    assert_eq!(Refusal::from(error).status.as_u16(), 414);
}

#[test]
fn a_path_is_not_read_where_the_answer_does_not_depend_on_it() {
    let mut entries = vec![Owned { paths: Vec::new(), reveals: true, ..Owned::new("/") }, Owned::new("/a/**")];
    entries[1].hides = true;
    let host = Host::parse("a").unwrap();
    for path in ["/o/a%2Fb.json", "/items/50%25", "//x/../%00%zz\\", &"/a".repeat(10_000)] {
        let asked = Asked { host: &host, method: &Method::GET, path, segments_max: 256 };
        let mut steps = Steps::new(0);
        assert_eq!(router(&entries).choose(&asked, OtherCase::Refuse, &mut steps), Ok(Some(certain(0))), "{path}");
    }
}

#[test]
fn an_unusual_path_is_refused_only_where_it_could_lead_to_a_hiding_route() {
    let entries = [
        Owned { hides: true, ..Owned::new("/cards/**") },
        Owned { reveals: true, ..Owned::new("/open/**") },
        Owned::new("/files/**"),
        Owned { hides: true, reveals: true, ..Owned::new("/both/**") },
    ];
    let router = router(&entries);
    let host = Host::parse("a").unwrap();
    let choose = |path: &str| {
        let asked = Asked { host: &host, method: &Method::GET, path, segments_max: 256 };
        router.choose(&asked, OtherCase::Refuse, &mut Steps::new(100_000))
    };
    for path in ["/files/a%2Fb.json", "/files/50%25", "/files/a/../b", "/files//a\\b", "/files/%zz", "/files/%00"] {
        assert_eq!(choose(path), Ok(Some(certain(2))), "{path}");
    }
    for path in ["/cards/a%2Fb", "/cards/50%25", "/cards/%zz", "/x/../cards/1", "/files/../cards/1", "/files/..;/cards"]
    {
        assert_eq!(choose(path), Ok(Some(certain(0))), "{path}: the rules are applied however it is read");
    }
    for path in [
        "/cards%2F1",
        "/cards%5C1",
        "/cards\\1",
        "/files/..%2Fcards/1",
        "/files/%2e%2e%2fcards",
        "/cards/../files/1",
        "//files/cards/1",
        "/\\files/cards/1",
        "/%2563ards/1",
        "/%25%36%33ards/1",
        "/c%00ards/1",
        "/cards%00",
        "/cards%0A",
        "/files/%252e%252e/cards",
        "/%u0063ards/1",
        "/both/..%2Ffiles/1",
    ] {
        assert!(choose(path).is_err(), "{path}: {:?}", choose(path));
    }
    // Its rules would open the answer of another route.
    for path in ["/open/..%2Ffiles/1", "/open/%2e%2e%2fx", "/open%2F1"] {
        let expected = if path == "/open%2F1" { None } else { Some(Choice { place: 1, is_certain: false }) };
        assert_eq!(choose(path), Ok(expected), "{path}");
    }
    for path in ["/open/a%2Fb", "/open/50%25", "/open/%zz", "/open//a;b"] {
        assert_eq!(choose(path), Ok(Some(certain(1))), "{path}");
    }
    assert_eq!(choose("/other/a%2Fb"), Ok(None));
}
