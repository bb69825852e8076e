//! The number grammar (RFC 8259, section 6), for texts that come whole or in pieces.

/// How far a number has been read: `-? (0 | [1-9][0-9]*) (. [0-9]+)? ([eE] [+-]? [0-9]+)?`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum NumberText {
    #[default]
    Start,
    Minus,
    Zero,
    Integer,
    Point,
    Fraction,
    ExponentMark,
    ExponentSign,
    Exponent,
    NotANumber,
}

impl NumberText {
    /// Reads the next piece.
    pub(crate) fn read(self, piece: &[u8]) -> Self {
        piece.iter().fold(self, |read, &byte| read.next(byte))
    }

    /// Whether the text that was read is a number.
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Self::Zero | Self::Integer | Self::Fraction | Self::Exponent)
    }

    fn next(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Start, b'-') => Self::Minus,
            (Self::Start | Self::Minus, b'0') => Self::Zero,
            (Self::Start | Self::Minus, b'1'..=b'9') | (Self::Integer, b'0'..=b'9') => Self::Integer,
            (Self::Zero | Self::Integer, b'.') => Self::Point,
            (Self::Point | Self::Fraction, b'0'..=b'9') => Self::Fraction,
            (Self::Zero | Self::Integer | Self::Fraction, b'e' | b'E') => Self::ExponentMark,
            (Self::ExponentMark, b'+' | b'-') => Self::ExponentSign,
            (Self::ExponentMark | Self::ExponentSign | Self::Exponent, b'0'..=b'9') => Self::Exponent,
            _ => Self::NotANumber,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_any_two_pieces() {
        let rows = [
            ("0 -0 1 -1 10 907 0.0 1.5e3 1E+2 1e-20 12345678901234567890 0e0 -0.0e-0", true),
            ("- 1. 1.e1 1e 1e+ .1 +1 -a 1.a 01 -01 0x1 1_0 1.2.3 1e2e3 1e2.3 -- 1- 1e+- NaN", false),
        ];
        for (texts, is_number) in rows {
            for text in texts.split(' ') {
                for cut in 0..=text.len() {
                    let (one, other) = text.as_bytes().split_at(cut);
                    assert_eq!(NumberText::default().read(one).read(other).is_whole(), is_number, "{text} at {cut}");
                }
            }
        }
        assert!(!NumberText::default().is_whole() && !NumberText::default().read(b"1 ").is_whole());
    }
}
