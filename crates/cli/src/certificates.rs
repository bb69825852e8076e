//! The certificates in a folder, by the names of their files: listed, read and written.

use std::path::{Path, PathBuf};

use leafseal_engine::admin::{Readers, replace_file};
use leafseal_engine::system_random;
use leafseal_net::tls::{CertificateAuthority, CertificateInspection, Issued, inspect};

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

/// The authority in a folder.
pub(crate) fn authority(folder: &Path) -> CommandOutcome<CertificateAuthority> {
    let read = |name: &str| {
        let path = folder.join(name);
        std::fs::read(&path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => {
                CommandFailure::usage(format!("no authority: {} is missing", path.display()))
                    .advise("run leafseal certs init")
            }
            _ => CommandFailure::reading(&path, &error),
        })
    };
    let (certificate, key) = (read("ca.pem")?, zeroize::Zeroizing::new(read("ca.key")?));
    CertificateAuthority::from_pem(&certificate, &key)
        .map_err(|error| CommandFailure::from(error).at(folder.join("ca.pem").display()))
}

/// Writes a certificate and its key, the key first; returns their paths.
pub(crate) fn write_issued(folder: &Path, name: &str, issued: &Issued) -> CommandOutcome<(PathBuf, PathBuf)> {
    let (certificate, key) = (folder.join(format!("{name}.pem")), folder.join(format!("{name}.key")));
    write_key(&key, &issued.private_key_pem)?;
    write_pem(&certificate, &issued.certificate_pem)?;
    Ok((certificate, key))
}

/// Writes a private key, atomically and for the owner alone.
pub(crate) fn write_key(path: &Path, pem: &[u8]) -> CommandOutcome {
    replace_file(path, pem, Readers::Owner, &mut system_random())
        .map_err(|error| CommandFailure::writing(path.display(), &error))
}

/// Writes a certificate, atomically.
pub(crate) fn write_pem(path: &Path, pem: &[u8]) -> CommandOutcome {
    replace_file(path, pem, Readers::All, &mut system_random())
        .map_err(|error| CommandFailure::writing(path.display(), &error))
}

/// Reads the first certificate in a file.
pub(crate) fn read_certificate(path: &Path) -> CommandOutcome<CertificateInspection> {
    let pem = std::fs::read(path).map_err(|error| CommandFailure::reading(path, &error))?;
    let certificates = inspect(&pem).map_err(|error| CommandFailure::from(error).at(path.display()))?;
    Ok(certificates.into_iter().next().expect("at least one"))
}
