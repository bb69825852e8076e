//! What a program remembers of a store outside of its database: the newest state that it has seen, by which it notices that someone has
//! put back an older one.
//!
//! A state is one line of text with a MAC under a key that is derived from the root of the store, so that nobody else can make one. It
//! is the content of a file on the engine's disk, and engines pass it on to each other. An older line is of no use to an attacker but to
//! make a program forget: who can put back both the store and this file is not noticed by it.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use leafseal_crypto::hash::{SHA256_SIZE, hmac_sha256, hmac_sha256_verify};
use leafseal_crypto::{CryptoRng, Secret};

use crate::StoreError;
use crate::drafts::remove_abandoned;
use crate::edit::MemoryFault;
use crate::files;
use crate::replacing::{Readers, replace_file};
use crate::root_key::{RootKeyId, StoreRoot};
use crate::secret_path::SecretPath;
use crate::store_id::StoreId;

/// The first word of a line; the number is the version of its form.
const TITLE: &str = "leafseal-store-sighting-1";
/// Longest line in bytes, with its end.
pub const SIGHTING_SIZE_MAX: usize = 512;
/// How often a program waits for another that writes the file, and how long each time.
const LOCK_ATTEMPTS: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Generations that fit between two seconds of [`generation_at`].
const GENERATION_BITS: u32 = 20;

/// The part of a generation below a second.
pub(crate) const GENERATION_MASK: i64 = (1 << GENERATION_BITS) - 1;

/// The number from which a store counts on that takes the place of others: it is newer than theirs, whatever they had, as long as they were
/// changed less than 2^20 times a second.
pub(crate) fn generation_at(unix_s: u64) -> i64 {
    i64::try_from(unix_s << GENERATION_BITS).unwrap_or(i64::MAX)
}

/// A state of a store that was seen, and verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreSighting {
    pub(crate) schema: u32,
    /// How often the root of the store was replaced.
    pub(crate) epoch: u32,
    pub(crate) generation: i64,
    /// Of the top of the tree.
    pub(crate) digest: [u8; SHA256_SIZE],
}

/// The key of a store's sightings.
pub(crate) struct SightingKey {
    store: StoreId,
    root: RootKeyId,
    epoch: u32,
    secret: Secret<32>,
}

impl fmt::Debug for SightingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SightingKey(…)")
    }
}

impl SightingKey {
    /// Of a store, with its root and how often that was replaced.
    pub(crate) fn new(store: StoreId, root: &StoreRoot, epoch: u32) -> Self {
        let secret = root.derive(&[b"leafseal-store-sighting-1 ", &store.0[..]].concat());
        Self { store, root: root.id(), epoch, secret }
    }

    fn message(&self, sighting: &StoreSighting) -> String {
        let StoreSighting { schema, epoch, generation, digest } = sighting;
        let (store, root, state) = (hex::encode(self.store.0), self.root, hex::encode(digest));
        format!("{TITLE} store={store} root={root} schema={schema} epoch={epoch} generation={generation} state={state}")
    }

    /// The line, with its end.
    pub(crate) fn line(&self, sighting: &StoreSighting) -> String {
        let mut line = self.message(sighting);
        let mac = hmac_sha256(self.secret.expose(), line.as_bytes());
        let _ = writeln!(line, " mac={}", hex::encode(mac));
        line
    }

    /// Reads a line.
    pub(crate) fn read(&self, line: &str) -> Result<StoreSighting, MemoryFault> {
        let (sighting, mac) = self.parse(line).ok_or(MemoryFault::Foreign)?;
        let is_ours = hmac_sha256_verify(self.secret.expose(), self.message(&sighting).as_bytes(), &mac);
        match is_ours {
            true => Ok(sighting),
            false if word(line, "root") == Some(&self.root.to_string()) => Err(MemoryFault::Foreign),
            false => Err(MemoryFault::Root),
        }
    }

    /// The same of a line on this machine's own disk, which may be from before the root was replaced, or the store from before that: its
    /// MAC shows nothing then. Who could change it there could as well remove it; it only has the store refused where it is wrong.
    fn read_own(&self, line: &str) -> Result<StoreSighting, MemoryFault> {
        match (self.read(line), self.parse(line)) {
            (Err(MemoryFault::Root), Some((sighting, _))) if sighting.epoch != self.epoch => Ok(sighting),
            (read, _) => read,
        }
    }

    fn parse(&self, line: &str) -> Option<(StoreSighting, Vec<u8>)> {
        let digest = hex::decode(word(line, "state")?).ok()?.try_into().ok()?;
        let (schema, epoch) = (word(line, "schema")?.parse().ok()?, word(line, "epoch")?.parse().ok()?);
        let sighting = StoreSighting { schema, epoch, generation: word(line, "generation")?.parse().ok()?, digest };
        let is_of_store = word(line, "store")? == hex::encode(self.store.0);
        is_of_store.then_some((sighting, hex::decode(word(line, "mac")?).ok()?))
    }
}

/// The value of a word `name=value` of a line.
fn word<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    line.trim_end().split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// A file with the newest state that programs on this machine have seen.
#[derive(Debug)]
pub(crate) struct MemoryFile {
    path: PathBuf,
}

impl MemoryFile {
    /// The file for a store in a folder.
    pub(crate) fn new(folder: &Path, store: StoreId) -> Self {
        Self { path: folder.join(format!("{}.seen", hex::encode(store.0))) }
    }

