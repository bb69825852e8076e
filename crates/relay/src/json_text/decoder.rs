//! Decodes bytes to characters. Some readers detect UTF-16 and UTF-32, as Python's `json.loads` does; bytes that are no text are dropped,
//! as lenient readers do.

/// The longest character, and the number of bytes that show an encoding.
const UNIT_MAX: usize = 4;

/// A decoder, of one byte after another.
#[derive(Debug)]
pub(super) struct Decoder {
    encoding: Encoding,
    /// Bytes of a character that is not complete; at first those that show the encoding.
    held: Vec<u8>,
    high: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Unknown,
    Utf8,
    /// Units of two or four bytes.
    Wide {
        size: usize,
        is_big: bool,
    },
}

/// The characters that a byte completes: up to four where it shows the encoding.
pub(super) type Decoded = [Option<char>; UNIT_MAX];

impl Decoder {
    pub(super) fn utf_8() -> Self {
        Decoder { encoding: Encoding::Utf8, held: Vec::new(), high: None }
    }

    /// Finds out the encoding by the first four bytes.
    pub(super) fn unknown() -> Self {
        Decoder { encoding: Encoding::Unknown, ..Decoder::utf_8() }
    }

    /// The character of a byte that is one by itself.
    #[inline]
    pub(super) fn ascii(&self, byte: u8) -> Option<char> {
        (byte.is_ascii() && self.encoding == Encoding::Utf8 && self.held.is_empty()).then_some(char::from(byte))
    }

    pub(super) fn take(&mut self, byte: u8) -> Decoded {
        let mut decoded = Decoded::default();
        match self.encoding {
            Encoding::Utf8 => decoded[0] = self.utf_8_byte(byte),
            Encoding::Wide { size, is_big } => decoded[0] = self.wide_byte(byte, size, is_big),
            Encoding::Unknown => {
                self.held.push(byte);
                if self.held.len() == UNIT_MAX {
                    let first = std::mem::take(&mut self.held);
                    self.encoding = encoding(&first);
                    for (place, byte) in decoded.iter_mut().zip(first) {
                        *place = self.take(byte)[0];
                    }
                }
            }
        }
        decoded
    }

    fn utf_8_byte(&mut self, byte: u8) -> Option<char> {
        if byte.is_ascii() {
            self.held.clear();
            return Some(char::from(byte));
        }
        if byte & 0b1100_0000 != 0b1000_0000 {
            self.held.clear();
        }
        self.held.push(byte);
        match std::str::from_utf8(&self.held) {
            Ok(text) => {
                let character = text.chars().next();
                self.held.clear();
                character
            }
            Err(error) => {
                if error.error_len().is_some() {
                    self.held.clear();
                }
                None
            }
        }
    }

    fn wide_byte(&mut self, byte: u8, size: usize, is_big: bool) -> Option<char> {
        self.held.push(byte);
        if self.held.len() < size {
            return None;
        }
        let join = |unit: u32, byte: &u8| unit << 8 | u32::from(*byte);
        let unit = if is_big { self.held.iter().fold(0, join) } else { self.held.iter().rev().fold(0, join) };
        self.held.clear();
        let high = self.high.take();
        match (unit, high) {
            (0xd800..0xdc00, _) => {
                self.high = Some(unit);
                None
            }
            (0xdc00..0xe000, Some(high)) => char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (unit - 0xdc00)),
            _ => char::from_u32(unit),
        }
    }
}

/// The encoding of a text that begins so: by its byte order mark, or by the zeros of its first characters, which JSON has in ASCII.
fn encoding(first: &[u8]) -> Encoding {
    let wide = |size, is_big| Encoding::Wide { size, is_big };
    match first {
        [0, 0, 0xfe, 0xff] | [0, 0, 0, _] => wide(4, true),
        [0xff, 0xfe, 0, 0] | [_, 0, 0, 0] => wide(4, false),
        [0xfe, 0xff, ..] | [0, ..] => wide(2, true),
        [0xff, 0xfe, ..] | [_, 0, ..] => wide(2, false),
        _ => Encoding::Utf8,
    }
}
