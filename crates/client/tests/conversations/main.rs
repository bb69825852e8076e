//! The client against the contract of all clients, `vectors/client`: it must do in every conversation what the model says, as a black box.
//! `LEAFSEAL_SEED=17` runs one generated conversation, `LEAFSEAL_SEEDS=100000` runs that many.

mod world;

use std::path::Path;

use leafseal_conversations::{Conversation, generate, read_all};

const GENERATED: u64 = 10_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

fn check(conversation: &Conversation) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let transcript = runtime.block_on(world::play(conversation));
    if transcript != conversation.expect {
        let is_in = |lines: &[String], line: &String| lines.contains(line);
        let missing = conversation.expect.iter().filter(|line| !is_in(&transcript, line));
        let excess = transcript.iter().filter(|line| !is_in(&conversation.expect, line));
        let (missing, excess): (Vec<_>, Vec<_>) = (missing.collect(), excess.collect());
        panic!("{}\nmissing: {missing:#?}\nnot expected: {excess:#?}\n{}", conversation.name, conversation.to_text());
    }
}

#[test]
fn the_client_does_what_the_conversations_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/client/conversations");
    let conversations = read_all(&folder).unwrap();
    assert!(conversations.len() >= 40);
    for (_, conversation) in conversations {
        check(&conversation);
    }
}

#[test]
fn the_client_does_what_generated_conversations_say() {
    match number("LEAFSEAL_SEED") {
        Some(seed) => check(&generate(seed)),
        None => (0..number("LEAFSEAL_SEEDS").unwrap_or(GENERATED)).for_each(|seed| check(&generate(seed))),
    }
}
