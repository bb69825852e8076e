//! The path of a request as servers read it. They do not agree on `;`, empty segments, escaped slashes, backslashes, dot segments, double
//! escapes, control characters and two leading slashes, so a path that has one of these has several readings.

use std::borrow::Cow;

use leafseal_document::folded;
use thiserror::Error;

use crate::policy::choice::Case;

mod escapes;

use escapes::{ESCAPED, Unit, decoded_fully, decoded_once, undecoded};

/// The steps of a reading beside its bytes.
const READING_STEPS: usize = 64;

/// Work that finding a route may still take.
#[derive(Debug)]
pub(crate) struct Steps {
    left: usize,
    max: usize,
}

impl Steps {
    /// Allows `max` steps: one is the work for about a byte of a path.
    pub(crate) fn new(max: usize) -> Self {
        Steps { left: max, max }
    }

    /// Takes `count` steps.
    ///
    /// # Errors
    /// If fewer are left.
    pub(crate) fn spend(&mut self, count: usize) -> Result<(), PathError> {
        self.left = self.left.checked_sub(count).ok_or(PathError::TooManySteps(self.max))?;
        Ok(())
    }

    /// The steps taken so far.
    #[cfg(test)]
    pub(crate) fn taken(&self) -> usize {
        self.max - self.left
    }
}

/// Why a path is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    /// Comparing it with the routes would take long.
    #[error("the path has more than {0} segments (limits.path_segments_max)")]
    TooManySegments(usize),
    /// It is long, or servers may read it in many ways.
    #[error(
        "finding the route of this path takes more than {0} steps (limits.routing_steps_max): the path is long, or can be read in many ways"
    )]
    TooManySteps(usize),
}

/// The path of a request, decoded and split into segments, as one server reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestPath {
    bytes: Vec<u8>,
    /// The end of each segment in `bytes`.
    ends: Vec<usize>,
}

/// A path as some server reads it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) path: RequestPath,
    /// Whether it differs from the relay's own reading in more than `;` and empty segments.
    pub(crate) is_unusual: bool,
}

/// What a server makes of `;` in a segment.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parameters {
    /// It drops what follows, once the path is split.
    Dropped,
    /// It drops what follows before it decodes and splits the path: `%3B` is part of the name, and `%2F` of what is dropped.
    DroppedUndecoded,
    /// It drops what follows after decoding, up to a slash, and takes backslashes for slashes afterwards.
    DroppedUnsplit,
    /// They are part of the name.
    Kept,
}

/// What a server makes of empty segments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EmptySegments {
    Dropped,
    Kept,
    /// They count for `..`, and are dropped afterwards.
    DroppedLast,
}

/// Which dot segments a server resolves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DotSegments {
    All,
    /// Those without an escape.
    Plain,
    None,
}

/// What a server makes of escaped control characters.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Controls {
    Kept,
    /// The path ends there, as at the end of a string in C or of a line in a regular expression; an escaped `?` or `#` ends it too.
    End,
    Removed,
}

/// How often a server decodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Decoding {
    Once,
    Twice,
    /// Until no escape is left.
    Fully,
}

/// How one server reads paths.
#[derive(Clone, Copy)]
struct Reader {
    decoding: Decoding,
    /// What separates segments beside a plain `/`: an escaped one, a plain backslash, an escaped one.
    separators: [bool; 3],
    controls: Controls,
    /// Whether two leading slashes begin a host.
    is_host_first: bool,
    parameters: Parameters,
    dots: DotSegments,
    empty: EmptySegments,
}

impl Reader {
    /// The relay's own reading.
    const OWN: Reader = Reader {
        decoding: Decoding::Once,
        separators: [false; 3],
        controls: Controls::Kept,
        is_host_first: false,
        parameters: Parameters::Dropped,
        dots: DotSegments::All,
        empty: EmptySegments::Dropped,
    };

    fn is_unusual(&self) -> bool {
        let own = Reader::OWN;
        self.decoding != own.decoding
            || self.separators != own.separators
            || self.controls != own.controls
            || self.is_host_first
            || self.dots != own.dots
            || self.empty == EmptySegments::DroppedLast
    }
}

