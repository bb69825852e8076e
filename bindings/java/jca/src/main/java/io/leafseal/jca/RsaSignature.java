package io.leafseal.jca;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.security.AlgorithmParameters;
import java.security.InvalidAlgorithmParameterException;
import java.security.InvalidKeyException;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.security.SignatureException;
import java.security.spec.AlgorithmParameterSpec;

/** RSASSA-PKCS1-v1_5 (RFC 8017, 8.2). */
final class RsaSignature extends NativeSignature {
    private final RsaMessage message;

    /** {@code scheme} is one of {@link RsaMessage}. */
    RsaSignature(int scheme) {
        message = new RsaMessage(scheme);
    }

    @Override
    protected void engineInitSign(PrivateKey key) throws InvalidKeyException {
        message.initSign(key);
    }

    @Override
    protected void engineInitSign(PrivateKey key, SecureRandom random) throws InvalidKeyException {
        message.initSign(key);
    }

    @Override
    protected void engineInitVerify(PublicKey key) throws InvalidKeyException {
        message.initVerify(key);
    }

    @Override
    protected void engineUpdate(byte input) {
        message.hasher.update(input);
    }

    @Override
    protected void engineUpdate(byte[] input, int offset, int size) {
        message.hasher.update(input, offset, size);
    }

    @Override
    protected void engineUpdate(ByteBuffer input) {
        message.hasher.update(input);
    }

    @Override
    protected byte[] engineSign() {
        return message.sign();
    }

    @Override
    protected boolean engineVerify(byte[] signature) throws SignatureException {
        return message.verify(signature);
    }

    @Override
    protected void engineSetParameter(AlgorithmParameterSpec spec) throws InvalidAlgorithmParameterException {
        if (spec != null) {
            throw new InvalidAlgorithmParameterException("No parameters accepted");
        }
    }

    @Override
    protected AlgorithmParameters engineGetParameters() {
        return null;
    }

    /** A message under a key and a scheme. */
    static final class RsaMessage {
        /** Added to the number of a hash function: RSASSA-PSS instead of RSASSA-PKCS1-v1_5. */
        static final int PSS = 4;

        private static final int[] HASHES = {Hasher.SHA_256, Hasher.SHA_384, Hasher.SHA_512};

        final Hasher hasher;
        private final int scheme;
        private Slot privateKey;
        /** Modulus and exponent. */
        private byte[][] publicKey;
        private int size;

        /** {@code scheme}: 0, 1 and 2 stand for SHA-256, SHA-384 and SHA-512, plus {@link #PSS}. */
        RsaMessage(int scheme) {
            this.scheme = scheme;
            hasher = new Hasher(HASHES[scheme & 3]);
        }

        private boolean isPss() {
            return scheme >= PSS;
        }

        void initSign(PrivateKey key) throws InvalidKeyException {
            privateKey = RsaKeys.slot(key, isPss());
            publicKey = null;
            size = ((java.security.interfaces.RSAKey) key).getModulus().bitLength() / 8;
            hasher.reset();
        }

        void initVerify(PublicKey key) throws InvalidKeyException {
            publicKey = RsaKeys.numbers(key, isPss());
            privateKey = null;
            size = publicKey[0].length;
            hasher.reset();
        }

        private byte[] digest() {
            byte[] digest = new byte[hasher.size()];
            hasher.end(digest, 0);
            return digest;
        }

        byte[] sign() {
            byte[] signature = new byte[size];
            Slot key = privateKey;
            try {
                Native.signRsa(key.address, scheme, digest(), signature);
            } finally {
                Reference.reachabilityFence(key);
            }
            return signature;
        }

        boolean verify(byte[] signature) throws SignatureException {
            byte[][] key = publicKey;
            byte[] digest = digest();
            if (signature.length != size) {
                throw new SignatureException("Bad signature length: got " + signature.length + " but was expecting " + size);
            }
            return Native.verifyRsa(key[0], key[1], scheme, digest, signature) == 1;
        }
    }
}
