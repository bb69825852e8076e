//! Converts the YAML tree to a script. Accepts the keys of `docs/load.md` and refuses all others.

use std::ops::RangeInclusive;
use std::time::Duration;

use leafseal_client::{Curve, Keying};

use super::environments;
use super::fields::{MapFields, PathValue, Problems};
use super::flow::{FlowStep, UserFlow};
use super::yaml::{YamlNode, YamlProblem};
use super::{
    KINDS_MAX, LoadTarget, Pem, PemSource, PhaseLoad, RequestKind, Scenario, ScenarioPhase, Script, TargetAuthority,
};
use crate::arrivals::ArrivalProcess;

/// The only supported value of `engine`.
const ENGINE: &str = "e3";
/// The keys of `config`.
const CONFIG_KEYS: [&str; 6] = ["target", "e3", "phases", "mode", "engines", environments::KEY];
/// The number of the first keys that environments have, too.
const ENVIRONMENT_KEYS: usize = CONFIG_KEYS.len() - 1;
const PORT: u16 = 3443;
const CONNECTIONS: usize = 2;
/// Maximum warm-up requests, which Artillery needs for its just-in-time compiler. They are accepted and ignored here.
const WARM_UP_MAX: u64 = 100_000;
/// The app that `leafseal dev` creates.
const APP: &str = "app_dev";
const FIELD_SIZE: usize = 32;
/// Maximum bytes of all values of a request.
const VALUES_SIZE_MAX: usize = 256 << 20;
const PHASES_MAX: usize = 1000;
const SCENARIOS_MAX: usize = 1000;
const STEPS_MAX: usize = 10_000;
const LOOP_DEPTH_MAX: usize = 16;
const COUNT_MAX: u32 = 1_000_000;
const RATE_MAX: f64 = 1e6;
const ARRIVALS_MAX: u64 = 100_000_000;
const CONNECTIONS_MAX: u32 = 1000;
const DAY: Duration = Duration::from_secs(24 * 3600);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3600);
/// Minimum interval between users that arrive at a fixed interval.
const EVERY_MIN: Duration = Duration::from_millis(1);
/// Minimum of durations that must not be zero.
const TICK: Duration = Duration::from_nanos(1);
const MODES: [(&str, ArrivalProcess); 2] = [("uniform", ArrivalProcess::Even), ("poisson", ArrivalProcess::Poisson)];

/// Reads the whole file.
pub(super) fn script(root: &YamlNode) -> Result<Script, Vec<YamlProblem>> {
    let mut reader = ScenarioReader::default();
    let script = reader.script(&PathValue { node: root, path: String::new() });
    match script {
        Some(script) if reader.problems.is_empty() => Ok(script),
        _ => Err(reader.problems.sorted()),
    }
}

#[derive(Default)]
struct ScenarioReader {
    problems: Problems,
    kinds: Vec<RequestKind>,
    /// The app of requests that do not set one.
    app: String,
}

impl ScenarioReader {
    fn script(&mut self, root: &PathValue<'_>) -> Option<Script> {
        let fields = root.map(&["config", "scenarios"], &mut self.problems)?;
        let config = fields.required("config", &mut self.problems).cloned().and_then(|config| self.config(&config));
        let list = fields.required("scenarios", &mut self.problems).cloned();
        let scenarios = list.and_then(|list| self.scenarios(&list));
        let (target, phases) = config?;
        Some(Script { target, phases, scenarios: scenarios?, kinds: std::mem::take(&mut self.kinds) })
    }

    fn config(&mut self, config: &PathValue<'_>) -> Option<(LoadTarget, Vec<ScenarioPhase>)> {
        let problems = &mut self.problems;
        APP.clone_into(&mut self.app);
        let fields = config.map(&CONFIG_KEYS, problems)?;
        for environment in fields.get(environments::KEY).map_or_else(Vec::new, |all| all.entries(problems)) {
            // Their values are read where they are chosen: an environment has only what differs.
            environment.map(&CONFIG_KEYS[..ENVIRONMENT_KEYS], problems);
        }
        let mode = fields.get("mode").and_then(|mode| mode.word(&MODES, problems)).unwrap_or(ArrivalProcess::Even);
        if let Some(engines) = fields.get("engines").and_then(|engines| engines.map(&[ENGINE], problems))
            && let Some(e3) = engines.get(ENGINE)
        {
            e3.map(&[], problems);
        }
        let host = fields.required("target", problems).cloned();
        let e3 = fields.required(ENGINE, problems).cloned();
        let phases = fields.required("phases", problems).cloned();
        let target = e3.and_then(|e3| self.target(host.as_ref(), &e3));
        let phases = phases.and_then(|phases| self.phases(&phases, mode));
        Some((target?, phases?))
    }

