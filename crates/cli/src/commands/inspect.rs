//! `inspect`: the metadata of envelopes.

mod summary;

use std::borrow::Cow;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use leafseal_client::{Curve as WireCurve, InspectOptions, Inspection, Scheme as WireScheme, TextKind};
use leafseal_engine::{Caller, Curve, Engine, EnvelopeMetadata, Marking};
use leafseal_service::accept;
use serde_json::{Map, Value, json};

use crate::arguments::InspectArguments;
use crate::context::RunContext;
use crate::envelopes;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::{InputFile, InputLimit};
use crate::output::OpenOutput;
use crate::transform::{RemoteEngine, connect};
use leafseal_net::utc;
use summary::Summary;

/// The printed properties of one envelope.
struct Facts {
    version: String,
    scheme: &'static str,
    curve: Option<&'static str>,
    value_type: &'static str,
    debug: bool,
    ephemeral: Option<String>,
    key_id: Option<String>,
    from_public_key: bool,
    role: Option<String>,
    origin: Option<u64>,
    encrypted_at: Option<u64>,
    key_version: Option<u64>,
}

/// The source of the metadata.
enum InspectBackend {
    Local(Engine),
    Remote(RemoteEngine),
}

/// `leafseal inspect`.
pub(super) fn run(context: &RunContext, arguments: &InspectArguments) -> CommandOutcome {
    let texts = texts(context, &arguments.inputs)?;
    let options = InspectOptions::of(arguments.app.as_deref().unwrap_or_default(), &arguments.options.given);
    let of_opened = [("--context", options.context.is_some()), ("--accept", options.accept.is_some())];
    if let Some((flag, _)) = of_opened.iter().find(|(_, is_given)| arguments.app.is_none() && *is_given) {
        return Err(CommandFailure::usage(format!("{flag} needs --app: without it, envelopes are not opened")));
    }
    let backend = match &arguments.engine.connect {
        Some(address) => InspectBackend::Remote(connect(context, address, &arguments.engine)?),
        None if arguments.app.is_none() => InspectBackend::Local(context.engine_without_keys()?),
        None => InspectBackend::Local(context.engine()?),
    };
    let mut output = OpenOutput::standard()?;
    if arguments.summary {
        let summary = summarised(&backend, &options, &texts)?;
        let shown = if arguments.form.json { format!("{}\n", summary.json()) } else { summary.text() };
        output.write(shown.as_bytes())?;
        return output.finish();
    }
    let (mut count, mut faults) = (0_u64, 0_u64);
    for text in found(&texts) {
        count += 1;
        let line = match backend.inspect(&options, &text) {
            Ok(facts) if arguments.form.json => format!("{}\n", facts.json()),
            Ok(facts) => facts.text(),
            Err(failure) if is_about_the_envelope(&failure) => {
                faults += 1;
                match arguments.form.json {
                    true => format!("{}\n", json!({ "error": failure.message })),
                    false => format!("envelope {count}: {failure}\n"),
                }
            }
            Err(failure) => return Err(failure),
        };
        output.write(line.as_bytes())?;
    }
    output.finish()?;
    match (count, faults) {
        (0, _) => Err(CommandFailure::failed("no envelope found")),
        (_, 0) => Ok(()),
        _ => Err(CommandFailure::failed(format!("{faults} of {count} envelopes cannot be inspected"))),
    }
}

/// Counts all envelopes. One that does not open is counted by what its text says.
fn summarised(backend: &InspectBackend, options: &InspectOptions<'_>, texts: &[Vec<u8>]) -> CommandOutcome<Summary> {
    let mut summary = Summary::default();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    for text in found(texts) {
        match backend.inspect(options, &text) {
            Ok(facts) => summary.add(&facts, now),
            Err(failure) if !is_about_the_envelope(&failure) => return Err(failure),
            Err(_) if options.app.is_empty() => summary.add_malformed(),
            Err(_) => match backend.inspect(&InspectOptions::new(""), &text) {
                Ok(facts) => summary.add_unopened(&facts),
                Err(_) => summary.add_malformed(),
            },
        }
    }
    Ok(summary)
}

/// Every text to inspect: arguments that are envelopes, or the content of the one file.
fn texts(context: &RunContext, inputs: &[String]) -> CommandOutcome<Vec<Vec<u8>>> {
    let is_envelope = |input: &String| input.starts_with("ev:");
    if !inputs.is_empty() && inputs.iter().all(is_envelope) {
        return Ok(inputs.iter().map(|input| input.clone().into_bytes()).collect());
    }
    if inputs.len() > 1 {
        return Err(CommandFailure::usage(
            "give either envelopes, which begin with ev: and must be quoted in a shell, or one file",
        ));
    }
    let size_max = context.config().engine.document.document_size_max;
    let input = InputFile::new(inputs.first().map(Path::new));
    Ok(vec![input.read_whole(InputLimit { size_max, key: "document.document_size_max" })?])
}

