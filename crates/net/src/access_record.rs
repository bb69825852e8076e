//! The record of one request or refusal: who, from where, what, and how it ended. The audit log, the lines about failures and refused
//! callers, and the access logs of API and relay are renderings of it, so that a field has one name and one meaning everywhere. A record
//! has no value, no context, no selector and no name of a member.

use std::borrow::Cow;
use std::net::IpAddr;

use leafseal_errors::{Decision, Principal};
use tracing::Value;

use crate::log_line::LogLine;

/// A text, or none.
type OptionalText<'r> = Option<Cow<'r, str>>;

/// A field as renderings receive it.
#[derive(Debug)]
pub enum AccessValue<'r> {
    /// One text.
    Text(&'r str),
    /// The SHA-256 of something.
    Digest(&'r [u8; 32]),
    /// An address.
    Address(IpAddr),
    /// A number.
    Number(u64),
    /// Texts, at least one.
    Texts(&'r [Cow<'r, str>]),
    /// Numbers, at least one.
    Numbers(&'r [u32]),
}

/// What a field holds.
trait RecordField {
    /// As renderings receive it; `None` if it is empty.
    fn value(&self) -> Option<AccessValue<'_>>;

    /// As a line of the log has it.
    fn logged(&self) -> Option<impl Value>;
}

impl RecordField for OptionalText<'_> {
    fn value(&self) -> Option<AccessValue<'_>> {
        self.as_deref().map(AccessValue::Text)
    }

    fn logged(&self) -> Option<impl Value> {
        self.as_deref()
    }
}

impl RecordField for Option<[u8; 32]> {
    fn value(&self) -> Option<AccessValue<'_>> {
        self.as_ref().map(AccessValue::Digest)
    }

    fn logged(&self) -> Option<impl Value> {
        self.map(hex::encode)
    }
}

impl RecordField for Option<IpAddr> {
    fn value(&self) -> Option<AccessValue<'_>> {
        self.map(AccessValue::Address)
    }

    fn logged(&self) -> Option<impl Value> {
        self.map(|address| address.to_string())
    }
}

impl RecordField for Option<u64> {
    fn value(&self) -> Option<AccessValue<'_>> {
        self.map(AccessValue::Number)
    }

    fn logged(&self) -> Option<impl Value> {
        *self
    }
}

impl RecordField for Vec<Cow<'_, str>> {
    fn value(&self) -> Option<AccessValue<'_>> {
        (!self.is_empty()).then_some(AccessValue::Texts(self))
    }

    fn logged(&self) -> Option<impl Value> {
        (!self.is_empty()).then(|| self.join(", "))
    }
}

impl RecordField for Vec<u32> {
    fn value(&self) -> Option<AccessValue<'_>> {
        (!self.is_empty()).then_some(AccessValue::Numbers(self))
    }

    fn logged(&self) -> Option<impl Value> {
        (!self.is_empty()).then(|| self.iter().map(u32::to_string).collect::<Vec<_>>().join(", "))
    }
}

