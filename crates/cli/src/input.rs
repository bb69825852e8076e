//! Input: a file or standard input, read completely or in blocks of lines, within limits.

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

use leafseal_engine::BYTE_ORDER_MARK;
use leafseal_engine::admin::UNSEAL_SIZE_MAX;
use zeroize::Zeroizing;

use crate::failure::{CommandFailure, CommandOutcome};
use crate::note::note;

/// Bytes read at a time.
const READ_SIZE: usize = 256 << 10;

/// A file or standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InputFile {
    /// Standard input.
    Standard,
    /// A file.
    File(PathBuf),
}

/// A limit and the key that sets it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InputLimit {
    /// The maximum size in bytes.
    pub size_max: usize,
    /// The key of the limit, for the error message.
    pub key: &'static str,
}

impl InputLimit {
    fn exceeded(&self, what: &str) -> CommandFailure {
        CommandFailure::failed(format!("{what} is larger than {} bytes", self.size_max))
            .advise(format_args!("raise {} in the configuration or with --set", self.key))
    }
}

/// Reads a whole file; if it has more than `size_max` bytes it cannot be a `kind`, and is not read further.
pub(crate) fn read_file(path: &Path, size_max: u64, kind: &str) -> CommandOutcome<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(size_max.saturating_add(1)).read_to_end(&mut bytes));
    read.map_err(|error| CommandFailure::reading(path, &error))?;
    if u64::try_from(bytes.len()).is_ok_and(|size| size <= size_max) {
        return Ok(bytes);
    }
    Err(CommandFailure::usage(format!("{}: a {kind} must be at most {size_max} bytes", path.display())))
}

/// Longest secret on one line in bytes.
const SECRET_SIZE_MAX: u64 = 4096;

/// Reads a secret from the first line of a file; `-` is standard input, where a terminal shows nothing and asks twice.
pub(crate) fn read_secret_line(path: &Path, prompt: &str) -> CommandOutcome<Zeroizing<String>> {
    let failed = |error: io::Error| CommandFailure::reading(path, &error);
    if path == Path::new("-") && io::stdin().is_terminal() {
        let first = Zeroizing::new(rpassword::prompt_password(format!("{prompt}: ")).map_err(failed)?);
        let again = Zeroizing::new(rpassword::prompt_password("Once more: ").map_err(failed)?);
        return if first == again { Ok(first) } else { Err(CommandFailure::usage("the two differ".to_owned())) };
    }
    let mut line = Zeroizing::new(String::with_capacity(SECRET_SIZE_MAX as usize));
    let source: Box<dyn Read> =
        if path == Path::new("-") { Box::new(io::stdin()) } else { Box::new(File::open(path).map_err(failed)?) };
    BufReader::new(source.take(SECRET_SIZE_MAX)).read_line(&mut line).map_err(failed)?;
    Ok(line)
}

/// Reads a secret of several lines from a file; `-` or `None` is standard input, where a terminal shows nothing and asks for one line.
pub(crate) fn read_secret(path: Option<&Path>, prompt: &str) -> CommandOutcome<Zeroizing<String>> {
    let standard = Path::new("-");
    let path = path.unwrap_or(standard);
    let failed = |error: io::Error| CommandFailure::reading(path, &error);
    if path == standard && io::stdin().is_terminal() {
        return rpassword::prompt_password(format!("{prompt}: ")).map(Zeroizing::new).map_err(failed);
    }
    let mut text = Zeroizing::new(String::with_capacity(UNSEAL_SIZE_MAX + 1));
    let source: Box<dyn Read> =
        if path == standard { Box::new(io::stdin()) } else { Box::new(File::open(path).map_err(failed)?) };
    source.take(UNSEAL_SIZE_MAX as u64 + 1).read_to_string(&mut text).map_err(failed)?;
    match text.len() <= UNSEAL_SIZE_MAX {
        true => Ok(text),
        false => Err(CommandFailure::usage(format!("a passphrase or shares have at most {UNSEAL_SIZE_MAX} bytes"))),
    }
}

impl InputFile {
    /// `-` and `None` mean standard input.
    pub(crate) fn new(path: Option<&Path>) -> Self {
        match path {
            Some(path) if path != Path::new("-") => Self::File(path.to_owned()),
            _ => Self::Standard,
        }
    }

