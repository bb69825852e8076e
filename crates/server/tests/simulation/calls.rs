//! Calls whose content identifies them, so that an answer to another call is detected, and how long their callers wait.

use std::time::Duration;

use leafseal_client::{
    Answer, Client, ClientError, Curve, DecryptFileOptions, DecryptOptions, EncryptFileOptions, EncryptOptions,
    ErrorCode, ErrorKind, Keying, Scalar, Value,
};
use leafseal_protocol::{Health, request};
use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::timeout;

use crate::journal::{End, Open};
use crate::material::{APPS, Material, document_of, file_of, json, texts, values};
use crate::world::{Bounds, World};

/// The work of a call.
#[derive(Clone, Debug)]
enum Work {
    Health,
    Encrypt { texts: Vec<String>, keying: Keying, curve: Curve },
    Decrypt,
    EncryptDocument { json: String },
    DecryptDocument,
    EncryptFile { data: String },
    DecryptFile,
}

pub(crate) struct Call {
    /// Its index within the schedule; also selects the encrypted values that it decrypts.
    number: usize,
    app: usize,
    work: Work,
    deadline_ms: Option<u32>,
    /// When the caller drops the call, if it does.
    patience: Option<Duration>,
    /// The pause after the previous call.
    pub pause: Duration,
}

impl Call {
    pub(crate) fn random(number: usize, random: &mut StdRng) -> Call {
        let name = format!("call {number}");
        let (count, padding) = ([1, 2, 7, 40, 400][random.random_range(0..5)], [0, 10, 400][random.random_range(0..3)]);
        let curve = if random.random() { Curve::R1 } else { Curve::K1 };
        let text = texts(&name, count, padding);
        let work = match random.random_range(0..9) {
            0 => Work::Health,
            // A key agreement for each value takes real time.
            1 => Work::Encrypt { texts: texts(&name, count.min(20), padding), keying: Keying::Field, curve },
            2 => Work::Encrypt { texts: text, keying: Keying::Request, curve },
            3 => Work::Encrypt { texts: text, keying: Keying::Session, curve },
            4 => Work::EncryptDocument { json: json(&name, &text) },
            5 => Work::DecryptDocument,
            6 => Work::EncryptFile { data: json(&name, &text) },
            7 => Work::DecryptFile,
            _ => Work::Decrypt,
        };
        Call {
            number,
            app: random.random_range(0..APPS.len()),
            work,
            deadline_ms: random.random_bool(0.2).then(|| random.random_range(1..25)),
            patience: random.random_bool(0.25).then(|| Duration::from_millis(random.random_range(0..25))),
            pause: Duration::from_millis(random.random_range(0..15)),
        }
    }

    /// Makes the call and checks its result.
    pub(crate) async fn make(&self, world: &World, client: usize, engine: &Client) -> Option<End> {
        let open = world.journal.begin(client);
        let asking = engine.call_raw(self.deadline_ms, |id, deadline_ms, out| {
            self.encode(world.material, id, deadline_ms, out);
            if !matches!(self.work, Work::Health) {
                open.note_request(out);
            }
        });
        let asked = match self.patience {
            Some(patience) => timeout(patience, asking).await.ok()?,
            None => asking.await,
        };
        let end = match asked {
            Ok(answer) => {
                self.check(world, &open, &answer);
                End::Answered
            }
            Err(error) => {
                assert!(self.fits(world, client, &open, &error), "call {} of client {client}: {error:?}", self.number);
                End::Failed(error.kind)
            }
        };
        open.end(end);
        Some(end)
    }

    fn encode(&self, material: &Material, id: u32, deadline_ms: Option<u32>, out: &mut Vec<u8>) {
        let app = APPS[self.app];
        let encrypting = EncryptOptions { deadline_ms, ..EncryptOptions::new(app) };
        let decrypting = DecryptOptions { deadline_ms, ..DecryptOptions::new(app) };
        let sealed = &material.sealed[self.app][self.number];
        match &self.work {
            Work::Health => request::health(id, out),
            Work::Encrypt { texts, keying, curve } => {
                let options = EncryptOptions { keying: Some(*keying), curve: Some(*curve), ..encrypting };
                request::encrypt(id, &options, texts.iter().map(|text| Scalar::from(text.as_str())), out);
            }
            Work::Decrypt => request::decrypt(id, &decrypting, sealed.envelopes.iter().map(Value::as_scalar), out),
            Work::EncryptDocument { json } => {
                request::encrypt_document(id, &encrypting, None, json.as_bytes(), out);
            }
            Work::DecryptDocument => request::decrypt_document(id, &decrypting, None, &sealed.document, out),
            Work::EncryptFile { data } => {
                let options = EncryptFileOptions { deadline_ms, ..EncryptFileOptions::new(app) };
                request::encrypt_file(id, &options, data.as_bytes(), out);
            }
            Work::DecryptFile => {
                let options = DecryptFileOptions { deadline_ms, ..DecryptFileOptions::new(app) };
                request::decrypt_file(id, &options, &sealed.file, out);
            }
        }
    }

