//! Logs that are in the folder besides the one that the engine writes: of a root that was replaced, or of a name that an engine had before.
//! What sinks lack of them is sent before anything of the own log.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use leafseal_engine::Engine;
use leafseal_engine::audit::{AuditLog, LogError, LogName, LogRules, NoteSigner, VerifierKey};

use super::AuditError;
use super::followed_folder::FollowedFolder;

/// A log that this engine does not write.
#[derive(Debug)]
pub(super) struct OlderLog {
    folder: PathBuf,
    signer: NoteSigner,
}

impl OlderLog {
    /// Those of this store in a folder, but `own`: the one that was written last is the last.
    pub(super) fn find_all(engine: &Engine, folder: &Path, own: &Path) -> Vec<Self> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path == own {
                continue;
            }
            match Self::find(engine, &path) {
                Ok(log) => found.extend(log.map(|log| (written_at(&path), log))),
                Err(error) => {
                    tracing::warn!(folder = %path.display(), %error, "an older audit log cannot be read: it is not sent");
                }
            }
        }
        found.sort_by_key(|(written_at, _)| *written_at);
        found.into_iter().map(|(_, log)| log).collect()
    }

    /// The log in a folder, if it is one of this store.
    fn find(engine: &Engine, folder: &Path) -> Result<Option<Self>, AuditError> {
        let Ok(text) = std::fs::read_to_string(folder.join("key")) else { return Ok(None) };
        let Ok(named) = VerifierKey::parse(text.trim_end()) else { return Ok(None) };
        let Some(name) = LogName::of_origin(named.name()) else { return Ok(None) };
        let Some(key) = engine.record_key_of(&name.signer(), name.epoch)? else { return Ok(None) };
        if name.origin(key.store_id()) != named.name() {
            return Ok(None);
        }
        let signer = NoteSigner::of_log(named.name(), key.into_private_key())?;
        Ok((*signer.public() == named).then(|| Self { folder: folder.to_owned(), signer }))
    }

    /// Signs what its engine has not signed before it ended. `None` if an engine writes it.
    pub(super) fn finish(self, cursors: &Path) -> Option<FollowedFolder> {
        let Self { folder, signer } = self;
        let (key, cursor_key, cursors) = (signer.public().clone(), signer.cursor_key(), cursors.to_owned());
        match AuditLog::open(&folder, signer, LogRules::default()).and_then(|(mut log, _)| log.publish()) {
            Ok(()) => {}
            Err(LogError::InUse { .. }) => return None,
            Err(error) => {
                tracing::warn!(folder = %folder.display(), %error, "an older audit log cannot be opened: what is signed of it is sent");
            }
        }
        Some(FollowedFolder { folder, key, cursors, cursor_key })
    }
}

/// When a log was signed last.
fn written_at(folder: &Path) -> Option<SystemTime> {
    std::fs::metadata(folder.join("checkpoint")).and_then(|file| file.modified()).ok()
}
