//! Work that bodies cause: bounded in steps by their size, whatever they contain.

use std::path::Path;

use leafseal_relay::fuzzing::check_steps;

#[test]
fn the_corpus_takes_no_more_steps_than_its_bounds() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/steps");
    let mut count = 0;
    for entry in std::fs::read_dir(corpus).expect("the corpus is part of the project") {
        let path = entry.expect("an entry can be read").path();
        println!("{}", path.display());
        check_steps(&std::fs::read(&path).expect("a file can be read"));
        count += 1;
    }
    assert!(count > 45, "only {count} files were found");
}

/// Megabytes of texts in strings, of operations, and of lines.
#[test]
fn large_documents_of_costly_texts_take_no_more_steps_than_their_bounds() {
    // The first byte selects the work.
    let (texts, patches, copies) = ("Gb", "F", "I");
    let nested = serde_json::to_string(&serde_json::to_string("[1,{\"b\":\"[2]\"}]").unwrap()).unwrap();
    let operation = "{\"op\":\"add\",\"path\":\"/card/number\",\"value\":1},";
    for body in [
        format!("{texts}\n[{}0]", "\"[1]\",".repeat(100_000)),
        format!("{texts}\n[{}0]", format!("{nested},").repeat(30_000)),
        format!("{texts}\n[\"[1{}\"]", "\\\\".repeat(1 << 20)),
        format!("{texts}\n[\"{}\"]", " ".repeat(2 << 20)),
        format!("{texts}\n{}", "\"{\\\"".repeat(300_000)),
        format!("{patches}\n[{}{{}}]", operation.repeat(30_000)),
        format!("{patches}\n{}", "[{\"op\":\"add\"}]\n".repeat(100_000)),
        format!("{patches}\n{}", "\n".repeat(500_000)),
        format!("{patches}\n[{}", "[".repeat(1 << 20)),
        format!("{copies}\n{}", "ev:Tk9".repeat(500_000)),
    ] {
        check_steps(body.as_bytes());
    }
}

/// Megabytes of the names that take most steps to read.
#[test]
fn large_forms_of_costly_names_take_no_more_steps_than_their_bounds() {
    // The first byte selects the work.
    let (fields, parts) = ('A', 'B');
    let name = "x1[a%2541].b[a%2541].b";
    let part = |name: &str| format!("--B\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n1\r\n");
    let dotted = "[a%41].b".repeat(120);
    for body in [
        format!("{fields}card_number,x1\n{}", format!("{name}=1&").repeat(9_000)),
        format!("{fields}card_number,x1\n{}", format!("{name}=1;").repeat(9_000)),
        format!("{fields}card_number\n{}", format!("{dotted}=1&").repeat(2_000)),
        format!("{fields}card_number\na={}", ";".repeat(2 << 20)),
        format!("{fields}card_number\n{}", "[".repeat(2 << 20)),
        format!("{fields}card_number\ncard_number={}", "%41".repeat(1 << 20)),
        format!("{parts}x1\n{}--B--\r\n", part(&dotted).repeat(2_000)),
        format!("{parts}x1\n{}--B--\r\n", part(&format!("x1\\a%22;{dotted}")).repeat(2_000)),
        format!("{parts}card\n{}--B--\r\n", part("card").repeat(9_000)),
        format!("{parts}card\n{}--B--\r\n", part("card").replace("1\r\n", &"-".repeat(4 << 20))),
    ] {
        check_steps(body.as_bytes());
    }
}

/// Megabytes of JSON whose patches, texts and names take most steps.
#[test]
fn large_documents_of_costly_parts_take_no_more_steps_than_their_bounds() {
    let (patch, texts, names) = ('F', 'G', 'H');
    let mut deep = "{\"number\":1}".to_owned();
    for _ in 0..9 {
        deep = format!("\"{}\"", deep.replace('\\', "\\u005c").replace('"', "\\\""));
    }
    for body in [
        format!("{patch}\n[{}[]]", "{\"op\":\"add\",\"path\":\"/a\",\"value\":1},".repeat(9_000)),
        format!("{patch}\n[{}]", vec!["{\"op\":\"add\",\"path\":\"/a\",\"value\":1}"; 9_000].join(",")),
        format!("{patch}\n[{{\"op\":\"add\",\"path\":\"\",\"value\":[{}]}}]", vec!["1"; 1 << 19].join(",")),
        format!("{patch}\n[{{\"op\":\"add\",\"path\":\"/a\",\"value\":\"{}\"}}]", "x".repeat(2 << 20)),
        format!("{patch}\n[{{\"op\":\"add\",\"path\":\"{}\",\"value\":1}}]", "/a".repeat(1 << 20)),
        format!("{patch}\n{}", "op\"\n".repeat(1 << 18)),
        format!("{texts}number\n[{}1]", format!("{deep},").repeat(200)),
        format!("{texts}number\n[{}1]", "\"1\",".repeat(1 << 18)),
        format!("{texts}number\n\"{{'{}\"", "a:".repeat(1 << 20)),
        format!("{texts}number\n\"{}\"", " ".repeat(1 << 20)),
        format!("{texts}number\na={}", "{\"".repeat(1 << 20)),
        format!("{texts}number\n{}", "a={\"&".repeat(1 << 11)),
        format!("{names}\n{{{}\"x\":1}}", "\"\\u0061\":1,".repeat(1 << 17)),
        format!("{names}\n{}", "\\\n".repeat(1 << 18)),
        format!("{names}\n{{\"a\":[{}1]}}", "1,".repeat(1 << 19)),
        format!("{names}\n{}", "{\"a\":1}\n".repeat(1 << 16)),
    ] {
        check_steps(body.as_bytes());
    }
}
