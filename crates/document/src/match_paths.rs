//! Paths of matches, for the few that are requested: the keys on the path to each match of a batch, stored as the difference to the
//! previous match.

use std::ops::Range;

use crate::error::{DocumentError, DocumentErrorKind};
use crate::machine::Container;
use crate::path::{PATH_SIZE_MAX, cut_short, push_index, push_name, push_text};
use crate::text::{may_unescape_to, unescape};

/// A step of the path from the root to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathKey {
    /// No key: the value is the root.
    Root,
    /// A member, by the range of its name's token.
    Member { start: u32, end: u32 },
    /// An element, by its index.
    Element(u32),
}

/// The paths of matches, in the order of the matches.
#[derive(Clone, Debug, Default)]
pub struct MatchPaths {
    keys: Vec<PathKey>,
    matches: Vec<PathDelta>,
    /// In a text of lines: the number of the line, and where it starts.
    line: Option<(u64, usize)>,
}

/// The path of a match.
#[derive(Clone, Debug)]
struct PathDelta {
    /// The number of leading keys shared with the previous match.
    kept: u32,
    /// The keys after those.
    keys: Range<u32>,
}

impl MatchPaths {
    /// The number of stored keys.
    pub(crate) fn size(&self) -> usize {
        self.keys.len()
    }

    /// Adds a match whose path begins with `kept` keys of the previous one.
    pub(crate) fn push(&mut self, kept: usize, keys: impl Iterator<Item = PathKey>) {
        let start = self.keys.len() as u32;
        self.keys.extend(keys);
        self.matches.push(PathDelta { kept: kept as u32, keys: start..self.keys.len() as u32 });
    }

    /// The same paths, of matches in one line of a text.
    pub(crate) fn in_line(self, number: u64, start: usize) -> Self {
        MatchPaths { line: Some((number, start)), ..self }
    }

    /// The normalized path (RFC 9535, section 2.7) of the match at `index`, in the document that was walked; after `line N: ` in a text
    /// of lines. A lone surrogate in a name is
    /// written as U+FFFD; a path or name of more than [`PATH_SIZE_MAX`] bytes is truncated and ends in `…`. Matches of a failed batch have
    /// no paths: theirs is `$`.
    pub fn path(&self, document: &[u8], index: usize) -> String {
        let mut way: Vec<PathKey> = Vec::new();
        let found = if index < self.matches.len() { &self.matches[..=index] } else { &[] };
        for found in found {
            way.truncate(found.kept as usize);
            way.extend(&self.keys[found.keys.start as usize..found.keys.end as usize]);
        }
        let mut path = "$".to_owned();
        let (document, prefix) = match self.line {
            None => (document, String::new()),
            Some((number, start)) => (&document[start..], format!("line {number}: ")),
        };
        for key in way {
            let is_whole = match key {
                PathKey::Root => true,
                PathKey::Element(index) => {
                    push_index(&mut path, index);
                    true
                }
                PathKey::Member { start, end } => push_name(&mut path, &document[start as usize..end as usize]),
            };
            if !is_whole || path.len() > PATH_SIZE_MAX {
                cut_short(&mut path, PATH_SIZE_MAX);
                break;
            }
        }
        prefix + &path
    }
}

/// Writes the whole paths of matches, one after the other: each costs the part in which it differs from the one before.
#[derive(Clone, Debug)]
pub struct PathWriter {
    has_indexes: bool,
    size_max: usize,
    /// The index of the next match.
    next: usize,
    path: String,
    /// The size of the path behind each of its keys.
    ends: Vec<usize>,
    scratch: String,
}

impl PathWriter {
    /// Before the first match. With `has_indexes` a path has the index of each element, else `[*]`. A path has at most `size_max` bytes.
    pub fn new(has_indexes: bool, size_max: usize) -> Self {
        PathWriter { has_indexes, size_max, next: 0, path: "$".to_owned(), ends: Vec::new(), scratch: String::new() }
    }

