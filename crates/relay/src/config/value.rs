//! The kinds of values in the file: each has its bounds, its reader and its schema in one place.

use std::fmt;
use std::time::Duration;

use leafseal_config::{Kind, Raw, SettingValue};
use leafseal_net::tls::PrivateKeyBatching;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

/// The type for `#[schemars(with = "…")]`.
macro_rules! kinded {
    ($module:ident, $kind:expr) => {
        pub(crate) struct Kinded;

        impl JsonSchema for Kinded {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($module).into()
            }

            fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
                $kind.schema().try_into().expect("a schema")
            }
        }
    };
}

/// A module for `#[serde(with = "…")]`, and in it the type for `#[schemars(with = "…")]`.
macro_rules! kind {
    ($(#[$about:meta])* $module:ident, $type:ty, $kind:expr, $read:expr, $write:expr) => {
        $(#[$about])*
        pub(crate) mod $module {
            use super::*;

            const KIND: Kind<'static> = $kind;

            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$type, D::Error> {
                let read: fn(SettingValue) -> $type = $read;
                deserializer.deserialize_any(Read(KIND)).map(read)
            }

            /// For defaults in the schema.
            pub(crate) fn serialize<S: Serializer>(value: &$type, serializer: S) -> Result<S::Ok, S::Error> {
                let write: fn(&$type) -> SettingValue = $write;
                let json: serde_json::Value = serde_json::from_str(&KIND.write(&write(value))).expect("JSON");
                json.serialize(serializer)
            }

            kinded!($module, KIND);
        }
    };
}

kind!(
    /// A duration, which may be zero.
    duration_or_zero, Duration, Kind::Time(0), |value| value.time(), |duration| SettingValue::Time(*duration)
);
/// An IP address and a port.
pub(crate) mod address {
    use super::*;

    kinded!(address, Kind::Address);
}

kind!(
    /// `auto` or `off`.
    private_key_batching, PrivateKeyBatching, Kind::Choice(std::borrow::Cow::Borrowed(&["auto", "off"])),
    |value| if value.text() == "off" { PrivateKeyBatching::Off } else { PrivateKeyBatching::Auto },
    |batching| SettingValue::Text(if *batching == PrivateKeyBatching::Off { "off" } else { "auto" }.to_owned())
);

/// Reads a value of a kind.
struct Read(Kind<'static>);

impl Read {
    fn read<E: Error>(self, raw: &Raw<'_>) -> Result<SettingValue, E> {
        self.0.read(raw).map_err(E::custom)
    }
}

impl Visitor<'_> for Read {
    type Value = SettingValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<SettingValue, E> {
        self.read(&Raw::Text(text))
    }
}
