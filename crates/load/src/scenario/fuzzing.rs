//! Properties that hold for any bytes as a scenario file. The fuzz target checks them, and an ordinary test replays its corpus.
//!
//! Not part of the crate's interface. Every function panics if a property does not hold.

use std::time::Duration;

use super::{FlowPosition, FlowStep, KINDS_MAX, NextAction, PhaseLoad, Script};

/// Maximum steps of a flow that are executed: a file may specify years of them.
const STEPS_MAX: usize = 10_000;

/// Checks that any bytes are either read as a valid scenario or refused with positions in the file. Returns whether they are read.
pub fn check_scenario(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let script = match Script::read(text) {
        Ok(script) => script,
        Err(problems) => {
            assert!(!problems.is_empty(), "a refusal says why");
            assert!(problems.is_sorted_by_key(|problem| problem.place));
            // All line breaks of YAML, and the end of the file.
            let lines =
                2 + text.chars().filter(|c| matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')).count();
            for problem in problems {
                assert!((1..=lines).contains(&problem.place.line) && problem.place.column >= 1, "{problem}");
                assert!(!problem.message.is_empty() && !problem.message.contains(char::is_control), "{problem}");
            }
            return false;
        }
    };
    assert_eq!(Script::read(text).as_ref(), Ok(&script), "twice the same");
    // Another target may make it invalid, but never panics.
    let _ = Script::read_for(text, Some("a"));
    check_script(&script);
    true
}

fn check_script(script: &Script) {
    let target = &script.target;
    assert!(!target.host.is_empty() && target.port > 0 && target.connections > 0);
    assert!(!script.phases.is_empty() && script.scenarios.iter().any(|scenario| scenario.weight > 0));
    assert!(script.kinds.len() <= KINDS_MAX);
    assert!(script.kinds.iter().enumerate().all(|(at, kind)| !script.kinds[..at].contains(kind)), "each kind once");
    assert!(script.kinds.iter().all(|kind| kind.fields > 0 && !kind.app.is_empty()));
    for phase in &script.phases {
        match phase.load {
            PhaseLoad::Open { from, to, users_max, .. } => {
                assert!(from.is_finite() && to.is_finite() && from >= 0.0 && to >= 0.0 && from + to > 0.0);
                assert!(phase.duration > Duration::ZERO && users_max != Some(0));
            }
            PhaseLoad::Closed { connections } => assert!(connections > 0 && phase.duration > Duration::ZERO),
            PhaseLoad::Pause => {}
        }
    }
    for scenario in &script.scenarios {
        assert!(!scenario.name.is_empty() && scenario.every != Some(Duration::ZERO));
        let mut depth = 0;
        for step in scenario.flow.steps() {
            match step {
                FlowStep::Send(kind) => assert!(*kind < script.kinds.len()),
                FlowStep::Think(time) => assert!(*time > Duration::ZERO),
                FlowStep::Begin(count) => {
                    assert!(*count > 0);
                    depth += 1;
                }
                FlowStep::End => depth -= 1,
            }
            assert!(depth >= 0);
        }
        assert_eq!(depth, 0, "every loop ends");
        let mut cursor = FlowPosition::default();
        let run: Vec<NextAction> = (0..STEPS_MAX)
            .map(|_| cursor.advance(&scenario.flow))
            .take_while(|next| *next != NextAction::Done)
            .collect();
        let sent = run.iter().filter(|next| matches!(next, NextAction::Send(_))).count() as u64;
        let requests = scenario.flow.requests();
        assert!(if run.len() < STEPS_MAX { sent == requests } else { sent <= requests }, "as many as foretold");
    }
}
