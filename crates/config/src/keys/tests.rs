//! Declares settings of every form and reads them from every source.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::*;
use serde_json::json;

use crate::{Kind, ListItem, SettingValue, ms, secs, settings};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Fair,
    Arrival,
}

const HOSTS: ListItem = ListItem { about: "hosts", is_valid: |text| text != "bad" };

settings! {
    /// The keys of a listener.
    #[derive(Debug)]
    struct Listener {
        /// Maximum number of requests.
        /// One more is refused.
        pub jobs_max: usize = 8192, in 1..=1 << 24;
        /// Maximum memory.
        pub bytes_max: u64 = 3 << 29, bytes in 1..=1 << 40;
        /// How long a request waits.
        pub wait: Duration = secs(5), in ms(1)..;
        /// Where it listens.
        pub address: SocketAddr = SocketAddr::from(([127, 0, 0, 1], 80));
        /// The order of requests.
        pub order: Order = Order::Fair, one of { "fair" => Order::Fair, "arrival" => Order::Arrival };
        /// Another file.
        pub file: Option<PathBuf> = None;
        /// Threads.
        pub threads: u32 = 3 => "one per core", in 1..=9, as "thread_count";
        /// Hosts.
        pub hosts: Vec<String> = Vec::new(), is kind(Kind::List(HOSTS));
        /// Not a key.
        pub counter: Vec<u8> = vec![1], is internal;
        /// Keys of a part, with a prefix.
        pub part: Part = Part { is_on: true }, is section("part_");
        /// The [other] table.
        pub other: Part = Part::default(), is section("other.");
    }
}

settings! {
    /// A part.
    #[derive(Debug)]
    struct Part {
        /// Whether it is on.
        is_on: bool = false;
    }
}

settings! {
    /// A file.
    #[derive(Debug)]
    struct File {
        /// The listener.
        listener: Listener = Listener::default(), is section("listener.");
        /// Further keys of it.
        more: More = More::default(), is section("listener.");
    }
}

settings! {
    /// More.
    #[derive(Debug)]
    struct More {
        /// A text.
        text: String = "x".to_owned(), is kind(Kind::Text(8));
    }
}

fn load(text: &str, environment: &[(&str, &str)], overrides: &[&str]) -> Loaded<File> {
    let environment: Vec<_> = environment.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let overrides: Vec<_> = overrides.iter().map(|&text| text.to_owned()).collect();
    let sources = Sources {
        file: Some(("a.toml", text)),
        is_shared: false,
        environment: &environment,
        other_variables: &["LEAFSEAL_DIR"],
        overrides: &overrides,
    };
    Keys::default().load(&sources)
}

#[test]
fn a_declaration_has_the_names_defaults_and_texts() {
    let keys = Keys::<File>::default();
    let names: Vec<&str> = keys.iter().map(Setting::name).collect();
    let expected = [
        "listener.address",
        "listener.jobs_max",
        "listener.bytes_max",
        "listener.wait",
        "listener.order",
        "listener.file",
        "listener.thread_count",
        "listener.hosts",
        "listener.part_is_on",
        "listener.text",
        "other.is_on",
    ];
    assert_eq!(names, expected);
    let tables: Vec<_> = keys.tables().iter().map(|table| (table.name, table.about)).collect();
    assert_eq!(tables, [("listener", "The listener."), ("other", "The [other] table.")]);
    let defaults = File::default();
    let written: Vec<String> = keys.iter().map(|setting| setting.written(&defaults)).collect();
    let expected = [
        "\"127.0.0.1:80\"",
        "8192",
        "\"1536MiB\"",
        "\"5s\"",
        "\"fair\"",
        "\"off\"",
        "3",
        "[]",
        "true",
        "\"x\"",
        "false",
    ];
    assert_eq!(written, expected);
    assert_eq!((defaults.listener.counter, defaults.listener.order), (vec![1], Order::Fair));
    let shape = keys.shape();
    let markdown = |table: &str| shape.key(table).and_then(|key| key.accepts.table()).expect("a table").markdown();
    assert_eq!(
        markdown("other"),
        "| key | default | value | meaning |\n|---|---|---|---|\n| `is_on` | `false` | true or false | Whether it is on. |\n"
    );
    assert!(markdown("listener").contains(
        "| `jobs_max` | `8192` | a whole number from 1 to 16777216 | Maximum number of requests. One more is refused. |\n"
    ));
    assert!(markdown("listener").contains("| `thread_count` | one per core | a whole number from 1 to 9 |"));
    let schema = shape.schema();
    let jobs = &schema["properties"]["listener"]["properties"]["jobs_max"];
    assert_eq!((&jobs["default"], &jobs["maximum"]), (&json!(8192), &json!(1 << 24)));
    let threads = &schema["properties"]["listener"]["properties"]["thread_count"];
    assert_eq!((&threads["default"], &threads["defaultText"]), (&json!(3), &json!("one per core")));
}

