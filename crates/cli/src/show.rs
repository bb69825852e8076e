//! Bytes and times as people read them.

pub use fieldseal_net::utc as time;

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal() {
        assert_eq!(hex(&[0, 0x0f, 0xff]), "000fff");
    }
}
