//! What a program remembers of a store outside of its database: the newest state that it has seen, by which it notices that someone has
//! put back an older one.
//!
//! A state is one line of text with a MAC under a key that is derived from the root of the store, so that nobody else can make one. It
//! is the content of a file on the engine's disk, and engines pass it on to each other. An older line is of no use to an attacker but to
//! make a program forget: who can put back both the store and this file is not noticed by it.

use std::fmt::{self, Write as _};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use leafseal_crypto::hash::{SHA256_SIZE, hmac_sha256, hmac_sha256_verify, sha256};
use leafseal_crypto::random::system_random;
use leafseal_crypto::{CryptoRng, Ed25519PrivateKey, Secret};
use rustix::fs::OFlags;
use zeroize::{Zeroize, Zeroizing};

use crate::StoreError;
use crate::drafts::{folder_of, remove_abandoned};
use crate::edit::MemoryFault;
use crate::files;
use crate::record_key::RecordKey;
use crate::replacing::{Readers, replace_file};
use crate::root_key::{RootKeyId, StoreRoot};
use crate::secret_path::SecretPath;
use crate::store_id::StoreId;

/// The first word of a line; the number is the version of its form.
const TITLE: &str = "leafseal-store-sighting-1";
/// Longest line in bytes, with its end.
pub const SIGHTING_SIZE_MAX: usize = 512;
/// Bytes of the hash of a place that name its file.
const PLACE_NAME_SIZE: usize = 16;
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

/// Largest generation that a command continues a store with: changes must be able to count on.
pub(crate) const GENERATION_MAX: i64 = 1 << 62;

/// A state of a store that was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreSighting {
    pub(crate) schema: u32,
    /// How often the root of the store was replaced.
    pub(crate) epoch: u32,
    pub(crate) generation: i64,
    /// Of the top of the tree.
    pub(crate) digest: [u8; SHA256_SIZE],
}

impl StoreSighting {
    /// By which states follow one another.
    pub(crate) fn order(&self) -> (u32, i64) {
        (self.epoch, self.generation)
    }
}

/// The key of a store's sightings under one of its roots.
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

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// The key with which an engine signs its records: HKDF-Expand (RFC 5869, 2.3) of this key, which every later root keeps. Nothing else
    /// that this key authenticates begins with the label.
    pub(crate) fn record_key(&self, signer: &str) -> RecordKey {
        let label = [b"leafseal-record-1 ed25519 ", signer.as_bytes(), &[1]].concat();
        let mut seed = hmac_sha256(self.secret.expose(), &label);
        let key = Ed25519PrivateKey::from_seed(Secret::from_bytes(&seed));
        seed.zeroize();
        RecordKey::new(self.store, self.epoch, key)
    }

    /// What a later root keeps of it: root's id (8) ‖ key (32).
    pub(crate) fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new([&self.root.0[..], self.secret.expose()].concat())
    }

    /// Reads that.
    pub(crate) fn from_bytes(store: StoreId, epoch: u32, bytes: &[u8]) -> Option<Self> {
        let (root, secret) = bytes.split_first_chunk()?;
        Some(Self { store, root: RootKeyId(*root), epoch, secret: Secret::from_slice(secret)? })
    }

    /// Whether both are the same.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let compared = hmac_sha256(other.secret.expose(), b"compared");
        self.root == other.root && hmac_sha256_verify(self.secret.expose(), b"compared", &compared)
    }

    fn message(&self, sighting: &StoreSighting, challenge: Option<&str>) -> String {
        let StoreSighting { schema, epoch, generation, digest } = sighting;
        let (store, root, state) = (self.store, self.root, hex::encode(digest));
        let challenge = challenge.map(|challenge| format!(" challenge={challenge}")).unwrap_or_default();
        let of = format!("{TITLE} store={store} root={root} schema={schema} epoch={epoch} generation={generation}");
        format!("{of} state={state}{challenge}")
    }

    /// The line, with its end. `challenge`: of the engine that asked for it, so that it is no answer to another question.
    pub(crate) fn line(&self, sighting: &StoreSighting, challenge: Option<&str>) -> String {
        let mut line = self.message(sighting, challenge);
        let mac = hmac_sha256(self.secret.expose(), line.as_bytes());
        let _ = writeln!(line, " mac={}", hex::encode(mac));
        line
    }

    /// The state of a line, if this key has authenticated it.
    pub(crate) fn verify(&self, line: &SightingLine) -> Result<StoreSighting, MemoryFault> {
        if line.root != self.root.to_string() || line.sighting.epoch != self.epoch {
            return Err(MemoryFault::Root);
        }
        let message = self.message(&line.sighting, line.challenge.as_deref());
        let is_ours = hmac_sha256_verify(self.secret.expose(), message.as_bytes(), &line.mac);
        if is_ours { Ok(line.sighting) } else { Err(MemoryFault::Foreign) }
    }
}

