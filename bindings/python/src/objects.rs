//! Python objects as inputs of calls, and results as Python objects in the form of the input.

use std::sync::Arc;

use arrow_array::{ArrayRef, new_empty_array};
use arrow_schema::{DataType, Field, FieldRef};
use leafseal_client::{Curve, Inspection, Scheme, TextKind};
use leafseal_protocol::{ErrorCode, Scalar, ValueFault};
use pyo3::exceptions::{PyException, PyImportError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyCapsule, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use pyo3_arrow::{PyArray, PyArrayReader, PyChunkedArray};

use crate::arrow::{self, Column};
use crate::contexts::Contexts;
use crate::fault::CallFault;
use crate::json;
use crate::options::CallDirection;
use crate::remote;
use crate::values::{ListCell, ListSource, ValueList};
use crate::work::{Done, Input, WorkOutput, WorkReport};

/// The form of an input, which its result has, too.
pub(crate) enum InputForm {
    /// A list of values or inspections.
    List,
    /// One inspection.
    One,
    /// One array of Arrow.
    Array { text_type: DataType },
    /// Several.
    Chunks { text_type: DataType },
    /// A JSON text in a `str`.
    Text,
    /// A JSON text in `bytes`.
    Bytes,
    /// A dict or list.
    Object,
    /// Nothing.
    Nothing,
}

/// Reads the input of `method`.
pub(crate) fn input(
    method: &str,
    direction: CallDirection,
    object: &Bound<'_, PyAny>,
) -> Result<(Input, InputForm), CallFault> {
    match method {
        "document" => document(object),
        "values" => values(direction, object),
        "documents" => documents(object),
        "inspect" => envelopes(object),
        "ready" => Ok((Input::Ready, InputForm::Nothing)),
        _ => Err(CallFault::argument("no such method")),
    }
}

fn document(object: &Bound<'_, PyAny>) -> Result<(Input, InputForm), CallFault> {
    if let Ok(text) = object.cast::<PyString>() {
        let text = text.to_str().map_err(|_| {
            let message = "the document is not Unicode: it contains a lone surrogate";
            CallFault::new(ErrorCode::InvalidDocument, message)
        })?;
        return Ok((Input::Document(text.as_bytes().to_vec()), InputForm::Text));
    }
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok((Input::Document(bytes.as_bytes().to_vec()), InputForm::Bytes));
    }
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return Ok((Input::Document(bytes.to_vec()), InputForm::Bytes));
    }
    if object.is_instance_of::<PyDict>() || object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        let mut text = Vec::new();
        json::write(object, &mut text)?;
        return Ok((Input::Document(text), InputForm::Object));
    }
    let kind = object.get_type().name()?;
    Err(CallFault::argument(format!(
        "the document must be a dict, a list, or JSON text in str or bytes, not {kind}; encrypt_many takes single values"
    )))
}

fn values(direction: CallDirection, object: &Bound<'_, PyAny>) -> Result<(Input, InputForm), CallFault> {
    let py = object.py();
    if let Ok(list) = object.cast::<PyList>() {
        return Ok((Input::List(list_of(list.len(), list.iter())?), InputForm::List));
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return Ok((Input::List(list_of(tuple.len(), tuple.iter())?), InputForm::List));
    }
    if object.hasattr(intern!(py, "__arrow_c_array__"))? || object.hasattr(intern!(py, "__arrow_c_stream__"))? {
        return columns(direction, object);
    }
    let kind = object.get_type().name()?;
    Err(CallFault::argument(format!("the values must be a list, a tuple or an Arrow array, not {kind}")))
}

fn columns(direction: CallDirection, object: &Bound<'_, PyAny>) -> Result<(Input, InputForm), CallFault> {
    let Chunks { arrays, field, is_one } = chunks(object)?;
    let (mut first, mut columns) = (0, Vec::with_capacity(arrays.len()));
    for array in &arrays {
        columns.push(Column::new(array, &field, direction, first)?);
        first += array.len();
    }
    if arrays.is_empty() {
        // A type without a form is refused whatever the number of chunks.
        Column::new(&new_empty_array(field.data_type()), &field, direction, 0)?;
    }
    let text_type = arrow::text_type(field.data_type(), direction);
    let form = if is_one { InputForm::Array { text_type } } else { InputForm::Chunks { text_type } };
    Ok((Input::Columns(columns), form))
}

