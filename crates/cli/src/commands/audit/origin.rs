//! Whether a folder has the log that is meant. The keystore has the keys of all its engines' logs, so that a key from there does not say
//! whose log lies in a folder.

use std::path::Path;

use leafseal_engine::audit::VerifierKey;

use super::key;
use crate::arguments::LogPlace;
use crate::context::RunContext;
use crate::failure::{CommandFailure, CommandOutcome};

/// The key of the log in a folder, after its origin was checked: it must be the one that is asked for. If none is, and the key is not
/// given, it must be the one that the folder's name says.
pub(super) fn key_of_origin(context: &RunContext, folder: &Path, place: &LogPlace) -> CommandOutcome<VerifierKey> {
    let key = key(context, folder, place.key.as_deref())?;
    let shown = folder.display();
    match (&place.origin, &place.key) {
        (Some(wanted), _) if wanted != key.name() => {
            return Err(CommandFailure::failed(format!("{shown}: the log of {}, not of {wanted}", key.name())));
        }
        (None, None) => {
            let real = folder.canonicalize().map_err(|error| CommandFailure::reading(folder, &error))?;
            let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let expected = folder_of(key.name());
            if name != expected {
                let message = format!(
                    "{shown}: the log of {}, whose folder is {expected:?}: another log lies here than the name says; \
                     with --origin you say which one you expect",
                    key.name()
                );
                return Err(CommandFailure::failed(message));
            }
        }
        _ => {}
    }
    Ok(key)
}

/// The name of the folder in which an engine writes the log of this origin, `leafseal/STORE/…`.
fn folder_of(origin: &str) -> String {
    origin.split('/').skip(2).collect::<Vec<_>>().join("-")
}
