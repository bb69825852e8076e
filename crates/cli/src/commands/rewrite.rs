//! `encrypt`, `decrypt` and `rewrap`: read the input, replace values, write the output.

use std::time::Instant;

use leafseal_client::{Field, Keying, OnFailure, OptionValue};
use serde_json::{Value, json};

use super::canaries::CanaryNote;
use crate::arguments::{
    ConnectArguments, DecryptArguments, EncryptArguments, InputFormat, RewrapArguments, StreamArguments,
};
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome};
use crate::input::{InputFile, InputLimit};
use crate::interruption;
use crate::note::note;
use crate::output::OpenOutput;
use crate::progress::TerminalProgress;
use crate::transform::{
    Local, Remote, TransformBackend, TransformJob, TransformReport, ValueOperation, connect, no_match, transform_lines,
};

/// The type of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InputType {
    Document,
    Lines,
    File,
}

/// `leafseal encrypt`.
pub(super) fn encrypt(context: &RunContext, arguments: EncryptArguments) -> CommandOutcome {
    let content = content(&arguments.stream, arguments.file);
    let mut options = arguments.options.given;
    // A key agreement per line would cost more than everything else; a session's limits of time and count apply.
    let by_session = content == InputType::Lines && !context.loaded().is_set("engine.keying");
    if by_session && options.iter().all(|(option, _)| option != Field::Keying) {
        options.insert(Field::Keying, OptionValue::Text(Keying::Session.as_str()));
    }
    let job = TransformJob {
        operation: ValueOperation::Encrypt,
        app: arguments.app,
        select: arguments.select,
        options,
        strict: is_strict(context, arguments.strict),
    };
    rewrite(context, job, content, &arguments.stream, &arguments.engine)
}

/// `leafseal decrypt`.
pub(super) fn decrypt(context: &RunContext, arguments: DecryptArguments) -> CommandOutcome {
    let content = content(&arguments.stream, arguments.file);
    let job = TransformJob {
        operation: ValueOperation::Decrypt,
        app: arguments.app,
        select: arguments.select,
        options: arguments.options.given,
        strict: is_strict(context, arguments.strict),
    };
    rewrite(context, job, content, &arguments.stream, &arguments.engine)
}

/// `leafseal rewrap`.
pub(super) fn rewrap(context: &RunContext, arguments: RewrapArguments) -> CommandOutcome {
    let content = content(&arguments.stream, false);
    let job = TransformJob {
        operation: ValueOperation::Rewrap,
        app: arguments.app,
        select: arguments.select,
        options: arguments.options.given,
        strict: is_strict(context, arguments.strict),
    };
    rewrite(context, job, content, &arguments.stream, &arguments.engine)
}

fn content(stream: &StreamArguments, file: bool) -> InputType {
    match stream.format {
        _ if file => InputType::File,
        InputFormat::Jsonl => InputType::Lines,
        InputFormat::Auto if InputFile::new(stream.input.as_deref()).is_named_json_lines() => InputType::Lines,
        InputFormat::Auto | InputFormat::Json => InputType::Document,
    }
}

fn is_strict(context: &RunContext, is_flagged: bool) -> bool {
    is_flagged || context.config().input.strict
}

fn rewrite(
    context: &RunContext,
    job: TransformJob,
    content: InputType,
    stream: &StreamArguments,
    engine: &ConnectArguments,
) -> CommandOutcome {
    let (operation, check) = (job.operation, job.clone());
    let select = &check.select;
    let mut canaries = None;
    let backend: Box<dyn TransformBackend> = match &engine.connect {
        Some(address) => {
            let limits = context.config().engine.document.clone();
            Box::new(Remote::new(connect(context, address, engine)?, job, limits)?)
        }
        None => {
            let engine = context.engine()?;
            // Until the command ends.
            canaries.replace(CanaryNote::of(&engine, &job.app));
            Box::new(Local::new(engine, job)?)
        }
    };
    let input = InputFile::new(stream.input.as_deref());
    if stream.output.is_some() {
        interruption::watch()?;
    }
    let output = OpenOutput::open(stream.output.as_deref())?;
    if content == InputType::File && operation == ValueOperation::Encrypt && output.is_terminal() {
        return Err(CommandFailure::usage(
            "an encrypted file is binary: write it with -o FILE, or redirect standard output",
        ));
    }
    let start = Instant::now();
    let report = match content {
        InputType::Document => document(context, &*backend, &input, &check, output)?,
        InputType::Lines => lines(context, &*backend, &input, output)?,
        InputType::File => file(context, &*backend, &input, output)?,
    };
    warn(&report, select, check.decrypt_options().on_failure);
    if stream.form.json {
        note(summary(operation, &report, select, start.elapsed().as_secs_f64()));
    } else if operation != ValueOperation::Decrypt && content != InputType::File {
        let what = if operation == ValueOperation::Encrypt { "value" } else { "envelope" };
        note(format_args!("{} {}", operation.done(), counted(report.count, what)));
    }
    Ok(())
}