impl RequestPath {
    /// Reads the path of a request target, without its query, as the relay does: escapes are decoded once, the text after `;` in a
    /// segment is dropped, then every empty segment, then dot segments are resolved.
    ///
    /// # Errors
    /// A path of more than `segments_max` segments, or one that takes too many steps.
    pub(crate) fn parse(path: &str, segments_max: usize, steps: &mut Steps) -> Result<Self, PathError> {
        steps.spend(2 * path.len())?;
        let own = if is_plain(path) { Self::split(path) } else { read(&decoded_once(&undecoded(path)), Reader::OWN) };
        // Slashes are counted, not segments: a path of empty ones is work too.
        if memchr::memchr_iter(b'/', path.as_bytes()).count().max(own.len()) > segments_max {
            return Err(PathError::TooManySegments(segments_max));
        }
        Ok(own)
    }

    /// The relay's own reading, without limits.
    pub(crate) fn own(path: &str) -> Self {
        Self::parse(path, usize::MAX, &mut Steps::new(usize::MAX)).expect("there is no limit")
    }

    /// The readings of the path other than the relay's own.
    ///
    /// # Errors
    /// As [`RequestPath::parse`].
    pub(crate) fn other_readings(
        path: &str,
        segments_max: usize,
        steps: &mut Steps,
    ) -> Result<Vec<Reading>, PathError> {
        if is_plain(path) {
            return Ok(Vec::new());
        }
        let levels = Levels::new(path);
        let readers = levels.features().readers();
        // Charged before the work: each reading costs its bytes, once to be read and once to be folded.
        steps.spend((2 * path.len() + READING_STEPS) * (readers.len() - 1))?;
        let read = |reader: &Reader| {
            let path = read(levels.of(reader.decoding), *reader);
            if path.len() > segments_max {
                return Err(PathError::TooManySegments(segments_max));
            }
            Ok(Reading { path, is_unusual: reader.is_unusual() })
        };
        readers[1..].iter().map(read).collect()
    }

    /// Splits a path that every server reads in the same way.
    fn split(path: &str) -> Self {
        let mut read = RequestPath::default();
        for segment in without_leading_slash(path).split('/').filter(|segment| !segment.is_empty()) {
            read.bytes.extend_from_slice(segment.as_bytes());
            read.ends.push(read.bytes.len());
        }
        read
    }

    /// The number of segments.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The segments.
    pub(crate) fn segments(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }

    /// The path as it is compared.
    pub(crate) fn in_case(&self, case: Case) -> Cow<'_, Self> {
        match case {
            Case::AsWritten => Cow::Borrowed(self),
            Case::Any => self.folded(),
        }
    }

    /// The path without the case of its letters. What is not UTF-8 is folded as U+FFFD.
    fn folded(&self) -> Cow<'_, Self> {
        if self.bytes.is_ascii() {
            if !self.bytes.iter().any(u8::is_ascii_uppercase) {
                return Cow::Borrowed(self);
            }
            return Cow::Owned(RequestPath { bytes: self.bytes.to_ascii_lowercase(), ends: self.ends.clone() });
        }
        let mut out = RequestPath::default();
        for segment in self.segments() {
            out.bytes.extend_from_slice(folded(&String::from_utf8_lossy(segment)).as_bytes());
            out.ends.push(out.bytes.len());
        }
        Cow::Owned(out)
    }

    fn last_start(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) {
        self.ends.pop();
        self.bytes.truncate(self.last_start());
    }
}

/// Whether all servers read it in the same way: no escape, parameter, backslash or dot after a slash, and no empty segment before the
/// last.
fn is_plain(path: &str) -> bool {
    let bytes = path.as_bytes();
    memchr::memchr3(b'%', b';', b'\\', bytes).is_none()
        && !memchr::memchr_iter(b'/', bytes).any(|at| matches!(bytes.get(at + 1), Some(b'/' | b'.')))
}

fn without_leading_slash(path: &str) -> &str {
    path.strip_prefix('/').unwrap_or(path)
}

/// A slash that was not escaped.
const PLAIN_SLASH: Unit = b'/' as Unit;

/// A path as decoded once, twice and fully; the latter two only where they differ.
struct Levels {
    once: Vec<Unit>,
    twice: Option<Vec<Unit>>,
    fully: Option<Vec<Unit>>,
}

