//! The conversations in `vectors/client/conversations` and generated ones: fresh, free of chance, and about every rule.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use leafseal_conversations::{Conversation, Mode, Model, Rules, Ties, generate, generate_many, read_all, stale};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/client/conversations")
}

fn written() -> Vec<Conversation> {
    read_all(&folder()).unwrap().into_iter().map(|(_, conversation)| conversation).collect()
}

#[test]
fn written_transcripts_are_those_of_the_model() {
    assert_eq!(
        stale(&folder(), Mode::Check).unwrap(),
        Vec::<PathBuf>::new(),
        "run `UPDATE=1 cargo xtask conversations`"
    );
}

#[test]
fn no_conversation_depends_on_the_order_within_a_millisecond() {
    let generated = (0..300).map(generate);
    for conversation in written().into_iter().chain(generated) {
        for ties in [Ties::Last, Ties::Shuffled(7), Ties::Shuffled(8)] {
            let (transcript, until) = Model::play(&conversation, ties);
            assert_eq!(transcript, conversation.expect, "{}", conversation.name);
            assert_eq!(until, conversation.until);
        }
    }
}

/// Writing takes no time in conversations, so that none has an unsent request on a connection.
#[test]
fn every_rule_is_used() {
    let written = written();
    let used = written.iter().flat_map(Model::rules_used).collect::<BTreeSet<usize>>();
    let rules = Rules::current();
    let unused = rules.outcomes.iter().enumerate().filter(|(index, rule)| {
        let is_left_out = rule.sent == Some(false) || ["timeout", "protocol_error"].contains(&rule.event.as_str());
        !is_left_out && !used.contains(index)
    });
    assert_eq!(unused.map(|(_, rule)| format!("{rule:?}")).collect::<Vec<_>>(), Vec::<String>::new());
}

#[test]
fn a_seed_makes_the_same_conversation_each_time() {
    let lines = |seed, count| {
        let mut out = Vec::new();
        generate_many(seed, count, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let (all, first, second) = (lines(5, 2), lines(5, 1), lines(6, 1));
    assert_eq!(all, format!("{first}{second}"));
    let read: Conversation = serde_json::from_str(&first).unwrap();
    assert_eq!(read, generate(5));
}
