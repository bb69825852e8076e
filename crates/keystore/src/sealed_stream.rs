//! A sealed stream: bytes of any number, encrypted and authenticated in chunks, with one chunk in memory. What is read was authenticated;
//! a chunk that is changed, missing, moved or added ends the reading, and so does an end that is not the writer's.
//!
//! ```text
//! header, then chunks of AES-256-GCM, each 64 KiB but the last, which may be shorter or empty
//! nonce(chunk) = 0 (7 bytes) ‖ number of the chunk from 0 (4, big endian) ‖ 1 for the last chunk, otherwise 0
//! aad(chunk)   = header
//! ```
//!
//! That is the STREAM construction (Hoang, Reyhanitabar, Rogaway and Vizár, CRYPTO 2015). A key serves one stream.

use std::io::{ErrorKind, Read, Write};

use leafseal_crypto::aead::{NONCE_SIZE, OpenItem, SealItem, TAG_SIZE};
use leafseal_crypto::{AeadAlgorithm, AeadKey, Nonce, Secret};
use zeroize::Zeroizing;

use crate::StoreError;
use crate::error::BackupFault;

/// Bytes of a chunk before it is sealed.
const CHUNK_SIZE: usize = 64 << 10;

/// The part of writer and reader that they have in common.
struct ChunkCipher {
    key: AeadKey,
    header: Vec<u8>,
    number: u32,
}

impl ChunkCipher {
    fn new(key: &Secret<32>, header: &[u8]) -> Self {
        let key = AeadKey::new(AeadAlgorithm::Aes256Gcm, key.expose()).expect("32 bytes are an AES-256 key");
        Self { key, header: header.to_vec(), number: 0 }
    }

    /// The nonce of the next chunk.
    fn next(&mut self, is_last: bool) -> Result<Nonce, StoreError> {
        let mut nonce = [0; NONCE_SIZE];
        nonce[NONCE_SIZE - 5..NONCE_SIZE - 1].copy_from_slice(&self.number.to_be_bytes());
        nonce[NONCE_SIZE - 1] = is_last.into();
        self.number = self.number.checked_add(1).ok_or(StoreError::Backup(BackupFault::TooLarge))?;
        Ok(Nonce(nonce))
    }
}

/// Seals what is written to it.
pub(crate) struct SealingWriter<'w> {
    chunks: ChunkCipher,
    out: &'w mut dyn Write,
    plaintext: Zeroizing<Vec<u8>>,
    sealed: Vec<u8>,
    size: u64,
}

impl<'w> SealingWriter<'w> {
    /// Writes `header` as it is, and what follows under `key`.
    pub(crate) fn new(key: &Secret<32>, header: &[u8], out: &'w mut dyn Write) -> Result<Self, StoreError> {
        out.write_all(header).map_err(StoreError::BackupWrite)?;
        let (plaintext, size) = (Zeroizing::new(Vec::with_capacity(CHUNK_SIZE)), header.len() as u64);
        Ok(Self { chunks: ChunkCipher::new(key, header), out, plaintext, sealed: Vec::new(), size })
    }

    pub(crate) fn write(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        while !bytes.is_empty() {
            if self.plaintext.len() == CHUNK_SIZE {
                self.seal(false)?;
            }
            let (front, rest) = bytes.split_at(bytes.len().min(CHUNK_SIZE - self.plaintext.len()));
            self.plaintext.extend_from_slice(front);
            bytes = rest;
        }
        Ok(())
    }

    /// Ends the stream, and returns the bytes that were written.
    pub(crate) fn finish(mut self) -> Result<u64, StoreError> {
        self.seal(true)?;
        self.out.flush().map_err(StoreError::BackupWrite)?;
        Ok(self.size)
    }

    fn seal(&mut self, is_last: bool) -> Result<(), StoreError> {
        let nonce = self.chunks.next(is_last)?;
        self.sealed.resize(self.plaintext.len() + TAG_SIZE, 0);
        let item = SealItem { nonce, aad: &self.chunks.header, plaintext: &self.plaintext };
        self.chunks.key.seal(&item, &mut self.sealed);
        self.plaintext.clear();
        self.size += self.sealed.len() as u64;
        self.out.write_all(&self.sealed).map_err(StoreError::BackupWrite)
    }
}

/// Opens what a [`SealingWriter`] wrote.
pub(crate) struct OpeningReader<'r> {
    chunks: ChunkCipher,
    input: &'r mut dyn Read,
    /// The next chunk, read ahead, so that the last is known.
    sealed: Vec<u8>,
    plaintext: Zeroizing<Vec<u8>>,
    taken: usize,
    is_at_end: bool,
}

impl<'r> OpeningReader<'r> {
    /// `input` stands after `header`.
    pub(crate) fn new(key: &Secret<32>, header: &[u8], input: &'r mut dyn Read) -> Result<Self, StoreError> {
        let sealed = read_up_to(input, CHUNK_SIZE + TAG_SIZE)?;
        let (chunks, plaintext) = (ChunkCipher::new(key, header), Zeroizing::new(Vec::new()));
        Ok(Self { chunks, input, sealed, plaintext, taken: 0, is_at_end: false })
    }

