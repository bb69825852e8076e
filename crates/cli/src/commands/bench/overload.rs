//! `bench overload`: more load than the engine can process.

use leafseal_client::{Curve, Keying};
use leafseal_load::material::Content;
use leafseal_load::overload::{Outcome as Overloaded, Plan, run as overload};
use leafseal_load::report::{Provenance, overload_json, overload_text};

use super::block_on;
use super::engine::Target;
use crate::arguments::{GlobalArguments, OverloadArguments};
use crate::failure::Outcome;
use crate::output::{print, print_json};

/// Limits of the engine that a short run can reach, unless the command line overrides them. Frames are small, so that limits on several
/// frames can be small too. The limit on waiting requests keeps its default.
const BOUNDS: [&str; 5] = [
    "document.document_size_max=1MiB",
    "server.frame_size_max=1MiB",
    "server.incoming_bytes_max=16MiB",
    "server.queue_bytes_max=32MiB",
    "server.answers_bytes_max=32MiB",
];
/// Size of a value in bytes.
const FIELD_SIZE: usize = 32;

/// Measures and prints the result.
pub(super) fn run(global: &GlobalArguments, arguments: &OverloadArguments) -> Outcome {
    let (plan, outcome, target) = block_on(overloaded(global, arguments))?;
    let (bound, provenance) = (target.memory_bound, Provenance::new(target.settings.clone()));
    drop(target);
    if arguments.form.json {
        print_json(&overload_json(&plan, &outcome, bound, &provenance))
    } else {
        print(&overload_text(&plan, &outcome, bound, &provenance))
    }
}

async fn overloaded(global: &GlobalArguments, arguments: &OverloadArguments) -> Outcome<(Plan, Overloaded, Target)> {
    let target = Target::start(global, &BOUNDS)?;
    let plan = Plan {
        content: Content {
            fields: arguments.fields as usize,
            field_size: FIELD_SIZE,
            curve: Curve::R1,
            keying: Keying::Field,
        },
        deadline_ms: Some(u32::try_from(arguments.deadline.as_millis()).unwrap_or(u32::MAX)),
        connections: arguments.connections as usize,
        in_flight_max: arguments.in_flight as usize,
        factor: arguments.factor,
        duration: arguments.duration,
        capacity_duration: arguments.capacity,
        health_period: arguments.health_period,
        seed: arguments.seed,
        app: target.app.clone(),
    };
    let outcome = overload(plan.clone(), target.client.clone(), target.process.clone()).await?;
    Ok((plan, outcome, target))
}
