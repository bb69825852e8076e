//! The interpreter of Python that this library belongs to.
//!
//! Classes, cached objects and the threads that deliver results exist once per process, and those threads enter the main interpreter. In a
//! sub-interpreter calls would raise exceptions of another interpreter's classes, and the process would not end.

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

use crate::ffi;

/// The number of the main interpreter.
const MAIN: i64 = 0;

static IS_CLAIMED: AtomicBool = AtomicBool::new(false);

/// Checks that the module is loaded for the first time, and in the main interpreter.
pub(crate) fn check(py: Python<'_>) -> PyResult<()> {
    if ffi::interpreter(py) != MAIN {
        return Err(PyImportError::new_err(
            "leafseal works in the main interpreter only, and this is a sub-interpreter",
        ));
    }
    if IS_CLAIMED.load(Ordering::SeqCst) {
        // The classes of the exceptions would be those of the first copy, which handlers of a second one do not catch.
        let message = "leafseal was imported before, and its modules were removed from sys.modules: one process cannot load it twice";
        return Err(PyImportError::new_err(message));
    }
    Ok(())
}

/// Call it when the module has been loaded.
pub(crate) fn claim() {
    IS_CLAIMED.store(true, Ordering::SeqCst);
}