#[test]
fn later_sources_override_earlier_ones() {
    let text = "[listener]\njobs_max = 1\nwait = \"1s\"\npart_is_on = false\norder = \"arrival\"\nhosts = [\"a\"]\n";
    let environment = [("LEAFSEAL_LISTENER_WAIT", "2s"), ("LEAFSEAL_LISTENER_JOBS_MAX", "2"), ("LEAFSEAL_DIR", "d")];
    let loaded = load(text, &environment, &["listener.jobs_max=3", "other.is_on=true"]);
    assert_eq!((loaded.problems.as_slice(), loaded.warnings.as_slice()), (&[][..], &[][..]));
    let Listener { jobs_max, wait, order, ref hosts, ref part, ref other, .. } = loaded.settings.listener;
    assert_eq!((jobs_max, wait, order, part.is_on, other.is_on), (3, secs(2), Order::Arrival, false, true));
    assert_eq!(hosts, &["a"]);
    let origins = ["wait", "order", "jobs_max", "text"].map(|name| loaded.origin(&format!("listener.{name}")));
    assert_eq!(
        origins,
        [SettingOrigin::Environment, SettingOrigin::File(5), SettingOrigin::Flag, SettingOrigin::Default]
    );
    assert!(loaded.is_set("other.is_on") && !loaded.is_set("listener.text"));
}

#[test]
fn all_problems_are_reported_with_their_places() {
    let text = "top = 1\n[listener]\njobs = 1\nwait = 5\nhosts = [\"bad\"]\ncounter = 1\n[listene]\nx = 1\n";
    let environment = [("LEAFSEAL_OTHER_IS_ON", "yes"), ("LEAFSEAL_PORT", "1")];
    let loaded = load(text, &environment, &["nothing", "listener.texts=1", "a.b=1"]);
    assert_eq!(
        loaded.problems,
        [
            "a.toml:1:1: there is no key top; the keys are listener, other",
            "a.toml:3:1: there is no key listener.jobs; the keys are address, jobs_max, bytes_max, wait, order, file, thread_count, \
             hosts, part_is_on, text",
            "a.toml:4:8: listener.wait must be a duration from 1ms to 8760h, such as \"500ms\", \"15s\" or \"2m\"",
            "a.toml:5:9: listener.hosts must be a list of hosts",
            "a.toml:6:1: there is no key listener.counter; the keys are address, jobs_max, bytes_max, wait, order, file, thread_count, \
             hosts, part_is_on, text",
            "a.toml:7:2: there is no key listene; did you mean listener?",
            "LEAFSEAL_OTHER_IS_ON: other.is_on must be true or false: write true, not \"yes\"",
            "--set: write KEY=VALUE, such as --set engine.keying=session",
            "--set: there is no key listener.texts; did you mean listener.text?",
            "--set: there is no key a.b: docs/configuration.md and leafseal config show list them all",
        ]
    );
    assert_eq!(loaded.warnings, ["LEAFSEAL_PORT: no key has this environment variable; it is ignored"]);
    assert_eq!(load("[listener\n", &[], &[]).problems.len(), 1);
}

#[test]
fn a_shared_file_has_keys_of_others_which_do_not_matter() {
    let text = "listener.jobs_max = 3\nlistener.jobs_mux = 3\nlistener.order = 'last'\n[server]\njobs_max = 'x'\n";
    let loaded =
        Keys::<File>::default().load(&Sources { is_shared: true, file: Some(("a", text)), ..Sources::default() });
    assert_eq!(loaded.problems, ["a:3:18: listener.order must be one of \"fair\", \"arrival\""]);
    assert_eq!(loaded.settings.listener.jobs_max, 3);
}

#[test]
fn a_value_set_is_the_value_of_its_field_alone() {
    let keys = Keys::<File>::default();
    let mut file = File::default();
    let jobs = keys.find("listener.part_is_on").expect("a key");
    jobs.set(&mut file, SettingValue::Flag(false));
    let defaults = File::default();
    for setting in keys.iter() {
        let is_same = setting.get(&file) == setting.get(&defaults);
        assert_eq!(is_same, setting.name() != jobs.name(), "{}", setting.name());
    }
}
