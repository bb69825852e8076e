//! What is stored for a slot that a TPM keeps.
//!
//! ```text
//! 1 ‖ (u16 size ‖ bytes)…: name of the parent, public area, private area, PCRs as text
//! ```

const FORMAT: u8 = 1;

/// An object that a TPM sealed under its storage root key.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SealedObject {
    /// The name of the storage root key: its hash.
    pub(crate) parent: Vec<u8>,
    /// TPMT_PUBLIC, with the policy.
    pub(crate) public: Vec<u8>,
    /// TPM2B_PRIVATE, encrypted by the TPM.
    pub(crate) private: Vec<u8>,
    /// The bank and the PCRs of the policy.
    pub(crate) pcrs: String,
}

impl SealedObject {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![FORMAT];
        for field in [&self.parent, &self.public, &self.private, self.pcrs.as_bytes()] {
            let size = u16::try_from(field.len()).expect("structures of a TPM are below 64 KiB");
            bytes.extend_from_slice(&size.to_be_bytes());
            bytes.extend_from_slice(field);
        }
        bytes
    }

    /// `None` if the bytes are no such object: they come from a database.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(&[FORMAT])?;
        let mut next = || {
            let (size, after) = rest.split_first_chunk()?;
            let (field, after) = after.split_at_checked(u16::from_be_bytes(*size).into())?;
            rest = after;
            Some(field.to_vec())
        };
        let (parent, public, private) = (next()?, next()?, next()?);
        let pcrs = String::from_utf8(next()?).ok()?;
        rest.is_empty().then_some(Self { parent, public, private, pcrs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_read_as_it_was_written_and_nothing_else_is() {
        let object =
            SealedObject { parent: vec![1; 34], public: vec![2; 78], private: Vec::new(), pcrs: "sha256:7".to_owned() };
        let bytes = object.to_bytes();
        assert_eq!(SealedObject::from_bytes(&bytes), Some(object));
        for end in 0..bytes.len() {
            assert_eq!(SealedObject::from_bytes(&bytes[..end]), None, "{end}");
        }
        assert_eq!(SealedObject::from_bytes(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(SealedObject::from_bytes(&[&[2], &bytes[1..]].concat()), None);
    }
}
