//! One text of a search, read character by character.
//!
//! Readers of JSON divide a text into the same tokens as long as it is JSON, and so does the search: a string, or a bare word where names
//! are, is one if a colon follows inside of braces. Readers differ where a text departs from JSON: comments, apostrophes, escapes of
//! other languages. From such a character on the text is read loosely: any word of it before a colon is a name, however it is escaped, if
//! a brace was opened before.

use leafseal_document::is_number;

use super::MemberNames;

/// Longest number or literal before a text's first bracket that is read.
const SCALAR_SIZE_MAX: usize = 32;

/// The effect of a character on a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LevelStep {
    Nothing,
    /// A string begins: the text that it holds is read by the next level.
    StringBegins,
    /// A character of that text.
    OfString(char),
    /// A member has one of the names.
    Held,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum LevelPlace {
    /// Before anything that shows whether it is JSON.
    #[default]
    Head,
    /// In a number or literal there, or behind a slash.
    HeadScalar,
    /// Between tokens.
    Tokens,
    /// In a bare word.
    Word,
    String,
    /// Behind something that readers divide into tokens differently.
    Loose,
    NoJson,
}

/// The progress of reading a text.
#[derive(Debug, Default)]
pub(super) struct Level {
    place: LevelPlace,
    /// Open braces.
    depth: usize,
    /// Whether a name may come next, if it is a bare word: behind a brace, a comma or a line break.
    may_be_name: bool,
    /// The folded text of the last word or string, or the end of a loose text; a character longer than any name.
    word: Vec<char>,
    /// Whether the word is a name if a colon follows.
    is_name: bool,
    /// Whether the word is longer than any name.
    is_long: bool,
    /// Whether the last token was an opening bracket of an array.
    is_first_element: bool,
    unescape: Unescape,
    /// Whether a brace was opened before, in a loose text.
    is_in_object: bool,
}

impl Level {
    /// Begins with another text.
    pub(super) fn begin(&mut self) {
        let mut word = std::mem::take(&mut self.word);
        word.clear();
        *self = Level { word, ..Level::default() };
    }

    pub(super) fn is_no_json(&self) -> bool {
        self.place == LevelPlace::NoJson
    }

    /// Whether the text begins like JSON.
    pub(super) fn is_json(&self) -> bool {
        !matches!(self.place, LevelPlace::Head | LevelPlace::HeadScalar | LevelPlace::NoJson)
    }

    /// Reads a character.
    pub(super) fn take(&mut self, c: char, names: &MemberNames, steps: &mut u64) -> LevelStep {
        match self.place {
            LevelPlace::Head => self.head(c, names, steps),
            LevelPlace::HeadScalar => self.head_scalar(c, names, steps),
            LevelPlace::Tokens => self.token(c, names, steps),
            LevelPlace::Word => self.in_word(c, names, steps),
            LevelPlace::String => self.in_string(c, names, steps),
            LevelPlace::Loose => self.loose(c, names, steps),
            LevelPlace::NoJson => LevelStep::Nothing,
        }
    }

    fn head(&mut self, c: char, names: &MemberNames, steps: &mut u64) -> LevelStep {
        match c {
            // Readers that evaluate a text need parentheses.
            '(' => {}
            c if is_space(c) => {}
            '{' | '[' | '"' => {
                self.place = LevelPlace::Tokens;
                return self.token(c, names, steps);
            }
            // Comments, strings in apostrophes, and the prefix against inclusion, which begins with a parenthesis.
            '\'' | '`' | '#' | ')' => return self.begin_loose(c, names, steps),
            '/' | '-' | '0'..='9' | 't' | 'f' | 'n' => {
                self.place = LevelPlace::HeadScalar;
                self.word.clear();
                self.word.push(c);
            }
            _ => self.place = LevelPlace::NoJson,
        }
        LevelStep::Nothing
    }

