//! What is around the providers.

use std::ffi::OsString;
use std::path::PathBuf;

/// What providers need of the process that they run in.
#[derive(Debug, Clone)]
pub struct ProviderHome {
    /// The folder to which paths in settings are relative.
    pub folder: PathBuf,
    /// This program, which also runs the libraries of devices, in processes of their own.
    pub program: PathBuf,
    /// Variables of the environment that hold secrets of this program, which such processes do not get.
    pub kept_variables: Vec<OsString>,
}
