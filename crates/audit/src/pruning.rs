//! Pruning: old entries are removed, and a statement of the log says from which one on the log still is.

use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::checkpoint::CheckpointFault;
use crate::folder::{FilesWriting, LogFolder, MINIMUM, remove};
use crate::merkle::{NodeHash, ROW_BITS, ROW_WIDTH, row_width};
use crate::note::{Note, NoteSigner, VerifierKey};
use crate::tile::{TileKind, TileName};

/// The first line of a statement: no origin of a log, so that it is never read as a checkpoint.
const TITLE: &str = "leafseal audit pruned 1";

/// That the entries before a number were removed by the log itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PruneStatement {
    /// Which log.
    pub(crate) origin: String,
    /// The first entry that was kept.
    pub(crate) minimum: u64,
    /// The root over the entries before it: they are still the ones that each checkpoint covers.
    pub(crate) root: NodeHash,
    /// Entries of the log then.
    pub(crate) size: u64,
}

impl PruneStatement {
    pub(crate) fn sign(&self, signer: &NoteSigner) -> String {
        let Self { origin, minimum, root, size } = self;
        signer.sign(&format!("{TITLE}\n{origin}\n{minimum}\n{}\n{size}\n", STANDARD.encode(root)))
    }

    pub(crate) fn open(note: &[u8], log: &VerifierKey) -> Result<Self, CheckpointFault> {
        let note = Note::parse(note)?;
        note.verify(std::slice::from_ref(log))?;
        let [TITLE, origin, minimum, root, size] = note.text.lines().collect::<Vec<_>>()[..] else {
            return Err(CheckpointFault::Malformed);
        };
        let root = STANDARD.decode(root).ok().and_then(|root| root.try_into().ok());
        let (Ok(minimum), Ok(size), Some(root)) = (minimum.parse(), size.parse(), root) else {
            return Err(CheckpointFault::Malformed);
        };
        if origin == log.name() {
            Ok(Self { origin: origin.to_owned(), minimum, root, size })
        } else {
            Err(CheckpointFault::Origin)
        }
    }
}

/// Writes a statement, and removes the files that only entries before its minimum need. Returns how many.
pub(crate) fn prune(path: &Path, signer: &NoteSigner, statement: &PruneStatement) -> io::Result<u64> {
    let folder = LogFolder::new(path);
    let mut writing = FilesWriting::begin(&folder)?;
    writing.write(MINIMUM, statement.sign(signer).as_bytes())?;
    writing.finish()?;
    let mut removed = 0;
    let levels = (0..u64::BITS / ROW_BITS).map(|level| (TileKind::Level(level as u8), ROW_BITS * (level + 1)));
    for (kind, bits) in std::iter::once((TileKind::Entries, ROW_BITS)).chain(levels) {
        let end = statement.minimum.checked_shr(bits).unwrap_or(0);
        let name = |index| TileName { kind, index, width: ROW_WIDTH };
        // Those that an attempt before has left are right before those of this one, since the oldest go first.
        let mut start = end;
        while start > 0 && folder.path(&name(start - 1).path()).exists() {
            start -= 1;
        }
        for index in start..end {
            folder.remove_folder(&name(index).parts_path())?;
            let file = folder.path(&name(index).path());
            remove(&file)?;
            removed += 1;
            if index % 1000 == 999 {
                // One that is not empty stays.
                let _ = file.parent().map(std::fs::remove_dir);
            }
        }
        // Parts of the next one, from checkpoints before the newest.
        let newest = row_width(statement.size, bits / ROW_BITS - 1);
        for width in (1..ROW_WIDTH).filter(|width| *width != newest) {
            let part = TileName { kind, index: end, width };
            if part.end().is_none_or(|part| part > statement.minimum) {
                break;
            }
            remove(&folder.path(&part.path()))?;
        }
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use leafseal_crypto::Secret;
    use leafseal_crypto::ed25519::Ed25519PrivateKey;

    use super::*;
    use crate::checkpoint::Checkpoint;

    #[test]
    fn a_statement_is_no_checkpoint_and_a_checkpoint_no_statement() {
        let private = Ed25519PrivateKey::from_seed(Secret::from_bytes(&[1; 32]));
        let signer = NoteSigner::of_log("leafseal/a/b", private).expect("a name");
        let origin = "leafseal/a/b".to_owned();
        let statement = PruneStatement { origin: origin.clone(), minimum: 512, root: [7; 32], size: 700 };
        let note = statement.sign(&signer);
        assert_eq!(PruneStatement::open(note.as_bytes(), signer.public()), Ok(statement.clone()));
        assert!(Checkpoint::open(note.as_bytes(), signer.public()).is_err());
        let checkpoint = Checkpoint { origin, size: 700, root: [7; 32] }.sign(&signer);
        assert_eq!(PruneStatement::open(checkpoint.as_bytes(), signer.public()), Err(CheckpointFault::Malformed));
        let foreign = PruneStatement { origin: "leafseal/a/c".to_owned(), ..statement }.sign(&signer);
        assert_eq!(PruneStatement::open(foreign.as_bytes(), signer.public()), Err(CheckpointFault::Origin));
        assert!(PruneStatement::open(note.replace("512", "513").as_bytes(), signer.public()).is_err());
    }
}
