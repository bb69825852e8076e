//! The options of a call, checked once and converted to those of the engine and of the protocol.

use std::time::Duration;

use arrow_schema::DataType;
use leafseal_engine as engine;
use leafseal_protocol::{self as wire, OptionKind, OptionScope, OptionValue, Surface};
use leafseal_service::{decrypt_options, encrypt_options, other_case};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::PyDataType;

use crate::fault::CallFault;

/// The direction of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallDirection {
    Encrypt,
    Decrypt,
}

/// The options of a call.
#[pyclass(frozen, name = "Options", module = "leafseal._native")]
pub(crate) struct OperationOptions {
    pub(crate) app: Option<String>,
    pub(crate) select: Option<Vec<String>>,
    pub(crate) timeout: Option<Duration>,
    /// The type of a decrypted column.
    pub(crate) column_type: Option<DataType>,
    /// The options of the protocol.
    given: wire::OwnedOptions,
}

#[pymethods]
impl OperationOptions {
    #[new]
    #[pyo3(signature = (*, app=None, select=None, timeout=None, r#type=None, **given))]
    fn new(
        app: Option<String>,
        select: Option<Vec<String>>,
        timeout: Option<f64>,
        r#type: Option<&Bound<'_, PyAny>>,
        given: Option<&Bound<'_, PyDict>>,
    ) -> Result<Self, CallFault> {
        if select.as_ref().is_some_and(Vec::is_empty) {
            return Err(CallFault::argument(
                "`select` must contain at least one selector; omit it to select everything",
            ));
        }
        let mut options = wire::OwnedOptions::default();
        for (name, value) in given.into_iter().flatten() {
            read(&name.extract::<String>()?, &value, &mut options)?;
        }
        Ok(Self {
            app,
            select,
            timeout: timeout.map(|seconds| duration("timeout", seconds)).transpose()?,
            column_type: r#type.map(column_type).transpose()?,
            given: options,
        })
    }
}

/// Reads an option of the protocol; `None` is the default.
fn read(name: &str, value: &Bound<'_, PyAny>, options: &mut wire::OwnedOptions) -> Result<(), CallFault> {
    let mut all = wire::EncryptOptions::OPTIONS.iter().chain(wire::DecryptOptions::OPTIONS);
    let known = all.find(|option| option.field.as_str() == name && option.surfaces.contains(&Surface::Python));
    let Some(option) = known else { return Err(CallFault::argument(format!("there is no option `{name}`"))) };
    let wrong = |expected: &str| CallFault::argument(format!("`{name}` must be {expected}"));
    if value.is_none() && option.kind != OptionKind::Flag {
        return Ok(());
    }
    match option.kind {
        OptionKind::Flag => {
            let flag = value.extract().map_err(|_| wrong("a bool"))?;
            options.insert(option.field, OptionValue::Flag(flag));
        }
        OptionKind::Number => {
            let number = value.extract().map_err(|_| wrong("a number"))?;
            options.insert(option.field, OptionValue::Number(number));
        }
        OptionKind::Text => {
            let text: String = value.extract().map_err(|_| wrong("a string"))?;
            options.insert(option.field, OptionValue::Text(&text));
        }
        OptionKind::Words(list) => {
            let words: String = value.extract().map_err(|_| wrong("a string"))?;
            if !list.has_set(&words) {
                let words = list.joined("\"", ", ", ", ");
                return Err(wrong(&format!("some of {words}, each once, separated by commas")));
            }
            options.insert(option.field, OptionValue::Text(&words));
        }
        OptionKind::Word(list) => {
            let word: String = value.extract().map_err(|_| wrong("a string"))?;
            if !list.has(&word) {
                return Err(wrong(&format!("one of {}", list.joined("\"", ", ", ", "))));
            }
            options.insert(option.field, OptionValue::Text(&word));
        }
    }
    Ok(())
}

/// Converts a number of seconds.
pub(crate) fn duration(name: &str, seconds: f64) -> Result<Duration, CallFault> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(CallFault::argument(format!("`{name}` must be a positive number of seconds"))),
    }
}

