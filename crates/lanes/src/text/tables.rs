//! The alphabet of base64, and the tables of kernels, which the compiler derives from it.

/// Characters by value (RFC 4648, table 1).
pub(super) const ALPHABET: [u8; 64] = *b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The value of characters that are not base64: its top bit is set.
pub(super) const NONE: u8 = 0x80;

/// Values by ASCII character.
pub(super) const VALUES: [u8; 128] = {
    let mut values = [NONE; 128];
    let mut value = 0;
    while value < ALPHABET.len() {
        values[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    values
};

/// The difference between a character and its value: the characters are in five contiguous rows, `A-Z`, `a-z`, `0-9`, `+` and `/`.
#[cfg(target_arch = "x86_64")]
pub(super) const fn shift(character: u8) -> u8 {
    VALUES[character as usize].wrapping_sub(character)
}
