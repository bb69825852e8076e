//! Lists of native values in two allocations, whatever their number: cells, and the text of all strings.

use leafseal_protocol::Scalar;

use crate::fault::Fault;

/// Bytes of text that a list reserves by its first string, at most.
const RESERVED_MAX: usize = 1 << 20;

/// One value of a list.
#[derive(Clone, Copy)]
pub(crate) enum Cell {
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
pub(crate) struct Values {
    pub(crate) cells: Vec<Cell>,
    text: String,
}

/// A list whose values can be read in place.
pub(crate) trait Source: Sync {
    /// The number of values.
    fn len(&self) -> usize;

    /// The value at `index`, which must be below the length.
    fn scalar(&self, index: usize) -> Scalar<'_>;
}

impl Source for Values {
    fn len(&self) -> usize {
        self.cells.len()
    }

    #[inline]
    fn scalar(&self, index: usize) -> Scalar<'_> {
        match self.cells[index] {
            Cell::Nil => Scalar::Nil,
            Cell::Bool(value) => Scalar::Bool(value),
            Cell::UInt(value) => Scalar::UInt(value),
            Cell::Int(value) => Scalar::Int(value),
            Cell::Float(value) => Scalar::Float(value),
            Cell::Text { start, size } => Scalar::from(&self.text[start..start + size as usize]),
        }
    }
}

impl Values {
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { cells: Vec::with_capacity(count), text: String::new() }
    }

    pub(crate) fn push_text(&mut self, text: &str) -> Result<(), Fault> {
        let size = u32::try_from(text.len()).map_err(|_| too_long(self.cells.len()))?;
        if self.text.capacity() == 0 {
            // Values of a list mostly resemble the first one.
            let left = self.cells.capacity() - self.cells.len();
            self.text.reserve(text.len().saturating_mul(left).min(RESERVED_MAX));
        }
        self.cells.push(Cell::Text { start: self.text.len(), size });
        self.text.push_str(text);
        Ok(())
    }

    pub(crate) fn push(&mut self, scalar: &Scalar<'_>) -> Result<(), Fault> {
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
            Cell::Text { start, size } => Cell::Text { start: start + shift, size },
            other => other,
        }));
        if shift == 0 { self.text = other.text } else { self.text.push_str(&other.text) }
    }
}

/// Returns the cell of a value, or the text of a string.
fn without_text<'a>(scalar: &'a Scalar<'_>) -> Result<Cell, &'a str> {
    Ok(match scalar {
        Scalar::Nil => Cell::Nil,
        Scalar::Bool(value) => Cell::Bool(*value),
        Scalar::UInt(value) => Cell::UInt(*value),
        Scalar::Int(value) => Cell::Int(*value),
        Scalar::Float(value) => Cell::Float(*value),
        Scalar::Str(text) => return Err(text.as_str()),
    })
}

/// A list under construction whose text is written by others as bytes.
pub(crate) struct Draft {
    pub(crate) cells: Vec<Cell>,
    pub(crate) text: Vec<u8>,
}

impl Draft {
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { cells: Vec::with_capacity(count), text: Vec::new() }
    }

    pub(crate) fn push(&mut self, scalar: &Scalar<'_>) -> Result<(), Fault> {
        match without_text(scalar) {
            Ok(cell) => self.cells.push(cell),
            Err(text) => self.push_text(text)?,
        }
        Ok(())
    }

    pub(crate) fn push_text(&mut self, text: &str) -> Result<(), Fault> {
        let size = u32::try_from(text.len()).map_err(|_| too_long(self.cells.len()))?;
        self.cells.push(Cell::Text { start: self.text.len(), size });
        self.text.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// The list. Everything that was appended must be UTF-8.
    pub(crate) fn finish(self) -> Values {
        let text = String::from_utf8(self.text).expect("only text was appended");
        Values { cells: self.cells, text }
    }
}

/// The error of a string that no list can hold.
pub(crate) fn too_long(index: usize) -> Fault {
    Fault::at(leafseal_protocol::ErrorCode::TooLarge, index, format!("value {index} has more than 4 GiB"))
}
