//! Why an operation failed, as the number that JavaScript receives.

/// A failed operation. `lib/native.js` maps the numbers to the contract's messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum OperationFault {
    /// The tag, key, IV, associated data or ciphertext is wrong.
    Corrupt = 1,
    /// The operation was cancelled before it ended.
    Cancelled = 2,
    /// There is no room for another asynchronous operation.
    Full = 3,
    /// The source range is outside the buffer, which has changed since it was checked.
    SourceRange = 4,
    /// The target range likewise.
    TargetRange = 5,
    /// A range of another argument likewise.
    OtherRange = 6,
    /// The algorithm does not support the operation: HMAC over an extendable-output function.
    Unsupported = 7,
    /// A defect of this package.
    Internal = 8,
}

pub(crate) type OperationResult<T> = Result<T, OperationFault>;
