package io.leafseal.client;

import java.util.Optional;

/**
 * The newest public keys of an app.
 *
 * @param app the app
 * @param version the key version, from 1
 * @param r1 the P-256 key, SEC1-compressed, 33 bytes
 * @param k1 the secp256k1 key, SEC1-compressed, 33 bytes
 * @param r1Pem the P-256 key as SubjectPublicKeyInfo in PEM
 * @param k1Pem the secp256k1 key as SubjectPublicKeyInfo in PEM
 */
public record PublicKeys(String app, long version, byte[] r1, byte[] k1, Optional<String> r1Pem, Optional<String> k1Pem) {}
