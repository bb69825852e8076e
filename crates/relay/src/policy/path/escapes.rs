//! Decodes the escapes of a path, and keeps which bytes were escaped.

/// A byte, and whether it was escaped.
pub(super) type Unit = u16;
/// The mark of a byte that was escaped.
pub(super) const ESCAPED: Unit = 0x100;

/// The bytes of a path as they arrived.
pub(super) fn undecoded(path: &str) -> Vec<Unit> {
    path.bytes().map(Unit::from).collect()
}

/// Decodes each escape once. A `%` without two hexadecimal digits stays as it is.
pub(super) fn decoded_once(units: &[Unit]) -> Vec<Unit> {
    let mut out = Vec::with_capacity(units.len());
    let mut rest = units;
    while let Some((&unit, tail)) = rest.split_first() {
        match hexadecimal(tail, 2).filter(|_| unit as u8 == b'%') {
            Some(byte) => {
                out.push(ESCAPED | byte as Unit);
                rest = &tail[2..];
            }
            None => {
                out.push(unit);
                rest = tail;
            }
        }
    }
    out
}

/// Decodes until no escape is left, `%uXXXX` of older servers included. Each decoded escape shortens the text, so the work is
/// proportional to its length.
pub(super) fn decoded_fully(units: &[Unit]) -> Vec<Unit> {
    let mut out: Vec<Unit> = Vec::with_capacity(units.len());
    for &unit in units {
        out.push(unit);
        while let Some((start, character)) = escape_at_end(&out) {
            out.truncate(start);
            match character {
                Escape::Byte(byte) => out.push(ESCAPED | Unit::from(byte)),
                Escape::Character(character) => {
                    let mut buffer = [0; 4];
                    out.extend(character.encode_utf8(&mut buffer).bytes().map(|byte| ESCAPED | Unit::from(byte)));
                }
            }
        }
    }
    out
}

enum Escape {
    Byte(u8),
    Character(char),
}

/// The escape that ends the text, and where it begins.
fn escape_at_end(units: &[Unit]) -> Option<(usize, Escape)> {
    let begins = |length: usize, prefix: &[u8]| {
        let start = units.len().checked_sub(length)?;
        let is_same = units[start..].iter().zip(prefix).all(|(&unit, &byte)| (unit as u8).eq_ignore_ascii_case(&byte));
        is_same.then_some(start)
    };
    if let Some(start) = begins(3, b"%")
        && let Some(byte) = hexadecimal(&units[start + 1..], 2)
    {
        return Some((start, Escape::Byte(byte as u8)));
    }
    let start = begins(6, b"%u")?;
    let character = char::from_u32(hexadecimal(&units[start + 2..], 4)?)?;
    Some((start, Escape::Character(character)))
}

/// The number that the first `digits` units write.
fn hexadecimal(units: &[Unit], digits: usize) -> Option<u32> {
    let add = |number: u32, unit: &Unit| Some(number << 4 | char::from(*unit as u8).to_digit(16)?);
    units.get(..digits)?.iter().try_fold(0, add)
}
