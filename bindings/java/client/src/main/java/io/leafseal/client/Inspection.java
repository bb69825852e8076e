package io.leafseal.client;

import java.time.Instant;
import java.util.Optional;
import java.util.OptionalLong;

/**
 * The metadata of an envelope. The last four are present only if the call named an app.
 *
 * @param version the version in the envelope's text, such as {@code Tk9D}
 * @param curve {@code r1} or {@code k1}
 * @param type {@code string}, {@code number} or {@code boolean}
 * @param isDebug whether it is marked as created in debug mode
 * @param ephemeral the ephemeral public key, SEC1-compressed, 33 bytes
 * @param role the data role
 * @param origin the number of the software that created it
 * @param encryptedAt when it was created, to the second
 * @param keyVersion the app's key version that opens it
 */
public record Inspection(
        String version, String curve, String type, boolean isDebug, byte[] ephemeral,
        Optional<String> role, OptionalLong origin, Optional<Instant> encryptedAt, OptionalLong keyVersion) {}
