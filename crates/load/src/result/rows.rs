//! Converts the measurements of a run to the rows of a result.

use super::*;

impl RecordedRequests {
    pub(super) fn new(sample: &ReservoirSample) -> Self {
        let of = sample.seen();
        let kept = sample.clone().into_sorted();
        RecordedRequests {
            of,
            due_us: kept.iter().map(|request| request.due_us).collect(),
            latency_us: kept.iter().map(|request| rounded(request.latency_ns as f64 / 1000.0, 10.0)).collect(),
        }
    }

    pub(super) fn is_paired(&self) -> bool {
        self.due_us.len() == self.latency_us.len()
    }
}

impl UsersRow {
    pub(super) fn plus(self, other: UsersRow) -> UsersRow {
        UsersRow {
            created: self.created + other.created,
            completed: self.completed + other.completed,
            failed: self.failed + other.failed,
            skipped: self.skipped + other.skipped,
        }
    }
}

impl From<UserCounts> for UsersRow {
    fn from(UserCounts { created, completed, failed, skipped }: UserCounts) -> Self {
        UsersRow { created, completed, failed, skipped }
    }
}

impl From<&Latencies> for Percentiles {
    fn from(latencies: &Latencies) -> Self {
        let at = |share| micros(latencies.quantile(share));
        Percentiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), p99_9: at(0.999), max: micros(latencies.max()) }
    }
}

impl From<&Buckets> for QueueWait {
    fn from(waits: &Buckets) -> Self {
        let count = waits.count();
        let at = |share| {
            let micros = waits.quantile(share) * 1e6;
            (count > 0 && micros.is_finite()).then(|| rounded(micros, 10.0))
        };
        QueueWait { count, p50: at(0.5), p99: at(0.99) }
    }
}

pub(super) fn rounded(number: f64, factor: f64) -> f64 {
    let rounded = (number * factor).round() / factor;
    if rounded.is_finite() { rounded } else { 0.0 }
}

pub(super) fn micros(time: Duration) -> f64 {
    rounded(time.as_secs_f64() * 1e6, 10.0)
}

/// The time that rates cover.
pub(super) fn measured(script: &Script, outcome: &RunOutcome) -> Duration {
    let end: Duration = script.phases.iter().map(|phase| phase.duration).sum();
    match outcome.ended {
        RunEnd::Finished => outcome.record.last_answer.max(end),
        RunEnd::Interrupted => outcome.elapsed.min(outcome.record.last_answer.max(end)),
    }
}

pub(super) fn phases(script: &Script) -> Vec<ResultPhase> {
    let row = |(phase, stretch): (&crate::scenario::ScenarioPhase, crate::run::TimedPhase)| {
        let (rates, connections) = match phase.load {
            PhaseLoad::Open { from, to, .. } => (Some((from, to)), None),
            PhaseLoad::Closed { connections } => (None, Some(connections)),
            PhaseLoad::Pause => (None, None),
        };
        ResultPhase {
            name: phase.name.clone(),
            begin_s: stretch.begin.as_secs_f64(),
            end_s: stretch.end.as_secs_f64(),
            arrival_rate: rates.map(|(from, _)| from),
            ramp_to: rates.map(|(_, to)| to),
            connections,
        }
    };
    script.phases.iter().zip(stretches(&script.phases)).map(row).collect()
}

pub(super) fn scenarios(script: &Script, outcome: &RunOutcome) -> Vec<ResultScenario> {
    let all = script.scenarios.iter().zip(&outcome.record.users);
    let row = |(scenario, &users): (&crate::scenario::Scenario, &UserCounts)| ResultScenario {
        name: scenario.name.clone(),
        weight: scenario.weight,
        users: users.into(),
    };
    all.map(row).collect()
}

pub(super) fn series(script: &Script, outcome: &RunOutcome) -> Vec<ResultSeries> {
    let all = &outcome.record.series;
    let row = |series: &crate::run::Series| {
        let (scenario, kind) = (&script.scenarios[series.id.scenario], &script.kinds[series.id.kind]);
        let operation = if kind.decrypt { "decrypt" } else { "encrypt" };
        let is_only = all.iter().filter(|other| other.id.scenario == series.id.scenario).count() == 1;
        let name =
            if is_only { scenario.name.clone() } else { format!("{}: {operation} {}", scenario.name, kind.fields) };
        let latency_us = Percentiles::from(&series.latencies);
        let speed = |micros: f64| if micros > 0.0 { rounded(kind.fields as f64 * 1e6 / micros, 10.0) } else { 0.0 };
        ResultSeries {
            scenario: series.id.scenario,
            name,
            operation: operation.to_owned(),
            fields: kind.fields,
            field_size: kind.field_size,
            curve: kind.curve.map(|curve| curve.as_str().to_owned()),
            keying: kind.keying.map(|keying| keying.as_str().to_owned()),
            app: kind.app.clone(),
            cancel_after_s: kind.cancel_after.map(|time| time.as_secs_f64()),
            ok: series.latencies.count(),
            errors: series.errors.clone(),
            latency_us,
            fields_per_s: Speeds { p50: speed(latency_us.p50), p10: speed(latency_us.p90), p1: speed(latency_us.p99) },
            histogram: series.latencies.recorded().map(|(time, count)| (micros(time), count)).collect(),
            requests: RecordedRequests::new(&series.sample),
            failure_latency_us: (&series.failure_latencies).into(),
            failures: RecordedRequests::new(&series.failure_sample),
        }
    };
    all.iter().map(row).collect()
}

pub(super) fn intervals(outcome: &RunOutcome) -> Intervals {
    let record = &outcome.record;
    let row = |interval: &crate::run::Interval| IntervalRow {
        due: interval.due,
        ok: interval.answered,
        fields: interval.fields,
        errors: interval.errors,
        latencies: interval
            .latencies
            .iter()
            .map(|(&series, histogram)| {
                let values = histogram.iter_recorded();
                let pair = |value: hdrhistogram::iterators::IterationValue<u32>| {
                    (value.value_iterated_to(), u64::from(value.count_at_value()))
                };
                IntervalLatencies { series, histogram: values.map(pair).collect() }
            })
            .collect(),
    };
    Intervals { length_s: record.interval.as_secs_f64(), rows: record.intervals.iter().map(row).collect() }
}

pub(super) fn server_row(point: &crate::run::ServerPoint) -> ServerRow {
    ServerRow {
        at_s: rounded(point.at.as_secs_f64(), 1000.0),
        workers_busy: point.workers_busy.map(|busy| rounded(busy, 1000.0)),
        queue_wait_us: point.queue_waits.as_ref().map(QueueWait::from),
        cores: point.cpu.map(|cpu| cpu_row(cpu, point.length.as_secs_f64().max(1e-9))),
    }
}

pub(super) fn cpu_row(cpu: Cpu, by: f64) -> CpuRow {
    let share = |time: Duration| rounded(time.as_secs_f64() / by, 1e6);
    CpuRow { network: share(cpu.network), workers: share(cpu.workers), other: share(cpu.other) }
}
