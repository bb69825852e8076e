//! Checkpoints: the size and root of a log, signed (C2SP `tlog-checkpoint`).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

use crate::merkle::NodeHash;
use crate::note::{Note, NoteFault, NoteSigner, VerifierKey};

/// Why a text is not a checkpoint of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum CheckpointFault {
    /// Not a note, or not signed by the log.
    #[error(transparent)]
    Note(#[from] NoteFault),
    /// The text of the note is not origin, size and root.
    #[error("not a checkpoint: it must have three lines, an origin, a size and a root hash")]
    Malformed,
    /// Of another log.
    #[error("a checkpoint of another log")]
    Origin,
}

/// How many entries a log has, and the root of their tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// Which log.
    pub origin: String,
    /// Entries.
    pub size: u64,
    /// Root hash.
    pub root: NodeHash,
}

impl Checkpoint {
    /// The text that is signed.
    pub fn text(&self) -> String {
        format!("{}\n{}\n{}\n", self.origin, self.size, STANDARD.encode(self.root))
    }

    /// The signed note.
    pub fn sign(&self, signer: &NoteSigner) -> String {
        signer.sign(&self.text())
    }

    /// Reads a note of the log whose key this is. Signatures of others are ignored.
    ///
    /// # Errors
    /// [`CheckpointFault`].
    pub fn open(note: &[u8], log: &VerifierKey) -> Result<Self, CheckpointFault> {
        let note = Note::parse(note)?;
        note.verify(std::slice::from_ref(log))?;
        let checkpoint = Self::parse(note.text)?;
        if checkpoint.origin == log.name() { Ok(checkpoint) } else { Err(CheckpointFault::Origin) }
    }

    fn parse(text: &str) -> Result<Self, CheckpointFault> {
        // Extension lines, which may follow, are signed and say nothing about the tree.
        let mut lines = text.lines();
        let mut line = || lines.next().filter(|line| !line.is_empty()).ok_or(CheckpointFault::Malformed);
        let (origin, size, root) = (line()?.to_owned(), line()?, line()?);
        let number: u64 = size.parse().map_err(|_| CheckpointFault::Malformed)?;
        let root =
            STANDARD.decode(root).ok().and_then(|root| root.try_into().ok()).ok_or(CheckpointFault::Malformed)?;
        if number.to_string() == size {
            Ok(Self { origin, size: number, root })
        } else {
            Err(CheckpointFault::Malformed)
        }
    }
}

#[cfg(test)]
mod tests {
    use leafseal_crypto::Secret;
    use leafseal_crypto::ed25519::Ed25519PrivateKey;

    use super::*;

    #[test]
    fn a_checkpoint_is_of_its_log() {
        let private = Ed25519PrivateKey::from_seed(Secret::from_bytes(&[1; 32]));
        let signer = NoteSigner::of_log("leafseal/a/b", private).expect("a name");
        let checkpoint = Checkpoint { origin: "leafseal/a/b".to_owned(), size: 70_000, root: [7; 32] };
        let note = checkpoint.sign(&signer);
        assert_eq!(Checkpoint::open(note.as_bytes(), signer.public()), Ok(checkpoint.clone()));
        let opened = |text: &str| Checkpoint::open(signer.sign(text).as_bytes(), signer.public());
        let root = STANDARD.encode([7; 32]);
        assert_eq!(opened(&format!("leafseal/a/b\n70000\n{root}\nmore\n")), Ok(checkpoint));
        assert_eq!(opened(&format!("leafseal/a/c\n70000\n{root}\n")), Err(CheckpointFault::Origin));
        for wrong in [
            format!("leafseal/a/b\n070000\n{root}\n"),
            format!("leafseal/a/b\n+1\n{root}\n"),
            format!("leafseal/a/b\n\n{root}\n"),
            format!("\n1\n{root}\n"),
            "leafseal/a/b\n1\n".to_owned(),
            "leafseal/a/b\n1\nAAAA\n".to_owned(),
            format!("leafseal/a/b\n-1\n{root}\n"),
            format!("leafseal/a/b\n18446744073709551616\n{root}\n"),
        ] {
            assert_eq!(opened(&wrong), Err(CheckpointFault::Malformed), "{wrong:?}");
        }
    }
}