impl Levels {
    fn new(path: &str) -> Self {
        let once = decoded_once(&undecoded(path));
        let fully = Some(decoded_fully(&once)).filter(|fully| *fully != once);
        let twice = fully.as_ref().map(|_| decoded_once(&once)).filter(|twice| *twice != once);
        let fully = fully.filter(|fully| twice.as_ref() != Some(fully));
        Levels { once, twice, fully }
    }

    fn of(&self, decoding: Decoding) -> &[Unit] {
        let level = match decoding {
            Decoding::Once => None,
            Decoding::Twice => self.twice.as_ref(),
            Decoding::Fully => self.fully.as_ref(),
        };
        level.unwrap_or(&self.once)
    }

    fn features(&self) -> Features {
        let mut features = Features { decodings: vec![Decoding::Once], ..Features::default() };
        features.scan(&self.once);
        for (decoding, units) in [(Decoding::Twice, &self.twice), (Decoding::Fully, &self.fully)] {
            if let Some(units) = units {
                features.decodings.push(decoding);
                features.scan(units);
            }
        }
        features
    }
}

/// What a path contains that servers read in several ways.
#[derive(Default)]
struct Features {
    decodings: Vec<Decoding>,
    separators: [bool; 3],
    has_control: bool,
    /// Plain and escaped ones.
    has_parameters: [bool; 2],
    /// Plain and escaped dots at the beginning of a segment.
    has_dots: [bool; 2],
    has_empty: bool,
    begins_empty: bool,
}

impl Features {
    fn scan(&mut self, units: &[Unit]) {
        let mut is_at_start = true;
        for (at, &unit) in units.iter().enumerate().skip(1) {
            let (byte, is_escaped) = (unit as u8, unit & ESCAPED != 0);
            let is_separator = matches!(byte, b'/' | b'\\');
            let is_dropped = byte == b';' || is_end(unit);
            if is_at_start && (is_separator || is_dropped) {
                self.has_empty = true;
                self.begins_empty |= at == 1;
            }
            match byte {
                b'/' if is_escaped => self.separators[0] = true,
                b'\\' => self.separators[1 + usize::from(is_escaped)] = true,
                b';' => self.has_parameters[usize::from(is_escaped)] = true,
                b'.' if is_at_start => self.has_dots[usize::from(is_escaped)] = true,
                _ => self.has_control |= is_end(unit),
            }
            is_at_start = is_separator || is_at_start && (is_dropped || byte == b'.');
        }
    }

    /// Every combination of how servers read what the path contains, the relay's own first.
    fn readers(&self) -> Vec<Reader> {
        let flags = |can: bool| if can { &[false, true][..] } else { &[false][..] };
        let mut readers = vec![Reader::OWN];
        vary(&mut readers, &self.decodings, |reader, decoding| Reader { decoding, ..reader });
        for (which, &can) in self.separators.iter().enumerate() {
            vary(&mut readers, flags(can), |mut reader, is_separator| {
                reader.separators[which] = is_separator;
                reader
            });
        }
        let controls = [Controls::Kept, Controls::End, Controls::Removed];
        vary(&mut readers, some(&controls, self.has_control), |reader, controls| Reader { controls, ..reader });
        let begins_empty = flags(self.begins_empty);
        vary(&mut readers, begins_empty, |reader, is_host_first| Reader { is_host_first, ..reader });
        let parameters =
            [Parameters::Dropped, Parameters::Kept, Parameters::DroppedUndecoded, Parameters::DroppedUnsplit];
        let parameters = match self.has_parameters {
            [false, false] => &parameters[..1],
            _ if self.separators != [false; 3] => &parameters[..],
            [true, true] => &parameters[..3],
            _ => &parameters[..2],
        };
        vary(&mut readers, parameters, |reader, parameters| Reader { parameters, ..reader });
        let dots: &[DotSegments] = match self.has_dots {
            [_, true] => &[DotSegments::All, DotSegments::Plain, DotSegments::None],
            [true, false] => &[DotSegments::All, DotSegments::None],
            [false, false] => &[DotSegments::All],
        };
        vary(&mut readers, dots, |reader, dots| Reader { dots, ..reader });
        let empty = [EmptySegments::Dropped, EmptySegments::Kept, EmptySegments::DroppedLast];
        let empty = if self.has_dots == [false; 2] { &empty[..2] } else { &empty[..] };
        vary(&mut readers, some(empty, self.has_empty), |reader, empty| Reader { empty, ..reader });
        readers
    }
}