    /// The normalized path (RFC 9535, section 2.7) of the match at `index`, in the document that was walked; in a text of lines, in the
    /// document of its line. The indexes of calls with the same paths ascend.
    ///
    /// # Errors
    /// [`DocumentErrorKind::PathTooLong`], with offset 0; a name with half of a surrogate pair.
    ///
    /// # Panics
    /// Without a match at `index`: matches of a failed batch have no paths.
    pub fn path(&mut self, paths: &MatchPaths, document: &[u8], index: usize) -> Result<&str, DocumentError> {
        let start = paths.line.map_or(0, |(_, start)| start);
        while self.next <= index {
            let found = &paths.matches[self.next];
            self.next += 1;
            self.ends.truncate(found.kept as usize);
            self.path.truncate(self.ends.last().copied().unwrap_or(1));
            for key in &paths.keys[found.keys.start as usize..found.keys.end as usize] {
                self.push(*key, document, start)?;
                self.ends.push(self.path.len());
            }
        }
        Ok(&self.path)
    }

    fn push(&mut self, key: PathKey, document: &[u8], line_start: usize) -> Result<(), DocumentError> {
        let too_long = DocumentError::new(DocumentErrorKind::PathTooLong(self.size_max), 0);
        match key {
            PathKey::Root => {}
            PathKey::Element(index) if self.has_indexes => push_index(&mut self.path, index),
            PathKey::Element(_) => self.path.push_str("[*]"),
            PathKey::Member { start, end } => {
                let start = line_start + start as usize;
                let token = &document[start..line_start + end as usize];
                if !may_unescape_to(token, self.size_max) {
                    return Err(too_long);
                }
                // Two names that are not text must not become one.
                let name = unescape(token, &mut self.scratch).map_err(|error| error.at(start))?;
                self.path.push_str("['");
                push_text(&mut self.path, name);
                self.path.push_str("']");
            }
        }
        if self.path.len() > self.size_max { Err(too_long) } else { Ok(()) }
    }
}

/// Tracks the path during a walk, so that paths of matches can be recorded.
#[derive(Debug, Default)]
pub(crate) struct PathTracker {
    open: Vec<PathLevel>,
    name: (u32, u32),
    /// The key of the last value that began.
    last: Option<PathKey>,
    /// How many of the open containers were also open at the previous match.
    kept: usize,
    match_paths: MatchPaths,
}

#[derive(Debug)]
struct PathLevel {
    key: PathKey,
    container: Container,
    elements: u32,
}

impl PathTracker {
    pub(crate) fn name(&mut self, start: usize, end: usize) {
        // Sizes were checked against DOCUMENT_SIZE_CEILING before the walk, so offsets fit.
        self.name = (start as u32, end as u32);
    }

    /// A value begins.
    fn begin(&mut self) -> PathKey {
        match self.open.last_mut() {
            None => PathKey::Root,
            Some(level) if level.container == Container::Object => {
                PathKey::Member { start: self.name.0, end: self.name.1 }
            }
            Some(level) => {
                level.elements += 1;
                PathKey::Element(level.elements - 1)
            }
        }
    }

    pub(crate) fn scalar(&mut self) {
        self.last = Some(self.begin());
    }

    pub(crate) fn open(&mut self, container: Container) {
        let key = self.begin();
        self.open.push(PathLevel { key, container, elements: 0 });
    }

    pub(crate) fn close(&mut self) {
        self.open.pop();
        self.kept = self.kept.min(self.open.len());
    }

    /// Records that the last scalar is a match.
    pub(crate) fn matched(&mut self) {
        let Some(own) = self.last.take() else { return };
        let kept = std::mem::replace(&mut self.kept, self.open.len());
        let keys = self.open[kept..].iter().map(|level| level.key);
        self.match_paths.push(kept, keys.chain([own]));
    }

    /// The paths of the matches since the last call.
    pub(crate) fn take(&mut self) -> MatchPaths {
        self.kept = 0;
        std::mem::take(&mut self.match_paths)
    }
}