/// An argument is treated as an envelope, however damaged; in a file, envelopes are searched for.
fn found(texts: &[Vec<u8>]) -> impl Iterator<Item = Cow<'_, [u8]>> {
    texts.iter().flat_map(|text| {
        let whole = text.starts_with(b"ev:") && !text.contains(&b'\n');
        let whole = whole.then_some(Cow::Borrowed(text.as_slice()));
        let within = whole.is_none().then(|| envelopes::anywhere(text));
        whole.into_iter().chain(within.into_iter().flatten())
    })
}

/// Whether the next envelope may succeed.
fn is_about_the_envelope(failure: &CommandFailure) -> bool {
    let message = &failure.message;
    failure.exit == crate::failure::Exit::Failed
        && ["unknown_app", "there is no app", "forbidden", "disabled"].iter().all(|other| !message.contains(other))
}

impl InspectBackend {
    /// Without an app, envelopes are not opened.
    fn inspect(&self, options: &InspectOptions<'_>, text: &[u8]) -> CommandOutcome<Facts> {
        match self {
            Self::Local(engine) => {
                let app = Some(options.app).filter(|app| !app.is_empty());
                let inspector = engine.inspector(&Caller::Owner, app)?;
                Ok(Facts::of_engine(inspector.with(options.context, accept(options.accept))?.inspect_whole(text)?))
            }
            Self::Remote(RemoteEngine { client, runtime }) => {
                let text = str::from_utf8(text)
                    .map_err(|_| CommandFailure::failed("not an envelope: it must be UTF-8 text"))?;
                let mut facts = runtime.block_on(client.inspect_with(options, &[text]))?;
                let first = facts.pop().ok_or_else(|| CommandFailure::failed("the engine's answer is empty"))?;
                Ok(Facts::of_client(first))
            }
        }
    }
}

impl Facts {
    fn of_engine(inspected: EnvelopeMetadata) -> Self {
        Self {
            scheme: inspected.scheme.name(),
            version: inspected.version.to_owned(),
            curve: inspected.curve.map(Curve::short_name),
            value_type: inspected.value_type.name(),
            debug: inspected.marking == Marking::Debug,
            ephemeral: inspected.ephemeral.map(hex::encode),
            key_id: inspected.key_id.map(|id| id.to_string()),
            from_public_key: inspected.is_from_public_key,
            role: inspected.role,
            origin: inspected.origin.map(u64::from),
            encrypted_at: inspected.encrypted_at.map(u64::from),
            key_version: inspected.key_version.map(u64::from),
        }
    }

    fn of_client(inspection: Inspection) -> Self {
        Self {
            scheme: inspection.scheme.unwrap_or(WireScheme::PublicKey).as_str(),
            version: inspection.version,
            curve: inspection.curve.map(WireCurve::as_str),
            value_type: match inspection.kind {
                TextKind::String => "string",
                TextKind::Number => "number",
                TextKind::Boolean => "boolean",
            },
            debug: inspection.debug,
            ephemeral: inspection.ephemeral.map(hex::encode),
            key_id: inspection.symmetric_key_id.map(hex::encode),
            from_public_key: inspection.from_public_key.unwrap_or(false),
            role: inspection.role,
            origin: inspection.origin,
            encrypted_at: inspection.encrypted_at,
            key_version: inspection.key_version,
        }
    }

    fn json(&self) -> Value {
        let mut facts = Map::new();
        let mut put = |name: &str, value: Value| facts.insert(name.to_owned(), value);
        put("scheme", json!(self.scheme));
        put("version", json!(self.version));
        if let Some(curve) = self.curve {
            put("curve", json!(curve));
        }
        put("type", json!(self.value_type));
        put("debug", json!(self.debug));
        if let Some(ephemeral) = &self.ephemeral {
            put("ephemeral", json!(ephemeral));
        }
        if let Some(id) = &self.key_id {
            put("key_id", json!(id));
        }
        if self.from_public_key {
            put("from_public_key", json!(true));
        }
        for (name, number) in
            [("origin", self.origin), ("encrypted_at", self.encrypted_at), ("key_version", self.key_version)]
        {
            if let Some(number) = number {
                put(name, json!(number));
            }
        }
        if let Some(role) = &self.role {
            put("role", json!(role));
        }
        Value::Object(facts)
    }

    fn text(&self) -> String {
        let mut line = match (&self.ephemeral, self.curve, &self.key_id) {
            (Some(ephemeral), Some(curve), _) => {
                format!("{} {curve} {:7} ephemeral {ephemeral}", self.version, self.value_type)
            }
            (_, _, key_id) => {
                let key_id = key_id.as_deref().unwrap_or("unknown");
                format!("{} symmetric {:7} key {key_id}", self.version, self.value_type)
            }
        };
        if self.from_public_key {
            line.push_str("  from public-key");
        }
        if self.debug {
            line.push_str("  debug");
        }
        if let Some(version) = self.key_version {
            line.push_str(&format!("  key version {version}"));
        }
        if let Some(role) = &self.role {
            line.push_str(&format!("  role {role}"));
        }
        if let Some(origin) = self.origin {
            line.push_str(&format!("  origin {origin}"));
        }
        if let Some(at) = self.encrypted_at {
            line.push_str(&format!("  {}", utc(at)));
        }
        line.push('\n');
        line
    }
}
