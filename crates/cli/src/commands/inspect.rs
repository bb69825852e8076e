//! `inspect`: the metadata of envelopes.

mod facts;
mod summary;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use leafseal_client::{InspectOptions, RewrapFailure};
use leafseal_engine::{Caller, Engine, Error, Inspector, Selection};
use leafseal_service::{inspect_options, other_case};
use serde_json::json;

use super::canaries::CanaryNote;
use super::rewrite::{advise_lines, second_line_start};
use crate::arguments::{InputFormat, InspectArguments};
use crate::context::RunContext;
use crate::envelopes::EnvelopeReader;
use crate::failure::{CommandFailure, CommandOutcome, Exit};
use crate::input::{InputFile, InputLimit};
use crate::output::OpenOutput;
use crate::transform::{RemoteEngine, connect, is_blank};
use facts::Facts;
use summary::Summary;

/// The source of the metadata.
enum InspectBackend {
    Local(Box<Inspector>),
    Remote(RemoteEngine),
}

/// `leafseal inspect`.
pub(super) fn run(context: &RunContext, arguments: &InspectArguments) -> CommandOutcome {
    let options = InspectOptions::of(arguments.app.as_deref().unwrap_or_default(), &arguments.options.given);
    let of_opened = [
        ("--context", options.context.is_some()),
        ("--context-select", options.context_select.is_some()),
        ("--bind", options.bind.is_some()),
        ("--accept", options.accept.is_some()),
    ];
    if let Some((flag, _)) = of_opened.iter().find(|(_, is_given)| arguments.app.is_none() && *is_given) {
        return Err(CommandFailure::usage(format!("{flag} needs --app: without it, envelopes are not opened")));
    }
    // Without an app, nothing is opened.
    let on_failure = arguments.app.is_some().then_some(RewrapFailure::Leave);
    let options = InspectOptions { on_failure, ..options };
    let mut shown = InspectOutput::new(arguments)?;
    match of_documents(arguments, &options) {
        Some(flag) => documents(context, (arguments, flag), &options, &mut shown)?,
        None => texts(context, arguments, &options, &mut shown)?,
    }
    shown.finish()
}