    fn target(&mut self, host: Option<&PathValue<'_>>, e3: &PathValue<'_>) -> Option<LoadTarget> {
        let problems = &mut self.problems;
        let keys = ["port", "key", "cert", "ca", "rpc", "app", "connections", "serverName", "warmUp"];
        let fields = e3.map(&keys, problems)?;
        if let Some(rpc) = fields.get("rpc") {
            rpc.text(problems);
        }
        if let Some(count) = fields.get("warmUp") {
            count.whole(0..=WARM_UP_MAX, problems);
        }
        if let Some(app) = fields.get("app").and_then(|app| app_name(app, problems)) {
            self.app = app;
        }
        let port = fields.get("port").and_then(|port| port.whole(1..=u64::from(u16::MAX), problems));
        let connections = fields.get("connections").and_then(|count| count.count(1..=CONNECTIONS_MAX, problems));
        let server_name = fields.get("serverName").and_then(|name| name.text(problems)).map(str::to_owned);
        let key = fields.required("key", problems).and_then(|value| pem(value, problems));
        let certificate = fields.required("cert", problems).and_then(|value| pem(value, problems));
        let authority = match fields.get("ca") {
            Some(value) => pem(value, problems).map(TargetAuthority::Given),
            None => match &certificate {
                Some(Pem { source: PemSource::Text(_), .. }) => {
                    problems.add(fields.place, "config.e3: the key `ca` is required because `cert` is PEM text");
                    None
                }
                _ => Some(TargetAuthority::BesideCertificate),
            },
        };
        let port = port.and_then(|port| u16::try_from(port).ok());
        let (host, port) = address(host?, port, problems)?;
        let connections = connections.unwrap_or(CONNECTIONS);
        Some(LoadTarget {
            host,
            port,
            certificate: certificate?,
            key: key?,
            authority: authority?,
            server_name,
            connections,
        })
    }

    fn phases(&mut self, list: &PathValue<'_>, mode: ArrivalProcess) -> Option<Vec<ScenarioPhase>> {
        let items = list.list(1..=PHASES_MAX, &mut self.problems)?;
        let phases: Vec<Option<ScenarioPhase>> =
            items.iter().map(|item| phase(item, mode, &mut self.problems)).collect();
        phases.into_iter().collect()
    }

    fn scenarios(&mut self, list: &PathValue<'_>) -> Option<Vec<Scenario>> {
        let items = list.list(1..=SCENARIOS_MAX, &mut self.problems)?;
        let read: Vec<Option<Scenario>> =
            items.iter().enumerate().map(|(index, item)| self.scenario(item, index)).collect();
        let scenarios: Vec<Scenario> = read.into_iter().collect::<Option<_>>()?;
        if scenarios.iter().all(|scenario| scenario.weight == 0) {
            self.problems.add(list.place(), "scenarios: at least one must have a `weight` above 0");
        }
        for (index, scenario) in scenarios.iter().enumerate() {
            if scenarios[..index].iter().any(|other| other.name == scenario.name) {
                let message = format!("scenarios[{index}].name: must be unique");
                self.problems.add(items[index].place(), message);
            }
        }
        Some(scenarios)
    }

    fn scenario(&mut self, item: &PathValue<'_>, index: usize) -> Option<Scenario> {
        let problems = &mut self.problems;
        let fields = item.map(&["name", "engine", "weight", "every", "flow"], problems)?;
        let name = fields.get("name").and_then(|name| name.text(problems));
        let name = name.map_or_else(|| format!("scenario {}", index + 1), str::to_owned);
        if let Some(engine) = fields.required("engine", problems) {
            engine.word(&[(ENGINE, ())], problems);
        }
        let every = fields.get("every").and_then(|every| every.time(EVERY_MIN..=WEEK, problems));
        let unsaid = u64::from(every.is_none());
        let weight = fields.get("weight").map_or(Some(unsaid), |weight| weight.whole(0..=1_000_000, problems));
        let steps = fields.required("flow", problems)?.clone();
        let mut flow = UserFlow::default();
        self.steps(&steps, &mut flow, 0)?;
        Some(Scenario { name, weight: u32::try_from(weight?).ok()?, every, flow })
    }

    /// Appends the steps of a list; `None` if one of them is invalid.
    fn steps(&mut self, list: &PathValue<'_>, flow: &mut UserFlow, depth: usize) -> Option<()> {
        let items = list.list(1..=STEPS_MAX, &mut self.problems)?;
        let mut is_good = true;
        for item in &items {
            is_good &= self.step(item, flow, depth).is_some();
            if flow.steps().len() > STEPS_MAX {
                self.problems.add(item.place(), format_args!("{}: must have at most {STEPS_MAX} steps", item.path));
                return None;
            }
        }
        is_good.then_some(())
    }

