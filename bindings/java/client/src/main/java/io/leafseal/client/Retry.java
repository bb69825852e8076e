package io.leafseal.client;

/** Whether the same call may succeed if it is made again. */
public enum Retry {
    /** The same call fails again. */
    NEVER,
    /** The same engine may serve it after a pause. */
    LATER,
    /** Another engine, or a new connection, may serve it now. */
    ELSEWHERE;

    static Retry of(String word) {
        return switch (word) {
            case "later" -> LATER;
            case "elsewhere" -> ELSEWHERE;
            default -> NEVER;
        };
    }
}