/// A line that was read and not verified: it may have the store refused, and nothing more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SightingLine {
    pub(crate) store: StoreId,
    root: String,
    pub(crate) sighting: StoreSighting,
    pub(crate) challenge: Option<String>,
    mac: Vec<u8>,
}

impl SightingLine {
    pub(crate) fn parse(line: &str) -> Option<Self> {
        line.starts_with(TITLE).then_some(())?;
        let digest = hex::decode(word(line, "state")?).ok()?.try_into().ok()?;
        let (schema, epoch) = (word(line, "schema")?.parse().ok()?, word(line, "epoch")?.parse().ok()?);
        let sighting = StoreSighting { schema, epoch, generation: word(line, "generation")?.parse().ok()?, digest };
        let (store, root) = (StoreId::parse(word(line, "store")?)?, word(line, "root")?.to_owned());
        let challenge = word(line, "challenge").map(str::to_owned);
        Some(Self { store, root, sighting, challenge, mac: hex::decode(word(line, "mac")?).ok()? })
    }
}

/// What another engine of the store has answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerSighting {
    /// Who.
    pub peer: String,
    /// What it was asked with ([`new_challenge`]).
    pub challenge: String,
    /// Its line.
    pub line: String,
}

/// Digits of the challenge that an engine is asked with.
const CHALLENGE_SIZE: usize = 32;

/// What to ask another engine with: hexadecimal digits, new for each question, so that an answer that someone has kept is none.
pub fn new_challenge() -> String {
    let mut bytes = [0; CHALLENGE_SIZE / 2];
    let rng: &mut dyn CryptoRng = &mut system_random();
    rng.fill_bytes(&mut bytes);
    hex::encode(bytes)
}

/// Whether a challenge is one: nothing else gets into what is authenticated.
pub(crate) fn is_challenge(text: &str) -> bool {
    text.len() == CHALLENGE_SIZE && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The value of a word `name=value` of a line.
fn word<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    line.trim_end().split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// The first word of the record of a place.
const PLACE_TITLE: &str = "leafseal-store-place-1";

/// Which store a configured place has held, and of which schema. The file of states is named by the store's id, which the database says:
/// without this record, an attacker with write access to the database could call the store another, of which nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PlaceRecord {
    pub(crate) store: StoreId,
    pub(crate) schema: u32,
}

impl PlaceRecord {
    fn line(&self) -> String {
        format!("{PLACE_TITLE} store={} schema={}\n", self.store, self.schema)
    }

    fn parse(line: &str) -> Option<Self> {
        line.starts_with(PLACE_TITLE).then_some(())?;
        Some(Self { store: StoreId::parse(word(line, "store")?)?, schema: word(line, "schema")?.parse().ok()? })
    }
}

/// The files with what programs on this machine have seen of a store: its newest state, and which store its place has held.
#[derive(Debug)]
pub(crate) struct MemoryFile {
    path: PathBuf,
    place: PathBuf,
}

