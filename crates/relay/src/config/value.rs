//! Times and sizes as the file writes them: `"15s"`, `"64MiB"`.

use std::fmt;
use std::time::Duration;

use fieldseal_config::{DURATION_MAX, parse_duration, parse_size};
use fieldseal_net::{Network, SchedulingClass};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};

/// A length of time of at least a millisecond.
pub fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text)
        .filter(|duration| (Duration::from_millis(1)..=DURATION_MAX).contains(duration))
        .ok_or_else(|| D::Error::custom("it takes a time from 1ms to 8760h, such as \"500ms\", \"15s\" or \"2m\""))
}

/// A length of time, which may be none.
pub fn time_or_zero<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text)
        .filter(|duration| *duration <= DURATION_MAX)
        .ok_or_else(|| D::Error::custom("it takes a time from 0s to 8760h, such as \"10s\" or \"2m\""))
}

/// A size in bytes, at least 1.
pub fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    struct Size;
    impl Visitor<'_> for Size {
        type Value = usize;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes from 1 to 1024GiB, such as 65536 or \"64KiB\"")
        }

        fn visit_i64<E: Error>(self, number: i64) -> Result<usize, E> {
            let size = usize::try_from(number).ok().filter(|size| (1..=1 << 40).contains(size));
            size.ok_or_else(|| E::custom("it takes bytes from 1 to 1024GiB"))
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<usize, E> {
            let size = parse_size(text).and_then(|size| i64::try_from(size).ok());
            size.map_or_else(
                || Err(E::custom("it takes bytes, such as 65536 or \"64KiB\"")),
                |size| self.visit_i64(size),
            )
        }
    }
    deserializer.deserialize_any(Size)
}

/// A list of IP addresses and networks.
pub fn networks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Network>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let parse = |text: &String| text.parse().map_err(|error| D::Error::custom(format_args!("{text:?}: {error}")));
    texts.iter().map(parse).collect()
}

/// A count from 0 to 1,000.
pub fn retries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let number = i64::deserialize(deserializer)?;
    let count = u32::try_from(number).ok().filter(|count| *count <= 1000);
    count.ok_or_else(|| D::Error::custom("it takes a whole number from 0 to 1000"))
}

/// `normal` or `idle`.
pub fn scheduling_class<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SchedulingClass, D::Error> {
    match String::deserialize(deserializer)?.as_str() {
        "normal" => Ok(SchedulingClass::Normal),
        "idle" => Ok(SchedulingClass::Idle),
        _ => Err(D::Error::custom("it takes \"normal\" or \"idle\"")),
    }
}

/// A count of at least 1.
pub fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let number = i64::deserialize(deserializer)?;
    let count = usize::try_from(number).ok().filter(|count| (1..=1 << 24).contains(count));
    count.ok_or_else(|| D::Error::custom("it takes a whole number from 1 to 16777216"))
}
