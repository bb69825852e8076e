//! The native part of the Python package `leafseal`: converts Python objects and Arrow arrays, and runs calls in this process or on a
//! remote engine. `python/leafseal` is the interface that users see.
#![forbid(unsafe_code)]

mod arrow;
mod core;
mod delivery;
mod fault;
mod folder;
mod json;
mod local;
mod objects;
mod options;
mod remote;
mod values;
mod work;

use pyo3::prelude::*;

#[pymodule]
#[pyo3(name = "_native")]
mod native {
    #[pymodule_export]
    use crate::core::{Core, Task};
    #[pymodule_export]
    use crate::delivery::{end, forked};
    #[pymodule_export]
    use crate::options::Options;
}
