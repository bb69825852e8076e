//! The engines of a conversation on tokio's paused clock, and the transcript of what reaches them and the callers.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leafseal_client::simulation::{Connecting, SimulatedNetwork, SimulatedStream};
use leafseal_client::{
    Client, ClientError, ClientSettings, ClientTls, EncryptOptions, ErrorCode, ErrorKind, FrameLimits, Scalar,
};
use leafseal_conversations::{Attempt, Conversation, ScriptedCall, Timed};
use leafseal_protocol::{CANCEL, ErrorObject, FrameBuffer, GoingAway, Health, Message, Method, answer, decode_cancel};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep, sleep_until};

const BUFFER_SIZE: usize = 1 << 20;

/// Plays a conversation; returns the transcript.
pub(crate) async fn play(conversation: &Conversation) -> Vec<String> {
    let world = Arc::new(World {
        began: Instant::now(),
        conversation: conversation.clone(),
        attempts: Mutex::default(),
        transcript: Mutex::default(),
    });
    let client = Client::simulated(settings(conversation), Engines(Arc::clone(&world)));
    for (index, call) in conversation.calls.iter().enumerate() {
        tokio::spawn(make_call(client.clone(), Arc::clone(&world), index + 1, call.clone()));
    }
    sleep_until(world.at(conversation.until)).await;
    let mut transcript = std::mem::take(&mut *world.transcript.lock().unwrap());
    transcript.sort();
    transcript.into_iter().map(|(at, line)| format!("{at} {line}")).collect()
}

fn settings(conversation: &Conversation) -> ClientSettings {
    let tls = ClientTls {
        authorities_pem: Vec::new(),
        certificate_chain_pem: Vec::new(),
        private_key_pem: Vec::new().into(),
        ..ClientTls::default()
    };
    let changed = &conversation.settings;
    let mut settings = ClientSettings::new("", tls);
    settings.addresses = conversation.addresses.iter().map(|address| address.name.clone()).collect();
    settings.shuffle_addresses = false;
    let time = |value: Option<u64>, default: Duration| value.map_or(default, Duration::from_millis);
    settings.connections_max = changed.connections_max.unwrap_or(settings.connections_max);
    settings.requests_in_flight_max = changed.requests_in_flight_max.unwrap_or(settings.requests_in_flight_max);
    settings.retries_max = changed.retries_max.unwrap_or(settings.retries_max);
    settings.backoff_min = time(changed.backoff_min_ms, settings.backoff_min);
    settings.backoff_max = time(changed.backoff_max_ms, settings.backoff_max);
    settings.connect_timeout = time(changed.connect_timeout_ms, settings.connect_timeout);
    settings.request_timeout = time(changed.request_timeout_ms, settings.request_timeout);
    settings.abandoned_timeout = time(changed.abandoned_timeout_ms, settings.abandoned_timeout);
    settings
}

async fn make_call(client: Client, world: Arc<World>, number: usize, call: ScriptedCall) {
    sleep_until(world.at(call.at)).await;
    let app = format!("call-{number}");
    let deadline_ms = call.deadline_ms.map(|deadline| u32::try_from(deadline).unwrap());
    let options = EncryptOptions { deadline_ms, ..EncryptOptions::new(&app) };
    let result = async {
        match call.method.as_str() {
            "health" => client.health().await.map(drop),
            _ => client.encrypt(&options, &[Scalar::Nil]).await.map(drop),
        }
    };
    let cancelled = async {
        match call.cancel_at {
            Some(at) => sleep_until(world.at(at)).await,
            None => std::future::pending().await,
        }
    };
    let result = tokio::select! {
        result = result => result.map_or_else(|error| name_of(&error), |()| "ok".to_owned()),
        () = cancelled => "cancelled".to_owned(),
    };
    world.write(format!("result {number} {result}"));
}

fn name_of(error: &ClientError) -> String {
    match error.kind {
        ErrorKind::Engine(code) | ErrorKind::ConnectionRefused(code) => code.as_str().to_owned(),
        ErrorKind::Connect => "connect_failed".into(),
        ErrorKind::Tls => "tls_failed".into(),
        ErrorKind::Timeout => "timeout".into(),
        ErrorKind::ConnectionLost { .. } => "connection_lost".into(),
        ErrorKind::GoingAway => "going_away".into(),
        other => format!("{other:?}"),
    }
}

struct World {
    began: Instant,
    conversation: Conversation,
    /// Attempts to connect to each address.
    attempts: Mutex<BTreeMap<String, usize>>,
    transcript: Mutex<Vec<(u128, String)>>,
}

struct Engines(Arc<World>);

impl World {
    fn at(&self, milliseconds: u64) -> Instant {
        self.began + Duration::from_millis(milliseconds)
    }

    fn write(&self, line: String) {
        self.transcript.lock().unwrap().push((self.began.elapsed().as_millis(), line));
    }
}

