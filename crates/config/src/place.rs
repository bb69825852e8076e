//! Positions of problems in files, and suggestions for misspelled names.

use thiserror::Error;

/// A problem in a file: an error or a warning.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{line}:{column}: {message}")]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The problem and its correction, in one line.
    pub message: String,
}

impl Problem {
    /// A problem at byte `offset` of a text. Control characters in the message become spaces.
    pub fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let (line, column) = line_column(text, offset);
        let message = message.into().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Problem { line, column, message }
    }
}

/// Returns the line and the column, from 1, of a byte; the column counts characters.
pub fn line_column(text: &str, offset: usize) -> (usize, usize) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let is_first_byte = |byte: &&u8| **byte & 0xC0 != 0x80;
    (line, before[start..].iter().filter(is_first_byte).count() + 1)
}

/// Returns the name that was probably meant: one with the same last component, or with an edit distance of at most three and
/// half its length.
pub fn nearest<'n>(name: &str, names: impl Iterator<Item = &'n str> + Clone) -> Option<&'n str> {
    let last = |name: &str| name.rsplit('.').next().map(str::to_owned);
    let same = names.clone().find(|known| last(known) == last(name));
    let distance_max = last(name).map_or(0, |last| 3.min(last.chars().count() / 2));
    let near = || {
        let nearest = names.map(|known| (strsim::levenshtein(name, known), known)).min();
        nearest.filter(|(distance, _)| *distance <= distance_max)
    };
    same.or_else(|| near().map(|(_, known)| known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let text = "ä = 1\n[x]\r\nü1 = 2";
        let place = |part: &str| line_column(text, text.find(part).expect(part));
        assert_eq!(
            [place("ä"), place("1"), place("[x]"), place("= 2"), line_column(text, 99)],
            [(1, 1), (1, 5), (2, 1), (3, 4), (3, 7)]
        );
        assert_eq!(Problem::at(text, 0, "a\nb").to_string(), "1:1: a b");
    }

    #[test]
    fn the_nearest_name_is_suggested() {
        let names = ["engine.curve", "engine.keying", "server.address"];
        let nearest = |name: &str| nearest(name, names.iter().copied());
        assert_eq!(nearest("engine.keyings"), Some("engine.keying"));
        assert_eq!(nearest("documents.curve"), Some("engine.curve"));
        assert_eq!((nearest("a.b"), super::nearest("top", ["log"].into_iter())), (None, None));
    }
}
