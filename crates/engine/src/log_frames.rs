//! Frames of an audit log in the keystore, as the log wants them.

use std::sync::Arc;

use leafseal_audit::{FrameFault, FrameStore, StoredFrame, StoredFrames};
use leafseal_keystore::{LogFrame, LogFrames, StoreError};

use crate::engine::Engine;

impl Engine {
    /// Where the frames of the audit log with this origin are kept in the keystore; `None` if the keystore keeps none. On a thread that may
    /// wait.
    ///
    /// # Errors
    /// As [`leafseal_keystore::Keystore::log_frames`].
    pub fn log_frames(&self, origin: &str) -> Result<Option<Arc<dyn FrameStore>>, StoreError> {
        let frames = self.store().log_frames(origin)?;
        Ok(frames.map(|frames| Arc::new(KeystoreFrames(frames)) as Arc<dyn FrameStore>))
    }
}

/// The frames of one log in a keystore.
struct KeystoreFrames(Box<dyn LogFrames>);

impl FrameStore for KeystoreFrames {
    fn is_known(&self) -> Result<bool, FrameFault> {
        Ok(self.0.is_known()?)
    }

    fn take_over(&self) -> Result<StoredFrames, FrameFault> {
        let held = self.0.take_over()?;
        Ok(StoredFrames { base: held.base, end: held.end })
    }

    fn put(&self, frame: StoredFrame) -> Result<(), FrameFault> {
        let StoredFrame { start, end, content } = frame;
        Ok(self.0.put(&LogFrame { start, end, content })?)
    }

    fn read(&self, from: u64, bytes: usize) -> Result<Vec<StoredFrame>, FrameFault> {
        let frames = self.0.read(from, bytes as u64)?;
        Ok(frames.into_iter().map(|LogFrame { start, end, content }| StoredFrame { start, end, content }).collect())
    }

    fn remove_before(&self, index: u64, base: &[u8]) -> Result<(), FrameFault> {
        Ok(self.0.remove_before(index, base)?)
    }
}
