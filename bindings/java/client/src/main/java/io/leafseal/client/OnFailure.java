package io.leafseal.client;

/** The action for an envelope that does not open. */
public enum OnFailure {
    /** The call fails. */
    FAIL("fail"),
    /** The envelope stays unchanged. */
    LEAVE("leave"),
    /** The envelope is replaced by null. */
    NULL("null");

    final String word;

    OnFailure(String word) {
        this.word = word;
    }
}
