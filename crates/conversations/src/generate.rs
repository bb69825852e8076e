//! Makes conversations from seeds: every feature, densely, and never two independent events at the same millisecond whose order matters.

use crate::model::{Model, Ties};
use crate::random::Random;
use crate::rules::Rules;
use crate::script::{Attempt, Conversation, ScriptedAddress, ScriptedCall, ScriptedSettings};

/// How many orders of the events of a millisecond must all lead to the same transcript.
const ORDERS: u64 = 48;

/// An absurd `retry_after`: the largest integer that JavaScript has exactly, which in nanoseconds exceeds 64 bits.
const RETRY_AFTER_MAX: u64 = (1 << 53) - 1;

/// The conversations of the seeds from `seed` on, as JSON Lines.
///
/// # Errors
/// If `out` fails.
pub fn generate_many(seed: u64, count: u64, out: &mut impl std::io::Write) -> std::io::Result<()> {
    for seed in seed..seed + count {
        serde_json::to_writer(&mut *out, &generate(seed))?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// The conversation of a seed, with what must come of it.
pub fn generate(seed: u64) -> Conversation {
    let mut random = Random::new(seed);
    loop {
        let mut conversation = draft(seed, &mut random);
        let (expect, until) = Model::play(&conversation, Ties::First);
        let orders = [Ties::Last].into_iter().chain((0..ORDERS).map(Ties::Shuffled));
        if !Model::has_races(&conversation)
            && orders.into_iter().all(|ties| Model::play(&conversation, ties).0 == expect)
        {
            (conversation.expect, conversation.until) = (expect, until);
            return conversation;
        }
    }
}

/// How the engines of an address are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mood {
    Well,
    Refusing,
    Silent,
    Unavailable,
    Overloaded,
    Restless,
    Mixed,
}

fn draft(seed: u64, random: &mut Random) -> Conversation {
    let horizon = random.pick(&[300, 3_000, 3_000, 30_000, 60_000]);
    let names = &["a", "b", "c"][..usize::try_from(random.from(1..=3)).expect("small")];
    let settings = settings(random);
    let addresses = names.iter().map(|name| address(name, horizon, random)).collect();
    let count = random.pick(&[8, 16, 30, 45]);
    let mut calls: Vec<ScriptedCall> = (0..count).map(|_| call(horizon, random)).collect();
    calls.sort_by_key(|call| call.at);
    calls.dedup_by_key(|call| call.at);
    let random = random.pick(&[0.0, 0.5, 1.0]);
    Conversation { name: format!("seed {seed}"), settings, random, addresses, calls, until: 0, expect: Vec::new() }
}

fn settings(random: &mut Random) -> ScriptedSettings {
    let mut some = |choices: &[u64]| random.is(60).then(|| random.pick(choices));
    ScriptedSettings {
        connections_max: some(&[1, 3]).map(|max| max as usize),
        requests_in_flight_max: some(&[1, 2, 3, 128]).map(|max| max as usize),
        retries_max: some(&[0, 1, 2, 7]).map(|max| max as u32),
        // Quarters of them are whole.
        backoff_min_ms: Some(some(&[8, 20, 100]).unwrap_or(Rules::current().backoff.min_ms / 4 * 4)),
        backoff_max_ms: some(&[200, 1_000]),
        connect_timeout_ms: some(&[97, 499]),
        request_timeout_ms: some(&[293, 1_999]),
        abandoned_timeout_ms: some(&[211, 1_009]),
    }
}

fn call(horizon: u64, random: &mut Random) -> ScriptedCall {
    let at = random.below(horizon);
    let is_health = random.is(10);
    ScriptedCall {
        at,
        method: if is_health { "health" } else { "encrypt" }.into(),
        // Not all clients offer it for `health`.
        deadline_ms: (!is_health && random.is(15)).then(|| random.from(2..=600)),
        cancel_at: random.is(12).then(|| at + random.from(1..=400)),
    }
}

fn address(name: &str, horizon: u64, random: &mut Random) -> ScriptedAddress {
    use Mood::{Mixed, Overloaded, Refusing, Restless, Silent, Unavailable, Well};
    let mut mood =
        random.pick(&[Well, Refusing, Silent, Unavailable, Unavailable, Overloaded, Restless, Restless, Mixed]);
    let count = random.pick(&[1, 2, 3, 5]);
    let attempts = (0..count).map(|_| {
        if random.is(30) {
            mood = random.pick(&[Well, Well, Refusing, Unavailable, Overloaded, Restless, Mixed]);
        }
        attempt(mood, horizon, random)
    });
    ScriptedAddress { name: name.into(), attempts: attempts.collect() }
}

fn attempt(mood: Mood, horizon: u64, random: &mut Random) -> Attempt {
    let after = random.pick(&[1, 7, 40, 150]) + random.below(17);
    let outcome = match mood {
        Mood::Refusing if random.is(80) => format!("{after} refuse"),
        Mood::Mixed if random.is(20) => format!("{after} tls_failed"),
        Mood::Silent if random.is(60) => "never".into(),
        _ => format!("{after} accept"),
    };
    if !outcome.ends_with("accept") {
        return Attempt { outcome, answers: Vec::new(), events: Vec::new() };
    }
    let count = if random.is(50) { 1 } else { random.from(2..=5) };
    let answers = (0..count).map(|_| answer(mood, random)).collect();
    let likely = if mood == Mood::Restless { 90 } else { 35 };
    let count = if random.is(likely) { random.from(1..=2) } else { 0 };
    let mut events: Vec<String> = (0..count).map(|_| event(horizon, random)).collect();
    // An engine announces a reason once.
    let mut announced = std::collections::BTreeSet::new();
    events.retain(|event| match event.split_once(" going_away ") {
        Some((_, reason)) => announced.insert(reason.to_owned()),
        None => true,
    });
    Attempt { outcome, answers, events }
}

fn answer(mood: Mood, random: &mut Random) -> String {
    let after = random.pick(&[1, 10, 60, 300]) + random.below(19);
    let ordinary = ["ok", "ok", "ok", "ok", "forbidden", "unavailable", "audit_unavailable", "overloaded"];
    let code = match mood {
        Mood::Unavailable if random.is(80) => "unavailable",
        Mood::Overloaded if random.is(80) => "overloaded",
        Mood::Silent if random.is(50) => return "never".into(),
        Mood::Mixed => random.pick(&ordinary),
        _ if random.is(4) => return "never".into(),
        _ => "ok",
    };
    match code != "ok" && random.is(30) {
        true if random.is(10) => format!("{after} {code} retry_after {RETRY_AFTER_MAX}"),
        true => format!("{after} {code} retry_after {}", random.from(1..=700)),
        false => format!("{after} {code}"),
    }
}

fn event(horizon: u64, random: &mut Random) -> String {
    let latest = random.pick(&[30, 300, horizon]);
    let after = random.from(1..=latest);
    let what = random.pick(&[
        "going_away shutdown",
        "going_away shutdown",
        "going_away age",
        "going_away closed",
        "connection_error unavailable",
        "connection_error overloaded",
        "connection_error forbidden",
        "close",
    ]);
    format!("{after} {what}")
}