    /// Some readers read one value after another, of which the first may be a scalar, and pass over comments.
    fn head_scalar(&mut self, c: char, names: &MemberNames, steps: &mut u64) -> LevelStep {
        if self.word == ['/'] && matches!(c, '/' | '*') {
            return self.begin_loose(c, names, steps);
        }
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '+' | '.') {
            self.word.push(c);
            if self.word.len() > SCALAR_SIZE_MAX {
                self.place = LevelPlace::NoJson;
            }
            return LevelStep::Nothing;
        }
        if self.is_scalar() && (is_space(c) || matches!(c, '{' | '[' | '"' | '/' | '#' | ',')) {
            self.place = LevelPlace::Head;
            return if c == ',' { LevelStep::Nothing } else { self.head(c, names, steps) };
        }
        self.place = LevelPlace::NoJson;
        LevelStep::Nothing
    }

    /// Whether the word is a value of JSON.
    fn is_scalar(&self) -> bool {
        let word: String = self.word.iter().collect();
        self.is_long || matches!(&*word, "true" | "false" | "null") || is_number(word.as_bytes())
    }

    fn token(&mut self, c: char, names: &MemberNames, steps: &mut u64) -> LevelStep {
        if is_space(c) {
            self.may_be_name |= matches!(c, '\n' | '\r');
            return LevelStep::Nothing;
        }
        let is_first_element = std::mem::take(&mut self.is_first_element);
        if is_first_element && names.is_any && c == '"' {
            return LevelStep::Held;
        }
        match c {
            // Some readers take an equals sign for a colon, and a semicolon for a comma.
            ':' | '=' => {
                let is_known = |word: &[char]| !self.is_long && names.has(before_nul(word)) || names.has_step(word);
                if self.is_name && self.depth > 0 && is_known(&self.word) {
                    return LevelStep::Held;
                }
                (self.is_name, self.may_be_name) = (false, false);
            }
            '{' | '[' => {
                self.depth += usize::from(c == '{');
                (self.is_name, self.may_be_name, self.is_first_element) = (false, c == '{', c == '[');
            }
            '}' | ']' => {
                self.depth = self.depth.saturating_sub(usize::from(c == '}'));
                (self.is_name, self.may_be_name) = (false, false);
            }
            ',' | ';' => (self.is_name, self.may_be_name) = (false, true),
            '"' => {
                self.begin_word();
                (self.place, self.unescape) = (LevelPlace::String, Unescape::default());
                return LevelStep::StringBegins;
            }
            // The last ones have a meaning in YAML.
            '\'' | '`' | '/' | '#' | '\\' | '?' | '&' | '*' | '!' | '|' | '>' | '%' | '@' => {
                return self.begin_loose(c, names, steps);
            }
            _ => {
                self.begin_word();
                (self.place, self.is_first_element) = (LevelPlace::Word, is_first_element);
                self.push(c, names);
            }
        }
        LevelStep::Nothing
    }

    fn in_word(&mut self, c: char, names: &MemberNames, steps: &mut u64) -> LevelStep {
        if is_space(c) || "{}[],:=;".contains(c) {
            let is_first_element = std::mem::take(&mut self.is_first_element);
            if is_first_element && names.is_any && matches!(c, ',' | ']') && self.is_scalar() {
                return LevelStep::Held;
            }
            (self.place, self.is_name) = (LevelPlace::Tokens, self.may_be_name);
            self.may_be_name = false;
            return self.token(c, names, steps);
        }
        if "\"'`/#\\".contains(c) {
            return self.begin_loose(c, names, steps);
        }
        self.push(c, names);
        LevelStep::Nothing
    }

    fn in_string(&mut self, c: char, names: &MemberNames, steps: &mut u64) -> LevelStep {
        match self.unescape.take(c) {
            Unescaped::Begun => LevelStep::Nothing,
            Unescaped::Plain('"') => {
                (self.place, self.is_name, self.may_be_name) = (LevelPlace::Tokens, true, false);
                LevelStep::Nothing
            }
            Unescaped::Plain(c) if c < ' ' => self.begin_loose(c, names, steps),
            Unescaped::Plain(c) | Unescaped::Escaped(c) => {
                self.push(c, names);
                LevelStep::OfString(c)
            }
            Unescaped::Unusual => {
                self.begin_loose('\\', names, steps);
                self.loose(c, names, steps)
            }
        }
    }

    fn begin_word(&mut self) {
        self.word.clear();
        (self.is_name, self.is_long) = (false, false);
    }

    /// Appends to the word, which ends at a NUL for readers in C.
    fn push(&mut self, c: char, names: &MemberNames) {
        let is_cut = self.word.last() == Some(&'\0');
        if is_cut || self.is_long {
            return;
        }
        self.is_long = self.word.len() > names.size_max + WORD_MARGIN;
        if !self.is_long {
            self.word.push(names.fold(c));
        }
    }

    /// Reads on loosely, from this character on.
    fn begin_loose(&mut self, c: char, names: &MemberNames, steps: &mut u64) -> LevelStep {
        let is_pending = self.is_name || matches!(self.place, LevelPlace::Word | LevelPlace::String);
        let word = std::mem::take(&mut self.word);
        if is_pending && !self.is_long {
            word.into_iter().for_each(|c| push_loose(&mut self.word, c));
        } else if is_pending {
            self.word.push('x');
        }
        (self.place, self.is_in_object) = (LevelPlace::Loose, self.depth > 0);
        self.unescape = Unescape::default();
        self.loose(c, names, steps)
    }

    fn loose(&mut self, c: char, names: &MemberNames, steps: &mut u64) -> LevelStep {
        let Some(c) = self.unescape.take_loosely(c) else { return LevelStep::Nothing };
        let is_comment = matches!(c, '/' | '*') && self.word.last() == Some(&'/');
        if matches!(c, ':' | '=' | '#' | '\0') || is_comment {
            *steps += names.loose.len() as u64;
            if self.is_in_object && names.end(&self.word) {
                return LevelStep::Held;
            }
        }
        self.is_in_object |= c == '{';
        push_loose(&mut self.word, names.fold(c));
        if self.word.len() > 2 * (names.size_max + WORD_MARGIN) {
            self.word.drain(..names.size_max + WORD_MARGIN);
        }
        LevelStep::Nothing
    }
}

