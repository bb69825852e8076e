//! Tests of the search: texts in which lenient parsers find a name, texts in which none does, and documents from a generator.

use super::*;
use leafseal_document::DocumentLimits;

fn names(selectors: &[&str], case: CaseFold) -> Arc<MemberNames> {
    let selection = Selection::parse(selectors, &DocumentLimits::default()).unwrap();
    Arc::new(MemberNames::new(&[selection], [], case))
}

/// Whether a name is found, in pieces of any size.
fn holds_bytes(text: &[u8], selectors: &[&str]) -> bool {
    let names = names(selectors, CaseFold::Refuse);
    let outcomes = [1, 3, usize::MAX].map(|size| {
        let mut search = TextSearch::new(Arc::clone(&names));
        search.begin_bytes();
        let mut rest = text;
        while !rest.is_empty() {
            let (read, verdict) = search.read(&rest[..rest.len().min(size)]);
            assert!(search.steps() <= search.steps_max(text.len()));
            match verdict {
                Verdict::More => rest = &rest[read..],
                verdict => return verdict == Verdict::Held,
            }
        }
        false
    });
    assert!(outcomes.iter().all(|outcome| *outcome == outcomes[0]), "{}", String::from_utf8_lossy(text));
    outcomes[0]
}

fn holds(text: &str) -> bool {
    holds_bytes(text.as_bytes(), &["$.card.number", "$['card number']", "$['@id']"])
}

fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

#[test]
fn names_of_members_are_found_as_lenient_parsers_read_them() {
    for text in [
        r#"{"number":"4242"}"#,
        r#"{"a":1,"data":[{"x":{"number" : 4242}}]}"#,
        "\u{feff} \t\r\n\u{a0}{\"number\":1}",
        r#"{"n\u0075mber":1}"#,
        r#"{"NUMBER":1}"#,
        r#"{"number\u0000x":1}"#,
        r#"{"num\ud800ber":1}"#,
        r#"{"card number":1}"#,
        r#"{"card.number":1}"#,
        r#"{"card[number]":1}"#,
        r#"{"card['number']":1}"#,
        r#"{"number(1i)":1}"#,
        r#"{"@id":1}"#,
        // Forms that other languages, and lenient settings, allow.
        r#"{number:1}"#,
        "{ a : 1 ,\n number : 1 }",
        "{\n  a: 1\n  number: 1\n}",
        "{'number':1}",
        "{'a':'}','number':1}",
        "{'card number' :1}",
        "{`number`:1}",
        r"{n\u0075mber:1}",
        r"{'n\x75mber':1}",
        r#"{"n\x75mber":1}"#,
        "{\"num\\\nber\":1}",
        "{\"a\":\"x\ny\",\"number\":1}",
        "{\"number\"/**/:1}",
        "{number//x\n:1}",
        "{\"a\":1,/*\"*/\"number\":1/*\"*/}",
        "// {\n{\"number\":1}",
        "# \"\n{\"number\":1}",
        "/*\"*/{\"number\":1}",
        ")]}'\n{\"number\":1}",
        "({\"number\":1})",
        "{\"a\":NaN,\"number\":1}",
        "{\"a\":1,}{\"number\":1}",
        "{\"a\":1} x {\"number\":1}",
        "{\"number\"=1}",
        "{\"a\"=>1;\"number\"=>1}",
        "{a: b'c, \"number\": 1}",
        "{a: b#\"c, number: 1}",
        "{x\"y: 1, \"number\": 1}",
        "{? number : 1}",
        "{\"number\":1",
        "1\n{\"number\":1}",
        "null {\"number\":1}",
        "'{\"number\":1}'",
        "[1,[2,{\"number\":1}]]",
    ] {
        assert!(holds(text), "{text}");
    }
    let card = "{\"number\":1}";
    for encoded in [
        card.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<u8>>(),
        card.encode_utf16().flat_map(u16::to_be_bytes).collect(),
        format!("\u{feff}{card}").encode_utf16().flat_map(u16::to_le_bytes).collect(),
        format!("\u{feff}{card}").encode_utf16().flat_map(u16::to_be_bytes).collect(),
        card.chars().flat_map(|c| (c as u32).to_le_bytes()).collect(),
        card.chars().flat_map(|c| (c as u32).to_be_bytes()).collect(),
        b"{\"num\xffber\":1}".to_vec(),
        b"{\"a\":\"\xff\",\"number\":1}".to_vec(),
    ] {
        assert!(holds_bytes(&encoded, &["$.card.number"]), "{encoded:?}");
    }
}