/// Declares the record: each field once, in the order of renderings.
macro_rules! record {
    ($($(#[doc = $about:literal])+ $name:ident: $kind:ty,)+) => {
        /// What is known about one request; fields that are not known are empty.
        #[derive(Debug, Clone, Default)]
        pub struct AccessRecord<'r> {
            $($(#[doc = $about])+ pub $name: $kind,)+
        }

        impl AccessRecord<'_> {
            /// Calls `each` with the name and value of every field that is not empty.
            pub fn each_field<'v>(&'v self, mut each: impl FnMut(&'static str, AccessValue<'v>)) {
                $(if let Some(value) = self.$name.value() {
                    each(stringify!($name), value);
                })+
            }

            /// Writes a line of the log, as a warning. `suppressed` lines were omitted before.
            pub fn warn(&self, message: &str, suppressed: u64) {
                let suppressed = (suppressed > 0).then_some(suppressed);
                tracing::warn!($($name = self.$name.logged(),)+ suppressed, "{message}");
            }

            /// The same as information.
            pub fn inform(&self, message: &str) {
                tracing::info!($($name = self.$name.logged(),)+ "{message}");
            }
        }
    };
}

record! {
    /// Where the request entered.
    entry_point: OptionalText<'r>,
    /// The listener of the relay.
    listener: OptionalText<'r>,
    /// The kind of caller.
    caller: OptionalText<'r>,
    /// The name in the client's certificate.
    client: OptionalText<'r>,
    /// SHA-256 of the certificate.
    certificate: Option<[u8; 32]>,
    /// The id of the API key.
    key: OptionalText<'r>,
    /// The id of the token.
    token: OptionalText<'r>,
    /// The peer's address.
    address: Option<IpAddr>,
    /// The group of the TLS key exchange.
    tls_group: OptionalText<'r>,
    /// What the caller needs permission for.
    operations: Vec<Cow<'r, str>>,
    /// The method: of RPC, or of HTTP at the relay.
    method: OptionalText<'r>,
    /// The call of the API.
    call: OptionalText<'r>,
    /// The app.
    app: OptionalText<'r>,
    /// How it ended: `ok`, or an error code.
    outcome: OptionalText<'r>,
    /// The reason of a refusal, in one sentence.
    reason: OptionalText<'r>,
    /// The HTTP status.
    status: Option<u64>,
    /// Values that were encrypted.
    sealed: Option<u64>,
    /// Those of them with a symmetric key.
    sealed_symmetric: Option<u64>,
    /// Values that were decrypted.
    opened: Option<u64>,
    /// Those of them with a symmetric key.
    opened_symmetric: Option<u64>,
    /// How often canaries were opened.
    canary: Option<u64>,
    /// Envelopes that failed to decrypt in a request that went on.
    failed: Option<u64>,
    /// Places of the first of them.
    positions: Vec<u32>,
    /// Values that were refused because of their role.
    refused: Option<u64>,
    /// Roles of these values.
    refused_roles: Vec<Cow<'r, str>>,
    /// Key versions of the values.
    versions: Vec<u32>,
    /// Roles of the values.
    roles: Vec<Cow<'r, str>>,
    /// Lists that lack some, because there were more than fit.
    cut: Vec<Cow<'r, str>>,
    /// Bytes of the request.
    bytes_in: Option<u64>,
    /// Bytes of the answer.
    bytes_out: Option<u64>,
    /// From the arrival of the request to its end, in microseconds.
    duration_us: Option<u64>,
    /// The id of the request on its connection.
    request: Option<u64>,
    /// The trace that the request belongs to, as its caller says.
    trace: OptionalText<'r>,
}

/// A count, which is empty if it is 0.
pub fn counted(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}

impl<'r> AccessRecord<'r> {
    /// A caller.
    pub fn of_principal(principal: Principal<'r>) -> Self {
        let (token, certificate) = match principal {
            Principal::Token { id } => (Some(id.into()), None),
            Principal::Client { certificate_sha256, .. } => (None, Some(certificate_sha256)),
            _ => (None, None),
        };
        Self {
            caller: Some(principal.kind().into()),
            client: principal.client().map(Cow::Borrowed),
            certificate,
            key: principal.key().map(Cow::Borrowed),
            token,
            ..Self::default()
        }
    }

    /// The caller of a decision, and its refusal.
    pub fn of(decision: &Decision<'r>) -> Self {
        let origin = decision.origin;
        Self {
            entry_point: Some(origin.entry_point.as_str().into()),
            address: origin.address,
            operations: decision.operations.iter().map(|operation| operation.as_str().into()).collect(),
            app: decision.app.map(Cow::Borrowed),
            outcome: decision.refusal.map(|refusal| refusal.code.as_str().into()),
            reason: decision.refusal.map(|refusal| refusal.reason.into()),
            request: origin.request.map(u64::from),
            ..Self::of_principal(decision.principal)
        }
    }

    /// Who causes it, as far as that is known: for limits of lines.
    pub fn source(&self) -> Option<Cow<'_, str>> {
        let name = self.key.as_deref().or(self.client.as_deref()).map(Cow::Borrowed);
        name.or_else(|| self.address.map(|address| address.to_string().into()))
    }

    /// Adds every field to a line.
    pub fn write(&self, line: &mut LogLine) {
        self.each_field(|name, value| match value {
            AccessValue::Text(text) => line.text(name, text),
            AccessValue::Digest(digest) => line.text(name, &hex::encode(digest)),
            AccessValue::Address(address) => line.display(name, format_args!("{address}")),
            AccessValue::Number(number) => line.bare(name, number),
            AccessValue::Texts(texts) => line.text(name, &texts.join(", ")),
            AccessValue::Numbers(numbers) => {
                line.text(name, &numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", "));
            }
        });
    }
}

/// The id of the trace in a `traceparent` (W3C Trace Context): 32 hexadecimal digits in lower case, not all zero. Anything else is `None`:
/// a caller cannot bring other text into a log.
pub fn trace_id(traceparent: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(traceparent).ok()?;
    let mut parts = text.split('-');
    let (version, trace, parent, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let is_hex = |part: &str, size| {
        part.len() == size && part.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
    };
    let is_whole = version != "00" || parts.next().is_none();
    let is_id = is_hex(trace, 32) && trace.bytes().any(|byte| byte != b'0');
    let is_parent = is_hex(parent, 16) && parent.bytes().any(|byte| byte != b'0');
    (is_hex(version, 2) && version != "ff" && is_whole && is_id && is_parent && is_hex(flags, 2)).then_some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_id_is_that_of_a_valid_traceparent_alone() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let of = |text: String| trace_id(text.as_bytes()).map(str::to_owned);
        let good = format!("00-{trace}-b7ad6b7169203331-01");
        assert_eq!(of(good.clone()).as_deref(), Some(trace));
        assert_eq!(of(good.replacen("00-", "cc-", 1) + "-later").as_deref(), Some(trace));
        let wrong = [
            good.replacen("00-", "ff-", 1),
            good.to_uppercase(),
            format!("{good}-more"),
            good.replace(trace, &"0".repeat(32)),
            good.replace("b7ad6b7169203331", &"0".repeat(16)),
            good.replace(trace, &trace[1..]),
            good.replace(trace, &format!("{}\u{e9}", &trace[2..])),
            good[..50].to_owned(),
            String::new(),
        ];
        for text in wrong {
            assert_eq!(of(text.clone()), None, "{text}");
        }
        assert_eq!(trace_id(b"\xff"), None);
    }

    #[test]
    fn renderings_have_the_fields_that_are_not_empty() {
        let record = AccessRecord {
            client: Some("shop".into()),
            versions: vec![1, 2],
            request: Some(0),
            sealed: counted(0),
            ..AccessRecord::default()
        };
        let mut names = Vec::new();
        record.each_field(|name, _| names.push(name));
        assert_eq!(names, ["client", "versions", "request"]);
    }
}
