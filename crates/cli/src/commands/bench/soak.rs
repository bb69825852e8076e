//! `bench soak`: mixed requests for a long time.

use leafseal_load::report::{Provenance, soak_json, soak_text};
use leafseal_load::soak::{Outcome as Soaked, Plan, run as soak};

use super::block_on;
use super::engine::Target;
use crate::arguments::{GlobalArguments, SoakArguments};
use crate::failure::Outcome;
use crate::output::{print, print_json};
use crate::progress::Progress;

/// Runs and prints the result.
pub(super) fn run(global: &GlobalArguments, arguments: &SoakArguments) -> Outcome {
    let (plan, outcome, settings) = block_on(soaked(global, arguments))?;
    let provenance = Provenance::new(settings);
    if arguments.form.json {
        print_json(&soak_json(&plan, &outcome, &provenance))
    } else {
        print(&soak_text(&plan, &outcome, &provenance))
    }
}

/// The plan, the result, and the engine's settings.
async fn soaked(global: &GlobalArguments, arguments: &SoakArguments) -> Outcome<(Plan, Soaked, Vec<String>)> {
    let target = Target::start(global, &[])?;
    let plan = Plan {
        duration: arguments.duration,
        connections: arguments.connections as usize,
        seed: arguments.seed,
        app: target.app.clone(),
    };
    // One step per second.
    let progress = Progress::steps("working", arguments.duration.as_secs() as usize);
    let working = soak(plan.clone(), target.client.clone(), target.process.clone(), move || progress.add(1));
    Ok((plan, working.await?, target.settings.clone()))
}
