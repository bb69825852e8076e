//! `load`: runs a load test from a scenario file, and renders reports.

mod report;
mod target;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::Path;

use leafseal_client::raw::RawConnector;
use leafseal_load::latencies::Latencies;
use leafseal_load::report::{Provenance, load_text};
use leafseal_load::result::LoadResult;
use leafseal_load::run::{self, CANCELLED, RunOutcome, RunSettings, RunSnapshot};
use leafseal_load::scenario::{Script, TEXT_SIZE_MAX};
use tokio::sync::watch;

use self::target::EngineTarget;
use crate::arguments::{GlobalArguments, LoadArguments, LoadCommand, LoadRunArguments};
use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::read_file;
use crate::note::note;
use crate::output::{OpenOutput, print, print_json};
use crate::progress::TerminalProgress;
use crate::signals::{self, StopSignals};

/// `leafseal load`.
pub(super) fn run(global: &GlobalArguments, arguments: &LoadArguments) -> CommandOutcome {
    match &arguments.command {
        Some(LoadCommand::Report(arguments)) => report::run(arguments),
        None => run_scenario(global, &arguments.run),
    }
}

fn run_scenario(global: &GlobalArguments, arguments: &LoadRunArguments) -> CommandOutcome {
    let path = arguments.scenario.as_deref().expect("the command line demands it");
    let mut script = read_script(path, arguments.environment.as_deref())?;
    // Opened before the run, because an unwritable file would waste it. The file is moved to its place at the end.
    let file = arguments.output.as_deref().map(|path| OpenOutput::open(Some(path))).transpose()?;
    if cfg!(debug_assertions) {
        note("leafseal: warning: not a release build: the figures are not representative");
    }
    let engine = target::engine(global, arguments, path, &mut script)?;
    let settings = RunSettings {
        seed: arguments.seed,
        environment: arguments.environment.clone(),
        process: arguments.arrivals.map(|name| name.process()),
        requests_max: arguments.requests_max as usize,
        users_max: arguments.users_max as usize,
        answer_timeout: arguments.answer_timeout,
    };
    let outcome = measured(&script, &settings, &engine)?;
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let provenance = Provenance::new(engine.settings.clone());
    let result = LoadResult::new(&script, &name, &settings, &outcome, &provenance);
    drop(engine);
    let json = serde_json::to_value(&result).expect("a result is JSON");
    let written = file.map_or(Ok(()), |file| write(file, &json));
    // The figures are printed even if the file could not be written.
    let printed = if arguments.form.json { print_json(&json) } else { print(&load_text(&result, &provenance)) };
    written.and(printed)?;
    verdict(&result)
}

fn write(mut file: OpenOutput, json: &serde_json::Value) -> CommandOutcome {
    file.write(format!("{json}\n").as_bytes())?;
    file.finish()
}

/// Reads a scenario file.
fn read_script(path: &Path, environment: Option<&str>) -> CommandOutcome<Script> {
    let text = read_file(path, TEXT_SIZE_MAX as u64, "scenario file")?;
    let text = String::from_utf8(text).map_err(|error| {
        CommandFailure::usage(format!(
            "{}: it must be UTF-8 text: byte {} is not",
            path.display(),
            error.utf8_error().valid_up_to()
        ))
    })?;
    Script::read_for(&text, environment).map_err(|problems| {
        let lines: Vec<String> = problems.iter().map(|problem| format!("{}:{problem}", path.display())).collect();
        CommandFailure::usage(lines.join("\n"))
    })
}

/// Runs the script on this thread. The first interruption ends it gracefully, with the results so far; the second one at once.
fn measured(script: &Script, settings: &RunSettings, engine: &EngineTarget) -> CommandOutcome<RunOutcome> {
    let connector = RawConnector::new(engine.client.clone()).map_err(CommandFailure::from)?;
    let (stop, stopped) = watch::channel(false);
    let live = Live::new(script);
    signals::runtime()?.block_on(async {
        let mut signals = StopSignals::listen()?;
        let observed = &engine.observed;
        let running = run::run(script.clone(), settings, connector, observed, stopped, |snapshot| live.show(snapshot));
        let mut running = std::pin::pin!(running);
        loop {
            tokio::select! {
                outcome = &mut running => return outcome.map_err(CommandFailure::from),
                _ = signals.next() => {}
            }
            if stop.send_replace(true) {
                return Err(CommandFailure::failed("interrupted twice: no result was kept"));
            }
        }
    })
}

