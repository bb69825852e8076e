//! What goes through the pipes to and from the process of a device.
//!
//! ```text
//! message = u32 size of the rest ‖ (u32 size ‖ bytes)…       numbers with the most significant byte first
//! request = operation, associated data, input, then what names the device and its key
//! answer  = outcome, bytes
//! ```

use std::io::{self, Read, Write};

use leafseal_keystore::ProviderError;
use zeroize::Zeroizing;

/// Largest message in bytes. A slot's secrets have less than a hundred, a device's form of them a few thousand.
const MESSAGE_SIZE_MAX: usize = 64 << 10;
/// Fields before those that name the device.
const REQUEST_FIELDS: usize = 3;

const OK: &str = "ok";
const REFUSED: &str = "refused";
const DENIED: &str = "denied";
const UNAVAILABLE: &str = "unavailable";

/// What is asked of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceOperation {
    /// Encrypt the secrets of a slot.
    Wrap,
    /// Decrypt them.
    Unwrap,
}

impl DeviceOperation {
    const ALL: [Self; 2] = [Self::Wrap, Self::Unwrap];

    fn name(self) -> &'static str {
        match self {
            Self::Wrap => "wrap",
            Self::Unwrap => "unwrap",
        }
    }
}

/// One request.
pub struct DeviceRequest {
    /// What is asked.
    pub operation: DeviceOperation,
    /// What the output is bound to, where the device can.
    pub associated_data: Vec<u8>,
    /// The secrets to wrap, or what the device returned for them.
    pub input: Zeroizing<Vec<u8>>,
    /// The device and its key, in words of the kind of device.
    pub device: Vec<String>,
}

impl DeviceRequest {
    pub(super) fn write(&self, output: &mut impl Write) -> io::Result<()> {
        let fixed = [self.operation.name().as_bytes(), &self.associated_data, &self.input];
        let device = self.device.iter().map(String::as_bytes);
        write_message(output, &fixed.into_iter().chain(device).collect::<Vec<_>>())
    }

    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if it is no request.
    pub(super) fn read(input: &mut impl Read) -> io::Result<Self> {
        let mut fields = read_message(input)?;
        if fields.len() < REQUEST_FIELDS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let device = fields.split_off(REQUEST_FIELDS);
        let device = device.iter().map(|field| text(field).map(str::to_owned)).collect::<io::Result<_>>()?;
        let [operation, associated_data, secret] = &mut fields[..] else { unreachable!("split off before") };
        let operation = DeviceOperation::ALL.into_iter().find(|it| it.name().as_bytes() == operation.as_slice());
        Ok(Self {
            operation: operation.ok_or(io::ErrorKind::InvalidData)?,
            associated_data: associated_data.to_vec(),
            input: std::mem::take(secret),
            device,
        })
    }
}

/// What a device answers.
pub(super) type DeviceAnswer = Result<Zeroizing<Vec<u8>>, ProviderError>;

pub(super) fn write_answer(output: &mut impl Write, answer: &DeviceAnswer) -> io::Result<()> {
    let (outcome, bytes) = match answer {
        Ok(bytes) => (OK, bytes.as_slice()),
        Err(ProviderError::Refused) => (REFUSED, [].as_slice()),
        Err(ProviderError::Denied(reason)) => (DENIED, reason.as_bytes()),
        Err(ProviderError::Unavailable(reason)) => (UNAVAILABLE, reason.as_bytes()),
        Err(ProviderError::Bounds(reason)) => (UNAVAILABLE, reason.as_bytes()),
        Err(_) => (UNAVAILABLE, [].as_slice()),
    };
    write_message(output, &[outcome.as_bytes(), bytes])
}

/// # Errors
/// Of the pipe, which ends early if the process does; [`io::ErrorKind::InvalidData`].
pub(super) fn read_answer(input: &mut impl Read) -> io::Result<DeviceAnswer> {
    let mut fields = read_message(input)?;
    let [outcome, bytes] = &mut fields[..] else { return Err(io::ErrorKind::InvalidData.into()) };
    Ok(match text(outcome)? {
        OK => Ok(std::mem::take(bytes)),
        REFUSED => Err(ProviderError::Refused),
        DENIED => Err(ProviderError::Denied(text(bytes)?.to_owned())),
        UNAVAILABLE => Err(ProviderError::Unavailable(text(bytes)?.to_owned())),
        _ => return Err(io::ErrorKind::InvalidData.into()),
    })
}

