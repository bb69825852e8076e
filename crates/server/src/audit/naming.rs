//! Which log an engine writes: the keystore names one for each engine, by a random id. A folder that does not have it, as one that was lost
//! and is in no store, or that of another engine of the same name, begins another: no two logs ever have one origin and key.

use std::path::Path;

use leafseal_engine::Engine;
use leafseal_engine::admin::{EngineLog, StoreError};
use leafseal_engine::audit::{LogError, LogName};

use super::AuditError;
use crate::settings::AuditDurability;

/// Attempts while other engines of the name begin logs.
const ATTEMPTS_MAX: u32 = 8;

/// The log that an engine goes on with, or begins.
pub(super) struct FoundLog {
    pub(super) name: LogName,
    pub(super) is_new: bool,
    /// The log that the keystore named before, and that is not here.
    pub(super) instead_of: Option<String>,
}

impl FoundLog {
    pub(super) fn find(
        engine: &Engine,
        folder: &Path,
        engine_name: &str,
        durable: AuditDurability,
    ) -> Result<Self, AuditError> {
        let named = |EngineLog { id, epoch, .. }| LogName { engine: engine_name.to_owned(), epoch, id };
        for _ in 0..ATTEMPTS_MAX {
            let known = engine.audit_log(engine_name)?.map(named);
            let key = engine.record_key("")?.ok_or(AuditError::NoKey)?;
            let is_here = match &known {
                Some(name) if is_in(&folder.join(name.folder())) => true,
                Some(name) if durable == AuditDurability::Keystore => {
                    let frames = engine.log_frames(&name.origin(key.store_id()))?.ok_or(AuditError::NoFrames)?;
                    frames.is_known().map_err(|fault| AuditError::Log(LogError::NotStored { fault }))?
                }
                _ => false,
            };
            if let Some(name) = known.clone().filter(|name| name.epoch == key.epoch() && is_here) {
                return Ok(Self { name, is_new: false, instead_of: None });
            }
            let begun = match engine.begin_audit_log(engine_name, known.as_ref().map(|name| name.id.as_str())) {
                Err(StoreError::Busy) => continue,
                Err(StoreError::OldSchema { .. }) => return Err(AuditError::NoKey),
                other => named(other.map_err(AuditError::NotRegistered)?.ok_or(AuditError::NoKey)?),
            };
            if let Some(lost) = known.as_ref().filter(|_| !is_here) {
                tracing::warn!(
                    engine = engine_name,
                    missing = %folder.join(lost.folder()).display(),
                    log = begun.id,
                    "the audit log that the keystore names is not here: a new one begins"
                );
            }
            return Ok(Self { name: begun, is_new: true, instead_of: known.map(|name| name.id) });
        }
        Err(AuditError::Store(StoreError::Busy))
    }
}

/// Whether a folder has a log, or what is left of one: its key is written first.
fn is_in(folder: &Path) -> bool {
    folder.join("key").exists()
}