/// A count with its noun.
fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Warns about unexpected results.
fn warn(report: &TransformReport, select: &[String], on_failure: Option<OnFailure>) {
    for selector in report.unmatched(select) {
        note(format_args!("leafseal: warning: {}", no_match(selector)));
    }
    if report.count == 0 && report.skipped == 0 && report.failed == 0 && !select.is_empty() {
        note("leafseal: warning: nothing was changed: the output is identical to the input");
    }
    if report.resealed > 0 {
        let values = counted(report.resealed, "value");
        note(format_args!(
            "leafseal: warning: encrypted {values} that already had the form of an envelope: add --skip-sealed to skip envelopes \
             of this app"
        ));
    }
    if report.skipped > 0 {
        note(format_args!("leafseal: skipped {}", counted(report.skipped, "sealed value")));
    }
    if report.rewrapped > 0 {
        note(format_args!("leafseal: resealed {}", counted(report.rewrapped, "public-key envelope")));
    }
    if report.failed > 0 {
        let fate = if on_failure == Some(OnFailure::Null) { "replaced by null" } else { "left unchanged" };
        let envelopes = counted(report.failed, "envelope");
        note(format_args!("leafseal: warning: {envelopes} failed to decrypt, {fate}{}", places(report)));
    }
}

/// The paths of envelopes that failed to decrypt, as far as known.
fn places(report: &TransformReport) -> String {
    if report.failures.is_empty() {
        return String::new();
    }
    let more = report.failed.saturating_sub(report.failures.len() as u64);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!(": {}{more}", report.failures.join(", "))
}

/// The output of `--json`: unknown fields are omitted.
fn summary(operation: ValueOperation, report: &TransformReport, select: &[String], seconds: f64) -> Value {
    let mut summary = json!({ "operation": operation.done(), "count": report.count, "seconds": seconds });
    if !report.matched.is_empty() && !select.is_empty() {
        let matched = select.iter().zip(&report.matched);
        let matched = matched.map(|(selector, matched)| json!({ "selector": selector, "matched": matched }));
        summary["selectors"] = matched.collect();
    }
    match operation {
        ValueOperation::Encrypt => {
            summary["resealed"] = report.resealed.into();
            summary["skipped"] = report.skipped.into();
            summary["rewrapped"] = report.rewrapped.into();
        }
        ValueOperation::Decrypt | ValueOperation::Rewrap => {
            summary["failed"] = report.failed.into();
            summary["failures"] = report.failures.clone().into();
        }
    }
    summary
}

fn document(
    context: &RunContext,
    backend: &dyn TransformBackend,
    input: &InputFile,
    job: &TransformJob,
    mut output: OpenOutput,
) -> CommandOutcome<TransformReport> {
    let size_max = context.config().engine.document.document_size_max;
    let document = input.read_whole(InputLimit { size_max, key: "document.document_size_max" })?;
    let lines_start = second_line_start(&document);
    let progress = TerminalProgress::bytes("document", Some(document.len() as u64));
    let done = backend.document(document, &progress);
    let (text, report) = done.map_err(|failure| advise_lines(failure, lines_start))?;
    drop(progress);
    job.check(&report)?;
    output.write(&text)?;
    output.finish()?;
    Ok(report)
}

/// The failure of a document, with advice if it may be JSON Lines, whose second line starts here.
pub(super) fn advise_lines(failure: CommandFailure, lines_start: Option<usize>) -> CommandFailure {
    match lines_start {
        Some(start) if failure.message.contains(&format!("the end of the document at byte {start}")) => {
            failure.advise("if this is JSON Lines, add --format jsonl")
        }
        _ => failure,
    }
}

/// The start of the text after the first line break that is not white space: where JSON Lines fail that are read as one document.
pub(super) fn second_line_start(document: &[u8]) -> Option<usize> {
    let first = document.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let line_end = first + document[first..].iter().position(|&byte| byte == b'\n')?;
    Some(line_end + document[line_end..].iter().position(|byte| !byte.is_ascii_whitespace())?)
}

fn lines(
    context: &RunContext,
    backend: &dyn TransformBackend,
    input: &InputFile,
    mut output: OpenOutput,
) -> CommandOutcome<TransformReport> {
    let (settings, failures_max) = (&context.config().input, context.config().engine.failure_paths_max);
    let line = InputLimit { size_max: settings.line_size_max, key: "input.line_size_max" };
    let blocks = input.blocks(line, settings.block_lines_max, settings.block_size_max)?;
    let report = transform_lines(backend, blocks, settings.threads, failures_max, &mut output)?;
    output.finish()?;
    Ok(report)
}

fn file(
    context: &RunContext,
    backend: &dyn TransformBackend,
    input: &InputFile,
    mut output: OpenOutput,
) -> CommandOutcome<TransformReport> {
    let bound = InputLimit { size_max: context.config().input.file_size_max, key: "input.file_size_max" };
    let content = input.read_whole(bound)?;
    let done = backend.file(content)?;
    output.write(&done)?;
    output.finish()?;
    Ok(TransformReport::of_count(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_line_is_found() {
        for (text, start) in [
            ("", None),
            ("  ", None),
            ("{}", None),
            ("{}\n", None),
            ("{}\n\n", None),
            ("{}\n{}", Some(3)),
            ("\n{}\r\n\n [1]\n", Some(7)),
        ] {
            assert_eq!(second_line_start(text.as_bytes()), start, "{text:?}");
        }
    }
}
