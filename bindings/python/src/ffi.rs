//! The function of Python's C interface for which PyO3 has no safe one.
#![allow(unsafe_code)]

use pyo3::Python;
use pyo3::ffi::{PyInterpreterState_Get, PyInterpreterState_GetID};

/// The number of the interpreter that `_py` is attached to.
pub(crate) fn interpreter(_py: Python<'_>) -> i64 {
    // SAFETY: both functions need a thread that is attached to an interpreter, which `Python` proves.
    unsafe { PyInterpreterState_GetID(PyInterpreterState_Get()) }
}
