//! `probe`: sends a synthetic request on a schedule, and raises an alarm if it fails or is slow.

use leafseal_relay::{Probe, ProbeError, ProbeSettings, Round};
use serde_json::json;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::arguments::ProbeArguments;
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::log;
use crate::output::{print, print_json};
use crate::signals::{self, StopSignals};
use crate::transform::client_settings;

/// `leafseal probe`.
pub(super) fn run(context: &RunContext, arguments: &ProbeArguments) -> CommandOutcome {
    if arguments.engine.connect.is_none() && arguments.relay.is_none() {
        return Err(CommandFailure::usage("there is nothing to probe: give --connect, --relay, or both"));
    }
    let engine = match &arguments.engine.connect {
        Some(address) => Some(client_settings(context, address, &arguments.engine)?),
        None => None,
    };
    let beside = context.certificates().join("ca.pem");
    let settings = ProbeSettings {
        app: arguments.app.clone(),
        count: arguments.count as usize,
        size: arguments.size as usize,
        limit: arguments.limit,
        failures_max: arguments.failures,
        engine,
        relay: arguments.relay.clone(),
        is_status_enough: arguments.status_only,
        webhook_timeout: arguments.webhook_timeout,
        webhook: arguments.webhook.clone(),
        authorities: arguments.engine.ca.clone().or_else(|| Some(beside).filter(|file| file.exists())),
    };
    log::start(context.config().log);
    signals::runtime()?.block_on(probe(settings, arguments))
}

async fn probe(settings: ProbeSettings, arguments: &ProbeArguments) -> CommandOutcome {
    let mut signals = StopSignals::listen()?;
    let mut probe = Probe::new(settings)?;
    if let Some(address) = arguments.metrics {
        let address = probe.serve_metrics(address).map_err(|error| {
            CommandFailure::unreachable(format!("cannot listen at {address}: {}", crate::failure::plain(&error)))
        })?;
        if arguments.form.json {
            print_json(&json!({ "metrics": address.to_string() }))?;
        }
    }
    let mut ticks = interval(arguments.every);
    // After the machine was suspended one request is enough.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let outcome = rounds(&mut probe, &mut ticks, &mut signals, arguments).await;
    probe.finish().await;
    outcome
}

async fn rounds(
    probe: &mut Probe,
    ticks: &mut Interval,
    signals: &mut StopSignals,
    arguments: &ProbeArguments,
) -> CommandOutcome {
    for done in 1_u64.. {
        tokio::select! {
            _ = ticks.tick() => {}
            _ = signals.next() => break,
        }
        let round = probe.round().await;
        print_round(&round, arguments.form.json)?;
        let is_last = arguments.rounds.is_some_and(|rounds| done >= rounds);
        if round.is_alarm && (is_last || arguments.exit_on_alarm) {
            return Err(CommandFailure::failed("alarm: the probe failed or took longer than its limit"));
        }
        if is_last {
            break;
        }
    }
    Ok(())
}

fn print_round(round: &Round, is_json: bool) -> CommandOutcome {
    if is_json {
        return print_json(&round.json());
    }
    let mut line = String::new();
    for sample in &round.samples {
        let milliseconds = sample.time.as_secs_f64() * 1e3;
        let failure = sample.failure.as_ref().map_or_else(String::new, |failure| format!(" ({failure})"));
        line.push_str(&format!("{} {milliseconds:.2} ms{failure}  ", sample.target.as_str()));
    }
    let alarm = if round.is_alarm { "ALARM" } else { "ok" };
    print(&format!("{line}{alarm}\n"))
}

impl From<ProbeError> for CommandFailure {
    fn from(error: ProbeError) -> Self {
        Self::usage(error.to_string())
    }
}