/// Live figures, on a terminal only.
struct Live {
    progress: TerminalProgress,
    phases: Vec<String>,
    recent: RefCell<Recent>,
}

/// The latest latencies: of one snapshot if it has enough, otherwise of as many as necessary.
#[derive(Default)]
struct Recent(VecDeque<Latencies>);

/// Minimum number of latencies for a p99.
const SAMPLES_MIN: u64 = 100;
/// Maximum number of snapshots to combine.
const SNAPSHOTS_MAX: usize = 60;

impl Recent {
    /// Adds the latest snapshot, and returns the latencies to show.
    fn with(&mut self, latest: &Latencies) -> Latencies {
        if latest.count() > 0 {
            self.0.push_front(latest.clone());
        }
        let (mut shown, mut used) = (Latencies::default(), 0);
        for latencies in self.0.iter().take(SNAPSHOTS_MAX) {
            if shown.count() >= SAMPLES_MIN {
                break;
            }
            shown.add(latencies);
            used += 1;
        }
        self.0.truncate(used);
        shown
    }
}

impl Live {
    fn new(script: &Script) -> Self {
        let count = script.phases.len();
        let name = |(index, phase): (usize, &leafseal_load::scenario::ScenarioPhase)| match &phase.name {
            Some(name) => name.clone(),
            None => format!("phase {} of {count}", index + 1),
        };
        Self {
            progress: TerminalProgress::figures(),
            phases: script.phases.iter().enumerate().map(name).collect(),
            recent: RefCell::default(),
        }
    }

    fn show(&self, snapshot: &RunSnapshot) {
        if !self.progress.is_shown() {
            return;
        }
        let RunSnapshot { elapsed, phase, sent, ok, errors, users, recent } = snapshot;
        let phase = phase.and_then(|phase| self.phases.get(phase)).map_or("waiting for answers", String::as_str);
        let recent = self.recent.borrow_mut().with(recent);
        let [p50, p99] = [0.5, 0.99].map(|share| figure(&recent, share));
        self.progress.set_figures(format!(
            "{:.0} s  {phase}  {users} users  {sent} sent  {ok} ok  {errors} errors  p50 {p50}  p99 {p99}",
            elapsed.as_secs_f64()
        ));
    }
}

fn figure(latencies: &Latencies, share: f64) -> String {
    match latencies.count() {
        0 => "-".to_owned(),
        _ => format!("{:.1} ms", latencies.quantile(share).as_secs_f64() * 1000.0),
    }
}

/// The exit code: whether every request ended as the scenario specifies.
fn verdict(result: &LoadResult) -> CommandOutcome {
    if result.ended != "finished" {
        return Err(CommandFailure::failed(format!(
            "interrupted after {:.1} s: these are the results so far",
            result.elapsed_s
        )));
    }
    let is_asked_for = |code: &str, index: usize| code == CANCELLED && result.series[index].cancel_after_s.is_some();
    let mut failed: u64 = 0;
    for (index, series) in result.series.iter().enumerate() {
        failed +=
            series.errors.iter().filter(|(code, _)| !is_asked_for(code, index)).map(|(_, count)| count).sum::<u64>();
    }
    if failed == 0 {
        return Ok(());
    }
    let codes: Vec<String> = result.totals.errors.iter().map(|(code, count)| format!("{count} {code}")).collect();
    Err(CommandFailure::failed(format!("{failed} of {} requests failed: {}", result.totals.sent, codes.join(", "))))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_live_line_keeps_its_figures_between_rare_answers() {
        let (mut recent, mut one) = (Recent::default(), Latencies::default());
        assert_eq!(figure(&recent.with(&Latencies::default()), 0.5), "-");
        one.record(Duration::from_millis(20));
        let shown = recent.with(&one);
        assert_eq!(figure(&shown, 0.5), "20.0 ms");
        for _ in 0..5 {
            assert_eq!(figure(&recent.with(&Latencies::default()), 0.99), "20.0 ms");
        }
        // If there are many, only the latest count.
        let mut many = Latencies::default();
        (0..SAMPLES_MIN).for_each(|_| many.record(Duration::from_millis(5)));
        assert_eq!(figure(&recent.with(&many), 1.0), "5.0 ms");
        assert_eq!(recent.0.len(), 1);
    }
}
