//! Associated data. Version 2 (67 bytes) binds type, curve, ephemeral key and app key: `flag ‖ ephemeral ‖ app`, where the flag is
//! the type in its upper half plus 1 for P-256, or `0x80` for a debug string whatever its type.

use leafseal_crypto::ec::COMPRESSED_SIZE;
use leafseal_crypto::{Curve, PublicKey};

use crate::parts::{Marking, ValueType};

const FLAGGED_SIZE: usize = 1 + 2 * COMPRESSED_SIZE;
const FLAG_DEBUG: u8 = 0x80;

/// Every associated data that one pair of ephemeral and app key can have, made once.
pub(crate) struct AssociatedData {
    /// The app key's compressed point.
    pub(crate) app: [u8; COMPRESSED_SIZE],
    /// The ephemeral key's compressed point.
    pub(crate) ephemeral: [u8; COMPRESSED_SIZE],
    flagged: [[u8; FLAGGED_SIZE]; 4],
}

impl AssociatedData {
    pub(crate) fn new(ephemeral: &PublicKey, app: &PublicKey) -> Self {
        let (ephemeral_point, app_point) = (ephemeral.compressed(), app.compressed());
        let curve_bit = u8::from(app.curve() == Curve::P256);
        let flags = [0, 1, 2].map(|value_type: u8| (value_type << 4) | curve_bit);
        let flagged = [flags[0], flags[1], flags[2], FLAG_DEBUG].map(|flag| {
            let mut bytes = [flag; FLAGGED_SIZE];
            bytes[1..=COMPRESSED_SIZE].copy_from_slice(&ephemeral_point);
            bytes[1 + COMPRESSED_SIZE..].copy_from_slice(&app_point);
            bytes
        });
        Self { app: app_point, ephemeral: ephemeral_point, flagged }
    }

    /// Version 2 for a value of this type and marking.
    pub(crate) fn flagged(&self, value_type: ValueType, marking: Marking) -> &[u8] {
        match marking {
            Marking::Live => &self.flagged[value_type as usize],
            Marking::Debug => &self.flagged[3],
        }
    }
}
