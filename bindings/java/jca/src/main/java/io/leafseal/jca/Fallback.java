package io.leafseal.jca;

import java.util.concurrent.atomic.AtomicBoolean;

/** Logs, once, that there is no native library. A class of its own: logging is not loaded where there is one. */
final class Fallback {
    private static final AtomicBoolean IS_LOGGED = new AtomicBoolean();

    private Fallback() {
    }

    static void log(Status status) {
        if (!IS_LOGGED.getAndSet(true)) {
            System.getLogger("io.leafseal.jca").log(System.Logger.Level.WARNING,
                    "Leafseal uses the ciphers of the JDK in pieces of 16 KiB: " + status.reason());
        }
    }
}
