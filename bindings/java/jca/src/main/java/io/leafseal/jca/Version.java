package io.leafseal.jca;

/** The version of these classes, which must be that of the native library. A test compares it with the one in {@code pom.xml}. */
final class Version {
    static final String VERSION = "0.1.0";

    private Version() {
    }
}
