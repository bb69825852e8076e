//! `bench interference`: small requests beside large ones, and the operating system's minimum.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use leafseal_client::{Curve, Keying};
use leafseal_load::LoadError;
use leafseal_load::echo::{Echo, Exchange};
use leafseal_load::interference::{Case, CompetingLoad, Interference, Outcome, Plan, Round};
use leafseal_load::material::Content;
use leafseal_load::report::{Provenance, interference_json, interference_text};
use serde_json::json;

use super::block_on;
use super::engine::{Target, with_setting};
use crate::arguments::{EchoArguments, GlobalArguments, InterferenceArguments};
use crate::failure::{Failure, Outcome as CliOutcome};
use crate::output::{print, print_json};
use crate::progress::Progress;

/// The setting that makes an engine process requests one after the other, and the key that shows whether it exists.
const FIRST_COME_FIRST_SERVED: (&str, &str) = ("server.scheduling", "first-come-first-served");
/// Size of a value in bytes.
const FIELD_SIZE: usize = 32;

/// Measures and prints the result.
pub(super) fn run(global: &GlobalArguments, arguments: &InterferenceArguments) -> CliOutcome {
    let (plan, outcome, settings) = block_on(measured(global, arguments))?;
    let provenance = Provenance::new(settings);
    if arguments.form.json {
        print_json(&interference_json(&plan, &outcome, &provenance))
    } else {
        print(&interference_text(&plan, &outcome, &provenance))
    }
}

/// The plan, the result, and the engine's settings.
async fn measured(
    global: &GlobalArguments,
    arguments: &InterferenceArguments,
) -> CliOutcome<(Plan, Outcome, Vec<String>)> {
    let target = Target::start(global, &[])?;
    let first_come_first_served = match with_setting(global, FIRST_COME_FIRST_SERVED) {
        Some(global) => Some(Target::start(&global, &[])?),
        None => None,
    };
    let plan = plan(arguments, &target);
    let cases = if first_come_first_served.is_some() { 5 } else { 4 };
    let progress = Progress::steps("measuring", cases * arguments.rounds as usize);
    let outcome = measure(&plan, arguments.rounds, &target, first_come_first_served.as_ref(), &progress).await?;
    Ok((plan, outcome, target.settings.clone()))
}

fn plan(arguments: &InterferenceArguments, target: &Target) -> Plan {
    let content = |fields: u32| Content {
        fields: fields as usize,
        field_size: FIELD_SIZE,
        curve: Curve::R1,
        keying: Keying::Request,
    };
    Plan {
        small: content(arguments.fields),
        rate: arguments.rate,
        large: content(arguments.large_fields),
        large_connections: arguments.large_connections as usize,
        round: arguments.duration / arguments.rounds,
        seed: arguments.seed,
        app: target.app.clone(),
    }
}

async fn measure(
    plan: &Plan,
    rounds: u32,
    target: &Target,
    first_come_first_served: Option<&Target>,
    progress: &Progress,
) -> Result<Outcome, LoadError> {
    let engine = Interference::prepare(plan.clone(), target.client.clone(), target.operator).await?;
    let first_come_first_served = match first_come_first_served {
        Some(first_come_first_served) => Some(
            Interference::prepare(
                plan.clone(),
                first_come_first_served.client.clone(),
                first_come_first_served.operator,
            )
            .await?,
        ),
        None => None,
    };
    let mut outcome = Outcome::default();
    for number in 0..rounds {
        let mut take = |case, round: Round| {
            outcome.add(case, &round);
            progress.add(1);
        };
        take(Case::Alone, engine.at_engine(CompetingLoad::Alone, number).await?);
        let beside = engine.at_engine(CompetingLoad::Large, number).await?;
        let large_work = beside.large_work();
        take(Case::Beside, beside);
        if let Some(first_come_first_served) = &first_come_first_served {
            take(Case::BesideUnfair, first_come_first_served.at_engine(CompetingLoad::Large, number).await?);
        }
        let echo = EchoProcess::start(engine.exchanges(large_work))?;
        for (case, competing) in [(Case::FloorAlone, CompetingLoad::Alone), (Case::FloorBeside, CompetingLoad::Large)] {
            take(case, engine.at_floor(echo.addresses, competing, number).await?);
        }
    }
    Ok(outcome)
}

/// The echo server in a child process, stopped on drop.
struct EchoProcess {
    child: Child,
    addresses: [SocketAddr; 2],
}

impl EchoProcess {
    fn start(exchanges: [Exchange; 2]) -> Result<Self, LoadError> {
        let system = |error| LoadError::System { what: "the echo server".to_owned(), error };
        let mut child = Command::new(std::env::current_exe().map_err(system)?)
            .args(["bench", "echo"])
            .args(exchanges.iter().flat_map(|exchange| ["--exchange".to_owned(), exchange_text(exchange)]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(system)?;
        let mut line = String::new();
        let read = BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line);
        let addresses: Option<[SocketAddr; 2]> = serde_json::from_str(&line).ok().and_then(addresses);
        let echo = Self { child, addresses: addresses.unwrap_or([([127, 0, 0, 1], 0).into(); 2]) };
        read.map_err(system)?;
        addresses.map(|_| echo).ok_or_else(|| system(std::io::ErrorKind::UnexpectedEof.into()))
    }
}

/// Formats an exchange for `--exchange`.
fn exchange_text(exchange: &Exchange) -> String {
    format!("{}:{}:{}", exchange.request_size, exchange.answer_size, exchange.work.as_micros())
}

/// The addresses that the echo server reports when it is ready.
fn addresses(ready: serde_json::Value) -> Option<[SocketAddr; 2]> {
    let addresses = ready["addresses"].as_array()?.iter().map(|address| address.as_str()?.parse().ok());
    addresses.collect::<Option<Vec<_>>>()?.try_into().ok()
}

impl Drop for EchoProcess {
    fn drop(&mut self) {
        // Both fail only if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the echo server until its standard input ends.
pub(super) fn echo(arguments: &EchoArguments) -> CliOutcome {
    let echo = Echo::start(&arguments.exchanges).map_err(Failure::from)?;
    print_json(&json!({ "addresses": echo.addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>() }))?;
    // Neither the input nor an error matters.
    let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
    Ok(())
}
