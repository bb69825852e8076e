//! Files of tables, lists of tables and required keys.

use std::time::Duration;

use super::*;
use crate::{FileTable, Spanned, ms, secs, settings};

settings! {
    /// The file.
    #[derive(Debug)]
    struct File: FileTable {
        /// The engine.
        engine: Engine;
        /// Further settings.
        limits: Limits;
        /// Routes.
        route: Vec<Spanned<Route>>;
    }
}

settings! {
    #[derive(Debug)]
    struct Engine: FileTable {
        /// An address.
        address: String;
        /// A timeout.
        timeout: Duration = secs(10), in ms(1)..;
        /// Threads.
        threads: Option<String> => "one per core";
        /// Names.
        names: Vec<Spanned<String>> = Vec::new();
        /// Shared keys.
        more: Limits, is section("more_");
    }
}

settings! {
    /// Limits.
    #[derive(Debug, PartialEq)]
    struct Limits {
        /// Maximum number.
        count_max: usize = 3, in 1..=9;
    }
}

settings! {
    #[derive(Debug)]
    struct Route: FileTable {
        /// A path.
        path: Spanned<String>;
        /// Rules.
        rules: Option<Vec<Spanned<Rule>>> => "none";
        /// What happens to others.
        other: Action = Action::Pass, as "others";
    }
}

settings! {
    #[derive(Debug)]
    struct Rule: FileTable {
        /// What happens.
        action: Action;
    }
}

settings! {
    /// What happens.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Action {
        /// It is encrypted,
        /// always.
        Encrypt = "encrypt",
        /// It passes.
        Pass = "pass",
    }
}

fn problems(text: &str) -> Vec<String> {
    TomlDocument::parse(text).expect("TOML").check(&File::shape()).iter().map(ToString::to_string).collect()
}

#[test]
fn all_faults_are_reported_with_their_places() {
    let text = "engin = 1\n[engine]\ntimeout = 5\n  thread = 3\nnames = \"x\"\nmore_count_max = 10\n[limits]\ncount_max = 0\n\
        [[route]]\npth = \"/\"\nrules = [{ action = \"c\" }, {}, 3]\n[[route]]\npath = 3\ntimeout = 3\nxxxxxxxxxxxx = 3\n";
    assert_eq!(
        problems(text),
        [
            "1:1: there is no key engin; did you mean engine?",
            "2:1: the key engine.address is missing",
            "3:11: engine.timeout must be a duration from 1ms to 8760h, such as \"500ms\", \"15s\" or \"2m\"",
            "4:3: there is no key engine.thread; did you mean engine.threads?",
            "5:9: engine.names must be a list of texts: write [\"x\"]",
            "6:18: engine.more_count_max must be a whole number from 1 to 9",
            "8:13: limits.count_max must be a whole number from 1 to 9",
            "9:1: the key route[0].path is missing",
            "10:1: there is no key route[0].pth; did you mean path?",
            "11:21: route[0].rules[0].action must be one of \"encrypt\", \"pass\"",
            "11:28: the key route[0].rules[1].action is missing",
            "11:32: route[0].rules[2] must be a table",
            "13:8: route[1].path must be text in quotation marks",
            "14:1: there is no key route[1].timeout; did you mean engine.timeout?",
            "15:1: there is no key route[1].xxxxxxxxxxxx; the keys are path, rules, others",
        ]
    );
    assert_eq!(problems(""), ["1:1: the key engine is missing"]);
    let lists = "engine = 3\nlimits = { count_max = 1 }\nroute = { path = '/' }\n";
    assert_eq!(
        problems(lists),
        ["1:10: engine must be a table", "3:9: route must be a list of tables: write [[route]]"]
    );
    let item = "[engine]\naddress = ''\nnames = ['a', 3]\n";
    assert_eq!(problems(item), ["3:15: engine.names[1] must be text in quotation marks"]);
}

#[test]
fn a_valid_file_is_read_with_the_places_of_values() {
    let text = "[engine]\naddress = 'a'\nnames = ['x', 'y']\nmore_count_max = 5\n[limits]\ncount_max = 7\n\
        [[route]]\npath = '/'\nrules = [{ action = 'encrypt' }]\n[[route]]\npath = '/x'\nothers = 'encrypt'\n";
    let document = TomlDocument::parse(text).expect("TOML");
    assert_eq!(document.check(&File::shape()), []);
    let File { engine, limits, route } = FileTable::of(&document).expect("checked");
    assert_eq!((&*engine.address, engine.timeout, engine.threads), ("a", secs(10), None));
    assert_eq!((engine.more.count_max, limits.count_max), (5, 7));
    let names: Vec<(&str, usize)> =
        engine.names.iter().map(|name| (name.get_ref().as_str(), line_column(text, name.span().start).1)).collect();
    assert_eq!(names, [("x", 10), ("y", 15)]);
    let lines: Vec<usize> = route.iter().map(|route| line_column(text, route.span().start).0).collect();
    assert_eq!(lines, [7, 10]);
    let routes: Vec<&Route> = route.iter().map(Spanned::get_ref).collect();
    let rules = routes[0].rules.as_ref().expect("rules");
    assert_eq!((rules[0].get_ref().action, rules.len()), (Action::Encrypt, 1));
    assert!(routes[1].rules.is_none() && routes[0].other == Action::Pass && routes[1].other == Action::Encrypt);
    assert_eq!(line_column(text, rules[0].span().start), (9, 10));
    assert_eq!(routes[1].path.get_ref(), "/x");
    let least = File::of(&TomlDocument::parse("[engine]\naddress = ''\n").expect("TOML")).expect("valid");
    assert_eq!((least.limits, least.route.len()), (Limits::default(), 0));
}