/// Characters that are kept besides a name: the one before it, marks behind it, and white space around it.
const WORD_MARGIN: usize = 4;

/// Appends to a loose text: white space and marks behind one another become one mark.
pub(super) fn push_loose(text: &mut Vec<char>, c: char) {
    let is_repeated = |last: &char| is_mark(*last) && (c != '/' && is_mark(c) || *last == c);
    match text.last() {
        Some(last) if is_mark(c) && is_repeated(last) => {}
        _ => text.push(c),
    }
}

/// A text without the marks at its end.
pub(super) fn without_marks(text: &[char]) -> &[char] {
    let end = text.iter().rposition(|&c| !is_mark(c)).map_or(0, |last| last + 1);
    &text[..end]
}

/// The state between a name and its colon: white space, quotation marks, and the beginning of a comment.
fn is_mark(c: char) -> bool {
    is_space(c) || matches!(c, '"' | '\'' | '`' | '/')
}

/// White space for any reader, controls and invisible characters included.
fn is_space(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '\u{feff}' | '\u{180e}' | '\u{200b}')
}

/// A name up to its NUL.
fn before_nul(word: &[char]) -> &[char] {
    word.strip_suffix(&['\0']).unwrap_or(word)
}

/// Whether a character continues a word.
pub(super) fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '$' | '-')
}

/// The escape sequence of a string that is being read.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unescape {
    state: Escape,
    /// The first half of a surrogate pair.
    high: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Escape {
    #[default]
    None,
    /// Behind a backslash.
    Begun,
    /// Behind `\u`, or `\x` of other languages: digits that are missing, and the value of those that were read.
    Digits { left: u8, value: u32 },
}

/// The unit that a character of a string completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unescaped {
    /// Nothing.
    Begun,
    /// Itself.
    Plain(char),
    /// An escape sequence.
    Escaped(char),
    /// It is none of JSON.
    Unusual,
}

impl Unescape {
    /// Reads a character of a string. Half a surrogate pair is dropped.
    pub(super) fn take(&mut self, c: char) -> Unescaped {
        match self.state {
            Escape::None if c == '\\' => self.state = Escape::Begun,
            Escape::None => {
                self.high = None;
                return Unescaped::Plain(c);
            }
            Escape::Begun if c == 'u' => self.state = Escape::Digits { left: 4, value: 0 },
            Escape::Begun => {
                let Some(c) = short(c) else { return Unescaped::Unusual };
                (self.state, self.high) = (Escape::None, None);
                return Unescaped::Escaped(c);
            }
            Escape::Digits { .. } => match self.digit(c) {
                None => return Unescaped::Unusual,
                Some(Some(c)) => return Unescaped::Escaped(c),
                Some(None) => {}
            },
        }
        Unescaped::Begun
    }

    /// Reads a hexadecimal digit; returns the character that it completes, or `None` if it is no digit.
    fn digit(&mut self, c: char) -> Option<Option<char>> {
        let Escape::Digits { left, value } = self.state else { return None };
        let value = value << 4 | c.to_digit(16)?;
        if left > 1 {
            self.state = Escape::Digits { left: left - 1, value };
            return Some(None);
        }
        self.state = Escape::None;
        let high = self.high.take();
        Some(match (value, high) {
            (0xd800..0xdc00, _) => {
                self.high = Some(value);
                None
            }
            (0xdc00..0xe000, Some(high)) => char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (value - 0xdc00)),
            _ => char::from_u32(value),
        })
    }

    /// Reads a character of a loose text, in which escape sequences of several levels and languages end in the character that they stand
    /// for. Returns the character that it completes.
    fn take_loosely(&mut self, c: char) -> Option<char> {
        match self.state {
            Escape::None if c == '\\' => self.state = Escape::Begun,
            Escape::None => {
                self.high = None;
                return Some(c);
            }
            // A line break behind a backslash continues the line.
            Escape::Begun if matches!(c, '\\' | '\r') => {}
            Escape::Begun if c == 'u' => self.state = Escape::Digits { left: 4, value: 0 },
            Escape::Begun if c == 'x' => self.state = Escape::Digits { left: 2, value: 0 },
            Escape::Begun => {
                self.state = Escape::None;
                return match c {
                    '\n' => None,
                    'b' | 'f' | 'n' | 'r' | 't' | 'v' => Some(' '),
                    c => Some(c),
                };
            }
            Escape::Digits { .. } => match self.digit(c) {
                None => {
                    *self = Unescape::default();
                    return self.take_loosely(c);
                }
                // One level of escapes yields the backslash of the next.
                Some(Some('\\')) => self.state = Escape::Begun,
                Some(completed) => return completed,
            },
        }
        None
    }
}

/// The character of a short escape sequence of JSON.
fn short(c: char) -> Option<char> {
    Some(match c {
        '"' | '\\' | '/' => c,
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        _ => return None,
    })
}