    /// Whether the name has an extension of JSON Lines.
    pub(crate) fn is_named_json_lines(&self) -> bool {
        let Self::File(path) = self else { return false };
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.is_some_and(|extension| ["jsonl", "ndjson"].iter().any(|name| extension.eq_ignore_ascii_case(name)))
    }

    /// Opens the input; also returns its size if known.
    fn open(&self) -> CommandOutcome<(Box<dyn Read + Send>, Option<u64>)> {
        match self {
            Self::Standard => {
                let stdin = io::stdin();
                if stdin.is_terminal() {
                    note("reading standard input; end it with Ctrl-D");
                }
                Ok((Box::new(stdin), None))
            }
            Self::File(path) => {
                let file = File::open(path).map_err(|error| CommandFailure::reading(path, &error))?;
                let metadata = file.metadata().map_err(|error| CommandFailure::reading(path, &error))?;
                if metadata.is_dir() {
                    return Err(CommandFailure::usage(format!("cannot read {}: it is a folder", path.display())));
                }
                Ok((Box::new(file), metadata.is_file().then_some(metadata.len())))
            }
        }
    }

    /// Opens it to be read in pieces.
    pub(crate) fn reader(&self) -> CommandOutcome<Box<dyn Read + Send>> {
        self.open().map(|(reader, _)| reader)
    }

    /// The failure of reading it.
    pub(crate) fn failure(&self, error: &io::Error) -> CommandFailure {
        match self {
            Self::Standard => CommandFailure::reading(Path::new("standard input"), error),
            Self::File(path) => CommandFailure::reading(path, error),
        }
    }

    /// Reads all of it.
    pub(crate) fn read_whole(&self, bound: InputLimit) -> CommandOutcome<Vec<u8>> {
        let (reader, size) = self.open()?;
        let too_large = || bound.exceeded("the input");
        if size.is_some_and(|size| size > bound.size_max as u64) {
            return Err(too_large());
        }
        // One byte more than its size, so that the end is detected without growing.
        let mut content = Vec::with_capacity(size.map_or(0, |size| usize::try_from(size).unwrap_or(0) + 1));
        let limit = bound.size_max as u64 + 1;
        reader.take(limit).read_to_end(&mut content).map_err(|error| self.failure(&error))?;
        if content.len() > bound.size_max {
            return Err(too_large());
        }
        Ok(content)
    }

    /// Reads its lines in blocks.
    pub(crate) fn blocks(&self, line: InputLimit, lines_max: usize, size_max: usize) -> CommandOutcome<Blocks> {
        let (reader, size) = self.open()?;
        let reader = BufReader::with_capacity(READ_SIZE, reader);
        Ok(Blocks { reader, source: self.clone(), size, line, lines_max, size_max, next_line: 1, held: Vec::new() })
    }
}

/// The lines of an input, in blocks.
pub(crate) struct Blocks {
    reader: BufReader<Box<dyn Read + Send>>,
    source: InputFile,
    size: Option<u64>,
    line: InputLimit,
    lines_max: usize,
    size_max: usize,
    next_line: u64,
    /// A line that did not fit into the previous block.
    held: Vec<u8>,
}

/// Some consecutive lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct LineBlock {
    /// The number of the first line, from 1.
    pub first_line: u64,
    /// The lines with their line breaks; the last one may have none.
    pub text: Vec<u8>,
}

impl LineBlock {
    /// The lines with their numbers: text and line break.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (u64, &[u8], &[u8])> {
        let lines = self.text.split_inclusive(|&byte| byte == b'\n').zip(self.first_line..);
        lines.map(|(line, number)| {
            let size = line.strip_suffix(b"\n").map_or(line.len(), <[u8]>::len);
            (number, &line[..size], &line[size..])
        })
    }
}

impl Blocks {
    /// The size of the input in bytes, if known.
    pub(crate) fn size(&self) -> Option<u64> {
        self.size
    }