#[test]
fn texts_that_no_parser_finds_a_name_in_pass() {
    for text in [
        "",
        "   ",
        "number: 1",
        "the {number} of \"number\": 5",
        "{number}",
        "{name}, your number: {number}",
        "[urgent] number: 5",
        "[Peter's number: 5]",
        "[5] the number: {x}",
        "{first_name}'s number: {number}",
        "/users/{id}/number: 5",
        "# number: 5",
        "\"number\": 5",
        "\"{number}\" is what they typed",
        r#"{"a":"number","b":["number",{"c":"my number: 5"}]}"#,
        r#"{"a":"{number} number: 1"}"#,
        r#"{"numbers":1,"a_number":2,"number ":3}"#,
        "{'phone_number': 1, 'numbers': 2}",
        r#"{"card":{"x":1}}"#,
        "42",
        "2026-11-26 {number}",
        "5 {number}",
        "null and {number: x",
        "--- {\"number\":1}",
        "<p>{\"number\":1}</p>",
        "ev:abc{\"number\":1}",
        "{",
        "[[number]]",
    ] {
        assert!(!holds(text), "{text}");
    }
}

#[test]
fn texts_inside_one_another_are_searched_down_to_the_bound() {
    let mut text = "{\"number\":1}".to_owned();
    for level in 0..LEVELS_MAX + 4 {
        assert!(holds(&text), "{level}: {text}");
        text = if level % 2 == 0 { quoted(&text) } else { format!("{{\"a\":{}}}", quoted(&text)) };
    }
    let mut text = "{\"a\":1}".to_owned();
    for level in 1..LEVELS_MAX {
        text = format!("[{}]", quoted(&text));
        assert!(!holds(&text), "{level}");
    }
    let deep = format!("[{}]", quoted(&format!("[{}]", quoted(&text))));
    assert!(holds(&deep), "a deeper one is refused");
    // Escapes of two levels, and texts that only some readers unescape.
    assert!(holds(r#"{"a":"{\"n\\u0075mber\":1}"}"#));
    assert!(holds(r#"{"a":"\u007b\u0022number\u0022:1}"}"#));
    assert!(holds(r#"{'a':'{\"n\\u0075mber\":1}'}"#));
    assert!(holds(r#"{'a':"{\u0022n\u005cu0075mber\u0022:1}"}"#));
}

#[test]
fn names_are_those_of_selected_values() {
    for (text, selectors, is_held) in [
        (r#"{"x":1}"#, &["$.a.*"][..], true),
        (r#"{"x":1}"#, &["$"], true),
        (r#"["4242"]"#, &["$.cards[*]"], true),
        ("[4242]", &["$.cards[0]"], true),
        ("[4242, 1]", &["$.cards[0]"], true),
        ("[urgent] {x}", &["$.cards[0]"], false),
        ("[[wiki]]", &["$.cards[0]"], false),
        (r#"{"number":1}"#, &["$.payments[?@.kind == 'card'].number"], true),
        (r#"{"kind":1}"#, &["$.payments[?@.kind == 'card'].number"], false),
        (r#"{"b":1}"#, &["$..['a','b']"], true),
        (r#"{"card":1}"#, &["$.card.number"], false),
        ("{\"stra\u{1e9e}e\":1}", &["$['stra\u{df}e']"], true),
    ] {
        assert_eq!(holds_bytes(text.as_bytes(), selectors), is_held, "{text} {selectors:?}");
    }
    assert!(names(&[], CaseFold::Refuse).is_empty());
    let exact = names(&["$.number"], CaseFold::Other);
    let mut search = TextSearch::new(exact);
    search.begin();
    assert_eq!(search.read(br#"{"Number":1}"#).1, Verdict::More);
    search.begin();
    assert_eq!(search.read(br#"{"number":1}"#).1, Verdict::Held);
}

#[test]
fn the_work_is_linear_in_the_bytes() {
    let mut deep = "{\"number\":1}".to_owned();
    for _ in 0..LEVELS_MAX - 2 {
        deep = quoted(&deep);
    }
    for text in [
        "{'a:".repeat(1 << 16),
        "{\"a\":\"\\\"".repeat(1 << 16),
        deep.repeat(50),
        "[\"{\\\"a".repeat(1 << 16),
        "{a:b\n".repeat(1 << 16),
    ] {
        holds(&text);
    }
}

/// A document of the generator of these tests.
#[derive(Debug)]
enum Node {
    Number(u64),
    Text(String),
    List(Vec<Node>),
    Object(Vec<(String, Node)>),
    /// The text of a document.
    Inner(Box<Node>),
}

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn node(&mut self, depth: u64) -> Node {
        const TEXTS: [&str; 8] = ["", "number", "my number: 5", "it's", "a, \"number\"", "\\", "\u{1f600}\n", "x\u{0}"];
        const NAMES: [&str; 10] = ["a", "b c", "Number", "number ", "numbers", "", "\"", "@id", "\u{e9}", "it's"];
        let kind = if depth == 0 { self.below(2) } else { self.below(8) };
        let count = self.below(4);
        match kind {
            0 => Node::Number(self.below(1 << 30)),
            1 => Node::Text(TEXTS[self.below(8) as usize].to_owned()),
            2 | 3 => Node::List((0..count).map(|_| self.node(depth - 1)).collect()),
            4 | 5 => Node::Inner(Box::new(self.node(depth - 1))),
            _ => {
                let mut name = || NAMES[self.below(10) as usize].to_owned();
                let names: Vec<String> = (0..count).map(|_| name()).collect();
                Node::Object(names.into_iter().map(|name| (name, self.node(depth - 1))).collect())
            }
        }
    }

    /// Writes white space that JSON allows.
    fn space(&mut self, out: &mut String) {
        out.push_str(["", "", " ", "\n\t", "\r\n"][self.below(5) as usize]);
    }

    /// Writes a string with escapes that JSON does not require.
    fn string(&mut self, text: &str, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' if self.below(2) == 0 => out.extend(['\\', c]),
                c if c < ' ' || "\"\\".contains(c) || self.below(4) == 0 => {
                    let mut units = [0; 2];
                    c.encode_utf16(&mut units).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04X}")));
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }

    fn write(&mut self, node: &Node, out: &mut String) {
        self.space(out);
        match node {
            Node::Number(number) => out.push_str(&number.to_string()),
            Node::Text(text) => self.string(text, out),
            Node::Inner(inner) => {
                let mut text = String::new();
                self.write(inner, &mut text);
                self.string(&text, out);
            }
            Node::List(list) => {
                out.push('[');
                for (at, node) in list.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    self.write(node, out);
                }
                out.push(']');
            }
            Node::Object(members) => {
                out.push('{');
                for (at, (name, node)) in members.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    self.space(out);
                    self.string(name, out);
                    self.space(out);
                    out.push(':');
                    self.write(node, out);
                }
                out.push('}');
            }
        }
        self.space(out);
    }
}

impl Node {
    /// Whether a member has one of the names that [`holds`] looks for.
    fn has_name(&self) -> bool {
        match self {
            Node::Number(_) | Node::Text(_) => false,
            Node::Inner(inner) => inner.has_name(),
            Node::List(list) => list.iter().any(Node::has_name),
            Node::Object(members) => {
                members.iter().any(|(name, node)| matches!(&**name, "Number" | "@id") || node.has_name())
            }
        }
    }
}

#[test]
fn names_are_found_exactly_where_a_document_has_them() {
    let mut held = [0; 2];
    for seed in 0..20_000 {
        let mut random = Random(seed);
        let node = Node::Object(vec![("a".to_owned(), random.node(5))]);
        let mut text = String::new();
        random.write(&node, &mut text);
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
        assert_eq!(holds(&text), node.has_name(), "{text}");
        held[usize::from(node.has_name())] += 1;
    }
    assert!(held.iter().all(|count| *count > 2000), "{held:?}");
}
