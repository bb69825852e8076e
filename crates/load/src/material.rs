//! The content of requests: seeded values, requests to encrypt them, and requests to decrypt the engine's envelopes.

use std::time::Duration;

use leafseal_client::raw::{EncodedRequest, Message, RawConnection, ValuesResult, request};
use leafseal_client::{Curve, DecryptOptions, EncryptOptions, Keying, Scalar, Scheme};
use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::driver::{answer_size, ask};
use crate::error::LoadError;

/// Characters of the values: printable, and escaped by no format.
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The content of one kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestContent {
    /// Values in a request.
    pub fields: usize,
    /// Bytes of a value.
    pub field_size: usize,
    /// The curve of envelopes to a public key; `None` for symmetric ones.
    pub curve: Option<Curve>,
    /// How often a fresh ephemeral key is created.
    pub keying: Keying,
}

/// Generates values of equal length; the same seed produces the same values.
pub fn values(content: RequestContent, seed: u64) -> Vec<String> {
    values_of(content.fields, content.field_size, seed)
}

/// Generates `count` values of `size` bytes each.
pub fn values_of(count: usize, size: usize, seed: u64) -> Vec<String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut character = || char::from(ALPHABET[random.random_range(0..ALPHABET.len())]);
    (0..count).map(|_| (0..size).map(|_| character()).collect()).collect()
}

/// Requests, with the size of their answers.
#[derive(Debug)]
pub struct PreparedRequests {
    /// The requests.
    pub requests: Vec<EncodedRequest>,
    /// Bytes of each answer without its id.
    pub answer_size: usize,
    /// Latency of the first one.
    pub first_took: Duration,
}

impl RequestContent {
    /// Returns the options of an `encrypt` request.
    pub fn options(self, app: &str) -> EncryptOptions<'_> {
        EncryptOptions {
            // A curve means public-key envelopes. Without the word, engines of any version get the same request.
            scheme: self.curve.is_none().then_some(Scheme::Symmetric),
            curve: self.curve,
            keying: Some(self.keying),
            ..EncryptOptions::new(app)
        }
    }

    /// The scheme.
    pub fn scheme(self) -> Scheme {
        if self.curve.is_some() { Scheme::PublicKey } else { Scheme::Symmetric }
    }
}

/// Encodes a request to encrypt `values`.
pub fn to_encrypt(options: &EncryptOptions<'_>, values: &[String]) -> EncodedRequest {
    let scalars = values.iter().map(|value| Scalar::from(value.as_str()));
    EncodedRequest::new(|id, out| request::encrypt(id, options, scalars, out))
}

/// Encodes a request to encrypt `values` and sends it once to measure the size of its answer.
///
/// # Errors
/// Fails if the engine is unreachable or an answer is missing, an error or wrong.
pub async fn encrypting(
    connection: &mut RawConnection,
    app: &str,
    content: RequestContent,
    values: &[String],
) -> Result<(PreparedRequests, Vec<u8>), LoadError> {
    let request = to_encrypt(&content.options(app), values);
    let (answer, first_took) = ask(connection, &request).await?;
    Ok((PreparedRequests { requests: vec![request], answer_size: answer_size(&answer, 0), first_took }, answer))
}

/// Encodes requests to decrypt the answers to `count` `encrypt` requests, of which `answer` is the first. The first one is sent and
/// its answer compared with `values`, which verifies both directions.
///
/// # Errors
/// Fails if an answer is missing, an error or wrong, or if a decrypted value differs from the original.
pub async fn decrypting(
    connection: &mut RawConnection,
    app: &str,
    encrypt: &PreparedRequests,
    answer: Vec<u8>,
    count: usize,
    values: &[String],
) -> Result<PreparedRequests, LoadError> {
    let mut requests = vec![to_decrypt(app, &answer)?];
    drop(answer);
    while requests.len() < count {
        let (answer, _) = ask(connection, &encrypt.requests[0]).await?;
        requests.push(to_decrypt(app, &answer)?);
    }
    let (answer, first_took) = ask(connection, &requests[0]).await?;
    check(&answer, values)?;
    Ok(PreparedRequests { requests, answer_size: answer_size(&answer, 0), first_took })
}