    /// Fills `bytes`.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> Result<(), StoreError> {
        let mut filled = 0;
        while filled < bytes.len() {
            if self.taken == self.plaintext.len() {
                self.open()?;
            }
            let count = (bytes.len() - filled).min(self.plaintext.len() - self.taken);
            bytes[filled..filled + count].copy_from_slice(&self.plaintext[self.taken..self.taken + count]);
            (filled, self.taken) = (filled + count, self.taken + count);
        }
        Ok(())
    }

    /// Checks that nothing follows.
    pub(crate) fn finish(mut self) -> Result<(), StoreError> {
        if self.taken == self.plaintext.len() && !self.is_at_end {
            self.open()?;
        }
        if self.is_at_end && self.taken == self.plaintext.len() { Ok(()) } else { Err(DAMAGED) }
    }

    fn open(&mut self) -> Result<(), StoreError> {
        if self.is_at_end {
            return Err(DAMAGED);
        }
        let next = if self.sealed.len() == CHUNK_SIZE + TAG_SIZE {
            read_up_to(self.input, CHUNK_SIZE + TAG_SIZE)?
        } else {
            Vec::new()
        };
        self.is_at_end = next.is_empty();
        let nonce = self.chunks.next(self.is_at_end)?;
        let size = self.sealed.len().checked_sub(TAG_SIZE).ok_or(DAMAGED)?;
        self.plaintext.resize(size, 0);
        let item = OpenItem { nonce, aad: &self.chunks.header, sealed: &self.sealed };
        self.chunks.key.open(&item, &mut self.plaintext).map_err(|_| DAMAGED)?;
        (self.sealed, self.taken) = (next, 0);
        Ok(())
    }
}

pub(crate) const DAMAGED: StoreError = StoreError::Backup(BackupFault::Damaged);

/// At most `size` bytes, fewer only at the end.
pub(crate) fn read_up_to(input: &mut dyn Read, size: usize) -> Result<Vec<u8>, StoreError> {
    let mut bytes = vec![0; size];
    let mut filled = 0;
    while filled < size {
        match input.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(StoreError::BackupRead(error)),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &[u8] = b"header";

    fn key() -> Secret<32> {
        Secret::from_bytes(&[7; 32])
    }

    fn seal(plaintext: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = SealingWriter::new(&key(), HEADER, &mut out).expect("written");
        plaintext.chunks(1000).for_each(|piece| writer.write(piece).expect("written"));
        let size = writer.finish().expect("written");
        assert_eq!(size, out.len() as u64);
        out
    }

    fn open(sealed: &[u8], size: usize) -> Result<Vec<u8>, StoreError> {
        let mut input = sealed.strip_prefix(HEADER).unwrap_or_default();
        let mut reader = OpeningReader::new(&key(), HEADER, &mut input)?;
        let mut plaintext = vec![0; size];
        reader.read(&mut plaintext)?;
        reader.finish()?;
        Ok(plaintext)
    }

    #[test]
    fn streams_of_every_length_open_whole_and_not_otherwise() {
        for size in [0, 1, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 2 * CHUNK_SIZE, 3 * CHUNK_SIZE + 5] {
            let plaintext: Vec<u8> = (0..size).map(|index| (index % 251) as u8).collect();
            let sealed = seal(&plaintext);
            assert_eq!(open(&sealed, size).expect("opened"), plaintext);
            assert!(open(&sealed, size + 1).is_err() && (size == 0 || open(&sealed, size - 1).is_err()), "{size}");
            let longer = [&sealed, &[0][..]].concat();
            assert!(open(&longer, size).is_err(), "{size}: a byte more");
            for end in (HEADER.len()..sealed.len()).step_by(1013).chain([sealed.len() - 1]) {
                assert!(open(&sealed[..end], size).is_err(), "{size}: cut at {end}");
            }
        }
    }

    #[test]
    fn chunks_neither_move_nor_change() {
        let size = 3 * CHUNK_SIZE;
        let (sealed, chunk) = (seal(&vec![1; size]), CHUNK_SIZE + TAG_SIZE);
        let mut swapped = sealed.clone();
        let (front, back) = swapped[HEADER.len()..].split_at_mut(chunk);
        front.swap_with_slice(&mut back[..chunk]);
        assert!(open(&swapped, size).is_err());
        let removed = [&sealed[..HEADER.len() + chunk], &sealed[HEADER.len() + 2 * chunk..]].concat();
        assert!(open(&removed, size - CHUNK_SIZE).is_err());
        for place in [HEADER.len(), HEADER.len() + chunk, sealed.len() - 1] {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert!(open(&changed, size).is_err(), "{place}");
        }
        let mut input = &sealed[HEADER.len()..];
        let mut other = OpeningReader::new(&key(), b"Header", &mut input).expect("read");
        assert!(other.read(&mut [0]).is_err(), "another header");
    }
}
