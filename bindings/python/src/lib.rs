//! The native part of the Python package `leafseal`: converts Python objects and Arrow arrays, and runs calls in this process or on a
//! remote engine. `python/leafseal` is the interface that users see.

mod arrow;
mod contexts;
mod core;
mod delivery;
mod fault;
mod ffi;
mod folder;
mod interpreter;
mod json;
mod local;
mod objects;
mod options;
mod remote;
mod values;
mod work;

use pyo3::prelude::*;

#[pymodule(name = "_native")]
fn native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    // Before anything is created that would belong to an interpreter.
    interpreter::check(py)?;
    fault::load(py)?;
    objects::load(py)?;
    module.add_class::<core::Core>()?;
    module.add_class::<core::AsyncioCall>()?;
    module.add_class::<options::OperationOptions>()?;
    module.add_function(wrap_pyfunction!(delivery::end, module)?)?;
    module.add_function(wrap_pyfunction!(delivery::forked, module)?)?;
    interpreter::claim();
    Ok(())
}
