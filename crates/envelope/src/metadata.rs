//! Metadata before the text of a value: `u16 little-endian length ‖ MessagePack map`, with `dr` data role, `eo` origin, `et` time of
//! encryption and `pk` the mark of a symmetric envelope whose value came in one to a public key. It is authenticated with the text, but
//! anyone who knows the public key may have written it: parsing is strict about form and bounds, and ignores unknown keys with plain
//! values.

use rmp::Marker;
use thiserror::Error;

/// Bytes of the longest role.
pub const ROLE_SIZE_MAX: usize = 20;
/// The origin that Leafseal writes: a positive fixint that no SDK uses (5 Node and browser, 7 Python, 9 Go).
pub const ORIGIN_LEAFSEAL: u8 = 70;
/// The keys that have a meaning.
const KEYS: [&str; 4] = ["dr", "eo", "et", "pk"];
/// Entries of a metadata map that are read before it is refused; three are known.
const ENTRIES_MAX: usize = 16;

/// A data role: 1 to 20 of `a–z`, `0–9` and `-`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Role(String);

/// A text that is no role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("a role has 1 to 20 of the characters a–z, 0–9 and -")]
pub struct InvalidRole;

impl Role {
    /// Takes a text of the right length and alphabet.
    ///
    /// # Errors
    /// [`InvalidRole`].
    pub fn parse(text: &str) -> Result<Self, InvalidRole> {
        if is_role(text.as_bytes()) { Ok(Self(text.to_owned())) } else { Err(InvalidRole) }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn is_role(text: &[u8]) -> bool {
    (1..=ROLE_SIZE_MAX).contains(&text.len())
        && text.iter().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

/// The metadata before each text of one call, encoded once.
#[derive(Debug, Clone)]
pub struct Metadata {
    /// Length and map, encoded.
    pub(crate) encoded: Vec<u8>,
}

impl Metadata {
    /// `origin` is at most 127; `encrypted_at` in Unix seconds.
    pub fn new(role: Option<&Role>, origin: u8, encrypted_at: u32) -> Self {
        Self::marked(role, origin, encrypted_at, false)
    }

    /// The same, with the mark that the value was resealed if `is_from_public_key`.
    pub fn marked(role: Option<&Role>, origin: u8, encrypted_at: u32, is_from_public_key: bool) -> Self {
        assert!(origin < 128, "a positive fixint");
        let mut map = Vec::with_capacity(40);
        map.push(0x82 + u8::from(role.is_some()) + u8::from(is_from_public_key));
        if let Some(role) = role {
            write_key(&mut map, "dr");
            write_key(&mut map, role.as_str());
        }
        write_key(&mut map, "eo");
        map.push(origin);
        write_key(&mut map, "et");
        map.push(Marker::U32.to_u8());
        map.extend_from_slice(&encrypted_at.to_be_bytes());
        if is_from_public_key {
            write_key(&mut map, "pk");
            map.push(Marker::True.to_u8());
        }
        let size = u16::try_from(map.len()).expect("a role is short");
        Self { encoded: [size.to_le_bytes().as_slice(), &map].concat() }
    }
}

/// A fixstr: roles and keys are shorter than 32 bytes.
fn write_key(map: &mut Vec<u8>, text: &str) {
    map.push(Marker::FixStr(u8::try_from(text.len()).expect("short")).to_u8());
    map.extend_from_slice(text.as_bytes());
}

/// Metadata as an opened envelope states it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenedMetadata<'a> {
    /// The data role.
    pub role: Option<&'a str>,
    /// The software that wrote the envelope.
    pub origin: Option<u32>,
    /// When, in Unix seconds.
    pub encrypted_at: Option<u32>,
    /// Whether an engine resealed the value from an envelope to a public key. True only of symmetric envelopes that say so; others could
    /// say anything.
    pub is_from_public_key: bool,
}

/// Returns the metadata at the start of a file's content, if there is any. The legacy version `TENZ` shares key and associated data
/// with files on P-256: without this check, a caller with permission to decrypt files could decrypt such a value as a file,
/// bypassing the check of its role.
pub fn metadata_in_file(content: &[u8]) -> Option<OpenedMetadata<'_>> {
    split(content).map(|(metadata, _)| metadata)
}

/// Splits a plaintext into metadata and text. `None` when the metadata is not of its form.
pub(crate) fn split(plaintext: &[u8]) -> Option<(OpenedMetadata<'_>, &[u8])> {
    let (size, rest) = plaintext.split_first_chunk::<2>()?;
    let (map, text) = rest.split_at_checked(usize::from(u16::from_le_bytes(*size)))?;
    Some((read_map(map)?, text))
}

fn read_map(mut input: &[u8]) -> Option<OpenedMetadata<'_>> {
    let entries = rmp::decode::read_map_len(&mut input).ok()? as usize;
    if entries > ENTRIES_MAX {
        return None;
    }
    let mut metadata = OpenedMetadata::default();
    let mut seen: [bool; KEYS.len()] = [false; KEYS.len()];
    for _ in 0..entries {
        let key = read_str(&mut input)?;
        // Readers differ in which of two entries they take.
        if let Some(at) = KEYS.iter().position(|known| *known == key)
            && std::mem::replace(&mut seen[at], true)
        {
            return None;
        }
        match key {
            "dr" => metadata.role = read_role(&mut input)?,
            "eo" => metadata.origin = Some(rmp::decode::read_int(&mut input).ok()?),
            "et" => metadata.encrypted_at = Some(rmp::decode::read_int(&mut input).ok()?),
            "pk" => metadata.is_from_public_key = rmp::decode::read_bool(&mut input).ok()?,
            _ => skip_scalar(&mut input)?,
        }
    }
    input.is_empty().then_some(metadata)
}