/// Reads the contexts of values: a list of str and int, or a column of strings or integers.
pub(crate) fn contexts(object: &Bound<'_, PyAny>) -> Result<Contexts, CallFault> {
    let py = object.py();
    let mut contexts = Contexts::default();
    if object.is_instance_of::<PyList>() || object.is_instance_of::<PyTuple>() {
        for item in object.try_iter()? {
            push_context(&mut contexts, &item?)?;
        }
    } else if object.hasattr(intern!(py, "__arrow_c_array__"))? || object.hasattr(intern!(py, "__arrow_c_stream__"))? {
        let Chunks { arrays, field, .. } = chunks(object)?;
        for array in &arrays {
            let column = Column::new(array, &field, CallDirection::Encrypt, contexts.len());
            contexts.push_all(&column.map_err(CallFault::of_contexts)?)?;
        }
    } else {
        let kind = object.get_type().name()?;
        return Err(CallFault::argument(format!("the contexts must be a list, a tuple or an Arrow array, not {kind}")));
    }
    Ok(contexts)
}

fn push_context(contexts: &mut Contexts, item: &Bound<'_, PyAny>) -> Result<(), CallFault> {
    if let Ok(text) = item.cast::<PyString>() {
        let text = text.to_str().map_err(|_| contexts.wrong(&ValueFault::InvalidUtf8.to_string()))?;
        return contexts.push_text(text);
    }
    if item.is_none() {
        return contexts.push(&Scalar::Nil);
    }
    if item.is_instance_of::<PyInt>()
        && !item.is_instance_of::<PyBool>()
        && let Ok(number) = item.extract::<i128>()
    {
        return contexts.push_text(&number.to_string());
    }
    Err(contexts.wrong("must be a str or an int"))
}

/// The arrays of an object with the interface of Arrow.
struct Chunks {
    arrays: Vec<ArrayRef>,
    field: FieldRef,
    /// Whether it is an array, not a stream of them.
    is_one: bool,
}

fn chunks(object: &Bound<'_, PyAny>) -> Result<Chunks, CallFault> {
    let py = object.py();
    let unreadable = |error: PyErr| CallFault::argument(format!("the Arrow array cannot be read: {error}"));
    if object.hasattr(intern!(py, "__arrow_c_array__"))? {
        let pair = object.call_method0(intern!(py, "__arrow_c_array__")).map_err(|error| of_library(py, error))?;
        let (schema, array): (Bound<'_, PyCapsule>, Bound<'_, PyCapsule>) = pair.extract().map_err(unreadable)?;
        let (array, field) = PyArray::from_arrow_pycapsule(&schema, &array).map_err(unreadable)?.into_inner();
        return Ok(Chunks { arrays: vec![array], field, is_one: true });
    }
    let stream = object.call_method0(intern!(py, "__arrow_c_stream__")).map_err(|error| of_library(py, error))?;
    let stream = stream.cast_into::<PyCapsule>().map_err(|error| unreadable(error.into()))?;
    let reader = PyArrayReader::from_arrow_pycapsule(&stream).and_then(PyArrayReader::into_reader);
    let reader = reader.map_err(unreadable)?;
    let field = reader.field();
    // The message of an error may be that of the library, and contain values.
    let arrays = reader.collect::<Result<_, _>>();
    let arrays = arrays.map_err(|_| CallFault::argument("the Arrow array cannot be read: its stream failed"))?;
    Ok(Chunks { arrays, field, is_one: false })
}

/// The error of a library that cannot give its values. Its message may contain them, so only the type is named.
fn of_library(py: Python<'_>, error: PyErr) -> CallFault {
    if error.is_instance_of::<PyImportError>(py) || !error.is_instance_of::<PyException>(py) {
        return CallFault::Python(error);
    }
    match error.get_type(py).name() {
        Ok(name) => CallFault::argument(format!("the Arrow array cannot be read: its library raised {name}")),
        Err(error) => CallFault::Python(error),
    }
}

/// A column of JSON texts; its result has the same type.
fn documents(object: &Bound<'_, PyAny>) -> Result<(Input, InputForm), CallFault> {
    let (input, form) = columns(CallDirection::Decrypt, object)?;
    let Input::Columns(columns) = input else { unreachable!("read as columns") };
    Ok((Input::Documents(columns), form))
}

