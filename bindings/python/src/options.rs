//! The options of a call, checked once and converted to those of the engine and of the protocol.

use std::time::Duration;

use arrow_schema::DataType;
use leafseal_engine as engine;
use leafseal_protocol as wire;
use pyo3::prelude::*;
use pyo3_arrow::PyDataType;

use crate::fault::Fault;

/// The direction of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Encrypt,
    Decrypt,
}

/// The options of a call.
#[pyclass(frozen, module = "leafseal._native")]
pub(crate) struct Options {
    pub(crate) app: Option<String>,
    pub(crate) role: Option<String>,
    pub(crate) curve: Option<wire::Curve>,
    pub(crate) keying: Option<wire::Keying>,
    pub(crate) select: Option<Vec<String>>,
    pub(crate) skip_sealed: bool,
    pub(crate) strict: bool,
    pub(crate) other_case: Option<wire::OtherCase>,
    pub(crate) on_failure: wire::OnFailure,
    pub(crate) timeout: Option<Duration>,
    /// The type of a decrypted column.
    pub(crate) column_type: Option<DataType>,
}

#[pymethods]
impl Options {
    #[new]
    #[pyo3(signature = (
        *, app=None, role=None, curve=None, keying=None, select=None, skip_sealed=false, strict=false, other_case=None,
        on_failure=None, timeout=None, r#type=None,
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments of Python")]
    fn new(
        app: Option<String>,
        role: Option<String>,
        curve: Option<&str>,
        keying: Option<&str>,
        select: Option<Vec<String>>,
        skip_sealed: bool,
        strict: bool,
        other_case: Option<&str>,
        on_failure: Option<&str>,
        timeout: Option<f64>,
        r#type: Option<&Bound<'_, PyAny>>,
    ) -> Result<Self, Fault> {
        use wire::{Curve, Keying, OnFailure, OtherCase};
        if select.as_ref().is_some_and(Vec::is_empty) {
            return Err(Fault::argument("`select` must contain at least one selector; omit it to select everything"));
        }
        let curves = [("r1", Curve::R1), ("k1", Curve::K1)];
        let keyings = [("field", Keying::Field), ("request", Keying::Request), ("session", Keying::Session)];
        let cases = [("other", OtherCase::Other), ("same", OtherCase::Same), ("refuse", OtherCase::Refuse)];
        let actions = [("fail", OnFailure::Fail), ("leave", OnFailure::Leave), ("null", OnFailure::Null)];
        Ok(Self {
            app,
            role,
            curve: choice("curve", curve, curves)?,
            keying: choice("keying", keying, keyings)?,
            select,
            skip_sealed,
            strict,
            other_case: choice("other_case", other_case, cases)?,
            on_failure: choice("on_failure", on_failure, actions)?.unwrap_or(OnFailure::Fail),
            timeout: timeout.map(|seconds| duration("timeout", seconds)).transpose()?,
            column_type: r#type.map(column_type).transpose()?,
        })
    }
}

/// Converts a number of seconds.
pub(crate) fn duration(name: &str, seconds: f64) -> Result<Duration, Fault> {
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(Fault::argument(format!("`{name}` must be a positive number of seconds"))),
    }
}

fn choice<T, const N: usize>(name: &str, word: Option<&str>, words: [(&str, T); N]) -> Result<Option<T>, Fault> {
    let Some(word) = word else { return Ok(None) };
    let known: Vec<String> = words.iter().map(|(known, _)| format!("\"{known}\"")).collect();
    match words.into_iter().find(|(known, _)| *known == word) {
        Some((_, choice)) => Ok(Some(choice)),
        None => Err(Fault::argument(format!("`{name}` must be one of {}", known.join(", ")))),
    }
}

fn column_type(object: &Bound<'_, PyAny>) -> Result<DataType, Fault> {
    let Ok(name) = object.extract::<String>() else {
        let given: PyDataType = object
            .extract()
            .map_err(|_| Fault::argument("`type` must be the name of a type or a data type of Arrow"))?;
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
            return Err(Fault::argument(
                "`type` must be a type that envelopes can hold, such as \"string\" or \"int64\"",
            ));
        }
    })
}

impl Options {
    /// The app, which every call except inspection needs.
    pub(crate) fn app(&self) -> Result<&str, Fault> {
        self.app.as_deref().ok_or_else(|| Fault::argument("`app` must be set, for the engine or for the call"))
    }

    /// The options of a request, without a deadline.
    pub(crate) fn wire_encrypt(&self) -> Result<wire::EncryptOptions<'_>, Fault> {
        Ok(wire::EncryptOptions {
            curve: self.curve,
            keying: self.keying,
            role: self.role.as_deref(),
            skip_sealed: self.skip_sealed,
            strict: self.strict,
            other_case: self.other_case,
            ..wire::EncryptOptions::new(self.app()?)
        })
    }

    /// The same for decryption.
    pub(crate) fn wire_decrypt(&self) -> Result<wire::DecryptOptions<'_>, Fault> {
        Ok(wire::DecryptOptions {
            role: self.role.as_deref(),
            on_failure: (self.on_failure != wire::OnFailure::Fail).then_some(self.on_failure),
            strict: self.strict,
            other_case: self.other_case,
            ..wire::DecryptOptions::new(self.app()?)
        })
    }

    pub(crate) fn engine_encrypt(&self) -> Result<engine::EncryptOptions<'_>, Fault> {
        Ok(engine::EncryptOptions {
            app: self.app()?,
            curve: self.curve.map(|curve| match curve {
                wire::Curve::R1 => engine::Curve::P256,
                wire::Curve::K1 => engine::Curve::Secp256k1,
            }),
            keying: self.keying.map(|keying| match keying {
                wire::Keying::Field => engine::Keying::Field,
                wire::Keying::Request => engine::Keying::Request,
                wire::Keying::Session => engine::Keying::Session,
            }),
            role: self.role.as_deref(),
            skip_sealed: self.skip_sealed,
        })
    }

    pub(crate) fn engine_decrypt(&self) -> Result<engine::DecryptOptions<'_>, Fault> {
        let on_failure = match self.on_failure {
            wire::OnFailure::Fail => engine::OnFailure::Fail,
            wire::OnFailure::Leave => engine::OnFailure::Leave,
            wire::OnFailure::Null => engine::OnFailure::Null,
        };
        Ok(engine::DecryptOptions { app: self.app()?, role: self.role.as_deref(), on_failure })
    }

    pub(crate) fn engine_other_case(&self) -> engine::CaseFold {
        match self.other_case {
            Some(wire::OtherCase::Refuse) => engine::CaseFold::Refuse,
            Some(wire::OtherCase::Same) => engine::CaseFold::Same,
            Some(wire::OtherCase::Other) | None => engine::CaseFold::Other,
        }
    }
}
