//! Calls whose content identifies them, so that an answer to another call is detected.

use std::time::Duration;

use leafseal_client::{
    Client, ClientError, DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions, ErrorCode, ErrorKind,
    Scalar, Value,
};
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::timeout;

pub(crate) const APP: &str = "acme";

/// The work of a call, with its expected result.
pub(crate) enum Work {
    Health,
    Encrypt { texts: Vec<String> },
    Decrypt { texts: Vec<String>, envelopes: Vec<Value> },
    EncryptDocument { json: String },
    DecryptDocument { json: String, sealed: Vec<u8> },
    EncryptFile { data: Vec<u8> },
    DecryptFile { data: Vec<u8>, sealed: Vec<u8> },
}

pub(crate) struct Call {
    pub number: usize,
    work: Work,
    deadline_ms: Option<u32>,
    /// When the caller drops the call, if it does.
    dropped_after: Option<Duration>,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Answered,
    Dropped,
    Failed(ErrorKind),
}

impl Call {
    /// Creates a call. Values to decrypt are encrypted by `control`, whose connection is undisturbed.
    pub(crate) async fn new(number: usize, random: &mut StdRng, name: &str, is_hasty: bool, control: &Client) -> Call {
        let size = [0, 10, 1_000][random.random_range(0..3)];
        let count = random.random_range(1..60);
        let text = |value: usize| format!("{name} value {value} {}", "x".repeat(size));
        let texts: Vec<String> = (0..count).map(text).collect();
        let json = format!("{{\"who\":\"{name}\",\"values\":[\"{}\"]}}", texts.join("\",\""));
        let data = json.clone().into_bytes();
        let work = match random.random_range(0..9) {
            0 => Work::Health,
            1 | 2 => Work::Encrypt { texts },
            3 | 4 => Work::Decrypt { envelopes: encrypt(control, &texts, None).await.unwrap(), texts },
            5 => Work::EncryptDocument { json },
            6 => {
                let sealed = control.encrypt_document(&EncryptOptions::new(APP), None, json.as_bytes()).await;
                Work::DecryptDocument { json, sealed: sealed.unwrap().json }
            }
            7 => Work::EncryptFile { data },
            _ => {
                let sealed = control.encrypt_file(&EncryptFileOptions::new(APP), &data).await.unwrap();
                Work::DecryptFile { data, sealed }
            }
        };
        let deadline_ms = (is_hasty && random.random_bool(0.1)).then(|| random.random_range(1..20));
        let milliseconds = (is_hasty && random.random_bool(0.15)).then(|| random.random_range(0..50));
        Call { number, work, deadline_ms, dropped_after: milliseconds.map(Duration::from_millis) }
    }

    /// Makes the call and checks the answer; `control` decrypts what `client` has encrypted.
    pub(crate) async fn make(&self, client: &Client, control: &Client) -> Outcome {
        let made = match self.dropped_after {
            Some(time) => match timeout(time, self.ask(client, control)).await {
                Ok(made) => made,
                Err(_) => return Outcome::Dropped,
            },
            None => self.ask(client, control).await,
        };
        match made {
            Ok(()) => Outcome::Answered,
            Err(error) => {
                self.check_error(&error);
                Outcome::Failed(error.kind)
            }
        }
    }

    fn check_error(&self, error: &ClientError) {
        let is_known = match error.kind {
            ErrorKind::Connect
            | ErrorKind::GoingAway
            | ErrorKind::Tls
            | ErrorKind::Timeout
            | ErrorKind::ConnectionLost { .. } => true,
            // Also when it is refused early, while others wait.
            ErrorKind::Engine(ErrorCode::DeadlineExceeded | ErrorCode::Overloaded) => self.deadline_ms.is_some(),
            // A frame that took too long.
            ErrorKind::ConnectionRefused(ErrorCode::DeadlineExceeded) => true,
            _ => false,
        };
        assert!(is_known, "call {}: {error:?}", self.number);
        assert!(!error.message.is_empty());
    }

    async fn ask(&self, client: &Client, control: &Client) -> Result<(), ClientError> {
        let decrypting = DecryptOptions { deadline_ms: self.deadline_ms, ..DecryptOptions::new(APP) };
        match &self.work {
            Work::Health => assert_eq!(client.health().await?, "ok"),
            Work::Encrypt { texts } => {
                let envelopes = encrypt(client, texts, self.deadline_ms).await?;
                let opened = decrypt(control, &DecryptOptions::new(APP), &envelopes).await.unwrap();
                self.check(opened == *texts);
            }
            Work::Decrypt { texts, envelopes } => {
                self.check(decrypt(client, &decrypting, envelopes).await? == *texts);
            }
            Work::EncryptDocument { json } => {
                let options = EncryptOptions { deadline_ms: self.deadline_ms, ..EncryptOptions::new(APP) };
                let sealed = client.encrypt_document(&options, None, json.as_bytes()).await?;
                let opened = control.decrypt_document(&DecryptOptions::new(APP), None, &sealed.json).await.unwrap();
                self.check(opened.json == json.as_bytes());
            }
            Work::DecryptDocument { json, sealed } => {
                self.check(client.decrypt_document(&decrypting, None, sealed).await?.json == json.as_bytes());
            }
            Work::EncryptFile { data } => {
                let sealed = client.encrypt_file(&EncryptFileOptions::new(APP), data).await?;
                let opened = control.decrypt_file(&DecryptFileOptions::new(APP), &sealed).await.unwrap();
                self.check(opened == *data);
            }
            Work::DecryptFile { data, sealed } => {
                self.check(client.decrypt_file(&DecryptFileOptions::new(APP), sealed).await? == *data);
            }
        }
        Ok(())
    }

    fn check(&self, is_right: bool) {
        assert!(is_right, "call {} got an answer that is not its own", self.number);
    }
}

/// Encrypts and decrypts; the value is `name`.
pub(crate) async fn round_trip(client: &Client, name: &str) -> Result<(), ClientError> {
    let texts = vec![name.to_owned()];
    let envelopes = encrypt(client, &texts, None).await?;
    assert!(decrypt(client, &DecryptOptions::new(APP), &envelopes).await? == texts, "the answer of another call");
    Ok(())
}

async fn encrypt(client: &Client, texts: &[String], deadline_ms: Option<u32>) -> Result<Vec<Value>, ClientError> {
    let options = EncryptOptions { deadline_ms, ..EncryptOptions::new(APP) };
    let values: Vec<_> = texts.iter().map(|text| Scalar::from(text.as_str())).collect();
    client.encrypt(&options, &values).await
}

async fn decrypt(
    client: &Client,
    options: &DecryptOptions<'_>,
    envelopes: &[Value],
) -> Result<Vec<String>, ClientError> {
    let envelopes: Vec<_> = envelopes.iter().map(Value::as_scalar).collect();
    let values = client.decrypt(options, &envelopes).await?;
    Ok(values.into_iter().map(|value| if let Value::Str(text) = value { text } else { String::new() }).collect())
}
