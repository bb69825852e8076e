//! The format of a conversation, which `vectors/client/README.md` describes.

use serde::{Deserialize, Serialize};

/// A conversation: the world, the calls, and what must come of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conversation {
    /// The rule that it shows, or the seed that it was made from.
    pub name: String,
    /// Values that differ from `rules.json`.
    #[serde(default, skip_serializing_if = "ScriptedSettings::is_default")]
    pub settings: ScriptedSettings,
    /// The value of every random number from 0 to 1. With it, all pauses must be whole milliseconds.
    pub random: f64,
    /// The addresses in the order of the settings; the first connection goes to the first one.
    pub addresses: Vec<ScriptedAddress>,
    /// The calls, numbered from 1.
    pub calls: Vec<ScriptedCall>,
    /// When the client is closed; nothing counts from then on.
    #[serde(default)]
    pub until: u64,
    /// The transcript.
    #[serde(default)]
    pub expect: Vec<String>,
}

/// Settings of the client that a conversation changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(missing_docs, reason = "they are the settings of every client")]
pub struct ScriptedSettings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_max: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests_in_flight_max: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries_max: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_min_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff_max_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connect_timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_timeout_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abandoned_timeout_ms: Option<u64>,
}

impl ScriptedSettings {
    fn is_default(&self) -> bool {
        *self == ScriptedSettings::default()
    }
}

/// An address, and the outcome of each connection to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedAddress {
    /// One word.
    pub name: String,
    /// The outcomes of the attempts to connect, in order; the last one is repeated.
    pub attempts: Vec<Attempt>,
}

/// An attempt to connect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// `MS accept`, `MS refuse`, `MS tls_failed` or `never`.
    pub outcome: String,
    /// The answer to the first request on this connection and to the following; the last one is repeated: `MS ok`, `MS CODE`,
    /// `MS CODE retry_after MS` or `never`. Without any, no request is answered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
    /// Further events, in milliseconds after the opening: `MS going_away REASON`, `MS connection_error CODE` or `MS close`. The engine
    /// closes the connection after `going_away closed` and `connection_error`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScriptedCall {
    /// When it is made.
    pub at: u64,
    /// `encrypt`, for the app `call-NUMBER`, or `health`.
    #[serde(default = "encrypt", skip_serializing_if = "is_encrypt")]
    pub method: String,
    /// The deadline in the request, in milliseconds from `at`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// When the caller cancels it, if it has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_at: Option<u64>,
}

fn encrypt() -> String {
    "encrypt".into()
}

fn is_encrypt(method: &str) -> bool {
    method == "encrypt"
}

/// Something that comes after a time: the parsed form of `MS WORD REST`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Milliseconds.
    pub after: u64,
    /// The first word.
    pub what: String,
    /// The second word: a code or a reason.
    pub code: String,
    /// The number after `retry_after`.
    pub retry_after: Option<u64>,
}

impl Timed {
    /// Parses one; `None` is `never`.
    ///
    /// # Panics
    /// If the text is none.
    pub fn parse(text: &str) -> Option<Timed> {
        let mut words = text.split(' ');
        let after = words.next().filter(|word| *word != "never")?;
        let after = after.parse().unwrap_or_else(|_| panic!("{text:?} does not begin with milliseconds"));
        let mut next = || words.next().unwrap_or_default().to_owned();
        let (what, code, number) = (next(), next(), next());
        let retry_after = (code == "retry_after").then(|| number.parse().expect("milliseconds"));
        Some(Timed { after, what, code, retry_after })
    }
}

impl ScriptedAddress {
    /// The outcome of an attempt, counted from 1.
    pub fn attempt(&self, number: usize) -> &Attempt {
        &self.attempts[number.min(self.attempts.len()) - 1]
    }
}

impl Attempt {
    /// The answer to a request, counted from 0; `None` is never.
    pub fn answer(&self, number: usize) -> Option<Timed> {
        Timed::parse(self.answers.get(number).or(self.answers.last())?)
    }
}

impl Conversation {
    /// The text of its file: what a person writes on few lines, and the transcript with a line for each event.
    pub fn to_text(&self) -> String {
        let list = |lines: Vec<String>, indent: &str| match lines.is_empty() {
            true => "[]".to_owned(),
            false => format!("[\n{indent}  {}\n{indent}]", lines.join(&format!(",\n{indent}  "))),
        };
        let addresses = self.addresses.iter().map(|address| {
            let attempts = list(address.attempts.iter().map(json).collect(), "    ");
            format!("{{\"name\": {}, \"attempts\": {attempts}}}", json(&address.name))
        });
        let addresses = list(addresses.collect(), "  ");
        let calls = list(self.calls.iter().map(json).collect(), "  ");
        let expect = list(self.expect.iter().map(json).collect(), "  ");
        let settings = match self.settings.is_default() {
            true => String::new(),
            false => format!("  \"settings\": {},\n", json(&self.settings)),
        };
        format!(
            "{{\n  \"name\": {},\n{settings}  \"random\": {},\n  \"addresses\": {addresses},\n  \"calls\": {calls},\n  \
             \"until\": {},\n  \"expect\": {expect}\n}}\n",
            json(&self.name),
            self.random,
            self.until
        )
    }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("it has string keys only")
}
