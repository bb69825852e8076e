//! Key versions that come back from escrow.

use super::session::StoreSession;
use super::{SqlBackend, SqlKeystore, apps, descent};
use crate::escrow_fault::EscrowFault;
use crate::escrowed::{ESCROW_SIGNER, EscrowImport, EscrowImported, EscrowedVersion};
use crate::record_key::RECORD_KEY_SIZE;
use crate::{AppName, StoreError};

impl<B: SqlBackend> SqlKeystore<B> {
    /// See [`crate::Keystore::import_escrow`].
    pub(super) fn insert_escrowed(
        &self,
        session: &mut StoreSession<'_>,
        app: &AppName,
        import: EscrowImport,
    ) -> Result<EscrowImported, StoreError> {
        let EscrowImport { mut versions, from, signer } = import;
        versions.sort_by_key(|version| version.statement().version);
        check_whole(&versions, &from)?;
        verify(session, &versions, signer.as_ref())?;
        let found = apps::find(session, app)?;
        // What the app accepts here is for its operator to say, not for an old export.
        let accept = found.as_ref().map(|app| app.accept);
        let accept = accept.or_else(|| Some(versions.last()?.statement().accept)).unwrap_or_default();
        let mut imported = Vec::with_capacity(versions.len());
        for version in versions {
            let (statement, keys) = version.into_parts();
            let summary = match found.is_none() && imported.is_empty() {
                true => {
                    let made = self.insert_app(session, app, keys)?.versions.into_iter().next();
                    apps::set_accepted(session, app, accept)?;
                    made.ok_or(StoreError::Inconsistent("an app was made without a version"))?
                }
                false => self.append_version(session, app, keys)?,
            };
            imported.push((statement, summary));
        }
        session.note(|note| note.list(imported.iter().map(|(_, made)| made.version)));
        Ok(EscrowImported { versions: imported, accept })
    }
}

/// Checks that versions, in the order of their numbers, are those of one app of one store, each once.
fn check_whole(versions: &[EscrowedVersion], from: &AppName) -> Result<(), EscrowFault> {
    for version in versions {
        let found = &version.statement().app;
        if found != from {
            return Err(EscrowFault::App { found: found.clone(), wanted: from.clone() });
        }
    }
    for pair in versions.windows(2) {
        let [one, next] = [&pair[0], &pair[1]].map(EscrowedVersion::statement);
        if one.store != next.store {
            return Err(EscrowFault::SeveralStores);
        }
        if one.version == next.version {
            return Err(EscrowFault::Repeated(one.version));
        }
    }
    Ok(())
}

/// Checks that each is signed by this store, or by the trusted key of another. The keys of roots that others may have had sign for nobody.
fn verify(
    session: &mut StoreSession<'_>,
    versions: &[EscrowedVersion],
    trusted: Option<&[u8; RECORD_KEY_SIZE]>,
) -> Result<(), StoreError> {
    let compromised = descent::compromised(session)?;
    let is_compromised = |epoch: u32| compromised.is_some_and(|last| epoch <= last);
    let mut trusted = trusted;
    // `--signer` does not make up for that. Roots are replaced by hand: there are few.
    for epoch in compromised.map_or(0..0, |last| 0..last + 1) {
        let key = descent::record_key(session, ESCROW_SIGNER, Some(epoch))?;
        trusted = trusted.filter(|trusted| key.as_ref().is_none_or(|key| key.public_key() != **trusted));
    }
    for version in versions {
        let statement = version.statement();
        let (app, number) = (statement.app.clone(), statement.version);
        let is_own = statement.store == session.open.tree.store && {
            let own = descent::record_key(session, ESCROW_SIGNER, Some(statement.epoch))?;
            own.is_some_and(|own| version.is_signed_by(&own.public_key()))
        };
        if is_own && is_compromised(statement.epoch) {
            return Err(EscrowFault::Compromised { app, version: number }.into());
        }
        if !is_own && !trusted.is_some_and(|key| version.is_signed_by(key)) {
            return Err(EscrowFault::Signature { app, version: number }.into());
        }
    }
    Ok(())
}