    fn step(&mut self, item: &PathValue<'_>, flow: &mut UserFlow, depth: usize) -> Option<()> {
        let problems = &mut self.problems;
        let fields = item.map(&["send", "think", "loop", "count"], problems)?;
        let forms = ["send", "think", "loop"].iter().filter(|form| fields.has(form)).count();
        if forms != 1 {
            problems
                .add(item.place(), format_args!("{}: a step must have exactly one of send, think, loop", item.path));
            return None;
        }
        if fields.has("count") && !fields.has("loop") {
            problems.add(item.place(), format_args!("{}: `count` requires `loop`", item.path));
            return None;
        }
        if let Some(time) = fields.get("think") {
            flow.push(FlowStep::Think(time.time(TICK..=DAY, problems)?));
        } else if let Some(send) = fields.get("send") {
            let kind = self.send(send)?;
            flow.push(FlowStep::Send(self.index(kind, send)?));
        } else {
            self.repeated(&fields, flow, depth)?;
        }
        Some(())
    }

    fn repeated(&mut self, fields: &MapFields<'_>, flow: &mut UserFlow, depth: usize) -> Option<()> {
        let list = fields.get("loop").expect("it was looked for");
        let count = fields.required("count", &mut self.problems);
        let count = count.and_then(|count| count.whole(1..=u64::from(COUNT_MAX), &mut self.problems));
        if depth == LOOP_DEPTH_MAX {
            let message = format!("{}: loops must be nested at most {LOOP_DEPTH_MAX} deep", list.path);
            self.problems.add(list.place(), message);
            return None;
        }
        flow.push(FlowStep::Begin(count.and_then(|count| u32::try_from(count).ok()).unwrap_or(1)));
        let steps = self.steps(list, flow, depth + 1);
        flow.push(FlowStep::End);
        count.and(steps)
    }

    fn send(&mut self, send: &PathValue<'_>) -> Option<RequestKind> {
        let problems = &mut self.problems;
        let keys = ["numEncrypts", "fieldSize", "curve", "keying", "decrypt", "cancelAfter", "app"];
        let fields = send.map(&keys, problems)?;
        let count = fields.required("numEncrypts", problems).and_then(|count| count.count(1..=COUNT_MAX, problems));
        let size = fields.get("fieldSize").map_or(Some(FIELD_SIZE), |size| size.count(1..=1 << 20, problems));
        let curves = [("r1", Curve::R1), ("k1", Curve::K1)];
        let keyings = [("field", Keying::Field), ("request", Keying::Request), ("session", Keying::Session)];
        let curve = fields.get("curve").and_then(|curve| curve.word(&curves, problems));
        let keying = fields.get("keying").and_then(|keying| keying.word(&keyings, problems));
        let decrypt = fields.get("decrypt").and_then(|decrypt| decrypt.boolean(problems)).unwrap_or(false);
        let cancel_after = fields.get("cancelAfter").and_then(|time| time.time(TICK..=DAY, problems));
        let app = fields.get("app").and_then(|app| app_name(app, problems)).unwrap_or_else(|| self.app.clone());
        let kind = RequestKind { fields: count?, field_size: size?, curve, keying, decrypt, cancel_after, app };
        if kind.fields.saturating_mul(kind.field_size) > VALUES_SIZE_MAX {
            let message = format!("{}: numEncrypts times fieldSize must be at most {VALUES_SIZE_MAX} bytes", send.path);
            problems.add(send.place(), message);
            return None;
        }
        Some(kind)
    }

    /// Returns the index of a kind, and adds it if it is new.
    fn index(&mut self, kind: RequestKind, send: &PathValue<'_>) -> Option<usize> {
        if let Some(index) = self.kinds.iter().position(|known| *known == kind) {
            return Some(index);
        }
        if self.kinds.len() == KINDS_MAX {
            self.problems.add(
                send.place(),
                format_args!("{}: a scenario file must have at most {KINDS_MAX} different requests", send.path),
            );
            return None;
        }
        self.kinds.push(kind);
        Some(self.kinds.len() - 1)
    }
}

fn app_name(value: &PathValue<'_>, problems: &mut Problems) -> Option<String> {
    value.text(problems).map(str::to_owned)
}

fn pem(value: &PathValue<'_>, problems: &mut Problems) -> Option<Pem> {
    let text = value.text(problems)?;
    let source = if text.starts_with("-----BEGIN") {
        PemSource::Text(format!("{text}\n"))
    } else {
        PemSource::File(text.to_owned())
    };
    Some(Pem { place: value.place(), source })
}

