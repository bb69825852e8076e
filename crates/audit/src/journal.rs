//! The journal: entries that are durable and in no checkpoint yet, in segments, each a file named by its first entry.
//!
//! A segment is a head and frames. A frame is appended and made durable at once, so that only the last can be torn by a crash. Each has an
//! HMAC over the hashes of its entries and the frame before, from the head on, which names the log, the first entry and the root of the
//! tree before it: no frame can be changed, moved or dropped from the middle without the key. (The tree needs these hashes, too, so that
//! each byte of a record is hashed once.)
//!
//! ```text
//! segment = title ‖ start (u64) ‖ root (32) ‖ mac ‖ frame…        mac = HMAC(key, title ‖ origin ‖ start ‖ root)
//! frame   = size (u32) ‖ code ‖ entries ‖ mac             code = start (8) of HMAC(key, mac of the frame before ‖ "size" ‖ size)
//!                                                                 mac = HMAC(key, mac of the frame before ‖ leaf hash (32) of each entry)
//! ```

use std::fs::{self, File};
use std::io::{self, IoSlice, Write as _};
use std::path::PathBuf;

use leafseal_crypto::Secret;
use leafseal_crypto::hash::{hmac_sha256, hmac_sha256_verify};

use crate::folder::{JOURNAL, LogFolder, sync_folder};
use crate::merkle::{NodeHash, leaf_hash};
use crate::tile::bundle_entries;

const TITLE: &[u8; 8] = b"LSAUDIT1";
const MAC_SIZE: usize = 32;
/// Bytes of a frame before its entries.
const FRAME_HEAD_SIZE: usize = 4 + 8;
const HEAD_SIZE: usize = TITLE.len() + 8 + 32 + MAC_SIZE;
/// Most bytes of entries in a frame.
pub(crate) const FRAME_SIZE_MAX: usize = 33 << 20;
/// Longest segment that is read: the next begins when one exceeds what a log's rules say, which is far less.
const SEGMENT_SIZE_MAX: u64 = 1 << 30;

/// The key of the journal's codes.
pub(crate) type JournalKey = Secret<32>;

fn name(start: u64) -> String {
    format!("{JOURNAL}/{start:020}")
}

/// The starts of the segments that there are, in order.
pub(crate) fn segments(folder: &LogFolder) -> io::Result<Vec<u64>> {
    let path = folder.path(JOURNAL);
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let mut starts = Vec::new();
    for entry in fs::read_dir(path)? {
        let text = entry?.file_name().to_string_lossy().into_owned();
        let start = text.parse().ok().filter(|start| name(*start) == format!("{JOURNAL}/{text}"));
        starts.push(start.ok_or_else(|| io::Error::other(format!("{JOURNAL}/{text} is no segment of a journal")))?);
    }
    starts.sort_unstable();
    Ok(starts)
}

pub(crate) fn segment_path(folder: &LogFolder, start: u64) -> PathBuf {
    folder.path(&name(start))
}

/// What the code of a head is over.
fn head_message(origin: &str, start: u64, root: &NodeHash) -> Vec<u8> {
    [&TITLE[..], origin.as_bytes(), b"\n", &start.to_be_bytes(), root].concat()
}

/// What shows that a frame's size is as it was written, before so much is read.
fn size_code(key: &JournalKey, before: &NodeHash, size: [u8; 4]) -> [u8; 8] {
    let mac = hmac_sha256(key.expose(), &[&before[..], b"size", &size].concat());
    *mac.first_chunk().expect("longer")
}

/// The hashes of a frame's entries; `None` if it is not made of entries.
pub(crate) fn frame_hashes(entries: &[u8]) -> Option<Vec<NodeHash>> {
    bundle_entries(entries).map(|entry| entry.map(leaf_hash)).collect()
}

fn frame_message(before: &NodeHash, hashes: &[NodeHash]) -> Vec<u8> {
    [&before[..], hashes.as_flattened()].concat()
}

/// The segment that is written.
#[derive(Debug)]
pub(crate) struct JournalSegment {
    file: File,
    mac: NodeHash,
    pub(crate) size: u64,
}

impl JournalSegment {
    /// A new segment. Durable when this returns.
    pub(crate) fn create(
        folder: &LogFolder,
        key: &JournalKey,
        origin: &str,
        start: u64,
        root: &NodeHash,
    ) -> io::Result<Self> {
        let path = segment_path(folder, start);
        let parent = folder.path(JOURNAL);
        fs::create_dir_all(&parent)?;
        // One of this name has nothing that counts: it was begun and never used.
        let mut file = File::create(&path)?;
        let mac = hmac_sha256(key.expose(), &head_message(origin, start, root));
        file.write_all(&[&TITLE[..], &start.to_be_bytes(), root, &mac].concat())?;
        file.sync_all()?;
        sync_folder(&parent)?;
        sync_folder(parent.parent().expect("the folder of the log"))?;
        Ok(Self { file, mac, size: HEAD_SIZE as u64 })
    }