/// Encodes a request to decrypt the values of an answer, all of which must be envelopes.
///
/// # Errors
/// Fails if the frame is not an answer or contains a value that is not an envelope.
pub fn to_decrypt(app: &str, answer: &[u8]) -> Result<EncodedRequest, LoadError> {
    let envelopes = envelopes(answer)?;
    let options = DecryptOptions::new(app);
    Ok(EncodedRequest::new(|id, out| request::decrypt(id, &options, envelopes.iter().copied(), out)))
}

/// Checks that an answer contains `count` envelopes and nothing else.
///
/// # Errors
/// Fails if it does not.
pub fn check_envelopes(answer: &[u8], count: usize) -> Result<(), LoadError> {
    let found = envelopes(answer)?.len();
    if found == count { Ok(()) } else { Err(LoadError::wrong(format!("expected {count} envelopes, found {found}"))) }
}

/// Returns the values of an answer, all of which must be envelopes.
fn envelopes(answer: &[u8]) -> Result<Vec<Scalar<'_>>, LoadError> {
    let values = scalars(answer)?;
    let is_envelope = |value: &Scalar<'_>| matches!(value, Scalar::Str(text) if text.as_bytes().starts_with(b"ev:"));
    if values.iter().all(is_envelope) { Ok(values) } else { Err(LoadError::wrong("a value is not an envelope")) }
}

/// Compares the values of an answer with the values that were encrypted.
///
/// # Errors
/// Fails if they differ or the frame is not an answer.
pub fn check(answer: &[u8], values: &[String]) -> Result<(), LoadError> {
    let opened = scalars(answer)?;
    let is_same = |(opened, value): (&Scalar<'_>, &String)| *opened == Scalar::from(value.as_str());
    if opened.len() == values.len() && opened.iter().zip(values).all(is_same) {
        return Ok(());
    }
    Err(LoadError::wrong("the decrypted values differ from the encrypted ones"))
}

fn scalars(answer: &[u8]) -> Result<Vec<Scalar<'_>>, LoadError> {
    let unreadable = |error: &dyn std::fmt::Display| LoadError::wrong(format!("it cannot be read: {error}"));
    let Ok(Message::Response { result: Ok(result), .. }) = Message::parse(answer) else {
        return Err(LoadError::wrong("no result"));
    };
    let values = ValuesResult::decode(result).map_err(|error| unreadable(&error))?.values;
    values.iter().collect::<Result<_, _>>().map_err(|error| unreadable(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: RequestContent =
        RequestContent { fields: 3, field_size: 32, curve: Some(Curve::R1), keying: Keying::Request };

    #[test]
    fn values_are_those_of_their_seed() {
        let made = values(CONTENT, 1);
        assert_eq!((made.len(), made[0].len()), (3, 32));
        assert_eq!(made, values(CONTENT, 1));
        assert_ne!(made, values(CONTENT, 2));
        assert_ne!(made[0], made[1]);
    }

    /// Encodes an answer with these values. It has the form of a request, except for its head and tail.
    fn answer(values: &[&str]) -> Vec<u8> {
        let mut out = vec![0x94, 1, 0, 0xc0, 0x81, 0xa6];
        out.extend_from_slice(b"values");
        out.push(0x90 | values.len() as u8);
        for value in values {
            out.push(0xa0 | value.len() as u8);
            out.extend_from_slice(value.as_bytes());
        }
        out
    }

    #[test]
    fn wrong_answers_are_found() {
        let values = ["one".to_owned(), "two".to_owned()];
        assert!(check(&answer(&["one", "two"]), &values).is_ok());
        for wrong in [&["one"][..], &["one", "twx"], &["two", "one"], &["one", "two", "two"]] {
            assert!(check(&answer(wrong), &values).is_err(), "{wrong:?}");
        }
        assert!(to_decrypt("app", &answer(&["ev:x:$", "ev:y:$"])).is_ok());
        assert!(to_decrypt("app", &answer(&["ev:x:$", "plain"])).is_err());
        assert!(check_envelopes(&answer(&["ev:x:$", "ev:y:$"]), 2).is_ok());
        assert!(check_envelopes(&answer(&["ev:x:$", "ev:y:$"]), 3).is_err());
        assert!(check(&answer(&["one", "two"])[..9], &values).is_err());
    }
}
