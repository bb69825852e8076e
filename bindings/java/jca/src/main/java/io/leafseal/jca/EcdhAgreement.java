package io.leafseal.jca;

import java.security.InvalidAlgorithmParameterException;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.NoSuchAlgorithmException;
import java.security.PrivateKey;
import java.security.SecureRandom;
import java.security.interfaces.ECPublicKey;
import java.security.spec.AlgorithmParameterSpec;
import java.util.Arrays;
import javax.crypto.KeyAgreementSpi;
import javax.crypto.SecretKey;
import javax.crypto.ShortBufferException;
import javax.crypto.spec.SecretKeySpec;

/** ECDH on P-256 (SP 800-56A, 5.7.1.2): the shared secret is the X coordinate. */
final class EcdhAgreement extends KeyAgreementSpi {
    private static final String TLS_SECRET = "TlsPremasterSecret";

    private byte[] scalar;
    /** Computed with the peer's key; null before, and once it was returned. */
    private byte[] secret;

    @Override
    protected void engineInit(Key key, SecureRandom random) throws InvalidKeyException {
        if (!(key instanceof PrivateKey)) {
            throw new InvalidKeyException("Key must be instance of PrivateKey");
        }
        byte[] next = P256.scalar(key);
        wipe(scalar);
        scalar = next;
        wipe(secret);
        secret = null;
    }

    @Override
    protected void engineInit(Key key, AlgorithmParameterSpec parameters, SecureRandom random)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        if (parameters != null) {
            throw new InvalidAlgorithmParameterException("Parameters not supported");
        }
        engineInit(key, random);
    }

    @Override
    protected Key engineDoPhase(Key key, boolean isLast) throws InvalidKeyException {
        if (scalar == null) {
            throw new IllegalStateException("Not initialized");
        }
        if (secret != null) {
            throw new IllegalStateException("Phase already executed");
        }
        if (!isLast) {
            throw new IllegalStateException("Only two party agreement supported, lastPhase must be true");
        }
        if (!(key instanceof ECPublicKey)) {
            throw new InvalidKeyException("Key must be a PublicKey with algorithm EC");
        }
        byte[] shared = new byte[P256.SIZE];
        if (!Native.agree(scalar, P256.point(key), shared)) {
            throw new InvalidKeyException("a key is out of range, or a point is not on the curve");
        }
        secret = shared;
        return null;
    }

    @Override
    protected byte[] engineGenerateSecret() {
        if (secret == null) {
            throw new IllegalStateException("Not initialized correctly");
        }
        byte[] result = secret;
        secret = null;
        return result;
    }

    @Override
    protected int engineGenerateSecret(byte[] output, int offset) throws ShortBufferException {
        if (secret == null) {
            throw new IllegalStateException("Not initialized correctly");
        }
        if (P256.SIZE > output.length - offset) {
            throw new ShortBufferException("Need " + P256.SIZE + " bytes, only " + (output.length - offset) + " available");
        }
        System.arraycopy(secret, 0, output, offset, P256.SIZE);
        wipe(secret);
        secret = null;
        return P256.SIZE;
    }

    @Override
    protected SecretKey engineGenerateSecret(String algorithm) throws NoSuchAlgorithmException {
        if (algorithm == null) {
            throw new NoSuchAlgorithmException("Algorithm must not be null");
        }
        if (!algorithm.equals(TLS_SECRET)) {
            throw new NoSuchAlgorithmException("Only supported for algorithm " + TLS_SECRET);
        }
        byte[] bytes = engineGenerateSecret();
        try {
            return new SecretKeySpec(bytes, TLS_SECRET);
        } finally {
            wipe(bytes);
        }
    }

    private static void wipe(byte[] bytes) {
        if (bytes != null) {
            Arrays.fill(bytes, (byte) 0);
        }
    }
}
