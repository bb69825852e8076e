//! JSON texts of Python objects. Results are read back by Python's own `json`.

use leafseal_protocol::ErrorCode;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::fault::CallFault;

/// Maximum nesting, as that of documents: the engine's own limit is at most this.
const DEPTH_MAX: usize = 1024;

/// Writes the JSON text of a dict, a list, or what they contain. Numbers keep their exact value.
pub(crate) fn write(object: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Result<(), CallFault> {
    Writer { out, depth: 0 }.value(object)
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    depth: usize,
}

impl Writer<'_> {
    fn value(&mut self, object: &Bound<'_, PyAny>) -> Result<(), CallFault> {
        if let Ok(text) = object.cast::<PyString>() {
            return self.string(text);
        }
        if let Ok(dict) = object.cast::<PyDict>() {
            return self.dict(dict);
        }
        if let Ok(list) = object.cast::<PyList>() {
            return self.list(list.iter());
        }
        if let Ok(tuple) = object.cast::<PyTuple>() {
            return self.list(tuple.iter());
        }
        if object.is_none() {
            self.out.extend_from_slice(b"null");
        } else if let Ok(value) = object.cast::<PyBool>() {
            self.out.extend_from_slice(if value.is_true() { b"true" } else { b"false" });
        } else if let Ok(value) = object.cast::<PyInt>() {
            self.integer(value)?;
        } else if let Ok(value) = object.cast::<PyFloat>() {
            let value = value.value();
            if !value.is_finite() {
                return Err(invalid("NaN and infinities cannot be represented in JSON"));
            }
            self.out.extend_from_slice(format!("{value:?}").as_bytes());
        } else {
            let kind = object.get_type().name()?;
            return Err(invalid(format!("an object of type {kind} has no JSON text")));
        }
        Ok(())
    }

    fn dict(&mut self, dict: &Bound<'_, PyDict>) -> Result<(), CallFault> {
        self.descend()?;
        self.out.push(b'{');
        for (index, (name, value)) in dict.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            let name = name.cast::<PyString>().map_err(|_| invalid("a key of a dict must be a str"))?;
            self.string(name)?;
            self.out.push(b':');
            self.value(&value)?;
        }
        self.out.push(b'}');
        self.depth -= 1;
        Ok(())
    }

    fn list<'py>(&mut self, items: impl Iterator<Item = Bound<'py, PyAny>>) -> Result<(), CallFault> {
        self.descend()?;
        self.out.push(b'[');
        for (index, value) in items.enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            self.value(&value)?;
        }
        self.out.push(b']');
        self.depth -= 1;
        Ok(())
    }

    /// A list that contains itself ends here, too.
    fn descend(&mut self) -> Result<(), CallFault> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(invalid(format!("the nesting exceeds {DEPTH_MAX}"))) } else { Ok(()) }
    }

    fn integer(&mut self, value: &Bound<'_, PyInt>) -> Result<(), CallFault> {
        match value.extract::<i64>() {
            Ok(value) => self.out.extend_from_slice(value.to_string().as_bytes()),
            Err(_) => {
                // The method of the type itself: subclasses may print something else.
                let digits = value.py().get_type::<PyInt>().call_method1("__repr__", (value,));
                let digits =
                    digits.map_err(|_| CallFault::new(ErrorCode::NumberOutOfRange, "an int has too many digits"))?;
                self.out.extend_from_slice(digits.cast::<PyString>().map_err(PyErr::from)?.to_str()?.as_bytes());
            }
        }
        Ok(())
    }

    fn string(&mut self, text: &Bound<'_, PyString>) -> Result<(), CallFault> {
        let text = text.to_str().map_err(|_| invalid("a string is not Unicode: it contains a lone surrogate"))?;
        self.out.push(b'"');
        let mut copied = 0;
        for (index, byte) in text.bytes().enumerate() {
            if byte >= 0x20 && byte != b'"' && byte != b'\\' {
                continue;
            }
            self.out.extend_from_slice(&text.as_bytes()[copied..index]);
            match byte {
                b'"' | b'\\' => self.out.extend_from_slice(&[b'\\', byte]),
                control => self.out.extend_from_slice(format!("\\u{control:04x}").as_bytes()),
            }
            copied = index + 1;
        }
        self.out.extend_from_slice(&text.as_bytes()[copied..]);
        self.out.push(b'"');
        Ok(())
    }
}

fn invalid(message: impl Into<String>) -> CallFault {
    CallFault::new(ErrorCode::InvalidDocument, message)
}

/// The object of a JSON text.
pub(crate) fn read<'py>(py: Python<'py>, json: &[u8]) -> Result<Bound<'py, PyAny>, CallFault> {
    static LOAD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    Ok(LOAD.import(py, "leafseal._convert", "load")?.call1((text(py, json)?,))?)
}

/// A JSON text as `str`.
pub(crate) fn text<'py>(py: Python<'py>, json: &[u8]) -> Result<Bound<'py, PyString>, CallFault> {
    let text = std::str::from_utf8(json)
        .map_err(|_| CallFault::new(ErrorCode::ProtocolError, "the engine's answer is not UTF-8"))?;
    Ok(PyString::new(py, text))
}
