//! The encoded parameters of a message.

use crate::error::MessageFault;
use crate::wire::{ValueHead, WireReader};

/// The parameters of a request or notification, not yet read.
#[derive(Clone, Copy, Debug)]
pub struct RawParams<'a> {
    count: u32,
    reader: WireReader<'a>,
}

impl<'a> RawParams<'a> {
    pub(crate) fn read(mut reader: WireReader<'a>) -> Result<Self, MessageFault> {
        match reader.head()? {
            ValueHead::Array(count) => Ok(RawParams { count, reader }),
            other => Err(MessageFault::ParamsNotAnArray(other.kind())),
        }
    }

    /// How many parameters there are. The methods of this protocol take one, a map.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Size of the parameters in bytes, without the array's head: their memory and, roughly, their work.
    pub fn size(&self) -> usize {
        self.reader.rest().len()
    }

    pub(crate) fn reader(&self) -> WireReader<'a> {
        self.reader
    }
}
