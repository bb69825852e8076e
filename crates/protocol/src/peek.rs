//! A quick look at a request, to schedule it before its parameters are parsed.
//!
//! It never fails and its work is bounded: fields after a long list are not found. [`crate::request`] puts lists last.

use crate::field::APP_SIZE_MAX;
use crate::field::Field;
use crate::message::RawParams;
use crate::wire::{HeadError, ValueHead, WireReader};

/// Values that a look may pass over; names and what is inside lists count too.
const VALUES_MAX: u32 = 256;

/// The fields of a request that are known without parsing it. Each equals the result of the method's `…Params::decode`, if that
/// succeeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peek<'a> {
    /// The tenant.
    pub app: Option<&'a str>,
    /// How long the caller waits, in milliseconds, at least 1.
    pub deadline_ms: Option<u32>,
}

impl<'a> Peek<'a> {
    /// Looks at the parameters of a request.
    pub fn at(params: RawParams<'a>) -> Self {
        let mut peek = Peek::default();
        // Whatever is wrong shows when the parameters are read.
        let _ = peek.look(params.reader());
        peek
    }

    fn look(&mut self, mut reader: WireReader<'a>) -> Result<(), HeadError> {
        let ValueHead::Map(count) = reader.head()? else { return Ok(()) };
        let mut values_left = VALUES_MAX;
        for entries_left in (0..count).rev() {
            let ValueHead::String(size) = reader.head()? else { return Ok(()) };
            match Field::parse(reader.take(size)?) {
                Some(Field::App) => self.app = app(&mut reader)?,
                Some(Field::DeadlineMs) => self.deadline_ms = deadline_ms(&mut reader)?,
                _ if entries_left == 0 => return Ok(()),
                _ => reader.skip_within(1, &mut values_left)?,
            }
            if self.app.is_some() && self.deadline_ms.is_some() {
                return Ok(());
            }
            // The name.
            values_left = values_left.saturating_sub(1);
        }
        Ok(())
    }
}

fn app<'a>(reader: &mut WireReader<'a>) -> Result<Option<&'a str>, HeadError> {
    let ValueHead::String(size) = reader.head()? else { return Ok(None) };
    let name = reader.take(size)?;
    let is_possible = (1..=APP_SIZE_MAX).contains(&name.len());
    Ok(std::str::from_utf8(name).ok().filter(|_| is_possible))
}

fn deadline_ms(reader: &mut WireReader<'_>) -> Result<Option<u32>, HeadError> {
    Ok(match reader.head()? {
        ValueHead::Unsigned(milliseconds) => u32::try_from(milliseconds).ok().filter(|milliseconds| *milliseconds > 0),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{DecryptOptions, EncryptOptions};
    use crate::values::Scalar;
    use crate::{Message, request, write};

    fn params(frame: &[u8]) -> RawParams<'_> {
        match Message::parse(frame) {
            Ok(Message::Request { params, .. }) => params,
            other => panic!("{other:?}"),
        }
    }

    /// A request with these entries of its map: name and encoded value.
    fn frame(entries: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut out = vec![0x94, 0, 1, 0xa1, b'm', 0x91];
        write::map_header(entries.len(), &mut out);
        for (name, value) in entries {
            write::string(name, &mut out);
            out.extend_from_slice(value);
        }
        out
    }

    fn text(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write::string(text, &mut out);
        out
    }

    fn list(count: usize) -> Vec<u8> {
        let mut out = Vec::new();
        write::array_header(count, &mut out);
        out.resize(out.len() + count, 0xc0);
        out
    }

    #[test]
    fn our_own_requests_are_found() {
        let mut out = Vec::new();
        let options = EncryptOptions { deadline_ms: Some(250), role: Some("card"), ..EncryptOptions::new("acme") };
        request::encrypt(1, &options, vec![Scalar::Nil; 60_000].into_iter(), &mut out);
        assert_eq!(Peek::at(params(&out)), Peek { app: Some("acme"), deadline_ms: Some(250) });
        let mut out = Vec::new();
        request::decrypt(1, &DecryptOptions::new("b"), vec![Scalar::Nil; 60_000].into_iter(), &mut out);
        assert_eq!(Peek::at(params(&out)), Peek { app: Some("b"), deadline_ms: None });
        let mut out = Vec::new();
        request::health(1, &mut out);
        assert_eq!(Peek::at(params(&out)), Peek::default());
        assert_eq!(Peek::at(params(&[0x94, 0, 1, 0xa1, b'm', 0x90])), Peek::default());
    }

    #[test]
    fn short_lists_are_passed_over_and_long_ones_are_not() {
        let is_found = |entries: &[(&str, Vec<u8>)]| Peek::at(params(&frame(entries))).app.is_some();
        let behind = |count| is_found(&[("values", list(count)), ("app", text("acme"))]);
        let count_max = VALUES_MAX as usize - 1;
        assert_eq!([0, count_max, count_max + 1, 1_000_000].map(behind), [true, true, false, false]);
        // Many short ones are as long as one.
        assert!(!is_found(&[("values", list(200)), ("select", list(200)), ("app", text("acme"))]));
        // A document is one value, however long it is.
        assert!(is_found(&[("document", text(&"x".repeat(1 << 20))), ("app", text("acme"))]));
    }

    #[test]
    fn invalid_parameters_give_nothing() {
        let long = "x".repeat(APP_SIZE_MAX + 1);
        for app in [vec![0xc0], vec![0x01], text(""), text(&long), vec![0xa1, 0xff]] {
            assert_eq!(Peek::at(params(&frame(&[("app", app)]))).app, None);
        }
        for deadline in [vec![0xc0], vec![0x00], vec![0xff], vec![0xcf, 0, 0, 0, 1, 0, 0, 0, 0]] {
            assert_eq!(Peek::at(params(&frame(&[("deadline_ms", deadline)]))).deadline_ms, None);
        }
        let whole = frame(&[("values", list(9)), ("app", text("acme")), ("deadline_ms", vec![9])]);
        for size in 7..whole.len() {
            let peek = Peek::at(params(&whole[..size]));
            assert!(peek.app.is_none_or(|app| app == "acme") && peek.deadline_ms.is_none(), "{size}: {peek:?}");
        }
    }
}
