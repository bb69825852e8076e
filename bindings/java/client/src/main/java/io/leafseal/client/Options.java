package io.leafseal.client;

import java.time.Duration;

/** What the options of all calls share. Options are immutable: each method returns a copy. */
abstract class Options<S extends Options<S>> implements Cloneable {
    String app;
    Duration timeout;

    Options() {}

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