impl SimulatedNetwork for Engines {
    fn connect<'a>(&'a self, address: &'a str) -> Connecting<'a> {
        let world = Arc::clone(&self.0);
        Box::pin(async move {
            world.write(format!("connect {address}"));
            let number = {
                let mut attempts = world.attempts.lock().unwrap();
                let number = attempts.entry(address.to_owned()).or_default();
                *number += 1;
                *number
            };
            let known = world.conversation.addresses.iter().find(|known| known.name == address).unwrap();
            let attempt = known.attempt(number).clone();
            let Some(outcome) = Timed::parse(&attempt.outcome) else { return std::future::pending().await };
            sleep(Duration::from_millis(outcome.after)).await;
            match outcome.what.as_str() {
                "accept" => {}
                "refuse" => return Err(io::ErrorKind::ConnectionRefused.into()),
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
            let name = format!("{address}#{number}");
            world.write(format!("opened {name}"));
            let (near, far) = tokio::io::duplex(BUFFER_SIZE);
            tokio::spawn(Engine::new(world, name, attempt, far).run());
            Ok(Box::new(near) as Box<dyn SimulatedStream>)
        })
    }

    fn chance(&self) -> f64 {
        self.0.conversation.random
    }
}

/// The engine's end of a connection.
struct Engine {
    world: Arc<World>,
    name: String,
    attempt: Attempt,
    stream: DuplexStream,
    frames: FrameBuffer,
    /// Its future actions, by time.
    due: BTreeMap<(Instant, usize), Due>,
    /// The calls of requests, by id, as the transcript names them.
    calls: BTreeMap<u32, String>,
    requests: usize,
}

enum Due {
    Answer(u32, Timed),
    Event(Timed),
}

impl Engine {
    fn new(world: Arc<World>, name: String, attempt: Attempt, stream: DuplexStream) -> Self {
        let events = attempt.events.iter().enumerate().map(|(index, event)| {
            let event = Timed::parse(event).unwrap();
            ((Instant::now() + Duration::from_millis(event.after), index), Due::Event(event))
        });
        let due = events.collect();
        let frames = FrameBuffer::new(FrameLimits::default());
        Engine { world, name, attempt, stream, frames, due, calls: BTreeMap::new(), requests: 0 }
    }

    async fn run(mut self) {
        loop {
            let next = self.due.first_key_value().map(|((at, _), _)| *at);
            let timer = async {
                match next {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                read = self.stream.read_buf(self.frames.spare()) => match read {
                    Ok(size) if size > 0 => self.read(),
                    _ => return self.world.write(format!("close {}", self.name)),
                },
                () = timer => if !self.act().await { return },
            }
        }
    }

    fn read(&mut self) {
        while let Some(frame) = self.frames.next_frame().unwrap() {
            let bytes = frame.into_bytes();
            match Message::parse(&bytes).unwrap() {
                Message::Request { id, method, .. } => {
                    let call = match method == Method::Health.as_str() {
                        true => "health".to_owned(),
                        false => number_after(&bytes, b"call-").expect("the app names the call"),
                    };
                    let within = deadline(&bytes).map(|deadline| format!(" within {deadline}")).unwrap_or_default();
                    self.world.write(format!("request {call}{within} on {}", self.name));
                    if let Some(answer) = self.attempt.answer(self.requests) {
                        let at = Instant::now() + Duration::from_millis(answer.after);
                        self.due.insert((at, 1000 + self.requests), Due::Answer(id, answer));
                    }
                    self.requests += 1;
                    self.calls.insert(id, call);
                }
                Message::Notification { method: CANCEL, params } => {
                    let call = &self.calls[&decode_cancel(params).unwrap()];
                    self.world.write(format!("cancel {call} on {}", self.name));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Does what is due; returns whether the connection stays open.
    async fn act(&mut self) -> bool {
        let (_, due) = self.due.pop_first().unwrap();
        let mut out = Vec::new();
        let stays = match due {
            Due::Answer(id, answer) => {
                match answer.what.as_str() {
                    "ok" if self.calls[&id] == "health" => answer::health(id, Health::OK, &mut out),
                    "ok" => {
                        answer::begin_values(id, 1, &mut out);
                        leafseal_protocol::write::scalar(&Scalar::Nil, &mut out);
                    }
                    code => answer::error(id, &error(code, answer.retry_after), &mut out),
                }
                true
            }
            Due::Event(event) => match event.what.as_str() {
                "going_away" => {
                    let reason = GoingAway::ALL.iter().find(|reason| reason.as_str() == event.code).unwrap();
                    answer::going_away(*reason, &mut out);
                    *reason != GoingAway::Closed
                }
                "connection_error" => {
                    answer::connection_error(&error(&event.code, None), &mut out);
                    false
                }
                "close" => false,
                other => panic!("{other}"),
            },
        };
        // A client that has closed the connection is noticed by the next read.
        let _ = self.stream.write_all(&out).await;
        stays
    }
}

fn error(code: &str, retry_after_ms: Option<u64>) -> ErrorObject {
    let code = ErrorCode::parse(code).unwrap();
    ErrorObject { retry_after_ms, ..ErrorObject::new(code, "refused") }
}

fn position_after(bytes: &[u8], word: &[u8]) -> Option<usize> {
    bytes.windows(word.len()).position(|window| window == word).map(|at| at + word.len())
}

fn number_after(bytes: &[u8], word: &[u8]) -> Option<String> {
    let start = position_after(bytes, word)?;
    let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.map(|byte| char::from(*byte)).collect())
}

/// The unsigned integer after the field's name, in MessagePack.
fn deadline(bytes: &[u8]) -> Option<u64> {
    let rest = &bytes[position_after(bytes, b"deadline_ms")?..];
    Some(match rest[0] {
        small @ 0..0x80 => small.into(),
        0xcc => rest[1].into(),
        0xcd => u16::from_be_bytes([rest[1], rest[2]]).into(),
        other => panic!("an integer of type {other:#x}"),
    })
}
