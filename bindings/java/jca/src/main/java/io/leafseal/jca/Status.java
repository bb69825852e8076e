package io.leafseal.jca;

/**
 * Which implementation the provider uses, and why.
 *
 * @param isNative whether the native library is in use; otherwise the provider falls back to the ciphers of the JDK
 * @param version the version of the provider
 * @param platform operating system and processor, by which the native library is chosen, such as {@code linux-x86_64}
 * @param reason where the native library was loaded from, or why it was not
 * @param implementations one line for each primitive of the native library, with what computes it on this CPU; empty without it
 */
public record Status(boolean isNative, String version, String platform, String reason, String implementations) {
}
