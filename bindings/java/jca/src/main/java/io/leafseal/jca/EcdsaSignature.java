package io.leafseal.jca;

import java.io.IOException;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.security.AlgorithmParameters;
import java.security.GeneralSecurityException;
import java.security.InvalidAlgorithmParameterException;
import java.security.InvalidKeyException;
import java.security.PrivateKey;
import java.security.ProviderException;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.security.SignatureException;
import java.security.spec.AlgorithmParameterSpec;
import java.security.spec.ECParameterSpec;
import java.util.Arrays;

/**
 * ECDSA on P-256 (FIPS 186-5), of a hash or of a digest that the caller computed, as DER or as r and s side by side (IEEE P1363). The
 * nonce is derived from the system's randomness, the key and the message; the caller's generator is not used.
 */
final class EcdsaSignature extends NativeSignature {
    /** Instead of a hash function: the caller passes digests. */
    static final int NONE = -1;

    private static final int DER_SIZE_MAX = 72;
    private static final int P1363_SIZE = 2 * P256.SIZE;

    private final Message message;
    private final boolean isDer;
    private byte[] scalar;
    private byte[] point;
    private AlgorithmParameterSpec parameters;

    EcdsaSignature(int hash, boolean isDer) {
        message = new Message(hash);
        this.isDer = isDer;
    }

    @Override
    protected void engineInitSign(PrivateKey key) throws InvalidKeyException {
        byte[] next = P256.scalar(key);
        forgetKey();
        scalar = next;
        message.reset();
    }

    @Override
    protected void engineInitSign(PrivateKey key, SecureRandom random) throws InvalidKeyException {
        engineInitSign(key);
    }

    @Override
    protected void engineInitVerify(PublicKey key) throws InvalidKeyException {
        byte[] next = P256.point(key);
        forgetKey();
        point = next;
        message.reset();
    }

    private void forgetKey() {
        if (scalar != null) {
            Arrays.fill(scalar, (byte) 0);
        }
        scalar = null;
        point = null;
    }

    @Override
    protected void engineUpdate(byte input) {
        message.update(input);
    }

    @Override
    protected void engineUpdate(byte[] input, int offset, int size) {
        message.update(input, offset, size);
    }

    @Override
    protected void engineUpdate(ByteBuffer input) {
        message.update(input);
    }

    @Override
    protected byte[] engineSign() throws SignatureException {
        byte[] signature = new byte[DER_SIZE_MAX];
        int size = Native.signEcdsa(scalar, message.end(), signature);
        if (size == 0) {
            throw new SignatureException("the private key is out of range");
        }
        return isDer ? Arrays.copyOf(signature, size) : toP1363(Arrays.copyOf(signature, size));
    }

    @Override
    protected boolean engineVerify(byte[] signature) throws SignatureException {
        byte[] digest = message.end();
        byte[] der = isDer ? checked(signature) : fromP1363(signature);
        if (der == null) {
            return false;
        }
        int result = Native.verifyEcdsa(point, digest, der);
        if (result < 0) {
            throw new SignatureException("the point of the public key is not on the curve");
        }
        return result == 1;
    }

    /** The signature, if it is a sequence of two integers: what is not has the JDK's exception. */
    private static byte[] checked(byte[] signature) throws SignatureException {
        try {
            Der all = new Der(signature, 0, signature.length);
            Der numbers = all.enter(Der.SEQUENCE);
            all.end();
            numbers.bytes(Der.INTEGER);
            numbers.bytes(Der.INTEGER);
            numbers.end();
            return signature;
        } catch (IOException error) {
            throw new SignatureException("Invalid encoding for signature", error);
        }
    }

    private static byte[] toP1363(byte[] der) throws SignatureException {
        byte[] signature = new byte[P1363_SIZE];
        try {
            Der numbers = new Der(der, 0, der.length).enter(Der.SEQUENCE);
            for (int i = 0; i < 2; i++) {
                byte[] number = numbers.bytes(Der.INTEGER);
                int size = Math.min(number.length, P256.SIZE);
                System.arraycopy(number, number.length - size, signature, (i + 1) * P256.SIZE - size, size);
            }
            return signature;
        } catch (IOException error) {
            throw new SignatureException("a signature that is not DER", error);
        }
    }

    /** Null for a signature of another size. */
    private static byte[] fromP1363(byte[] signature) {
        if (signature.length != P1363_SIZE) {
            return null;
        }
        byte[] r = integer(signature, 0);
        byte[] s = integer(signature, P256.SIZE);
        byte[] numbers = Arrays.copyOf(r, r.length + s.length);
        System.arraycopy(s, 0, numbers, r.length, s.length);
        return Der.encode(Der.SEQUENCE, numbers);
    }

    private static byte[] integer(byte[] bytes, int offset) {
        return Der.encode(Der.INTEGER, new BigInteger(1, bytes, offset, P256.SIZE).toByteArray());
    }

    @Override
    protected void engineSetParameter(AlgorithmParameterSpec spec) throws InvalidAlgorithmParameterException {
        if (spec != null && !(spec instanceof ECParameterSpec)) {
            throw new InvalidAlgorithmParameterException("No parameter accepted");
        }
        if (spec != null && !P256.isCurve((ECParameterSpec) spec)) {
            throw new InvalidAlgorithmParameterException("Signature params does not match key params");
        }
        parameters = spec;
    }

    @Override
    protected AlgorithmParameters engineGetParameters() {
        if (parameters == null) {
            return null;
        }
        try {
            AlgorithmParameters result = AlgorithmParameters.getInstance("EC");
            result.init(parameters);
            return result;
        } catch (GeneralSecurityException error) {
            throw new ProviderException("Error retrieving EC parameters", error);
        }
    }

    /** The input of a signature: a message to be hashed, or a digest of at most 64 bytes. */
    private static final class Message {
        private static final int DIGEST_SIZE_MAX = 64;

        private final Hasher hasher;
        private final byte[] raw;
        /** Beyond the most that {@code raw} holds: too many bytes. */
        private int rawSize;

        Message(int hash) {
            hasher = hash == NONE ? null : new Hasher(hash);
            raw = hash == NONE ? new byte[DIGEST_SIZE_MAX] : null;
        }

        void reset() {
            if (hasher != null) {
                hasher.reset();
            }
            rawSize = 0;
        }

        void update(byte input) {
            if (hasher != null) {
                hasher.update(input);
            } else {
                update(new byte[] {input}, 0, 1);
            }
        }

        void update(byte[] input, int offset, int size) {
            if (hasher != null) {
                hasher.update(input, offset, size);
            } else if (size > DIGEST_SIZE_MAX - rawSize) {
                rawSize = DIGEST_SIZE_MAX + 1;
            } else {
                System.arraycopy(input, offset, raw, rawSize, size);
                rawSize += size;
            }
        }

        void update(ByteBuffer input) {
            if (hasher != null) {
                hasher.update(input);
                return;
            }
            byte[] bytes = new byte[input.remaining()];
            input.get(bytes);
            update(bytes, 0, bytes.length);
        }

        /** The digest. Begins again. */
        byte[] end() throws SignatureException {
            if (hasher != null) {
                byte[] digest = new byte[hasher.size()];
                hasher.end(digest, 0);
                return digest;
            }
            int size = rawSize;
            rawSize = 0;
            if (size > DIGEST_SIZE_MAX) {
                throw new SignatureException("Message digest is too long");
            }
            return Arrays.copyOf(raw, size);
        }
    }
}
