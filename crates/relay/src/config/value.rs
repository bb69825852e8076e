//! The kinds of values in the file: each has its bounds, its reader and its schema in one place.

use std::fmt;
use std::time::Duration;

use leafseal_config::{Kind, Raw, Value};
use leafseal_net::tls::PrivateKeyBatching;
use leafseal_net::{Network, SchedulingClass};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// A module for `#[serde(with = "…")]`, and in it the type for `#[schemars(with = "…")]`.
macro_rules! kind {
    ($(#[$about:meta])* $module:ident, $type:ty, $kind:expr, $read:expr, $write:expr) => {
        $(#[$about])*
        pub(crate) mod $module {
            use super::*;

            const KIND: Kind<'static> = $kind;

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let read: fn(Value) -> $type = $read;
                deserializer.deserialize_any(Read(KIND)).map(read)
            }

            /// For defaults in the schema.
            pub(crate) fn serialize<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                let write: fn(&$type) -> Value = $write;
                let json: serde_json::Value = serde_json::from_str(&KIND.write(&write(value))).expect("JSON");
                json.serialize(serializer)
            }

            pub(crate) struct Kinded;

            impl JsonSchema for Kinded {
                fn inline_schema() -> bool {
                    true
                }

                fn schema_name() -> std::borrow::Cow<'static, str> {
                    stringify!($module).into()
                }

                fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
                    KIND.schema().try_into().expect("a schema")
                }
            }
        }
    };
}

kind!(
    /// A duration of at least a millisecond.
    duration, Duration, Kind::Time(1), |value| value.time(), |duration| Value::Time(*duration)
);
kind!(
    /// A duration, which may be zero.
    duration_or_zero, Duration, Kind::Time(0), |value| value.time(), |duration| Value::Time(*duration)
);
kind!(
    /// A size in bytes, at least 1.
    size, usize, Kind::Size(1, 1 << 40), number, |size| Value::Number(*size as u64)
);
kind!(
    /// A count of at least 1.
    count, usize, Kind::Count(1, 1 << 24), number, |count| Value::Number(*count as u64)
);
kind!(
    /// A count from 0 to 1,000.
    retries, u32, Kind::Count(0, 1000),
    |value| u32::try_from(value.number()).expect("bounded by its kind"), |count| Value::Number(u64::from(*count))
);
kind!(
    /// An IP address and a port.
    address, std::net::SocketAddr, Kind::Address, |value| value.address(), |address| Value::Address(*address)
);
kind!(
    /// `normal` or `idle`.
    scheduling_class, SchedulingClass, Kind::Choice(std::borrow::Cow::Borrowed(&["normal", "idle"])),
    |value| if value.text() == "idle" { SchedulingClass::Idle } else { SchedulingClass::Normal },
    |class| Value::Text(if *class == SchedulingClass::Idle { "idle" } else { "normal" }.to_owned())
);

kind!(
    /// `auto` or `off`.
    private_key_batching, PrivateKeyBatching, Kind::Choice(std::borrow::Cow::Borrowed(&["auto", "off"])),
    |value| if value.text() == "off" { PrivateKeyBatching::Off } else { PrivateKeyBatching::Auto },
    |batching| Value::Text(if *batching == PrivateKeyBatching::Off { "off" } else { "auto" }.to_owned())
);

fn number(value: Value) -> usize {
    usize::try_from(value.number()).expect("bounded by its kind")
}

/// Reads a value of a kind.
struct Read(Kind<'static>);

impl Read {
    fn read<E: Error>(self, raw: &Raw<'_>) -> Result<Value, E> {
        self.0.read(raw).map_err(E::custom)
    }
}

impl Visitor<'_> for Read {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        self.read(&u64::try_from(number).map_or(Raw::Other, Raw::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.read(&Raw::Text(text))
    }
}

/// A list of IP addresses and networks.
pub(crate) mod networks {
    use super::*;

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Network>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        let parse = |text: &String| text.parse().map_err(|error| D::Error::custom(format_args!("{text:?}: {error}")));
        texts.iter().map(parse).collect()
    }

    pub(crate) fn serialize<S: Serializer>(networks: &[Network], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(networks.iter().map(ToString::to_string))
    }
}