fn text(field: &[u8]) -> io::Result<&str> {
    std::str::from_utf8(field).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn write_message(output: &mut impl Write, fields: &[&[u8]]) -> io::Result<()> {
    let size = fields.iter().map(|field| size_of::<u32>() + field.len()).sum::<usize>();
    if size > MESSAGE_SIZE_MAX {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let number = |size: usize| u32::try_from(size).expect("below the largest message").to_be_bytes();
    let mut message = Zeroizing::new(Vec::with_capacity(size_of::<u32>() + size));
    message.extend_from_slice(&number(size));
    for field in fields {
        message.extend_from_slice(&number(field.len()));
        message.extend_from_slice(field);
    }
    output.write_all(&message)?;
    output.flush()
}

fn read_message(input: &mut impl Read) -> io::Result<Vec<Zeroizing<Vec<u8>>>> {
    let mut size = [0; size_of::<u32>()];
    input.read_exact(&mut size)?;
    let size = usize::try_from(u32::from_be_bytes(size)).unwrap_or(usize::MAX);
    if size > MESSAGE_SIZE_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut message = Zeroizing::new(vec![0; size]);
    input.read_exact(&mut message)?;
    let (mut rest, mut fields) = (message.as_slice(), Vec::new());
    while !rest.is_empty() {
        let (size, after) = rest.split_first_chunk().ok_or(io::ErrorKind::InvalidData)?;
        let size = usize::try_from(u32::from_be_bytes(*size)).unwrap_or(usize::MAX);
        let (field, after) = after.split_at_checked(size).ok_or(io::ErrorKind::InvalidData)?;
        fields.push(Zeroizing::new(field.to_vec()));
        rest = after;
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(operation: DeviceOperation) -> DeviceRequest {
        let input = Zeroizing::new(vec![7; 88]);
        DeviceRequest { operation, associated_data: b"place".to_vec(), input, device: vec![String::new(), "b".into()] }
    }

    fn written(write: impl FnOnce(&mut Vec<u8>) -> io::Result<()>) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(&mut bytes).expect("written");
        bytes
    }

    #[test]
    fn requests_and_answers_come_back() {
        for operation in DeviceOperation::ALL {
            let sent = request(operation);
            let read = DeviceRequest::read(&mut written(|out| sent.write(out)).as_slice()).expect("read");
            assert_eq!((read.operation, &read.device), (operation, &sent.device));
            assert_eq!((&read.associated_data, &read.input), (&sent.associated_data, &sent.input));
        }
        for answer in [
            Ok(Zeroizing::new(b"secret".to_vec())),
            Ok(Zeroizing::default()),
            Err(ProviderError::Refused),
            Err(ProviderError::Denied("no".into())),
            Err(ProviderError::Unavailable("later".into())),
        ] {
            let bytes = written(|out| write_answer(out, &answer));
            assert_eq!(read_answer(&mut bytes.as_slice()).expect("read"), answer);
        }
    }

    #[test]
    fn whatever_is_cut_or_changed_is_refused_and_nothing_is_allocated_for_it() {
        let whole = written(|out| request(DeviceOperation::Wrap).write(out));
        for end in 0..whole.len() {
            assert!(DeviceRequest::read(&mut &whole[..end]).is_err(), "{end}");
        }
        for (at, value) in (0..whole.len()).flat_map(|at| [0, 1, 0x7f, 0xff].map(|value| (at, value))) {
            let mut changed = whole.clone();
            changed[at] = value;
            // Read as something, or refused; never a panic, and never more than what is there.
            if let Ok(read) = DeviceRequest::read(&mut changed.as_slice()) {
                assert!(read.input.len() + read.associated_data.len() <= whole.len());
            }
        }
        let huge = u32::MAX.to_be_bytes();
        assert_eq!(read_answer(&mut huge.as_slice()).expect_err("huge").kind(), io::ErrorKind::InvalidData);
        let unknown = written(|out| write_message(out, &[b"perhaps", b""]));
        assert_eq!(read_answer(&mut unknown.as_slice()).expect_err("unknown").kind(), io::ErrorKind::InvalidData);
        let large = DeviceRequest { associated_data: vec![0; MESSAGE_SIZE_MAX], ..request(DeviceOperation::Wrap) };
        assert!(large.write(&mut Vec::new()).is_err());
    }
}
