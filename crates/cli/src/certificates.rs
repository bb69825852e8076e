//! The certificates in a folder, by the names of their files.

use std::path::Path;

use crate::failure::{CommandFailure, CommandOutcome};

/// Names in DIR/certs that clients cannot have.
const RESERVED: [&str; 3] = ["ca", "server", "relay-ca"];

/// Whether a client of this name would overwrite our own files, also on a case-insensitive file system.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.iter().any(|reserved| reserved.eq_ignore_ascii_case(name))
}

/// The clients that have a certificate and a key in `folder`, by name.
pub(crate) fn client_certificates(folder: &Path) -> CommandOutcome<Vec<String>> {
    let mut names = certificate_files(folder)?;
    names.retain(|name| !is_reserved(name) && folder.join(format!("{name}.key")).exists());
    Ok(names)
}

/// The names of the certificates in `folder`, in order.
pub(crate) fn certificate_files(folder: &Path) -> CommandOutcome<Vec<String>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| CommandFailure::reading(folder, &error))?,
    };
    let names = entries.filter_map(|entry| {
        let name = entry.ok()?.file_name().into_string().ok()?;
        // Temporary files of a killed process begin with a dot.
        name.strip_suffix(".pem").filter(|name| !name.starts_with('.')).map(str::to_owned)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    Ok(names)
}