fn list_of<'py>(count: usize, items: impl Iterator<Item = Bound<'py, PyAny>>) -> Result<ValueList, CallFault> {
    let mut values = ValueList::with_capacity(count);
    for (index, item) in items.enumerate() {
        if let Ok(text) = item.cast::<PyString>() {
            let text = text.to_str().map_err(|_| CallFault::value(index, &ValueFault::InvalidUtf8))?;
            values.push_text(text)?;
        } else {
            values.cells.push(cell(index, &item)?);
        }
    }
    Ok(values)
}

fn cell(index: usize, item: &Bound<'_, PyAny>) -> Result<ListCell, CallFault> {
    if item.is_none() {
        return Ok(ListCell::Nil);
    }
    if let Ok(value) = item.cast::<PyBool>() {
        return Ok(ListCell::Bool(value.is_true()));
    }
    if item.is_instance_of::<PyInt>() {
        if let Ok(value) = item.extract::<u64>() {
            return Ok(ListCell::UInt(value));
        }
        let value = item.extract::<i64>();
        return value.map(ListCell::Int).map_err(|_| {
            let message = format!("value {index} must be an int from -2^63 to 2^64 - 1");
            CallFault::at(ErrorCode::NumberOutOfRange, index, message)
        });
    }
    if let Ok(value) = item.cast::<PyFloat>() {
        let value = value.value();
        return if value.is_finite() {
            Ok(ListCell::Float(value))
        } else {
            Err(CallFault::value(index, &ValueFault::NotFinite))
        };
    }
    let kind = item.get_type().name()?;
    let message = format!("value {index} must be None, a bool, an int, a float or a str, not {kind}");
    Err(CallFault::at(ErrorCode::InvalidParams, index, message))
}

fn envelopes(object: &Bound<'_, PyAny>) -> Result<(Input, InputForm), CallFault> {
    if let Ok(text) = object.extract::<String>() {
        return Ok((Input::Envelopes(vec![text]), InputForm::One));
    }
    let texts = object.extract::<Vec<String>>();
    let texts = texts.map_err(|_| CallFault::argument("the envelopes must be a str or a list of str"))?;
    Ok((Input::Envelopes(texts), InputForm::List))
}

/// Makes the columns of a result; needs no interpreter.
pub(crate) fn arrays(
    chunks: Vec<ValueList>,
    direction: CallDirection,
    text_type: &DataType,
    wanted: Option<&DataType>,
) -> Result<(Vec<ArrayRef>, DataType), CallFault> {
    let kind = match (direction, wanted) {
        (CallDirection::Encrypt, _) => text_type.clone(),
        (CallDirection::Decrypt, Some(wanted)) => wanted.clone(),
        (CallDirection::Decrypt, None) => arrow::common_type(&chunks, text_type)?,
    };
    let (mut first, mut arrays) = (0, Vec::with_capacity(chunks.len()));
    for chunk in chunks {
        let count = chunk.cells.len();
        arrays.push(arrow::array(chunk, &kind, first)?);
        first += count;
    }
    Ok((arrays, kind))
}

