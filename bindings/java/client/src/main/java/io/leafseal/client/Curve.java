package io.leafseal.client;

/** The curve of new envelopes. */
public enum Curve {
    /** P-256. */
    R1("r1"),
    /** secp256k1. */
    K1("k1");

    final String word;

    Curve(String word) {
        this.word = word;
    }
}