/// The first argument with which the input is read as JSON, where each envelope has a place.
fn of_documents(arguments: &InspectArguments, options: &InspectOptions<'_>) -> Option<&'static str> {
    let given = [
        ("--context-select", options.context_select.is_some()),
        ("--bind", options.bind.is_some()),
        ("--select", !arguments.select.is_empty()),
        ("--other-case", options.other_case.is_some()),
        ("--format", arguments.format != InputFormat::Auto),
    ];
    given.iter().find(|(_, is_given)| *is_given).map(|(flag, _)| *flag)
}

/// Envelopes that are arguments, or any text of a file.
fn texts(
    context: &RunContext,
    arguments: &InspectArguments,
    options: &InspectOptions<'_>,
    shown: &mut InspectOutput,
) -> CommandOutcome {
    let inputs = &arguments.inputs;
    let are_envelopes = !inputs.is_empty() && inputs.iter().all(|input| is_envelope(input));
    if inputs.len() > 1 && !are_envelopes {
        return Err(CommandFailure::usage(
            "give either envelopes, which begin with ev: and must be quoted in a shell, or one file",
        ));
    }
    let mut canaries = None;
    let mut backend = match &arguments.engine.connect {
        Some(address) => InspectBackend::Remote(connect(context, address, &arguments.engine)?),
        None => {
            let engine = engine(context, arguments)?;
            canaries.replace(CanaryNote::of(&engine, options.app));
            InspectBackend::Local(Box::new(inspector(&engine, options)?))
        }
    };
    if are_envelopes {
        return inputs.iter().try_for_each(|text| shown.add(backend.inspect(options, text.as_bytes())));
    }
    let size_max = context.config().engine.document.document_size_max;
    let input = InputFile::new(inputs.first().map(Path::new));
    let mut found = EnvelopeReader::new(input.reader()?, size_max);
    while let Some(text) = found.next().map_err(|error| input.failure(&error))? {
        shown.add(backend.inspect(options, &text))?;
    }
    Ok(())
}

/// The values of a document, or of each line of JSON Lines.
fn documents(
    context: &RunContext,
    (arguments, flag): (&InspectArguments, &str),
    options: &InspectOptions<'_>,
    shown: &mut InspectOutput,
) -> CommandOutcome {
    if arguments.engine.connect.is_some() {
        return Err(CommandFailure::usage(format!(
            "inspect does not support {flag} with --connect, where it sends envelopes alone: run it on a machine with the keystore"
        )));
    }
    if arguments.inputs.len() > 1 || arguments.inputs.iter().any(|input| is_envelope(input)) {
        return Err(CommandFailure::usage(format!("{flag} is for documents: give one file")));
    }
    let engine = engine(context, arguments)?;
    let _canaries = CanaryNote::of(&engine, options.app);
    let selection = match arguments.select.as_slice() {
        [] => None,
        select => {
            let mut builder = engine.selection_builder().other_case(other_case(options.other_case));
            select.iter().try_for_each(|selector| builder.add(selector)).map_err(Error::from)?;
            Some(builder.finish())
        }
    };
    let input = InputFile::new(arguments.inputs.first().map(Path::new));
    let is_lines = match arguments.format {
        InputFormat::Jsonl => true,
        InputFormat::Json => false,
        InputFormat::Auto => input.is_named_json_lines(),
    };
    let settings = &context.config().input;
    if !is_lines {
        let size_max = context.config().engine.document.document_size_max;
        let document = input.read_whole(InputLimit { size_max, key: "document.document_size_max" })?;
        let inspected = document_of(&engine, options, (&document, selection.as_ref()), shown);
        return inspected.map_err(|failure| advise_lines(failure, second_line_start(&document)));
    }
    let line = InputLimit { size_max: settings.line_size_max, key: "input.line_size_max" };
    let mut blocks = input.blocks(line, settings.block_lines_max, settings.block_size_max)?;
    while let Some(block) = blocks.next()? {
        for (number, line, _) in block.lines().filter(|(_, line, _)| !is_blank(line)) {
            document_of(&engine, options, (line, selection.as_ref()), shown)
                .map_err(|failure| failure.at(format_args!("line {number}")))?;
        }
    }
    Ok(())
}

fn document_of(
    engine: &Engine,
    options: &InspectOptions<'_>,
    (document, selection): (&[u8], Option<&Selection>),
    shown: &mut InspectOutput,
) -> CommandOutcome {
    let mut work = engine.inspect_document(inspector(engine, options)?, selection, document.len())?;
    while let Some(inspected) = work.next(document)? {
        shown.add(inspected.map(Facts::of_engine).map_err(CommandFailure::from))?;
    }
    Ok(())
}

/// An argument is treated as an envelope, however damaged; in a file, envelopes are searched for.
fn is_envelope(input: &str) -> bool {
    input.starts_with("ev:")
}

fn engine(context: &RunContext, arguments: &InspectArguments) -> CommandOutcome<Engine> {
    if arguments.app.is_none() { context.engine_without_keys() } else { context.engine() }
}

/// Without an app, envelopes are not opened.
fn inspector(engine: &Engine, options: &InspectOptions<'_>) -> CommandOutcome<Inspector> {
    let app = Some(options.app).filter(|app| !app.is_empty());
    Ok(engine.inspector(&Caller::Owner, app)?.with(&inspect_options(options))?)
}

/// Whether the next envelope may succeed.
fn is_about_the_envelope(failure: &CommandFailure) -> bool {
    let message = &failure.message;
    failure.exit == Exit::Failed
        && ["unknown_app", "there is no app", "forbidden", "disabled"].iter().all(|other| !message.contains(other))
}

impl InspectBackend {
    fn inspect(&mut self, options: &InspectOptions<'_>, text: &[u8]) -> CommandOutcome<Facts> {
        match self {
            Self::Local(inspector) => Ok(Facts::of_engine(inspector.inspect_whole(text)?)),
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

/// What is printed.
struct InspectOutput {
    output: OpenOutput,
    is_json: bool,
    /// Counts, with the time of now in Unix seconds, in place of a line for each envelope.
    summary: Option<(Summary, u64)>,
    count: u64,
    faults: u64,
}

impl InspectOutput {
    fn new(arguments: &InspectArguments) -> CommandOutcome<Self> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let summary = arguments.summary.then(|| (Summary::default(), now));
        Ok(Self { output: OpenOutput::standard()?, is_json: arguments.form.json, summary, count: 0, faults: 0 })
    }

    /// Prints or counts an envelope, or why it has no metadata.
    ///
    /// # Errors
    /// That fault, if it is not one of this envelope alone.
    fn add(&mut self, inspected: CommandOutcome<Facts>) -> CommandOutcome {
        self.count += 1;
        let line = match (inspected, &mut self.summary) {
            (Err(failure), _) if !is_about_the_envelope(&failure) => return Err(failure),
            (Ok(facts), Some((summary, now))) => {
                summary.add(&facts, *now);
                return Ok(());
            }
            (Err(_), Some((summary, _))) => {
                summary.add_malformed();
                return Ok(());
            }
            (Ok(facts), None) => {
                self.faults += u64::from(facts.is_unopened);
                if self.is_json { format!("{}\n", facts.json()) } else { facts.text() }
            }
            (Err(failure), None) => {
                self.faults += 1;
                match self.is_json {
                    true => format!("{}\n", json!({ "error": failure.message })),
                    false => format!("envelope {}: {failure}\n", self.count),
                }
            }
        };
        self.output.write(line.as_bytes())
    }

    fn finish(mut self) -> CommandOutcome {
        if let Some((summary, _)) = self.summary {
            let shown = if self.is_json { format!("{}\n", summary.json()) } else { summary.text() };
            self.output.write(shown.as_bytes())?;
            return self.output.finish();
        }
        self.output.finish()?;
        match (self.count, self.faults) {
            (0, _) => Err(CommandFailure::failed("no envelope found")),
            (_, 0) => Ok(()),
            (count, faults) => {
                Err(CommandFailure::failed(format!("{faults} of {count} envelopes cannot be inspected")))
            }
        }
    }
}