/// The Python object of a result.
pub(crate) fn result<'py>(
    py: Python<'py>,
    done: Done,
    form: &InputForm,
    direction: CallDirection,
    wanted: Option<&DataType>,
) -> Result<Bound<'py, PyAny>, CallFault> {
    Ok(match (done.output, form) {
        (WorkOutput::List(values), _) => {
            PyList::new(py, (0..values.len()).map(|index| ListElement(Ok(values.scalar(index)))))?.into_any()
        }
        (WorkOutput::Answer(answer), _) => {
            let mut values = remote::values(&answer)?;
            PyList::new(py, (0..values.len()).map(|_| ListElement(values.next())))?.into_any()
        }
        (WorkOutput::Columns(chunks), InputForm::Array { text_type }) => {
            let (mut arrays, _) = py.detach(|| arrays(chunks, direction, text_type, wanted))?;
            let array = arrays.pop().ok_or_else(|| CallFault::argument("the array has no chunk"))?;
            PyArray::from_array_ref(array).into_pyobject(py)?.into_any()
        }
        (WorkOutput::Columns(chunks), InputForm::Chunks { text_type }) => {
            let (arrays, kind) = py.detach(|| arrays(chunks, direction, text_type, wanted))?;
            PyChunkedArray::try_new(arrays, Arc::new(Field::new("", kind, true)))?.into_pyobject(py)?.into_any()
        }
        (WorkOutput::Columns(_), _) => return Err(CallFault::argument("no form for a column")),
        (WorkOutput::Document(json), InputForm::Bytes) => PyBytes::new(py, &json).into_any(),
        (WorkOutput::Document(json), InputForm::Text) => json::text(py, &json)?.into_any(),
        (WorkOutput::Document(json), _) => json::read(py, &json)?,
        (WorkOutput::Inspected(inspected), InputForm::One) => match inspected.into_iter().next() {
            Some(one) => inspection(py, one)?,
            None => return Err(CallFault::argument("nothing to inspect")),
        },
        (WorkOutput::Inspected(inspected), _) => {
            let all: Result<Vec<_>, CallFault> = inspected.into_iter().map(|one| inspection(py, one)).collect();
            PyList::new(py, all?)?.into_any()
        }
        (WorkOutput::Ready, _) => py.None().into_bound(py),
    })
}

/// A value on its way into a list of Python: each is converted where it will be, without another list in between.
struct ListElement<'a>(Result<Scalar<'a>, CallFault>);

impl<'py> IntoPyObject<'py> for ListElement<'_> {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        scalar(py, self.0?)
    }
}

fn scalar<'py>(py: Python<'py>, scalar: Scalar<'_>) -> PyResult<Bound<'py, PyAny>> {
    Ok(match scalar {
        // Python checks the bytes while it copies them; as a `&str` they would be checked twice.
        Scalar::Str(text) => PyString::from_bytes(py, text.as_bytes())?.into_any(),
        Scalar::Nil => py.None().into_bound(py),
        Scalar::Bool(value) => PyBool::new(py, value).to_owned().into_any(),
        Scalar::UInt(value) => value.into_pyobject(py)?.into_any(),
        Scalar::Int(value) => value.into_pyobject(py)?.into_any(),
        Scalar::Float(value) => PyFloat::new(py, value).into_any(),
    })
}

/// Finds the functions that make inspections and reports, as [`crate::fault::load`].
pub(crate) fn load<'py>(py: Python<'py>) -> PyResult<(&'py Bound<'py, PyAny>, &'py Bound<'py, PyAny>)> {
    static INSPECTION: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    static REPORT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let module = "leafseal._types";
    Ok((INSPECTION.import(py, module, "inspection")?, REPORT.import(py, module, "Report")?))
}

fn inspection<'py>(py: Python<'py>, one: Inspection) -> Result<Bound<'py, PyAny>, CallFault> {
    let (scheme, curve) = (one.scheme.unwrap_or(Scheme::PublicKey).as_str(), one.curve.map(Curve::as_str));
    let kind = match one.kind {
        TextKind::String => "string",
        TextKind::Number => "number",
        TextKind::Boolean => "boolean",
    };
    let ephemeral = one.ephemeral.map(|ephemeral| PyBytes::new(py, &ephemeral));
    let key_id = one.symmetric_key_id.map(|id| PyBytes::new(py, &id));
    let (make, _) = load(py)?;
    let seal = (scheme, one.version, curve, ephemeral, key_id, one.from_public_key.unwrap_or(false));
    let facts = (seal, kind, one.debug, one.role, one.origin, one.encrypted_at, one.key_version);
    Ok(make.call1(facts)?)
}

/// The Python object of a report.
pub(crate) fn report<'py>(py: Python<'py>, report: &WorkReport) -> Result<Bound<'py, PyAny>, CallFault> {
    let failures = match report.failed_paths.is_empty() {
        false => PyList::new(py, &report.failed_paths)?,
        true => PyList::new(py, &report.failed_indexes)?,
    };
    let (_, make) = load(py)?;
    let counts = (
        report.count,
        &report.matched,
        report.resealed,
        report.skipped,
        report.failed,
        failures,
        report.symmetric,
        report.rewrapped,
    );
    Ok(make.call1(counts)?)
}