impl MemoryFile {
    /// The files for a store in a folder. `place`: where it is configured to be.
    pub(crate) fn new(folder: &Path, place: &str, store: StoreId) -> Self {
        let place = hex::encode(&sha256(&[place.as_bytes()])[..PLACE_NAME_SIZE]);
        Self { path: folder.join(format!("{store}.seen")), place: folder.join(format!("{place}.place")) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn folder(&self) -> &Path {
        folder_of(&self.path)
    }

    /// Refuses a folder in which others can exchange the files.
    pub(crate) fn check_folder(&self) -> Result<(), StoreError> {
        match self.folder().metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => {
                let metadata = other.map_err(StoreError::io(self.folder()))?;
                files::check_private(SecretPath::MemoryFolder, self.folder(), &metadata)
            }
        }
    }

    /// What the place has held; `None` if that is not known.
    pub(crate) fn read_place(&self) -> Result<Option<PlaceRecord>, StoreError> {
        let Some(line) = read_line(&self.place)? else { return Ok(None) };
        let record = line.as_deref().and_then(PlaceRecord::parse);
        let foreign = || StoreError::Memory { path: self.place.clone(), fault: MemoryFault::Foreign };
        record.ok_or_else(foreign).map(Some)
    }

    /// Writes what the place holds from now on.
    pub(crate) fn save_place(&self, record: PlaceRecord, rng: &mut dyn CryptoRng) -> Result<(), StoreError> {
        files::create_folder(self.folder())?;
        self.check_folder()?;
        let _lock = lock(&self.path.with_extension("lock")).map_err(StoreError::io(&self.path))?;
        self.write_place(record, rng)
    }

    fn write_place(&self, record: PlaceRecord, rng: &mut dyn CryptoRng) -> Result<(), StoreError> {
        replace_file(&self.place, record.line().as_bytes(), Readers::Owner, rng).map_err(StoreError::io(&self.place))
    }

    /// The line that it holds, as it is; `None` if there is no file.
    pub(crate) fn read(&self) -> Result<Option<SightingLine>, StoreError> {
        let Some(text) = read_line(&self.path)? else { return Ok(None) };
        let line = text.as_deref().and_then(SightingLine::parse).filter(|line| line.challenge.is_none());
        line.ok_or_else(|| self.fault(MemoryFault::Foreign)).map(Some)
    }

    pub(crate) fn fault(&self, fault: MemoryFault) -> StoreError {
        StoreError::Memory { path: self.path.clone(), fault }
    }

    /// Differs when the file was replaced; `None` if there is none.
    pub(crate) fn stamp(&self) -> Option<FileStamp> {
        let metadata = self.path.symlink_metadata().ok()?;
        Some((metadata.dev(), metadata.ino(), metadata.size(), metadata.mtime(), metadata.mtime_nsec()))
    }

    /// Writes a state, unless the file has a newer one; returns the one that it has then. The file is whole at every moment.
    pub(crate) fn save(
        &self,
        (key, sighting): (&SightingKey, &StoreSighting),
        overwriting: Overwriting<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<StoreSighting, StoreError> {
        files::create_folder(self.folder())?;
        self.check_folder()?;
        let _lock = lock(&self.path.with_extension("lock")).map_err(StoreError::io(&self.path))?;
        let record = PlaceRecord { store: key.store, schema: sighting.schema };
        let held = if overwriting == Overwriting::Any { None } else { self.read_place()? };
        if held.is_none_or(|held| held.store == record.store && held.schema < record.schema) {
            self.write_place(record, rng)?;
        }
        if let Overwriting::Older(verified) = overwriting
            && let Some(line) = self.read()?
            && verified != Some(&line)
        {
            let known = key.verify(&line).map_err(|fault| self.fault(fault))?;
            if known.order() >= sighting.order() {
                return Ok(known);
            }
        }
        replace_file(&self.path, key.line(sighting, None).as_bytes(), Readers::Owner, rng)
            .map_err(StoreError::io(&self.path))?;
        Ok(*sighting)
    }
}

/// Device, number, size and time of a file.
pub(crate) type FileStamp = (u64, u64, u64, i64, i64);

/// The text of a file of this folder; `None` if there is no file, `Some(None)` if it is longer than any of ours, or no text.
fn read_line(path: &Path) -> Result<Option<Option<String>>, StoreError> {
    remove_abandoned(path);
    let file = match files::open_private(SecretPath::MemoryFile, path) {
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let content = files::read_secret(file, path, SIGHTING_SIZE_MAX)?;
    Ok(Some(content.and_then(|content| String::from_utf8(content.to_vec()).ok())))
}

/// Which content of a file a new one takes the place of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overwriting<'l> {
    /// That of an older state, and this line of a former root, from which the store descends.
    Older(Option<&'l SightingLine>),
    /// Any: an operator has confirmed the new one.
    Any,
}

/// Keeps other programs from writing at the same time. Does not wait for long: one that was stopped may hold it. Opens nothing but a
/// regular file, and follows no link.
fn lock(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file =
        OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("its lock is not a regular file"));
    }
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
        let line = key(1, 1).line(&sighting(12), None);
        assert!(line.len() <= SIGHTING_SIZE_MAX);
        let read = |key: &SightingKey, line: &str| SightingLine::parse(line).map(|line| key.verify(&line));
        assert_eq!(read(&key(1, 1), &line), Some(Ok(sighting(12))));
        assert_eq!(read(&key(2, 1), &line), Some(Err(MemoryFault::Foreign)));
        for (from, to) in
            [("generation=12", "generation=13"), ("schema=3", "schema=2"), ("mac=", "mac=0"), ("h=1", "h=2")]
        {
            let edited = line.replace(from, to);
            assert!(edited != line && !matches!(read(&key(1, 1), &edited), Some(Ok(_))), "{edited}");
        }
        assert_eq!(read(&key(1, 1), ""), None);
        // From before the root was replaced, or from after it.
        assert_eq!(read(&key(1, 2), &line), Some(Err(MemoryFault::Root)));
        assert_eq!(read(&key(1, 0), &line), Some(Err(MemoryFault::Root)));
        let other = SightingKey::new(StoreId([1; 16]), &StoreRoot::generate(&mut system_random()), 1);
        assert_eq!(read(&other, &line), Some(Err(MemoryFault::Root)));
        let kept = SightingKey::from_bytes(StoreId([1; 16]), 1, &key(1, 1).to_bytes()).expect("whole");
        assert_eq!(read(&kept, &line), Some(Ok(sighting(12))));
        assert!(kept.is_same(&key(1, 1)) && !kept.is_same(&key(1, 2)) && !kept.is_same(&other));
    }

