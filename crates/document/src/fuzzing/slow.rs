//! A slow JSON parser as a reference for the walker: recursive, byte by byte, written from RFC 8259 independently of the rest.

use std::ops::Range;

/// A value with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowValue {
    /// Its bytes in the document.
    pub range: Range<usize>,
    /// The kind of value.
    pub kind: SlowKind,
}

/// The kind of a value. The text of a string or name is `None` if it contains a lone surrogate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlowKind {
    /// Members in document order, equal names included.
    Object(Vec<(Option<String>, SlowValue)>),
    /// Elements.
    Array(Vec<SlowValue>),
    /// A string's text.
    String(Option<String>),
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// `null`.
    Null,
}

impl SlowValue {
    /// Collects the scalars at or below it, in document order, with range and kind.
    pub fn scalars<'v>(&'v self, found: &mut Vec<&'v SlowValue>) {
        match &self.kind {
            SlowKind::Object(members) => members.iter().for_each(|(_, value)| value.scalars(found)),
            SlowKind::Array(elements) => elements.iter().for_each(|value| value.scalars(found)),
            _ => found.push(self),
        }
    }
}

struct SlowReader<'a> {
    text: &'a [u8],
    position: usize,
    depth_max: usize,
}

/// Parses exactly one value with white space around it, and perhaps a byte order mark before that, with containers nested at most
/// `depth_max` deep.
pub fn read(text: &[u8], depth_max: usize) -> Option<SlowValue> {
    std::str::from_utf8(text).ok()?;
    let position = if text.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
    let mut reader = SlowReader { text, position, depth_max };
    let value = reader.value(0)?;
    reader.space();
    (reader.position == text.len()).then_some(value)
}

impl SlowReader<'_> {
    fn next(&mut self) -> Option<u8> {
        self.position += 1;
        self.text.get(self.position - 1).copied()
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.position).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(0x20 | 0x0a | 0x0d | 0x09)) {
            self.position += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Option<SlowValue> {
        self.space();
        let start = self.position;
        let kind = match self.peek()? {
            b'{' | b'[' if depth == self.depth_max => return None,
            b'{' => self.object(depth)?,
            b'[' => self.array(depth)?,
            b'"' => SlowKind::String(self.string()?),
            b'-' | b'0'..=b'9' => self.number()?,
            _ => self.word()?,
        };
        Some(SlowValue { range: start..self.position, kind })
    }

    fn object(&mut self, depth: usize) -> Option<SlowKind> {
        let mut members = Vec::new();
        self.position += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.position += 1;
            return Some(SlowKind::Object(members));
        }
        loop {
            self.space();
            (self.peek()? == b'"').then_some(())?;
            let name = self.string()?;
            self.space();
            (self.next()? == b':').then_some(())?;
            members.push((name, self.value(depth + 1)?));
            self.space();
            match self.next()? {
                b',' => {}
                b'}' => return Some(SlowKind::Object(members)),
                _ => return None,
            }
        }
    }

    fn array(&mut self, depth: usize) -> Option<SlowKind> {
        let mut elements = Vec::new();
        self.position += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.position += 1;
            return Some(SlowKind::Array(elements));
        }
        loop {
            elements.push(self.value(depth + 1)?);
            self.space();
            match self.next()? {
                b',' => {}
                b']' => return Some(SlowKind::Array(elements)),
                _ => return None,
            }
        }
    }

    /// Parses the text as UTF-16, as the escapes are written, and converts it to a string if possible.
    fn string(&mut self) -> Option<Option<String>> {
        self.position += 1;
        let mut units = Vec::new();
        loop {
            let rest = std::str::from_utf8(&self.text[self.position..]).ok()?;
            let character = rest.chars().next()?;
            self.position += character.len_utf8();
            match character {
                '"' => return Some(String::from_utf16(&units).ok()),
                '\\' => units.push(self.escape()?),
                '\0'..='\u{1f}' => return None,
                _ => units.extend_from_slice(character.encode_utf16(&mut [0; 2])),
            }
        }
    }

    fn escape(&mut self) -> Option<u16> {
        Some(match self.next()? {
            plain @ (b'"' | b'\\' | b'/') => plain.into(),
            b'b' => 8,
            b't' => 9,
            b'n' => 10,
            b'f' => 12,
            b'r' => 13,
            b'u' => {
                let mut unit = 0;
                for _ in 0..4 {
                    unit = unit * 16 + char::from(self.next()?).to_digit(16)? as u16;
                }
                unit
            }
            _ => return None,
        })
    }

    fn digits(&mut self) -> Option<()> {
        self.peek()?.is_ascii_digit().then_some(())?;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.position += 1;
        }
        Some(())
    }

    fn number(&mut self) -> Option<SlowKind> {
        if self.peek() == Some(b'-') {
            self.position += 1;
        }
        match self.peek()? {
            b'0' => self.position += 1,
            _ => self.digits()?,
        }
        if self.peek() == Some(b'.') {
            self.position += 1;
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.position += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.position += 1;
            }
            self.digits()?;
        }
        Some(SlowKind::Number)
    }

    fn word(&mut self) -> Option<SlowKind> {
        let words = [("true", SlowKind::Boolean), ("false", SlowKind::Boolean), ("null", SlowKind::Null)];
        let rest = &self.text[self.position..];
        let (word, kind) = words.into_iter().find(|(word, _)| rest.starts_with(word.as_bytes()))?;
        self.position += word.len();
        Some(kind)
    }
}
