//! Requests that are encoded before they are sent: encoding a large one takes too long for a thread that drives connections.

use std::fmt;
use std::sync::Arc;

use leafseal_protocol::{
    DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, Method, Scalar, request,
};

use crate::outgoing::Outgoing;

/// Placeholder for the id until the request is sent; ids of this size take five bytes.
const ANY_ID: u32 = u32::MAX;
/// The beginning of a request: its type, and the marker of an id in four bytes.
const HEAD: [u8; 3] = [0x94, 0x00, 0xce];
const HEAD_SIZE: usize = HEAD.len() + size_of::<u32>();
/// Approximate bytes of a request besides its document or file.
const FRAME_SIZE: usize = 1 << 10;

/// An encoded request that lacks only its id. [`Client::send`](crate::Client::send) sends it.
pub struct Prepared {
    pub(crate) method: Method,
    /// The deadline that is encoded in it.
    pub(crate) deadline_ms: Option<u32>,
    /// Kept until the request is answered, because it may be retried.
    message: Arc<Vec<u8>>,
}

/// Omits the content, which may be plaintext.
impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a request {:?} of {} bytes", self.method, self.message.len())
    }
}

impl Prepared {
    /// Prepares the encryption of native values.
    pub fn encrypt<'v>(options: &EncryptOptions<'_>, values: impl ExactSizeIterator<Item = Scalar<'v>>) -> Self {
        Prepared::new(Method::Encrypt, options.deadline_ms, FRAME_SIZE, |id, out| {
            request::encrypt(id, options, values, out)
        })
    }

    /// Prepares the decryption of envelopes to native values.
    pub fn decrypt<'v>(options: &DecryptOptions<'_>, values: impl ExactSizeIterator<Item = Scalar<'v>>) -> Self {
        Prepared::new(Method::Decrypt, options.deadline_ms, FRAME_SIZE, |id, out| {
            request::decrypt(id, options, values, out)
        })
    }

    /// Prepares the encryption of the values of a JSON text that the selectors select; without selectors all.
    pub fn encrypt_document(options: &EncryptOptions<'_>, select: Option<&[&str]>, json: &[u8]) -> Self {
        let encode = |id, out: &mut Vec<u8>| request::encrypt_document(id, options, select, json, out);
        Prepared::new(Method::EncryptDocument, options.deadline_ms, json.len() + FRAME_SIZE, encode)
    }

    /// Prepares the decryption of the envelopes of a JSON text that the selectors select; without selectors all.
    pub fn decrypt_document(options: &DecryptOptions<'_>, select: Option<&[&str]>, json: &[u8]) -> Self {
        let encode = |id, out: &mut Vec<u8>| request::decrypt_document(id, options, select, json, out);
        Prepared::new(Method::DecryptDocument, options.deadline_ms, json.len() + FRAME_SIZE, encode)
    }

    /// Prepares the encryption of a file.
    pub fn encrypt_file(options: &EncryptFileOptions<'_>, data: &[u8]) -> Self {
        let encode = |id, out: &mut Vec<u8>| request::encrypt_file(id, options, data, out);
        Prepared::new(Method::EncryptFile, options.deadline_ms, data.len() + FRAME_SIZE, encode)
    }

    /// Prepares the decryption of a file.
    pub fn decrypt_file(options: &DecryptFileOptions<'_>, data: &[u8]) -> Self {
        let encode = |id, out: &mut Vec<u8>| request::decrypt_file(id, options, data, out);
        Prepared::new(Method::DecryptFile, options.deadline_ms, data.len() + FRAME_SIZE, encode)
    }

    fn new(method: Method, deadline_ms: Option<u32>, capacity: usize, encode: impl FnOnce(u32, &mut Vec<u8>)) -> Self {
        let mut message = Vec::with_capacity(capacity);
        encode(ANY_ID, &mut message);
        debug_assert!(message.starts_with(&HEAD) && message[HEAD.len()..HEAD_SIZE] == ANY_ID.to_be_bytes());
        Prepared { method, deadline_ms, message: Arc::new(message) }
    }

    /// The size of the request's message in bytes.
    pub fn size(&self) -> usize {
        self.message.len()
    }

    /// The message with its id.
    pub(crate) fn outgoing(&self, id: u32) -> Outgoing {
        let mut head = [0; HEAD_SIZE];
        head[..HEAD.len()].copy_from_slice(&HEAD);
        head[HEAD.len()..].copy_from_slice(&id.to_be_bytes());
        Outgoing::sharing(&self.message, &head)
    }
}

#[cfg(test)]
mod tests {
    use leafseal_protocol::{FrameLimits, Message};

    use super::*;

    #[test]
    fn a_prepared_request_gets_its_id_when_it_is_sent() {
        let options = EncryptOptions { role: Some("card"), ..EncryptOptions::new("acme") };
        let prepare = || Prepared::encrypt_document(&options, Some(&["$.a"]), br#"{"a":1}"#);
        for id in [0, 1, 127, 128, 65_536, u32::MAX] {
            let message = prepare().outgoing(id).pieces(usize::MAX).collect::<Vec<_>>().concat();
            let (size, mut other) = (message.len(), Vec::new());
            request::encrypt_document(id, &options, Some(&["$.a"]), br#"{"a":1}"#, &mut other);
            let read = |bytes| match Message::parse_unscanned(bytes, FrameLimits::default()) {
                Ok(Message::Request { id, method, params }) => (id, method.to_owned(), params.size()),
                other => panic!("{other:?}"),
            };
            assert_eq!(read(&message), read(&other));
            assert_eq!((read(&message).0, prepare().size()), (id, size));
        }
    }
}
