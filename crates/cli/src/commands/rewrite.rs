//! `encrypt`, `decrypt` and `rewrap`: read, have each value replaced, write.

use std::time::Instant;

use fieldseal_engine::Keying;
use serde_json::json;

use crate::arguments::{
    ConnectArguments, DecryptArguments, EncryptArguments, Format, KeyingName, RewrapArguments, StreamArguments,
};
use crate::context::Context;
use crate::failure::{Failure, Outcome};
use crate::input::{Bound, Input};
use crate::output::{Output, note};
use crate::progress::Progress;
use crate::transform::{Door, Job, Local, Operation, Remote, connect, transform_lines};

/// What the input is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Document,
    Lines,
    File,
}

/// `fieldseal encrypt`.
pub fn encrypt(context: &Context, arguments: EncryptArguments) -> Outcome {
    let content = content(&arguments.stream, arguments.file);
    let keying = arguments.keying.map(KeyingName::keying);
    // A key agreement for each line would cost more than all else; a session's bounds of time and count hold.
    let by_session = content == Content::Lines && !context.loaded().is_set("engine.keying");
    let keying = keying.or(by_session.then_some(Keying::Session));
    let job = Job {
        operation: Operation::Encrypt,
        app: arguments.app,
        select: arguments.select,
        curve: arguments.curve.map(|name| name.curve()),
        keying,
        role: arguments.role,
    };
    rewrite(context, job, content, &arguments.stream, &arguments.engine)
}

/// `fieldseal decrypt`.
pub fn decrypt(context: &Context, arguments: DecryptArguments) -> Outcome {
    let content = content(&arguments.stream, arguments.file);
    let job = Job {
        operation: Operation::Decrypt,
        app: arguments.app,
        select: arguments.select,
        curve: None,
        keying: None,
        role: arguments.role,
    };
    rewrite(context, job, content, &arguments.stream, &arguments.engine)
}

/// `fieldseal rewrap`.
pub fn rewrap(context: &Context, arguments: RewrapArguments) -> Outcome {
    let content = content(&arguments.stream, false);
    let job = Job {
        operation: Operation::Rewrap,
        app: arguments.app,
        select: arguments.select,
        curve: arguments.curve.map(|name| name.curve()),
        keying: None,
        role: None,
    };
    rewrite(context, job, content, &arguments.stream, &arguments.engine)
}

fn content(stream: &StreamArguments, file: bool) -> Content {
    match stream.format {
        _ if file => Content::File,
        Format::Jsonl => Content::Lines,
        Format::Auto if Input::new(stream.input.as_deref()).is_named_json_lines() => Content::Lines,
        Format::Auto | Format::Json => Content::Document,
    }
}

fn rewrite(
    context: &Context,
    job: Job,
    content: Content,
    stream: &StreamArguments,
    engine: &ConnectArguments,
) -> Outcome {
    let (operation, selects) = (job.operation, !job.select.is_empty());
    let door: Box<dyn Door> = match &engine.connect {
        Some(address) => Box::new(Remote::new(connect(context, address, engine)?, job)?),
        None => Box::new(Local::new(context.engine()?, job)?),
    };
    let input = Input::new(stream.input.as_deref());
    let output = Output::open(stream.output.as_deref())?;
    if content == Content::File && operation == Operation::Encrypt && output.is_terminal() {
        return Err(Failure::usage("an encrypted file is binary: write it with -o FILE, or redirect standard output"));
    }
    let start = Instant::now();
    let count = match content {
        Content::Document => document(context, &*door, &input, output)?,
        Content::Lines => lines(context, &*door, &input, output)?,
        Content::File => file(context, &*door, &input, output)?,
    };
    if count == 0 && selects {
        note("fieldseal: warning: the selectors match no value: the output is the input");
    }
    if stream.form.json {
        let seconds = start.elapsed().as_secs_f64();
        note(json!({ "operation": operation.done(), "count": count, "seconds": seconds }));
    } else if operation == Operation::Rewrap {
        note(format_args!("{} {count} {}", operation.done(), if count == 1 { "envelope" } else { "envelopes" }));
    }
    Ok(())
}

fn document(context: &Context, door: &dyn Door, input: &Input, mut output: Output) -> Outcome<u64> {
    let size_max = context.config().engine.document.document_size_max;
    let document = input.read_whole(Bound { size_max, key: "document.document_size_max" })?;
    let lines_start = second_line_start(&document);
    let progress = Progress::bytes("document", Some(document.len() as u64));
    let done = door.document(document, &progress);
    let (text, count) = done.map_err(|failure| match lines_start {
        Some(start) if failure.message.contains(&format!("the end of the document at byte {start}")) => {
            failure.advise("if this is JSON Lines, add --format jsonl")
        }
        _ => failure,
    })?;
    drop(progress);
    output.write(&text)?;
    output.finish()?;
    Ok(count)
}

/// Where the text after the first line break that is not white space begins: what JSON Lines read as one document fail at.
fn second_line_start(document: &[u8]) -> Option<usize> {
    let first = document.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let line_end = first + document[first..].iter().position(|&byte| byte == b'\n')?;
    Some(line_end + document[line_end..].iter().position(|byte| !byte.is_ascii_whitespace())?)
}

fn lines(context: &Context, door: &dyn Door, input: &Input, mut output: Output) -> Outcome<u64> {
    let settings = &context.config().input;
    let line = Bound { size_max: settings.line_size_max, key: "input.line_size_max" };
    let blocks = input.blocks(line, settings.block_lines_max, settings.block_size_max)?;
    let count = transform_lines(door, blocks, settings.threads, &mut output)?;
    output.finish()?;
    Ok(count)
}

fn file(context: &Context, door: &dyn Door, input: &Input, mut output: Output) -> Outcome<u64> {
    let bound = Bound { size_max: context.config().input.file_size_max, key: "input.file_size_max" };
    let content = input.read_whole(bound)?;
    let done = door.file(content)?;
    output.write(&done)?;
    output.finish()?;
    Ok(1)
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
