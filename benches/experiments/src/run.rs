//! Runs the experiment that the command line names, and prints its report.

use leafseal_client::{Curve, Keying, Scheme};
use leafseal_load::material::RequestContent;
use leafseal_load::report::Provenance;
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::{
    Arguments, EngineArguments, Experiment, InterferenceArguments, OverloadArguments, SoakArguments,
};
use crate::engine::{Engine, NAME};
use crate::error::ExperimentError;
use crate::floor::{self, EchoProcess};
use crate::interference::{self, Case, CompetingLoad, Interference, Plan, Round};
use crate::{overload, report, soak};

/// Makes an engine process requests one after the other.
const FIRST_COME_FIRST_SERVED: &str = "server.scheduling=first-come-first-served";
/// Limits of the engine that a short overload can reach, unless the command line overrides them. Frames are small, so that limits on
/// several frames can be small too. The limit on waiting requests keeps its default.
const BOUNDS: [&str; 5] = [
    "document.document_size_max=1MiB",
    "server.frame_size_max=1MiB",
    "server.incoming_bytes_max=16MiB",
    "server.queue_bytes_max=32MiB",
    "server.answers_bytes_max=32MiB",
];
/// Size of a value in bytes.
const FIELD_SIZE: usize = 32;

/// Runs an experiment.
///
/// # Errors
/// Fails if an engine does not start, an answer is missing or wrong, or a signal ends the experiment.
pub(crate) fn run(arguments: &Arguments) -> Result<(), ExperimentError> {
    if let Experiment::Echo(echo) = &arguments.command {
        return floor::serve(echo);
    }
    if cfg!(debug_assertions) {
        eprintln!("experiments: warning: not a release build: the figures are not representative");
    }
    let engine = &arguments.engine;
    let report = until_signal(async {
        match &arguments.command {
            Experiment::Interference(chosen) => interference(engine, chosen).await,
            Experiment::Overload(chosen) => overload(engine, chosen).await,
            Experiment::Soak(chosen) => soak(engine, chosen).await,
            Experiment::Echo(_) => Ok(String::new()),
        }
    })?;
    print!("{report}");
    Ok(())
}

/// Runs `work` on this thread. A signal ends it early: its engines are stopped and their folders removed.
fn until_signal<T>(work: impl Future<Output = Result<T, ExperimentError>>) -> Result<T, ExperimentError> {
    let system = |error| ExperimentError::System("a runtime", error);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().map_err(system)?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(system)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(system)?;
        tokio::select! {
            result = work => result,
            _ = terminate.recv() => Err(ExperimentError::Interrupted),
            _ = interrupt.recv() => Err(ExperimentError::Interrupted),
        }
    })
}

/// The report in the form that the command line asks for.
fn rendered(engine: &EngineArguments, json: serde_json::Value, text: String) -> String {
    if engine.json { format!("{json}\n") } else { text }
}

async fn soak(arguments: &EngineArguments, chosen: &SoakArguments) -> Result<String, ExperimentError> {
    let engine = Engine::start(arguments, &[])?;
    let plan = soak::Plan {
        duration: chosen.duration,
        connections: chosen.connections as usize,
        seed: chosen.seed,
        app: NAME.to_owned(),
    };
    let outcome = soak::run(plan.clone(), engine.client.clone(), engine.process.clone()).await?;
    let provenance = Provenance::new(engine.settings.clone());
    Ok(rendered(
        arguments,
        report::soak_json(&plan, &outcome, &provenance),
        report::soak_text(&plan, &outcome, &provenance),
    ))
}

async fn overload(arguments: &EngineArguments, chosen: &OverloadArguments) -> Result<String, ExperimentError> {
    let engine = Engine::start(arguments, &BOUNDS)?;
    let plan = overload::Plan {
        content: RequestContent {
            fields: chosen.fields as usize,
            field_size: FIELD_SIZE,
            curve: Some(Curve::R1),
            keying: Keying::Field,
        },
        deadline_ms: Some(u32::try_from(chosen.deadline.as_millis()).unwrap_or(u32::MAX)),
        connections: chosen.connections as usize,
        in_flight_max: chosen.in_flight as usize,
        factor: chosen.factor,
        duration: chosen.duration,
        capacity_duration: chosen.capacity,
        health_period: chosen.health_period,
        seed: chosen.seed,
        app: NAME.to_owned(),
    };
    let outcome = overload::run(plan.clone(), engine.client.clone(), Some(engine.process.clone())).await?;
    let (bound, provenance) = (engine.memory_bound, Provenance::new(engine.settings.clone()));
    Ok(rendered(
        arguments,
        report::overload_json(&plan, &outcome, bound, &provenance),
        report::overload_text(&plan, &outcome, bound, &provenance),
    ))
}

async fn interference(arguments: &EngineArguments, chosen: &InterferenceArguments) -> Result<String, ExperimentError> {
    let engine = Engine::start(arguments, &[])?;
    let mut unfair = arguments.clone();
    unfair.set.push(FIRST_COME_FIRST_SERVED.to_owned());
    let first_come_first_served = Engine::start(&unfair, &[])?;
    let plan = interference_plan(chosen);
    let outcome = measure(&plan, chosen.rounds, &engine, &first_come_first_served).await?;
    let provenance = Provenance::new(engine.settings.clone());
    Ok(rendered(
        arguments,
        report::interference_json(&plan, &outcome, &provenance),
        report::interference_text(&plan, &outcome, &provenance),
    ))
}

fn interference_plan(chosen: &InterferenceArguments) -> Plan {
    let content = |fields: u32| RequestContent {
        fields: fields as usize,
        field_size: FIELD_SIZE,
        curve: (chosen.scheme == Scheme::PublicKey).then_some(Curve::R1),
        keying: Keying::Request,
    };
    Plan {
        small: content(chosen.fields),
        rate: chosen.rate,
        large: content(chosen.large_fields),
        large_connections: chosen.large_connections as usize,
        round: chosen.duration / chosen.rounds,
        seed: chosen.seed,
        app: NAME.to_owned(),
    }
}

async fn measure(
    plan: &Plan,
    rounds: u32,
    engine: &Engine,
    first_come_first_served: &Engine,
) -> Result<interference::Outcome, ExperimentError> {
    let prepare = |engine: &Engine| Interference::prepare(plan.clone(), engine.client.clone(), engine.operator);
    let (engine, first_come_first_served) = (prepare(engine).await?, prepare(first_come_first_served).await?);
    let mut outcome = interference::Outcome::default();
    for number in 0..rounds {
        let mut take = |case, round: Round| outcome.add(case, &round);
        take(Case::Alone, engine.at_engine(CompetingLoad::Alone, number).await?);
        let beside = engine.at_engine(CompetingLoad::Large, number).await?;
        let large_work = beside.large_work();
        take(Case::Beside, beside);
        take(Case::BesideUnfair, first_come_first_served.at_engine(CompetingLoad::Large, number).await?);
        let echo = EchoProcess::start(engine.exchanges(large_work))?;
        for (case, competing) in [(Case::FloorAlone, CompetingLoad::Alone), (Case::FloorBeside, CompetingLoad::Large)] {
            take(case, engine.at_floor(echo.addresses, competing, number).await?);
        }
    }
    Ok(outcome)
}
