package io.leafseal.jca;

import java.security.AlgorithmParameters;
import java.security.InvalidAlgorithmParameterException;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.Provider;
import java.security.ProviderException;
import java.security.SecureRandom;
import java.security.spec.AlgorithmParameterSpec;
import java.security.spec.InvalidParameterSpecException;
import java.util.Arrays;
import javax.crypto.Cipher;
import javax.crypto.IllegalBlockSizeException;
import javax.crypto.spec.GCMParameterSpec;

/** AES/GCM/NoPadding, and the names with a key length. */
final class GcmCipher extends AeadCipher {
    private static final int BLOCK_SIZE = 16;

    private final Provider provider;
    /** Bytes of the key; 0 for any length that AES has. */
    private final int keySize;
    /** The nonce of the last initialisation for encryption, whose key may be the current one. */
    private byte[] lastIv = Bytes.EMPTY;
    private byte[] lastKey = Bytes.EMPTY;

    GcmCipher(Provider provider, int keySize) {
        this.provider = provider;
        this.keySize = keySize;
    }

    @Override
    String spentMessage() {
        return "Must use either different key or  iv for GCM encryption";
    }

    @Override
    protected void engineSetMode(String mode) throws NoSuchAlgorithmException {
        if (!mode.equalsIgnoreCase("GCM")) {
            throw new NoSuchAlgorithmException("Mode must be GCM");
        }
    }

    @Override
    protected int engineGetBlockSize() {
        return BLOCK_SIZE;
    }

    @Override
    protected int engineGetKeySize(Key key) throws InvalidKeyException {
        return AesKeys.bits(key);
    }

    @Override
    protected AlgorithmParameters engineGetParameters() {
        try {
            AlgorithmParameters parameters = AlgorithmParameters.getInstance("GCM", provider);
            byte[] nonce = iv == null ? randomIv(null) : iv;
            parameters.init(new GCMParameterSpec(iv == null ? 8 * TAG_SIZE : 8 * message.tagSize(), nonce));
            return parameters;
        } catch (NoSuchAlgorithmException | InvalidParameterSpecException impossible) {
            throw new ProviderException(impossible);
        }
    }

    @Override
    protected void engineInit(int mode, Key key, SecureRandom random) throws InvalidKeyException {
        if (mode == Cipher.DECRYPT_MODE || mode == Cipher.UNWRAP_MODE) {
            unready();
            throw new InvalidKeyException("No GCMParameterSpec specified");
        }
        try {
            engineInit(mode, key, (AlgorithmParameterSpec) null, random);
        } catch (InvalidAlgorithmParameterException impossible) {
            throw new ProviderException(impossible);
        }
    }

    @Override
    protected void engineInit(int mode, Key key, AlgorithmParameters parameters, SecureRandom random)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        GCMParameterSpec spec = null;
        if (parameters != null) {
            try {
                spec = parameters.getParameterSpec(GCMParameterSpec.class);
            } catch (InvalidParameterSpecException error) {
                throw new InvalidAlgorithmParameterException(error);
            }
        }
        engineInit(mode, key, spec, random);
    }

    @Override
    protected void engineInit(int mode, Key key, AlgorithmParameterSpec parameters, SecureRandom random)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        unready();
        if (parameters == null) {
            initialize(mode, key, randomIv(random), 8 * TAG_SIZE);
            return;
        }
        if (!(parameters instanceof GCMParameterSpec)) {
            throw new InvalidAlgorithmParameterException("AlgorithmParameterSpec not of GCMParameterSpec");
        }
        GCMParameterSpec spec = (GCMParameterSpec) parameters;
        byte[] nonce = spec.getIV();
        if (nonce == null || nonce.length == 0) {
            throw new InvalidAlgorithmParameterException(nonce == null ? "IV is null" : "IV is empty");
        }
        initialize(mode, key, nonce, spec.getTLen());
    }

    private void initialize(int mode, Key key, byte[] nonce, int tagBits)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        if (tagBits < 96 || tagBits > 128 || tagBits % 8 != 0) {
            throw new InvalidAlgorithmParameterException(
                    "Unsupported TLen value.  Must be one of {128, 120, 112, 104, 96}");
        }
        boolean isEncryption = mode == Cipher.ENCRYPT_MODE || mode == Cipher.WRAP_MODE;
        byte[] bytes = AesKeys.bytes(key, keySize);
        if (isEncryption) {
            if (MessageDigest.isEqual(nonce, lastIv) && MessageDigest.isEqual(bytes, lastKey)) {
                Arrays.fill(bytes, (byte) 0);
                throw new InvalidAlgorithmParameterException("Cannot reuse iv for GCM encryption");
            }
            if (!MessageDigest.isEqual(bytes, lastKey)) {
                Arrays.fill(lastKey, (byte) 0);
                lastKey = bytes.clone();
            }
            lastIv = nonce;
        }
        message.setKey(algorithm(bytes.length), bytes);
        ready(nonce, tagBits / 8, isEncryption);
    }

    private static int algorithm(int size) {
        switch (size) {
            case 16:
                return AeadMessage.AES_128_GCM;
            case 24:
                return AeadMessage.AES_192_GCM;
            default:
                return AeadMessage.AES_256_GCM;
        }
    }

    @Override
    protected byte[] engineWrap(Key key) throws IllegalBlockSizeException, InvalidKeyException {
        return wrap(key);
    }

    @Override
    protected Key engineUnwrap(byte[] wrapped, String algorithm, int type) throws InvalidKeyException, NoSuchAlgorithmException {
        return unwrap(wrapped, algorithm, type);
    }
}
