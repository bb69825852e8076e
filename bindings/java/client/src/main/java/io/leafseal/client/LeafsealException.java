package io.leafseal.client;

import java.time.Duration;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The error of every call: a stable code, and whether a retry may succeed. Messages contain no values and no secrets.
 */
public final class LeafsealException extends RuntimeException {
    /** Which side reported an error. */
    public enum Source { CLIENT, ENGINE }

    private static final long serialVersionUID = 1;
    private static final long ABSENT = -1;

    private final String code;
    private final Retry retry;
    private final Source source;
    private final long retryAfterMs;
    private final long index;
    private final long offset;

    LeafsealException(String code, String message, Retry retry, Throwable cause) {
        this(code, message, retry, Source.CLIENT, ABSENT, ABSENT, ABSENT, cause);
    }

    LeafsealException(String code, String message) {
        this(code, message, Retry.NEVER, null);
    }

    private LeafsealException(
            String code, String message, Retry retry, Source source, long retryAfterMs, long index, long offset, Throwable cause) {
        super(message, cause);
        this.code = code;
        this.retry = retry;
        this.source = source;
        this.retryAfterMs = retryAfterMs;
        this.index = index;
        this.offset = offset;
    }

    /** An error object of the engine; numbers below 0 are absent. */
    static LeafsealException ofEngine(String code, String message, Retry retry, long retryAfterMs, long index, long offset) {
        return new LeafsealException(code, message, retry, Source.ENGINE, retryAfterMs, index, offset, null);
    }

    static LeafsealException invalidArgument(String message) {
        return new LeafsealException(ErrorCode.INVALID_PARAMS, message);
    }

    /** The error of an element of a list, which the message names, too. */
    static LeafsealException invalidElement(String name, int index, String message) {
        String text = name + "[" + index + "]: " + message;
        return new LeafsealException(ErrorCode.INVALID_PARAMS, text, Retry.NEVER, Source.CLIENT, ABSENT, index, ABSENT, null);
    }

    static LeafsealException protocol(String message) {
        return new LeafsealException(ErrorCode.PROTOCOL_ERROR, message, Retry.ELSEWHERE, null);
    }

    /** The same error with the stack of the calling thread; the cause is the error as it was noticed. */
    LeafsealException here() {
        return new LeafsealException(code, getMessage(), retry, source, retryAfterMs, index, offset, this);
    }

    /** The stable code, such as {@link ErrorCode#DECRYPT_FAILED}. */
    public String code() {
        return code;
    }

    /** Whether the same call may succeed. */
    public Retry retry() {
        return retry;
    }

    /** Whether the engine reported the error. */
    public Source source() {
        return source;
    }

    /** With {@link Retry#LATER}: the minimum pause before a retry. */
    public Optional<Duration> retryAfter() {
        return retryAfterMs < 0 ? Optional.empty() : Optional.of(Duration.ofMillis(retryAfterMs));
    }

    /** Index of the first value or selector at fault, from 0. */
    public OptionalLong index() {
        return index < 0 ? OptionalLong.empty() : OptionalLong.of(index);
    }

    /** Byte offset of the fault in the document or selector. */
    public OptionalLong offset() {
        return offset < 0 ? OptionalLong.empty() : OptionalLong.of(offset);
    }

    @Override
    public String toString() {
        return LeafsealException.class.getName() + ": " + code + ": " + getMessage();
    }
}