    /// The next block; `None` at the end.
    ///
    /// A line that is refused is reported only after all lines before it were returned.
    pub(crate) fn next(&mut self) -> CommandOutcome<Option<LineBlock>> {
        let mut block = LineBlock { first_line: self.next_line, text: Vec::new() };
        for count in 0..self.lines_max {
            if self.held.is_empty() && !self.read_line()? {
                break;
            }
            let fits = block.text.len() + self.held.len() <= self.size_max;
            let fault = self.held_fault();
            if count > 0 && (!fits || fault.is_some()) {
                break;
            }
            if let Some(fault) = fault {
                return Err(fault.at(format_args!("line {}", self.next_line)));
            }
            block.text.append(&mut self.held);
            self.next_line += 1;
        }
        Ok((!block.text.is_empty()).then_some(block))
    }

    /// Reads one line, but at most one byte beyond its limit; returns false at the end.
    fn read_line(&mut self) -> CommandOutcome<bool> {
        // The line break does not count.
        let limit = self.line.size_max as u64 + 2;
        let read = (&mut self.reader).take(limit).read_until(b'\n', &mut self.held);
        read.map(|size| size > 0).map_err(|error| self.source.failure(&error))
    }

    /// Why the held line is refused: it is too long, or begins with a byte order mark, as where files were joined, and is not the first.
    fn held_fault(&self) -> Option<CommandFailure> {
        if self.next_line > 1 && self.held.starts_with(BYTE_ORDER_MARK) {
            let message = "a byte order mark: remove it, because only the first line may begin with one";
            return Some(CommandFailure::failed(message));
        }
        let size = self.held.strip_suffix(b"\n").unwrap_or(&self.held).len();
        (size > self.line.size_max).then(|| self.line.exceeded("the line"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &[u8], line_max: usize, lines_max: usize, size_max: usize) -> (Vec<LineBlock>, Option<String>) {
        let line = InputLimit { size_max: line_max, key: "k" };
        let mut blocks = Blocks {
            reader: BufReader::new(Box::new(io::Cursor::new(text.to_vec()))),
            source: InputFile::Standard,
            size: None,
            line,
            lines_max,
            size_max,
            next_line: 1,
            held: Vec::new(),
        };
        let mut found = Vec::new();
        loop {
            match blocks.next() {
                Ok(Some(block)) => found.push(block),
                Ok(None) => return (found, None),
                Err(failure) => return (found, Some(failure.message)),
            }
        }
    }

    #[test]
    fn blocks_together_are_the_input() {
        for text in ["", "a", "a\n", "\n", "\n\n", "a\nb", "aa\r\n\nb\n", "abc\nd\ne\nfgh\n"] {
            for lines_max in 1..4 {
                for size_max in 1..6 {
                    let (found, error) = blocks(text.as_bytes(), 8, lines_max, size_max);
                    assert_eq!(error, None);
                    let together: Vec<u8> = found.iter().flat_map(|block| block.text.clone()).collect();
                    assert_eq!(together, text.as_bytes());
                    let numbers: Vec<u64> = found.iter().flat_map(|block| block.lines().map(|line| line.0)).collect();
                    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>());
                    assert_eq!(numbers.len(), text.split_inclusive('\n').count());
                    assert!(found.iter().all(|block| block.lines().count() <= lines_max));
                }
            }
        }
    }

    #[test]
    fn a_line_that_is_too_long_comes_last_and_is_named() {
        let (found, error) = blocks(b"ab\nabc\nabcd\nx\n", 3, 10, 100);
        assert_eq!(found, [LineBlock { first_line: 1, text: b"ab\nabc\n".to_vec() }]);
        assert_eq!(
            error.as_deref(),
            Some("line 3: the line is larger than 3 bytes: raise k in the configuration or with --set")
        );
        assert_eq!(blocks(b"abc", 3, 10, 100).1, None);
        let (found, error) = blocks("\u{feff}1\n2\n\u{feff}3\n".as_bytes(), 9, 10, 100);
        assert_eq!(found, [LineBlock { first_line: 1, text: "\u{feff}1\n2\n".as_bytes().to_vec() }]);
        assert!(error.is_some_and(|error| error.starts_with("line 3: a byte order mark: remove it")));
        assert!(blocks(b"abcd", 3, 10, 100).1.is_some());
    }

    #[test]
    fn names_of_json_lines() {
        let named = |name| InputFile::new(Some(Path::new(name))).is_named_json_lines();
        assert!(named("a.jsonl") && named("b.NDJSON"));
        assert!(!named("a.json") && !named("-") && !named("jsonl"));
    }
}
