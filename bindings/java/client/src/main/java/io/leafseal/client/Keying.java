package io.leafseal.client;

/** How often the engine creates a fresh ephemeral key. */
public enum Keying {
    /** For every value. */
    FIELD("field"),
    /** Once for each request. */
    REQUEST("request"),
    /** Once for many requests, within bounds of time and count. */
    SESSION("session");

    final String word;

    Keying(String word) {
        this.word = word;
    }
}