    /// Checks that the answer belongs to this call, and arrived as soon as such a network allows.
    fn check(&self, world: &World, open: &Open, answer: &Answer) {
        let (app, material, result) = (APPS[self.app], world.material, answer.result());
        let sealed = &material.sealed[self.app][self.number];
        let is_right = match &self.work {
            Work::Health => Health::decode(result).is_ok_and(|health| {
                health.status == Health::OK || (world.is_shutting_down() && health.status == Health::DRAINING)
            }),
            Work::Encrypt { texts, .. } => {
                let envelopes = values(result);
                let envelopes = envelopes.iter().map(Value::as_scalar);
                let opened = material.ask(|out| request::decrypt(1, &DecryptOptions::new(app), envelopes, out), values);
                is_texts(&opened, texts)
            }
            Work::Decrypt => is_texts(&values(result), &sealed.texts),
            Work::EncryptDocument { json } => {
                let document = document_of(result);
                let options = DecryptOptions::new(app);
                let opened =
                    material.ask(|out| request::decrypt_document(1, &options, None, &document, out), document_of);
                opened == json.as_bytes()
            }
            Work::DecryptDocument => document_of(result) == sealed.json.as_bytes(),
            Work::EncryptFile { data } => {
                let file = file_of(result);
                let options = DecryptFileOptions::new(app);
                material.ask(|out| request::decrypt_file(1, &options, &file, out), file_of) == data.as_bytes()
            }
            Work::DecryptFile => file_of(result) == sealed.json.as_bytes(),
        };
        assert!(is_right, "call {} got an answer that is not its own", self.number);
        world.assert_in_time(self.number, open.elapsed());
    }

    /// While an engine serves some address and the network does no harm, only the caller's own deadline may end a call without its answer.
    fn fits(&self, world: &World, client: usize, open: &Open, error: &ClientError) -> bool {
        let trouble = world.journal.trouble(client);
        let is_over = |time: Duration| open.elapsed() >= time;
        // A retry would have taken longer than the deadline allows.
        let longest = open.elapsed() + world.retry_pause_max();
        let deadline = self.deadline_ms.map(|limit| Duration::from_millis(limit.into()));
        let has_no_time = world.addresses() > 1 && deadline.is_some_and(|deadline| longest >= deadline);
        match error.kind {
            ErrorKind::Connect => trouble.is_harmed || !world.is_listening() || has_no_time,
            ErrorKind::Timeout => trouble.is_silent && is_over(world.request_timeout()),
            ErrorKind::ConnectionLost { .. } => trouble.is_harmed || world.is_closing(),
            ErrorKind::Engine(ErrorCode::DeadlineExceeded) => {
                self.deadline_ms.is_some_and(|limit| is_over(Duration::from_millis(limit.into())))
            }
            ErrorKind::GoingAway => trouble.is_harmed || world.is_only_one_shutting_down() || has_no_time,
            ErrorKind::Engine(ErrorCode::Unavailable) => {
                !world.is_listening() || has_no_time || (trouble.is_harmed && world.addresses() > 1)
            }
            // A request whose deadline would not be met is refused early.
            ErrorKind::Engine(ErrorCode::Overloaded) => world.bounds == Bounds::Tight || self.deadline_ms.is_some(),
            // A frame that took too long.
            ErrorKind::ConnectionRefused(ErrorCode::DeadlineExceeded) => trouble.is_silent,
            _ => false,
        }
    }
}

fn is_texts(values: &[Value], texts: &[String]) -> bool {
    values.len() == texts.len()
        && values.iter().zip(texts).all(|(value, text)| matches!(value, Value::Str(value) if value == text))
}
