//! Lists of native values in two allocations, whatever their number: cells, and the text of all strings.

use leafseal_protocol::Scalar;

use crate::fault::CallFault;

/// Bytes of text that a list reserves by its first string, at most.
const RESERVED_MAX: usize = 1 << 20;

/// One value of a list.
#[derive(Clone, Copy)]
pub(crate) enum ListCell {
    Nil,
    Bool(bool),
    UInt(u64),
    Int(i64),
    Float(f64),
    /// A range of the list's text.
    Text {
        start: usize,
        size: u32,
    },
}

/// A list of values.
#[derive(Default)]
pub(crate) struct ValueList {
    pub(crate) cells: Vec<ListCell>,
    text: String,
}

/// A list whose values can be read in place.
pub(crate) trait ListSource: Sync {
    /// The number of values.
    fn len(&self) -> usize;

    /// The value at `index`, which must be below the length.
    fn scalar(&self, index: usize) -> Scalar<'_>;
}

impl ListSource for ValueList {
    fn len(&self) -> usize {
        self.cells.len()
    }

    #[inline]
    fn scalar(&self, index: usize) -> Scalar<'_> {
        match self.cells[index] {
            ListCell::Nil => Scalar::Nil,
            ListCell::Bool(value) => Scalar::Bool(value),
            ListCell::UInt(value) => Scalar::UInt(value),
            ListCell::Int(value) => Scalar::Int(value),
            ListCell::Float(value) => Scalar::Float(value),
            ListCell::Text { start, size } => Scalar::from(&self.text[start..start + size as usize]),
        }
    }
}

impl ValueList {
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { cells: Vec::with_capacity(count), text: String::new() }
    }

    pub(crate) fn push_text(&mut self, text: &str) -> Result<(), CallFault> {
        let size = u32::try_from(text.len()).map_err(|_| too_long(self.cells.len()))?;
        if self.text.capacity() == 0 {
            // Values of a list mostly resemble the first one.
            let left = self.cells.capacity() - self.cells.len();
            self.text.reserve(text.len().saturating_mul(left).min(RESERVED_MAX));
        }
        self.cells.push(ListCell::Text { start: self.text.len(), size });
        self.text.push_str(text);
        Ok(())
    }

    pub(crate) fn push(&mut self, scalar: &Scalar<'_>) -> Result<(), CallFault> {
        match without_text(scalar) {
            Ok(cell) => self.cells.push(cell),
            Err(text) => self.push_text(text)?,
        }
        Ok(())
    }

    /// The text of all strings, in the order of the cells.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn into_text(self) -> String {
        self.text
    }

    /// Appends another list.
    pub(crate) fn append(&mut self, other: Self) {
        let shift = self.text.len();
        self.cells.extend(other.cells.into_iter().map(|cell| match cell {
            ListCell::Text { start, size } => ListCell::Text { start: start + shift, size },
            other => other,
        }));
        if shift == 0 { self.text = other.text } else { self.text.push_str(&other.text) }
    }
}

/// Returns the cell of a value, or the text of a string.
fn without_text<'a>(scalar: &'a Scalar<'_>) -> Result<ListCell, &'a str> {
    Ok(match scalar {
        Scalar::Nil => ListCell::Nil,
        Scalar::Bool(value) => ListCell::Bool(*value),
        Scalar::UInt(value) => ListCell::UInt(*value),
        Scalar::Int(value) => ListCell::Int(*value),
        Scalar::Float(value) => ListCell::Float(*value),
        Scalar::Str(text) => return Err(text.as_str()),
    })
}

/// A list under construction whose text is written by others as bytes.
pub(crate) struct Draft {
    pub(crate) cells: Vec<ListCell>,
    pub(crate) text: Vec<u8>,
}

impl Draft {
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { cells: Vec::with_capacity(count), text: Vec::new() }
    }

    pub(crate) fn push(&mut self, scalar: &Scalar<'_>) -> Result<(), CallFault> {
        match without_text(scalar) {
            Ok(cell) => self.cells.push(cell),
            Err(text) => self.push_text(text)?,
        }
        Ok(())
    }

    pub(crate) fn push_text(&mut self, text: &str) -> Result<(), CallFault> {
        let size = u32::try_from(text.len()).map_err(|_| too_long(self.cells.len()))?;
        self.cells.push(ListCell::Text { start: self.text.len(), size });
        self.text.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// The list. Everything that was appended must be UTF-8.
    pub(crate) fn finish(self) -> ValueList {
        let text = String::from_utf8(self.text).expect("only text was appended");
        ValueList { cells: self.cells, text }
    }
}

/// The error of a string that no list can hold.
pub(crate) fn too_long(index: usize) -> CallFault {
    CallFault::at(leafseal_protocol::ErrorCode::TooLarge, index, format!("value {index} has more than 4 GiB"))
}
