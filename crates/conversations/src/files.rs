//! The conversations in `vectors/client/conversations`.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::model::{Model, Ties};
use crate::script::Conversation;

/// Reads the conversations of a folder, in the order of their names.
///
/// # Errors
/// If a file cannot be read, or is no conversation.
pub fn read_all(folder: &Path) -> io::Result<Vec<(PathBuf, Conversation)>> {
    let paths: io::Result<Vec<PathBuf>> = fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths?;
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path)?;
        let conversation = serde_json::from_str(&text);
        let conversation = conversation.map_err(|error| io::Error::other(format!("{}: {error}", path.display())))?;
        Ok((path, conversation))
    };
    paths.into_iter().map(read).collect()
}

/// Whether to change files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Only compare.
    Check,
    /// Write the transcripts of the model.
    Update,
}

/// Compares the transcripts in a folder with those of the model; returns the files that differ.
///
/// # Errors
/// If a file cannot be read or written, or is no conversation.
pub fn stale(folder: &Path, mode: Mode) -> io::Result<Vec<PathBuf>> {
    let mut stale = Vec::new();
    for (path, mut conversation) in read_all(folder)? {
        (conversation.expect, conversation.until) = Model::play(&conversation, Ties::First);
        let fresh = conversation.to_text();
        if fresh != fs::read_to_string(&path)? {
            if mode == Mode::Update {
                fs::write(&path, fresh)?;
            }
            stale.push(path);
        }
    }
    Ok(stale)
}
