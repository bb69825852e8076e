package io.leafseal.client;

import java.time.Duration;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The error of every call: a stable code, and whether a retry may succeed. Messages contain no values and no secrets.
 *
 * <p>Codes of the engine are those of the protocol, and a newer engine may send others. The client adds the constants of this class.
 */
public final class LeafsealException extends RuntimeException {
    /** A setting is missing or out of range. */
    public static final String INVALID_SETTINGS = "invalid_settings";
    /** An argument of a call is invalid; the message names it. */
    public static final String INVALID_ARGUMENT = "invalid_argument";
    /** No engine could be reached. */
    public static final String CONNECT_FAILED = "connect_failed";
    /** TLS: one side refused the other's certificate, or a certificate file cannot be used. */
    public static final String TLS_FAILED = "tls_failed";
    /** The connection ended before the answer arrived. The engine may have processed the request. */
    public static final String CONNECTION_LOST = "connection_lost";
    /** The connection ended before the engine started the request. */
    public static final String GOING_AWAY = "going_away";
    /** The answer did not arrive within the call's time. The engine was asked to stop. */
    public static final String DEADLINE_EXCEEDED = "deadline_exceeded";
    /** The calling thread was interrupted, or the future was cancelled. The engine was asked to stop. */
    public static final String ABORTED = "aborted";
    /** More calls, or more bytes of calls, wait than the settings allow. */
    public static final String BUSY = "busy";
    /** The request or the answer exceeds a size limit. */
    public static final String TOO_LARGE = "too_large";
    /** The peer violated the protocol. */
    public static final String PROTOCOL_ERROR = "protocol_error";
    /** The client is closed. */
    public static final String CLOSED = "closed";

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
        return new LeafsealException(INVALID_ARGUMENT, message);
    }

    /** The error of an element of a list, which the message names, too. */
    static LeafsealException invalidElement(String name, int index, String message) {
        String text = name + "[" + index + "]: " + message;
        return new LeafsealException(INVALID_ARGUMENT, text, Retry.NEVER, Source.CLIENT, ABSENT, index, ABSENT, null);
    }

    static LeafsealException protocol(String message) {
        return new LeafsealException(PROTOCOL_ERROR, message, Retry.ELSEWHERE, null);
    }

    /** The same error with the stack of the calling thread; the cause is the error as it was noticed. */
    LeafsealException here() {
        return new LeafsealException(code, getMessage(), retry, source, retryAfterMs, index, offset, this);
    }

    /** The stable code, such as {@code decrypt_failed}. */
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