    #[test]
    fn a_folder_or_lock_that_others_control_is_refused() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().expect("folder");
        let (mut rng, key) = (system_random(), key(1, 1));
        let file = MemoryFile::new(folder.path(), "store.db", StoreId([1; 16]));
        let lock = file.path.with_extension("lock");
        let mut save = || file.save((&key, &sighting(1)), Overwriting::Older(None), &mut rng);
        let set = |mode| std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).expect("set");
        set(0o777);
        assert!(matches!(file.check_folder(), Err(StoreError::Permissions { what: SecretPath::MemoryFolder, .. })));
        assert!(matches!(save(), Err(StoreError::Permissions { .. })));
        set(0o700);
        let target = folder.path().join("target");
        symlink(&target, &lock).expect("linked");
        assert!(save().is_err() && !target.exists(), "no link is followed");
        std::fs::remove_file(&lock).expect("removed");
        let made = std::process::Command::new("mkfifo").args(["-m", "600"]).arg(&lock).status().expect("mkfifo runs");
        assert!(made.success());
        assert!(save().is_err(), "a FIFO is not waited for");
        std::fs::remove_file(&lock).expect("removed");
        assert_eq!(save().expect("saved"), sighting(1));
    }

    #[test]
    fn a_file_never_goes_back_by_itself() {
        let folder = tempfile::tempdir().expect("folder");
        let (mut rng, key) = (system_random(), key(1, 1));
        let file = MemoryFile::new(&folder.path().join("seen"), "store.db", StoreId([1; 16]));
        assert_eq!(file.read().expect("none"), None);
        let mut save = |key: &SightingKey, generation, how| {
            let sighting = StoreSighting { epoch: key.epoch, ..sighting(generation) };
            file.save((key, &sighting), how, &mut rng).map(|saved| saved.generation)
        };
        let older = Overwriting::Older(None);
        assert_eq!(save(&key, 5, older).expect("saved"), 5);
        assert_eq!(save(&key, 4, older).expect("kept"), 5);
        assert_eq!(save(&key, 4, Overwriting::Any).expect("saved"), 4);
        let line = file.read().expect("read").expect("there");
        assert_eq!(key.verify(&line), Ok(sighting(4)));
        // Not without proof that the store descends from it, whatever its number.
        let next = self::key(1, 2);
        assert!(matches!(save(&next, 9, older), Err(StoreError::Memory { fault: MemoryFault::Root, .. })));
        assert_eq!(save(&next, 3, Overwriting::Older(Some(&line))).expect("saved"), 3);
        assert!(matches!(save(&key, 9, older), Err(StoreError::Memory { fault: MemoryFault::Root, .. })));
        std::fs::write(&file.path, "damaged").expect("written");
        assert!(matches!(file.read(), Err(StoreError::Memory { fault: MemoryFault::Foreign, .. })));
    }
}