#[test]
fn a_fault_of_syntax_has_its_place() {
    let problem = TomlDocument::parse("[a]\nb = r1\n").expect_err("not TOML");
    assert!((problem.line, problem.column) == (2, 5) && problem.message.starts_with("not TOML: "), "{problem}");
}

#[test]
fn a_file_is_shown_with_its_defaults_and_is_a_file_again() {
    let text = "[engine]\naddress = 'a' # here\nmore_count_max = 0x3\n[[route]]\npath = '/'\nrules = [{ action = \"pass\" }]\n\
        [[route]]\npath = \"/x\"\nrules = []\n";
    let shown = TomlDocument::parse(text).expect("TOML").show(&File::shape());
    let expected = "\n[engine]  # line 1\naddress = 'a'  # line 2\ntimeout = \"10s\"\nnames = []\nmore_count_max = 0x3  # line 3\n\n\
        [limits]\ncount_max = 3\n\n\
        [[route]]  # line 4\npath = '/'  # line 5\nothers = \"pass\"\n\n[[route.rules]]  # line 6\naction = \"pass\"  # line 6\n\n\
        [[route]]  # line 7\npath = \"/x\"  # line 8\nrules = []  # line 9\nothers = \"pass\"\n";
    assert_eq!(shown, expected);
    assert_eq!(problems(&shown), [""; 0]);
    let facts = TomlDocument::parse(text).expect("TOML").facts(&File::shape());
    assert_eq!(facts["engine.timeout"]["value"], "10s");
    assert_eq!(facts["engine.timeout"]["about"], "A timeout.");
    assert_eq!(
        (&facts["engine.threads"]["value"], &facts["engine.threads"]["default"]),
        (&json!(null), &json!("one per core"))
    );
    let count = &facts["engine.more_count_max"];
    assert_eq!((&count["value"], &count["from"], &count["default"]), (&json!(3), &json!("file"), &json!(3)));
    assert_eq!(facts["route[0].rules[0].action"]["value"], "pass");
    assert_eq!(facts["engine.names"]["takes"], "a list of texts");
}

#[test]
fn the_schema_has_required_keys_defaults_and_the_meanings_of_words() {
    let schema = File::shape().schema();
    assert_eq!(schema["required"], json!(["engine"]));
    let engine = &schema["properties"]["engine"];
    assert_eq!((&engine["required"], &engine["additionalProperties"]), (&json!(["address"]), &json!(false)));
    assert_eq!(engine["properties"]["threads"]["defaultText"], "one per core");
    let route = &schema["properties"]["route"]["items"];
    assert_eq!((&route["required"], &route["properties"]["others"]["default"]), (&json!(["path"]), &json!("pass")));
    let action = &route["properties"]["rules"]["items"]["properties"]["action"];
    assert_eq!(action["oneOf"][0], json!({"const": "encrypt", "description": "It is encrypted, always."}));
}

#[test]
fn tables_are_written_into_a_page() {
    let place = |header: &str| format!("<!-- keys of {header} -->\nold\n<!-- end of keys -->\n");
    let headers = ["[engine]", "[limits]", "[[route]]", "[[route.rules]]"];
    let page: String = headers.map(place).concat();
    let filled = File::shape().fill(&page).expect("all tables");
    assert!(!filled.contains("old"));
    assert!(filled.contains(
        "<!-- keys of [[route]] -->\n\n| key | default | value | meaning |\n|---|---|---|---|\n\
         | `path` | required | text in quotation marks | A path. |\n\
         | `rules` | none | a list of tables | Rules. |\n\
         | `others` | `\"pass\"` | one of \"encrypt\", \"pass\" | What happens to others. `encrypt`: It is encrypted, always. \
         `pass`: It passes. |\n\n<!-- end of keys -->\n"
    ));
    assert_eq!(File::shape().fill(&filled), Ok(filled.clone()));
    assert_eq!(File::shape().fill("# A\n"), Err("<!-- keys of [engine] -->\n".to_owned()));
}