/// All of `options`, or only the first.
fn some<T>(options: &[T], all: bool) -> &[T] {
    if all { options } else { &options[..1] }
}

/// Replaces each reader by one for each of `options`.
fn vary<T: Copy>(readers: &mut Vec<Reader>, options: &[T], with: impl Fn(Reader, T) -> Reader) {
    if options.len() > 1 {
        let varied = readers.iter().flat_map(|reader| options.iter().map(|option| with(*reader, *option)));
        *readers = varied.collect();
    }
}

/// Whether some servers end the path there.
fn is_end(unit: Unit) -> bool {
    is_control(unit) || unit == ESCAPED | Unit::from(b'?') || unit == ESCAPED | Unit::from(b'#')
}

fn is_control(unit: Unit) -> bool {
    (unit as u8).is_ascii_control()
}

/// Reads decoded text as `reader` does.
fn read(units: &[Unit], reader: Reader) -> RequestPath {
    let units = units.strip_prefix(&[PLAIN_SLASH]).unwrap_or(units);
    let end = units.iter().position(|&unit| is_end(unit)).filter(|_| reader.controls == Controls::End);
    let units = &units[..end.unwrap_or(units.len())];
    let units = without_parameters(units, reader.parameters);
    let is_separator = |unit: &Unit| {
        let is_escaped = unit & ESCAPED != 0;
        match *unit as u8 {
            b'/' => !is_escaped || reader.separators[0],
            b'\\' => reader.separators[1 + usize::from(is_escaped)],
            _ => false,
        }
    };
    let mut pieces = units.split(is_separator).peekable();
    if reader.is_host_first && pieces.peek().is_some_and(|first| first.is_empty()) {
        pieces.nth(1);
    }
    let mut out = RequestPath { bytes: Vec::with_capacity(units.len()), ends: Vec::with_capacity(8) };
    pieces.for_each(|piece| add(&mut out, piece, reader));
    match reader.empty {
        EmptySegments::Dropped => {}
        // A slash at the end begins no segment.
        EmptySegments::Kept if out.segments().last().is_some_and(<[u8]>::is_empty) => out.pop(),
        EmptySegments::Kept => {}
        EmptySegments::DroppedLast => {
            let mut last = 0;
            out.ends.retain(|&end| std::mem::replace(&mut last, end) != end);
        }
    }
    out
}

/// Drops parameters as servers do that look for them before they split the path.
fn without_parameters(units: &[Unit], parameters: Parameters) -> Cow<'_, [Unit]> {
    // Whether a unit is this character to such a server.
    let is = |unit: Unit, character: u8| match parameters {
        Parameters::DroppedUndecoded => unit == Unit::from(character),
        _ => unit as u8 == character,
    };
    if matches!(parameters, Parameters::Dropped | Parameters::Kept) {
        return Cow::Borrowed(units);
    }
    let mut is_dropped = false;
    let is_kept = |unit: &&Unit| {
        is_dropped = is(**unit, b';') || is_dropped && !is(**unit, b'/');
        !is_dropped
    };
    Cow::Owned(units.iter().filter(is_kept).copied().collect())
}

/// Adds a segment to what has been read.
fn add(out: &mut RequestPath, piece: &[Unit], reader: Reader) {
    let ends_name = |unit: &Unit| reader.parameters == Parameters::Dropped && *unit as u8 == b';';
    let name = &piece[..piece.iter().position(ends_name).unwrap_or(piece.len())];
    let start = out.bytes.len();
    let is_kept = |unit: &Unit| reader.controls != Controls::Removed || !is_control(*unit);
    out.bytes.extend(name.iter().copied().filter(is_kept).map(|unit| unit as u8));
    let resolves = match reader.dots {
        DotSegments::All => true,
        DotSegments::Plain => !name.iter().any(|unit| unit & ESCAPED != 0),
        DotSegments::None => false,
    };
    match &out.bytes[start..] {
        b"" if reader.empty == EmptySegments::Dropped => {}
        b"." if resolves => out.bytes.truncate(start),
        b".." if resolves => {
            out.bytes.truncate(start);
            out.pop();
        }
        _ => out.ends.push(out.bytes.len()),
    }
}

#[cfg(test)]
mod tests;
