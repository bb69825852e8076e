package io.leafseal.client;

import java.time.Duration;
import java.util.Optional;

/**
 * Receives calls and connections, for metrics and logs. Never receives values, keys or tokens.
 *
 * <p>Methods are called by threads of the client and of its callers, several at a time: they must be thread-safe and must not block.
 * Exceptions that they throw are ignored.
 */
public interface ClientObserver {
    /** A call ended. */
    default void ended(CallEnd end) {}

    /** A call is about to be retried because of this error. */
    default void retried(String method, LeafsealException error) {}

    /** A connection was opened or closed, or could not be opened. */
    default void connection(ConnectionEvent event) {}

    /**
     * How a call ended.
     *
     * @param method the method of the protocol, such as {@code encrypt}
     * @param duration from the start of the call, retries included
     * @param retries how often it was retried
     * @param requestBytes size of the request
     * @param answerBytes size of the answer, 0 without one
     * @param address the engine of the last attempt
     * @param error absent if the call succeeded
     */
    record CallEnd(
            String method, Duration duration, int retries, long requestBytes, long answerBytes, Optional<String> address,
            Optional<LeafsealException> error) {}

    /** An event in the life of a connection. */
    enum ConnectionKind { OPENED, CLOSED, FAILED }

    /**
     * A change of a connection.
     *
     * @param address the engine
     * @param kind the kind of event
     * @param error why it was closed or could not be opened
     */
    record ConnectionEvent(String address, ConnectionKind kind, Optional<LeafsealException> error) {}
}