fn column_type(object: &Bound<'_, PyAny>) -> Result<DataType, CallFault> {
    let Ok(name) = object.extract::<String>() else {
        let given: PyDataType = object
            .extract()
            .map_err(|_| CallFault::argument("`type` must be the name of a type or a data type of Arrow"))?;
        return Ok(given.into_inner());
    };
    Ok(match name.as_str() {
        "string" | "str" => DataType::Utf8,
        "large_string" => DataType::LargeUtf8,
        "string_view" => DataType::Utf8View,
        "binary" => DataType::Binary,
        "large_binary" => DataType::LargeBinary,
        "binary_view" => DataType::BinaryView,
        "bool" | "boolean" => DataType::Boolean,
        "int8" => DataType::Int8,
        "int16" => DataType::Int16,
        "int32" => DataType::Int32,
        "int64" | "int" => DataType::Int64,
        "uint8" => DataType::UInt8,
        "uint16" => DataType::UInt16,
        "uint32" => DataType::UInt32,
        "uint64" => DataType::UInt64,
        "float16" | "halffloat" => DataType::Float16,
        "float32" | "float" => DataType::Float32,
        "float64" | "double" => DataType::Float64,
        _ => {
            return Err(CallFault::argument(
                "`type` must be a type that envelopes can hold, such as \"string\" or \"int64\"",
            ));
        }
    })
}

impl OperationOptions {
    /// The app, which every call except inspection needs.
    pub(crate) fn app(&self) -> Result<&str, CallFault> {
        self.app.as_deref().ok_or_else(|| CallFault::argument("`app` must be set, for the engine or for the call"))
    }

    /// Refuses an option that the call would ignore: a value could be encrypted without a role, say.
    pub(crate) fn check_fit(&self, direction: CallDirection, is_of_documents: bool) -> Result<(), CallFault> {
        let options = match direction {
            CallDirection::Encrypt => wire::EncryptOptions::OPTIONS,
            CallDirection::Decrypt => wire::DecryptOptions::OPTIONS,
        };
        let fits = |field| {
            options.iter().any(|option| option.field == field && (is_of_documents || option.scope == OptionScope::Any))
        };
        match self.given.iter().find(|(field, _)| !fits(*field)) {
            None => Ok(()),
            Some((field, _)) => {
                Err(CallFault::argument(format!("this call has no option `{}`; remove it", field.as_str())))
            }
        }
    }

    /// The options of an inspection, which needs no app.
    pub(crate) fn wire_inspect(&self) -> wire::InspectOptions<'_> {
        wire::InspectOptions::of(self.app.as_deref().unwrap_or_default(), &self.given)
    }

    /// Refuses contexts that are not one for each value, or that come beside one for all.
    pub(crate) fn check_contexts(&self, count: usize, values: Option<usize>) -> Result<(), CallFault> {
        let Some(values) = values else { return Err(CallFault::argument("`contexts` are for lists of values")) };
        if count != values {
            let message = format!("`contexts` must be one context for each value: {count} for {values}");
            return Err(CallFault::argument(message));
        }
        let is_bound = |field: wire::Field| matches!(field.as_str(), "context" | "context_select");
        match self.given.iter().find(|(field, _)| is_bound(*field)) {
            None => Ok(()),
            Some((field, _)) => Err(CallFault::argument(format!(
                "`contexts` are one for each value, so there must be no `{}`",
                field.as_str()
            ))),
        }
    }

    /// The options of a request, without a deadline.
    pub(crate) fn wire_encrypt(&self) -> Result<wire::EncryptOptions<'_>, CallFault> {
        Ok(wire::EncryptOptions::of(self.app()?, &self.given))
    }

    /// The same for decryption. Failures are reported only with an action other than `fail`.
    pub(crate) fn wire_decrypt(&self) -> Result<wire::DecryptOptions<'_>, CallFault> {
        let mut options = wire::DecryptOptions::of(self.app()?, &self.given);
        options.on_failure = options.on_failure.filter(|action| *action != wire::OnFailure::Fail);
        Ok(options)
    }

    /// Whether every selector must match something.
    pub(crate) fn is_strict(&self) -> bool {
        wire::EncryptOptions::of("", &self.given).strict
    }

    pub(crate) fn engine_encrypt(&self) -> Result<engine::EncryptOptions<'_>, CallFault> {
        Ok(encrypt_options(&self.wire_encrypt()?))
    }

    pub(crate) fn engine_decrypt(&self) -> Result<engine::DecryptOptions<'_>, CallFault> {
        Ok(decrypt_options(&self.wire_decrypt()?))
    }

    pub(crate) fn engine_other_case(&self) -> engine::CaseFold {
        other_case(wire::EncryptOptions::of("", &self.given).other_case)
    }
}
