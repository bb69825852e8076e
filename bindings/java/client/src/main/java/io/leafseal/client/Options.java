package io.leafseal.client;

import java.time.Duration;
import java.util.List;

/** Options that all calls share. Options are immutable: each method returns a copy. */
abstract class Options<S extends Options<S>> implements Cloneable {
    String app;
    Duration timeout;

    Options() {}

    /** An option as it is sent: a string or a boolean. Null and false are not sent. */
    record Sent(String name, String field, Object value, boolean isOfDocuments, boolean isOfFiles) {
        boolean isSet() {
            return value != null && !Boolean.FALSE.equals(value);
        }
    }

    /** The options that are data of the protocol, but for the app. */
    abstract List<Sent> sent();

    /** The app whose keys serve the call. Default: the client's. */
    public S app(String name) {
        S copy = copy();
        ((Options<?>) copy).app = name;
        return copy;
    }

    /** Overrides the client's time limit, retries included. */
    public S timeout(Duration limit) {
        S copy = copy();
        ((Options<?>) copy).timeout = limit;
        return copy;
    }

    @SuppressWarnings("unchecked")
    final S copy() {
        try {
            return (S) clone();
        } catch (CloneNotSupportedException error) {
            throw new AssertionError(error);
        }
    }
}
