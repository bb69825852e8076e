package io.leafseal.client;

import java.util.List;

/**
 * The engine's report about a list or document.
 *
 * @param count documents and rewrap: how many values were encrypted, decrypted or rewrapped; 0 for other lists
 * @param matched documents: how many values each selector matched, in the order of the selectors
 * @param resealed how many values were envelopes already and are now encrypted twice
 * @param skipped how many envelopes were left alone because of {@link EncryptOptions#skipSealed}
 * @param rewrapped how many envelopes to a public key {@link EncryptOptions#reseal} made symmetric ones of
 * @param symmetric how many of the values were sealed, or opened, with a symmetric key; the others have envelopes to a public key
 * @param failed how many envelopes did not open, with {@link OnFailure#LEAVE} or {@link OnFailure#NULL}
 * @param failedIndexes the indexes of the first of those in a list
 * @param failedPaths the normalized paths (RFC 9535) of the first of those in a document
 */
public record Report(
        long count, List<Long> matched, long resealed, long skipped, long rewrapped, long symmetric, long failed, List<Long> failedIndexes, List<String> failedPaths) {}
