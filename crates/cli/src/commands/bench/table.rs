//! The table of throughput, latency and CPU time.

use std::time::Duration;

use leafseal_client::raw::RawConnector;
use leafseal_client::{Curve, Keying};
use leafseal_load::report::{Provenance, table_json, table_text};
use leafseal_load::table::{Loop, TableOperation, TablePlan, TableRow, measure, steps};

use super::block_on;
use super::engine::BenchTarget;
use crate::arguments::{CurveName, GlobalArguments, KeyingName, OperationName, SchemeName, TableArguments};
use crate::failure::{CommandFailure, CommandOutcome};
use crate::output::{print, print_json};
use crate::progress::TerminalProgress;
use crate::transform::{curve_on_the_wire, keying_on_the_wire};

/// Default numbers of values per request.
const FIELDS: [usize; 6] = [1, 30, 150, 2000, 10_000, 60_000];
/// The same with `--quick`.
const QUICK_FIELDS: [usize; 3] = [1, 2000, 60_000];
/// Default duration of a row.
const DURATION: Duration = Duration::from_millis(1800);
/// The same with `--quick`.
const QUICK_DURATION: Duration = Duration::from_millis(600);
/// Requests in flight on each connection in a closed loop: enough to keep the engine busy, few enough for meaningful latencies.
const IN_FLIGHT: usize = 4;
/// The maximum in an open loop: fewer than the engine reads from one connection before it pauses.
const OPEN_IN_FLIGHT_MAX: usize = 128;
/// The engine caches few opening keys, so that a few prepared requests suffice for each to arrive with an unknown key.
const OPENING_KEYS: &str = "engine.opening_keys_max=4";

/// Measures and prints the table.
pub(super) fn run(global: &GlobalArguments, arguments: &TableArguments) -> CommandOutcome {
    let (plan, rows, settings) = block_on(measured(global, arguments))?;
    let provenance = Provenance::new(settings);
    if arguments.form.json {
        print_json(&table_json(&plan, &rows, &provenance))
    } else {
        print(&table_text(&plan, &rows, &provenance))
    }
}

/// The plan, its rows, and the engine's settings.
async fn measured(
    global: &GlobalArguments,
    arguments: &TableArguments,
) -> CommandOutcome<(TablePlan, Vec<TableRow>, Vec<String>)> {
    let target = match &arguments.engine.connect {
        Some(address) => BenchTarget::elsewhere(global, address, &arguments.engine, &arguments.app, arguments.pid)?,
        None => BenchTarget::start(global, &[OPENING_KEYS])?,
    };
    let plan = plan(arguments, &target);
    let connector = RawConnector::new(target.client.clone()).map_err(CommandFailure::from)?;
    let progress = TerminalProgress::steps("measuring", steps(&plan));
    let rows = measure(&plan, &connector, target.process.as_ref(), || progress.add(1)).await?;
    Ok((plan, rows, target.settings.clone()))
}

fn plan(arguments: &TableArguments, target: &BenchTarget) -> TablePlan {
    let quick = arguments.quick;
    let model = arguments.rate.map_or(Loop::Closed, |rate| Loop::Open { rate, process: arguments.arrivals.process() });
    let in_flight = if model == Loop::Closed { IN_FLIGHT } else { OPEN_IN_FLIGHT_MAX };
    let fields: &[usize] = if quick { &QUICK_FIELDS } else { &FIELDS };
    let curves: &[Curve] = if quick { &[Curve::R1] } else { Curve::ALL };
    let curves = or_default(&arguments.curve, |name: &CurveName| curve_on_the_wire(name.curve()), curves);
    let schemes = or_default(&arguments.scheme, |name: &SchemeName| *name, &[SchemeName::PublicKey]);
    let curves = schemes.into_iter().flat_map(|scheme| match scheme {
        SchemeName::PublicKey => curves.iter().copied().map(Some).collect(),
        SchemeName::Symmetric => vec![None],
    });
    let keyings: &[Keying] = if quick { &[Keying::Request, Keying::Session] } else { Keying::ALL };
    TablePlan {
        fields: or_default(&arguments.fields, |&fields| fields as usize, fields),
        operations: or_default(
            &arguments.operation,
            |name: &OperationName| name.operation(),
            &[TableOperation::Encrypt, TableOperation::Decrypt],
        ),
        curves: curves.collect(),
        keyings: or_default(&arguments.keying, |name: &KeyingName| keying_on_the_wire(name.keying()), keyings),
        field_size: arguments.field_size as usize,
        connections: arguments.connections as usize,
        in_flight: arguments.in_flight.map_or(in_flight, |count| count as usize),
        model,
        duration: arguments.duration.unwrap_or(if quick { QUICK_DURATION } else { DURATION }),
        rounds: arguments.rounds,
        seed: arguments.seed,
        app: target.app.clone(),
        opening_keys_kept: target.opening_keys_kept,
    }
}

/// The selection, or the default.
fn or_default<A, T: Clone>(chosen: &[A], read: impl Fn(&A) -> T, default: &[T]) -> Vec<T> {
    if chosen.is_empty() { default.to_vec() } else { chosen.iter().map(read).collect() }
}
