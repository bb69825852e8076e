//! The lines of JSON Lines: a document on each line that is not blank.
//!
//! A JSON string contains no unescaped line break, so each line break separates documents, whatever a line contains.

use std::ops::Range;

/// The work of beginning a line, in bytes that are walked in about that time.
const LINE_COST: usize = 64;
/// Bytes in which a line break is searched in about the time in which one is walked.
const SEARCH_FACTOR: usize = 8;

/// Finds the lines of a text one by one, in slices of bounded work. Blank lines, which have nothing but JSON's white space, are skipped:
/// each of their bytes costs as much as a walked one, and none costs a document's beginning.
#[derive(Debug)]
pub struct LineFinder {
    /// Where the current line starts, and its number.
    start: usize,
    number: u64,
    /// The bytes before this one have been looked at.
    at: usize,
    /// Whether the current line is known not to be blank.
    is_filled: bool,
    /// The first carriage return of the current line, behind its first byte that is not blank.
    carriage_return: Option<usize>,
}

/// The result of [`LineFinder::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextLine {
    /// A line that is not blank.
    Line {
        /// Its bytes, without the line break.
        range: Range<usize>,
        /// Its number in the text, counted from 1.
        number: u64,
        /// The offset of a carriage return within it, where some readers end a line; that before the line break is none.
        carriage_return: Option<usize>,
    },
    /// Nothing yet: the work of the slice is done.
    More,
    /// No line follows that is not blank.
    End,
}

impl Default for LineFinder {
    fn default() -> Self {
        LineFinder { start: 0, number: 1, at: 0, is_filled: false, carriage_return: None }
    }
}

impl LineFinder {
    /// Looks for the next line of `text`, which must be the same in each call. `left` is the work that the slice may still do, in bytes
    /// that a walk reads in about that time; it is reduced by what was done.
    pub fn next(&mut self, text: &[u8], left: &mut usize) -> NextLine {
        if !self.is_filled {
            self.skip_blank(text, left);
            if self.at == text.len() {
                return NextLine::End;
            }
            if !self.is_filled {
                return NextLine::More;
            }
            *left = left.saturating_sub(LINE_COST);
        }
        let room = left.saturating_mul(SEARCH_FACTOR).max(SEARCH_FACTOR);
        let piece = &text[self.at..text.len().min(self.at.saturating_add(room))];
        let found = memchr::memchr(b'\n', piece);
        let looked_at = found.unwrap_or(piece.len());
        *left = left.saturating_sub(looked_at.div_ceil(SEARCH_FACTOR));
        if self.carriage_return.is_none() {
            self.carriage_return = memchr::memchr(b'\r', &piece[..looked_at]).map(|place| self.at + place);
        }
        self.at += looked_at;
        if found.is_none() && self.at < text.len() {
            return NextLine::More;
        }
        let carriage_return = self.carriage_return.filter(|place| place + 1 < self.at);
        let line = NextLine::Line { range: self.start..self.at, number: self.number, carriage_return };
        self.end_line(text);
        line
    }

    /// Where the next line starts, or one of the blank lines before it.
    pub fn position(&self) -> usize {
        self.start
    }

    /// Goes on to the first byte that is no white space, or as far as the slice permits.
    fn skip_blank(&mut self, text: &[u8], left: &mut usize) {
        let stop = text.len().min(self.at.saturating_add((*left).max(1)));
        let before = self.at;
        while self.at < stop {
            match text[self.at] {
                b'\n' => self.end_line(text),
                b' ' | b'\t' | b'\r' => self.at += 1,
                _ => {
                    self.is_filled = true;
                    break;
                }
            }
        }
        *left = left.saturating_sub(self.at - before);
    }

    /// Goes on behind the line break at the current byte, or stays at the end.
    fn end_line(&mut self, text: &[u8]) {
        (self.is_filled, self.carriage_return) = (false, None);
        self.at = text.len().min(self.at + 1);
        (self.start, self.number) = (self.at, self.number + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that are found in slices of this much work, and the number of slices.
    fn lines(text: &[u8], work: usize) -> (Vec<(Range<usize>, u64)>, usize) {
        let (mut finder, mut found, mut slices) = (LineFinder::default(), Vec::new(), 1);
        let mut left = work;
        loop {
            match finder.next(text, &mut left) {
                NextLine::Line { range, number, .. } => found.push((range, number)),
                NextLine::More => {}
                NextLine::End => return (found, slices),
            }
            if left == 0 {
                (left, slices) = (work, slices + 1);
            }
        }
    }

    #[test]
    fn blank_lines_count_but_are_not_found() {
        for (text, expected) in [
            ("", &[][..]),
            ("a", &[("a", 1)]),
            ("a\n", &[("a", 1)]),
            ("\n\na\r\n \t\r\n b \nc", &[("a\r", 3), (" b ", 5), ("c", 6)]),
            ("\n \n\t\r", &[]),
            ("\u{b}\n\u{a0}", &[("\u{b}", 1), ("\u{a0}", 2)]),
        ] {
            for work in [1, 2, 7, 1 << 20] {
                let (found, _) = lines(text.as_bytes(), work);
                let found: Vec<(&str, u64)> = found.into_iter().map(|(range, number)| (&text[range], number)).collect();
                assert_eq!(found, expected, "{text:?} by {work}");
            }
        }
    }

    #[test]
    fn a_carriage_return_within_a_line_is_found() {
        for (text, expected) in [
            ("{}\r\n{}", &[None, None][..]),
            ("{\r}\n{}\r", &[Some(1), None]),
            ("{}\r\r\n{}", &[Some(2), None]),
            ("\r{}\n {}", &[None, None]),
            ("{}\n[1,\r2]", &[None, Some(6)]),
        ] {
            for work in [1, 2, 7, 1 << 20] {
                let (mut finder, mut found) = (LineFinder::default(), Vec::new());
                loop {
                    match finder.next(text.as_bytes(), &mut { work }) {
                        NextLine::Line { carriage_return, .. } => found.push(carriage_return),
                        NextLine::More => {}
                        NextLine::End => break,
                    }
                }
                assert_eq!(found, expected, "{text:?} by {work}");
            }
        }
    }

    #[test]
    fn blank_lines_cost_their_bytes_alone() {
        const SIZE: usize = 1 << 20;
        for unit in [&b"\n"[..], b"\r\n", b"    \n"] {
            let text = unit.repeat(SIZE / unit.len());
            let (found, slices) = lines(&text, 16 << 10);
            assert!(found.is_empty() && slices <= SIZE / (16 << 10) + 1, "{slices} slices of {unit:?}");
        }
        let long = b"x".repeat(SIZE);
        assert!(lines(&long, 16 << 10).1 <= SIZE / SEARCH_FACTOR / (16 << 10) + 2, "a search is cheaper than a walk");
    }
}