/// Combines the target with the separate port, if there is one.
fn address(target: &PathValue<'_>, port: Option<u16>, problems: &mut Problems) -> Option<(String, u16)> {
    let text = target.text(problems)?;
    let split = split_address(text);
    let own_port = split.and_then(|(_, own)| own).map(str::parse::<u16>);
    let Some((host, _)) = split.filter(|_| !matches!(own_port, Some(Err(_) | Ok(0)))) else {
        let message = format!("{}: must be a host name or an IP address, such as \"127.0.0.1\"", target.path);
        problems.add(target.place(), message);
        return None;
    };
    match (own_port, port) {
        (Some(_), Some(_)) => {
            let message = format!("{}: the port is set here and in config.e3.port: remove one of them", target.path);
            problems.add(target.place(), message);
            None
        }
        (Some(Ok(own)), None) => Some((host.to_owned(), own)),
        _ => Some((host.to_owned(), port.unwrap_or(PORT))),
    }
}

/// Splits `HOST`, `HOST:PORT`, `ADDRESS` or `[ADDRESS]:PORT`. An IPv6 address contains colons itself.
fn split_address(text: &str) -> Option<(&str, Option<&str>)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') => (host, Some(port)),
            _ => (text, None),
        },
    };
    let is_host = !host.is_empty() && !host.contains(['/', '@', ' ', '[', ']']);
    let is_port = port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    (is_host && is_port).then_some((host, port))
}

const PHASE_KEYS: [&str; 9] =
    ["name", "duration", "arrivalRate", "rampTo", "arrivalCount", "pause", "connections", "maxVusers", "mode"];

fn phase(item: &PathValue<'_>, mode: ArrivalProcess, problems: &mut Problems) -> Option<ScenarioPhase> {
    let fields = item.map(&PHASE_KEYS, problems)?;
    let name = fields.get("name").and_then(|name| name.text(problems)).map(str::to_owned);
    let forms: Vec<&str> =
        ["arrivalRate", "arrivalCount", "pause", "connections"].into_iter().filter(|form| fields.has(form)).collect();
    let [form] = forms[..] else {
        let message = "a phase must have exactly one of arrivalRate, arrivalCount, pause, connections";
        problems.add(item.place(), format_args!("{}: {message}", item.path));
        return None;
    };
    let allowed: &[&str] = match form {
        "arrivalRate" => &["duration", "rampTo", "maxVusers", "mode"],
        "arrivalCount" => &["duration", "maxVusers", "mode"],
        "connections" => &["duration"],
        _ => &[],
    };
    for key in ["duration", "rampTo", "maxVusers", "mode"] {
        if let Some(value) = fields.get(key).filter(|_| !allowed.contains(&key)) {
            problems.add(value.place(), format_args!("{}: not allowed together with `{form}`", value.path));
            return None;
        }
    }
    if let Some(pause) = fields.get("pause") {
        return Some(ScenarioPhase {
            name,
            duration: pause.time(Duration::ZERO..=WEEK, problems)?,
            load: PhaseLoad::Pause,
        });
    }
    let duration = fields.required("duration", problems).and_then(|time| time.time(TICK..=WEEK, problems));
    let users_max = fields.get("maxVusers").and_then(|count| count.count(1..=COUNT_MAX, problems));
    let process = fields.get("mode").and_then(|mode| mode.word(&MODES, problems)).unwrap_or(mode);
    let load = match form {
        "connections" => PhaseLoad::Closed { connections: fields.get(form)?.count(1..=CONNECTIONS_MAX, problems)? },
        "arrivalCount" => {
            let count = fields.get(form)?.whole(1..=ARRIVALS_MAX, problems)? as f64;
            let rate = count / duration?.as_secs_f64();
            PhaseLoad::Open { from: rate, to: rate, process, users_max }
        }
        _ => {
            let (from, to) = rates(&fields, problems)?;
            PhaseLoad::Open { from, to, process, users_max }
        }
    };
    Some(ScenarioPhase { name, duration: duration?, load })
}

fn rates(fields: &MapFields<'_>, problems: &mut Problems) -> Option<(f64, f64)> {
    const RATES: RangeInclusive<f64> = 0.0..=RATE_MAX;
    let first = fields.get("arrivalRate")?;
    let from = first.number(RATES, problems)?;
    let to = fields.get("rampTo").map_or(Some(from), |rate| rate.number(RATES, problems))?;
    if from <= 0.0 && to <= 0.0 {
        problems.add(first.place(), format_args!("{}: the phase has no arrivals: use `pause`", first.path));
        return None;
    }
    Some((from, to))
}

#[cfg(test)]
mod tests;
