//! A log in a temporary folder, and its entries.

use std::path::{Path, PathBuf};

use leafseal_audit::{
    AuditLog, LogError, LogReport, LogRules, NodeHash, NoteSigner, Recovery, VerifierKey, VerifyOptions, verify_log,
};
use leafseal_crypto::{Ed25519PrivateKey, Secret};
use sha2::{Digest as _, Sha256};

pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
    seed: u8,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder"), seed: 1 }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    pub(crate) fn signer(&self) -> NoteSigner {
        signer(self.seed)
    }

    pub(crate) fn key(&self) -> VerifierKey {
        self.signer().public().clone()
    }

    pub(crate) fn open(&self, rules: LogRules) -> (AuditLog, Recovery) {
        open(&self.path(), rules).expect("opened")
    }

    /// A log with so many entries, published after each of these sizes.
    pub(crate) fn filled(&self, sizes: &[u64]) -> AuditLog {
        let (mut log, _) = self.open(LogRules::default());
        for &size in sizes {
            let more = size - log.size();
            append(&mut log, more);
            log.publish().expect("published");
        }
        log
    }

    pub(crate) fn verify(&self, options: &VerifyOptions) -> LogReport {
        verify_log(&self.path(), &self.key(), options, |index, found| assert_eq!(found, entry(index)))
    }
}

/// Puts a folder in the place of a file, at once: a writer that tries again meanwhile finds one or the other.
pub(crate) fn put_back(aside: &Path, file: &Path) {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    renameat_with(CWD, aside, CWD, file, RenameFlags::EXCHANGE).expect("exchanged");
    std::fs::remove_file(aside).expect("removed");
}

pub(crate) fn signer(seed: u8) -> NoteSigner {
    let private = Ed25519PrivateKey::from_seed(Secret::from_bytes(&[seed; 32]));
    NoteSigner::of_log("leafseal/store/engine", private).expect("a name")
}

pub(crate) fn open(path: &Path, rules: LogRules) -> Result<(AuditLog, Recovery), LogError> {
    AuditLog::open(path, signer(1), rules)
}

/// The entry of a number: sizes differ, and some are empty.
pub(crate) fn entry(index: u64) -> Vec<u8> {
    index.to_string().repeat(index as usize % 7).into_bytes()
}

pub(crate) fn append(log: &mut AuditLog, count: u64) {
    let entries: Vec<_> = (log.size()..log.size() + count).map(entry).collect();
    log.append(entries.iter().map(Vec::as_slice)).expect("appended");
}

/// The root over the first entries: RFC 6962, section 2.1, as it is written, with another library.
pub(crate) fn root(size: u64) -> NodeHash {
    fn mth(start: u64, end: u64) -> NodeHash {
        match end - start {
            0 => Sha256::digest([]).into(),
            1 => Sha256::new().chain_update([0]).chain_update(entry(start)).finalize().into(),
            count => {
                let middle = start + count.next_power_of_two() / 2;
                Sha256::new()
                    .chain_update([1])
                    .chain_update(mth(start, middle))
                    .chain_update(mth(middle, end))
                    .finalize()
                    .into()
            }
        }
    }
    mth(0, size)
}

/// All files of a folder with their contents.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for file in std::fs::read_dir(from).expect("a folder") {
        let file = file.expect("an entry");
        let (source, target) = (file.path(), to.join(file.file_name()));
        if source.is_dir() {
            copy(&source, &target);
        } else {
            std::fs::copy(&source, &target).expect("copied");
        }
    }
}
