package io.leafseal.jca;

import java.io.IOException;
import java.security.AlgorithmParameters;
import java.security.InvalidAlgorithmParameterException;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.ProviderException;
import java.security.SecureRandom;
import java.security.spec.AlgorithmParameterSpec;
import java.security.spec.InvalidParameterSpecException;
import java.util.Arrays;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;

/** ChaCha20-Poly1305 (RFC 8439). */
final class ChaCha20Poly1305Cipher extends AeadCipher {
    @Override
    String spentMessage() {
        return "Must use either a different key or iv.";
    }

    @Override
    protected void engineSetMode(String mode) throws NoSuchAlgorithmException {
        ChaCha20Keys.checkMode(mode);
    }

    /** A stream cipher has no blocks. */
    @Override
    protected int engineGetBlockSize() {
        return 0;
    }

    @Override
    protected int engineGetKeySize(Key key) throws InvalidKeyException {
        return ChaCha20Keys.bits(key);
    }

    @Override
    protected AlgorithmParameters engineGetParameters() {
        try {
            // The encoding is an OCTET STRING, which every provider of these parameters takes.
            byte[] encoded = new byte[2 + IV_SIZE];
            encoded[0] = 4;
            encoded[1] = IV_SIZE;
            System.arraycopy(iv == null ? randomIv(null) : iv, 0, encoded, 2, IV_SIZE);
            AlgorithmParameters parameters = AlgorithmParameters.getInstance("ChaCha20-Poly1305");
            parameters.init(encoded);
            return parameters;
        } catch (NoSuchAlgorithmException | IOException error) {
            throw new ProviderException(error);
        }
    }

    @Override
    protected void engineInit(int mode, Key key, SecureRandom random) throws InvalidKeyException {
        if (mode == Cipher.DECRYPT_MODE) {
            throw new InvalidKeyException("Default parameter generation disallowed in DECRYPT and UNWRAP modes");
        }
        initialize(mode, key, randomIv(random));
    }

    @Override
    protected void engineInit(int mode, Key key, AlgorithmParameterSpec parameters, SecureRandom random)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        if (parameters == null) {
            engineInit(mode, key, random);
            return;
        }
        if (!(parameters instanceof IvParameterSpec)) {
            throw new InvalidAlgorithmParameterException("ChaCha20-Poly1305 requires IvParameterSpec");
        }
        byte[] nonce = ((IvParameterSpec) parameters).getIV();
        if (nonce.length != IV_SIZE) {
            throw new InvalidAlgorithmParameterException("ChaCha20-Poly1305 nonce must be 12 bytes in length");
        }
        initialize(mode, key, nonce);
    }

    @Override
    protected void engineInit(int mode, Key key, AlgorithmParameters parameters, SecureRandom random)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        if (parameters == null) {
            engineInit(mode, key, random);
            return;
        }
        if (!parameters.getAlgorithm().equalsIgnoreCase("ChaCha20-Poly1305")) {
            throw new InvalidAlgorithmParameterException("Invalid parameter type: " + parameters.getAlgorithm());
        }
        try {
            engineInit(mode, key, parameters.getParameterSpec(IvParameterSpec.class), random);
        } catch (InvalidParameterSpecException error) {
            throw new InvalidAlgorithmParameterException(error);
        }
    }

    private void initialize(int mode, Key key, byte[] nonce) throws InvalidKeyException {
        ChaCha20Keys.checkOperation(mode);
        byte[] bytes = ChaCha20Keys.bytes(key);
        if (mode == Cipher.ENCRYPT_MODE && MessageDigest.isEqual(nonce, iv) && message.isKey(bytes)) {
            Arrays.fill(bytes, (byte) 0);
            throw new InvalidKeyException("Matching key and nonce from previous initialization");
        }
        message.setKey(AeadMessage.CHACHA20_POLY1305, bytes);
        ready(nonce, TAG_SIZE, mode == Cipher.ENCRYPT_MODE);
    }

    @Override
    protected byte[] engineWrap(Key key) {
        throw new UnsupportedOperationException("Wrap operations are not supported");
    }

    @Override
    protected Key engineUnwrap(byte[] wrapped, String algorithm, int type) {
        throw new UnsupportedOperationException("Unwrap operations are not supported");
    }
}