    /// What it holds; `None` if there is none.
    pub(crate) fn read(&self, key: &SightingKey) -> Result<Option<StoreSighting>, StoreError> {
        remove_abandoned(&self.path);
        let file = match files::open_private(SecretPath::MemoryFile, &self.path) {
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        let content = files::read_secret(file, &self.path, SIGHTING_SIZE_MAX)?;
        let line = content.as_ref().and_then(|content| std::str::from_utf8(content).ok());
        let sighting = line.ok_or(MemoryFault::Foreign).and_then(|line| key.read_own(line));
        sighting.map(Some).map_err(|fault| StoreError::Memory { path: self.path.clone(), fault })
    }

    /// Writes a state, unless the file has a newer one; returns the one that it has then. The file is whole at every moment.
    pub(crate) fn save(
        &self,
        (key, sighting): (&SightingKey, &StoreSighting),
        overwriting: Overwriting,
        rng: &mut dyn CryptoRng,
    ) -> Result<StoreSighting, StoreError> {
        let folder = self.path.parent().unwrap_or(Path::new(""));
        files::create_folder(folder)?;
        let _lock = lock(&self.path.with_extension("lock")).map_err(StoreError::io(&self.path))?;
        if overwriting == Overwriting::Older
            && let Some(known) = self.read(key)?
            && known.generation >= sighting.generation
        {
            return Ok(known);
        }
        replace_file(&self.path, key.line(sighting).as_bytes(), Readers::Owner, rng)
            .map_err(StoreError::io(&self.path))?;
        Ok(*sighting)
    }
}

/// Which content of a file a new one takes the place of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overwriting {
    /// That of an older state.
    Older,
    /// Any: an operator has confirmed the new one.
    Any,
}

/// Keeps other programs from writing at the same time. Does not wait for long: one that was stopped may hold it.
fn lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    for _ in 1..LOCK_ATTEMPTS {
        if file.try_lock().is_ok() {
            return Ok(file);
        }
        std::thread::sleep(LOCK_PAUSE);
    }
    file.try_lock()?;
    Ok(file)
}

/// How certain a program is that a store is the newest.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryStatus {
    /// The newest generation that it has seen; `None` before schema 3.
    pub generation: Option<u64>,
    /// It knew a state before it first read the store: from the file of an earlier run, or from another engine. Otherwise whatever the
    /// database had at the start counts as the newest.
    pub is_from_before: bool,
    /// The newest state is in the file, so that the next run knows it.
    pub is_saved: bool,
    /// The last read has found an older state, and was refused.
    pub is_rolled_back: bool,
}

#[cfg(test)]
mod tests {
    use leafseal_crypto::random::system_random;

    use super::*;

    fn sighting(generation: i64) -> StoreSighting {
        StoreSighting { schema: 3, epoch: 1, generation, digest: [7; 32] }
    }

    /// The key of a store under its root of an epoch.
    fn key(store: u8, epoch: u8) -> SightingKey {
        let root = StoreRoot::from_bytes(Secret::from_bytes(&[epoch; 32]));
        SightingKey::new(StoreId([store; 16]), &root, epoch.into())
    }

    #[test]
    fn a_line_reads_back_and_no_other_does() {
        let line = key(1, 1).line(&sighting(12));
        assert!(line.len() <= SIGHTING_SIZE_MAX);
        assert_eq!(key(1, 1).read(&line), Ok(sighting(12)));
        assert_eq!(key(2, 1).read(&line), Err(MemoryFault::Foreign));
        for (from, to) in
            [("generation=12", "generation=13"), ("schema=3", "schema=2"), ("mac=", "mac=0"), ("h=1", "h=2")]
        {
            let edited = line.replace(from, to);
            assert!(edited != line && key(1, 1).read_own(&edited).is_err(), "{edited}");
        }
        assert_eq!(key(1, 1).read_own(""), Err(MemoryFault::Foreign));
        // From before the root was replaced, or from after it.
        assert_eq!((key(1, 2).read(&line), key(1, 2).read_own(&line)), (Err(MemoryFault::Root), Ok(sighting(12))));
        assert_eq!((key(1, 0).read(&line), key(1, 0).read_own(&line)), (Err(MemoryFault::Root), Ok(sighting(12))));
        let other = SightingKey::new(StoreId([1; 16]), &StoreRoot::generate(&mut system_random()), 1);
        assert_eq!(other.read_own(&line), Err(MemoryFault::Root));
    }

    #[test]
    fn a_file_never_goes_back_by_itself() {
        let folder = tempfile::tempdir().expect("folder");
        let (mut rng, key) = (system_random(), key(1, 1));
        let file = MemoryFile::new(&folder.path().join("seen"), StoreId([1; 16]));
        assert_eq!(file.read(&key).expect("none"), None);
        let mut save =
            |generation, how| file.save((&key, &sighting(generation)), how, &mut rng).expect("saved").generation;
        assert_eq!(save(5, Overwriting::Older), 5);
        assert_eq!(save(4, Overwriting::Older), 5);
        assert_eq!(save(4, Overwriting::Any), 4);
        assert_eq!(file.read(&key).expect("read"), Some(sighting(4)));
        std::fs::write(&file.path, "damaged").expect("written");
        assert!(matches!(file.read(&key), Err(StoreError::Memory { fault: MemoryFault::Foreign, .. })));
    }
}
