//! BoringSSL's big numbers, from bytes.

use std::ptr::{NonNull, null_mut};

use boring_sys as bssl;

/// A big number that is wiped when it goes.
pub(super) struct WipedNumber(NonNull<bssl::BIGNUM>);

impl WipedNumber {
    pub(super) fn new(bytes: &[u8]) -> Self {
        // SAFETY: `bytes` is readable for its length; a null result argument allocates a new number.
        let number = unsafe { bssl::BN_bin2bn(bytes.as_ptr(), bytes.len(), null_mut()) };
        Self(NonNull::new(number).expect("only a failed allocation makes no number"))
    }

    pub(super) fn as_ptr(&self) -> *mut bssl::BIGNUM {
        self.0.as_ptr()
    }
}

impl Drop for WipedNumber {
    fn drop(&mut self) {
        // SAFETY: owned, freed once.
        unsafe { bssl::BN_clear_free(self.0.as_ptr()) }
    }
}