/// A role or nil, which some SDKs write when there is none.
fn read_role<'a>(input: &mut &'a [u8]) -> Option<Option<&'a str>> {
    if input.first() == Some(&Marker::Null.to_u8()) {
        *input = &input[1..];
        return Some(None);
    }
    let role = read_str(input)?;
    is_role(role.as_bytes()).then_some(Some(role))
}

fn read_str<'a>(input: &mut &'a [u8]) -> Option<&'a str> {
    let (text, rest) = rmp::decode::read_str_from_slice(*input).ok()?;
    *input = rest;
    Some(text)
}

fn skip_scalar(input: &mut &[u8]) -> Option<()> {
    let (&first, rest) = input.split_first()?;
    let size = match Marker::from_u8(first) {
        Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => 0,
        Marker::U8 | Marker::I8 => 1,
        Marker::U16 | Marker::I16 => 2,
        Marker::U32 | Marker::I32 | Marker::F32 => 4,
        Marker::U64 | Marker::I64 | Marker::F64 => 8,
        Marker::FixStr(_) | Marker::Str8 | Marker::Str16 => return read_str(input).map(drop),
        _ => return None,
    };
    *input = rest.get(size..)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rule 8.
    #[test]
    fn round_trips() {
        for role in [None, Some("a"), Some("card-number-20-chars")] {
            let parsed = role.map(|text| Role::parse(text).expect("a role"));
            let metadata = Metadata::new(parsed.as_ref(), ORIGIN_LEAFSEAL, 1_700_000_000);
            let plaintext = [metadata.encoded.as_slice(), b"text"].concat();
            let (opened, text) = split(&plaintext).expect("well formed");
            assert_eq!(text, b"text");
            let expected =
                OpenedMetadata { role, origin: Some(70), encrypted_at: Some(1_700_000_000), is_from_public_key: false };
            assert_eq!(opened, expected);
            let marked = Metadata::marked(parsed.as_ref(), ORIGIN_LEAFSEAL, 1_700_000_000, true);
            let (opened, _) = split(&marked.encoded).expect("well formed");
            assert_eq!(opened, OpenedMetadata { is_from_public_key: true, ..expected });
        }
    }

    /// Rule 8: a role's alphabet and length.
    #[test]
    fn roles_are_checked() {
        for bad in ["", "Card", "card_number", "card number", "é", "card-number-21-chars-"] {
            assert_eq!(Role::parse(bad), Err(InvalidRole), "{bad}");
        }
    }

    /// Rule 8: unknown keys are passed over, anything else is refused.
    #[test]
    fn hostile_maps_are_refused() {
        let whole = Metadata::new(Some(&Role::parse("card").expect("a role")), 5, 7).encoded;
        for cut in 0..whole.len() {
            assert!(split(&whole[..cut]).is_none(), "cut at {cut}");
        }
        // A role out of its alphabet, a nested value under an unknown key, a map that claims too many entries, trailing bytes, a key twice.
        let maps: [&[u8]; 5] = [
            b"\x81\xa2dr\xa1A",
            b"\x81\xa1x\x91\x01",
            b"\xdf\xff\xff\xff\xff",
            b"\x80\x00",
            b"\x82\xa2pk\xc3\xa2pk\xc2",
        ];
        for map in maps {
            assert_eq!(read_map(map), None, "{map:02x?}");
        }
        assert_eq!(read_map(b"\x82\xa1x\xcb12345678\xa2dr\xc0"), Some(OpenedMetadata::default()));
    }
}
