//! `bench soak`: mixed work for long.

use fieldseal_load::report::{Provenance, soak_json, soak_text};
use fieldseal_load::soak::{Outcome as Soaked, Plan, run as soak};

use super::block_on;
use super::engine::Target;
use crate::arguments::{Place, SoakArguments};
use crate::failure::Outcome;
use crate::output::{print, print_json};
use crate::progress::Progress;

/// Works and prints.
pub fn run(place: &Place, arguments: &SoakArguments) -> Outcome {
    let (plan, outcome, settings) = block_on(soaked(place, arguments))?;
    let provenance = Provenance::new(settings);
    if arguments.form.json {
        print_json(&soak_json(&plan, &outcome, &provenance))
    } else {
        print(&soak_text(&plan, &outcome, &provenance))
    }
}

/// The plan, the outcome, and the engine's settings.
async fn soaked(place: &Place, arguments: &SoakArguments) -> Outcome<(Plan, Soaked, Vec<String>)> {
    let target = Target::start(place, &[])?;
    let plan = Plan {
        duration: arguments.duration,
        connections: arguments.connections as usize,
        seed: arguments.seed,
        app: target.app.clone(),
    };
    // One step a second.
    let progress = Progress::steps("working", arguments.duration.as_secs() as usize);
    let working = soak(plan.clone(), target.client.clone(), target.process.clone(), move || progress.add(1));
    Ok((plan, working.await?, target.settings.clone()))
}