    /// Appends entries, as in a bundle, with their hashes. Durable when this returns. After an error the segment may end with a part of
    /// them, and nothing may be appended to it.
    pub(crate) fn append(&mut self, key: &JournalKey, entries: &[u8], hashes: &[NodeHash]) -> io::Result<()> {
        assert!(entries.len() <= FRAME_SIZE_MAX, "a frame within its bound");
        let mac = hmac_sha256(key.expose(), &frame_message(&self.mac, hashes));
        let size = u32::try_from(entries.len()).expect("within the bound").to_be_bytes();
        let head = [&size[..], &size_code(key, &self.mac, size)].concat();
        write_parts(&mut self.file, &[&head, entries, &mac])?;
        self.file.sync_data()?;
        self.mac = mac;
        self.size += (FRAME_HEAD_SIZE + entries.len() + MAC_SIZE) as u64;
        Ok(())
    }
}

/// Writes parts one after the other, in one call if the system takes them at once.
fn write_parts(file: &mut File, parts: &[&[u8]]) -> io::Result<()> {
    let mut slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut rest = &mut slices[..];
    while !rest.is_empty() {
        match file.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(size) => IoSlice::advance_slices(&mut rest, size),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A segment with one frame, as bytes.
pub(crate) fn sealed_frame(
    key: &JournalKey,
    origin: &str,
    start: u64,
    root: &NodeHash,
    (entries, hashes): (&[u8], &[NodeHash]),
) -> Vec<u8> {
    let head = hmac_sha256(key.expose(), &head_message(origin, start, root));
    let mac = hmac_sha256(key.expose(), &frame_message(&head, hashes));
    let size = u32::try_from(entries.len()).expect("within the bound").to_be_bytes();
    let code = size_code(key, &head, size);
    [&TITLE[..], &start.to_be_bytes(), root, &head, &size, &code, entries, &mac].concat()
}

/// A segment that is read again after a start.
#[derive(Debug)]
pub(crate) struct OldJournalSegment {
    content: Vec<u8>,
    place: usize,
    mac: NodeHash,
    /// The root of the tree before it.
    pub(crate) root: NodeHash,
}

/// What follows in a segment.
#[derive(Debug)]
pub(crate) enum NextFrame {
    /// A frame's entries, as in a bundle, and their hashes.
    Frame(Vec<u8>, Vec<NodeHash>),
    /// Nothing.
    End,
    /// So many bytes that are no frame, and no frame follows: a write that did not end.
    Torn(usize),
    /// Something that is no frame, and more follows.
    Damaged,
}

impl OldJournalSegment {
    /// The segment in a file. `None` if its head is not whole or not of this log: if it is the last, it was being begun.
    pub(crate) fn read(folder: &LogFolder, key: &JournalKey, origin: &str, start: u64) -> io::Result<Option<Self>> {
        let path = segment_path(folder, start);
        if fs::metadata(&path)?.len() > SEGMENT_SIZE_MAX {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("longer than {SEGMENT_SIZE_MAX} bytes")));
        }
        Ok(Self::of_content(fs::read(&path)?, key, origin, start))
    }

    /// The same of its content.
    pub(crate) fn of_content(content: Vec<u8>, key: &JournalKey, origin: &str, start: u64) -> Option<Self> {
        let head = content.first_chunk::<HEAD_SIZE>()?;
        let (text, mac) = head.split_at(HEAD_SIZE - MAC_SIZE);
        let root: NodeHash = text[text.len() - 32..].try_into().expect("32 bytes");
        let is_ours = *text == [&TITLE[..], &start.to_be_bytes(), &root].concat()
            && hmac_sha256_verify(key.expose(), &head_message(origin, start, &root), mac);
        let mac = mac.try_into().expect("its size");
        is_ours.then_some(Self { content, place: HEAD_SIZE, mac, root })
    }

    /// The next frame.
    pub(crate) fn next(&mut self, key: &JournalKey) -> NextFrame {
        let rest = &self.content[self.place..];
        if rest.is_empty() {
            return NextFrame::End;
        }
        let torn = NextFrame::Torn(rest.len());
        let Some((size, after)) = rest.split_first_chunk::<4>() else { return torn };
        let Some((code, after)) = after.split_first_chunk() else { return torn };
        if *code != size_code(key, &self.mac, *size) {
            // Some file systems leave zeros where a write did not end.
            return if rest.iter().all(|byte| *byte == 0) { torn } else { NextFrame::Damaged };
        }
        let (size, rest) = (u32::from_be_bytes(*size) as usize, after);
        let Some((entries, rest)) = rest.split_at_checked(size) else { return torn };
        let Some((mac, rest)) = rest.split_at_checked(MAC_SIZE) else { return torn };
        let hashes = frame_hashes(entries)
            .filter(|hashes| hmac_sha256_verify(key.expose(), &frame_message(&self.mac, hashes), mac));
        let Some(hashes) = hashes else { return if rest.is_empty() { torn } else { NextFrame::Damaged } };
        let entries = entries.to_vec();
        self.mac = mac.try_into().expect("its size");
        self.place += FRAME_HEAD_SIZE + size + MAC_SIZE;
        NextFrame::Frame(entries, hashes)
    }
}
