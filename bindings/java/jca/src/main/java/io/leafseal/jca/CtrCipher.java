package io.leafseal.jca;

import java.security.AlgorithmParameters;
import java.security.InvalidAlgorithmParameterException;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.NoSuchAlgorithmException;
import java.security.ProviderException;
import java.security.SecureRandom;
import java.security.spec.AlgorithmParameterSpec;
import java.security.spec.InvalidParameterSpecException;
import java.util.Arrays;
import javax.crypto.Cipher;
import javax.crypto.IllegalBlockSizeException;
import javax.crypto.spec.IvParameterSpec;

/** AES/CTR/NoPadding, with a counter of 128 bits. */
final class CtrCipher extends StreamCipher {
    private static final int BLOCK_SIZE = 16;

    private boolean isReady;
    private long ivHigh;
    private long ivLow;
    private long position;

    @Override
    void checkReady() {
        if (!isReady) {
            throw new IllegalStateException("Operation not initialized.");
        }
    }

    @Override
    void apply(Object input, int inputOffset, int size, Object output, int outputOffset, int kinds) {
        key.apply(ivHigh, ivLow, position, input, inputOffset, size, output, outputOffset, kinds);
        position += size;
    }

    /** The next message begins with the same counter. */
    @Override
    void ended() {
        position = 0;
    }

    @Override
    protected void engineSetMode(String mode) throws NoSuchAlgorithmException {
        if (!mode.equalsIgnoreCase("CTR")) {
            throw new NoSuchAlgorithmException("Mode must be CTR");
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
            AlgorithmParameters parameters = AlgorithmParameters.getInstance("AES");
            parameters.init(new IvParameterSpec(iv == null ? randomIv(null, BLOCK_SIZE) : iv));
            return parameters;
        } catch (NoSuchAlgorithmException | InvalidParameterSpecException error) {
            throw new ProviderException(error);
        }
    }

    @Override
    protected void engineInit(int mode, Key newKey, SecureRandom random) throws InvalidKeyException {
        try {
            engineInit(mode, newKey, (AlgorithmParameterSpec) null, random);
        } catch (InvalidAlgorithmParameterException error) {
            throw new InvalidKeyException(error.getMessage());
        }
    }

    @Override
    protected void engineInit(int mode, Key newKey, AlgorithmParameters parameters, SecureRandom random)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        AlgorithmParameterSpec spec = null;
        if (parameters != null) {
            try {
                spec = parameters.getParameterSpec(IvParameterSpec.class);
            } catch (InvalidParameterSpecException error) {
                throw new InvalidAlgorithmParameterException("Wrong parameter type: IV expected");
            }
        }
        engineInit(mode, newKey, spec, random);
    }

    @Override
    protected void engineInit(int mode, Key newKey, AlgorithmParameterSpec parameters, SecureRandom random)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        byte[] bytes = AesKeys.bytes(newKey, 0);
        boolean isReadyNow = false;
        try {
            byte[] newIv = iv(mode, parameters, random);
            key.set(algorithm(bytes.length), bytes);
            iv = newIv;
            ivHigh = Bytes.longAt(newIv, 0);
            ivLow = Bytes.longAt(newIv, Long.BYTES);
            position = 0;
            initialized(mode == Cipher.ENCRYPT_MODE || mode == Cipher.WRAP_MODE);
            isReadyNow = true;
        } finally {
            isReady = isReadyNow;
            if (!isReadyNow) {
                Arrays.fill(bytes, (byte) 0);
            }
        }
    }

    private static byte[] iv(int mode, AlgorithmParameterSpec parameters, SecureRandom random)
            throws InvalidAlgorithmParameterException {
        if (parameters == null) {
            if (mode == Cipher.DECRYPT_MODE || mode == Cipher.UNWRAP_MODE) {
                throw new InvalidAlgorithmParameterException("Parameters missing");
            }
            return randomIv(random, BLOCK_SIZE);
        }
        if (!(parameters instanceof IvParameterSpec)) {
            throw new InvalidAlgorithmParameterException("Wrong parameter type: IV expected");
        }
        byte[] iv = ((IvParameterSpec) parameters).getIV();
        if (iv == null || iv.length != BLOCK_SIZE) {
            throw new InvalidAlgorithmParameterException("Wrong IV length: must be " + BLOCK_SIZE + " bytes long");
        }
        return iv;
    }

    private static int algorithm(int size) {
        switch (size) {
            case 16:
                return StreamKey.AES_128_CTR;
            case 24:
                return StreamKey.AES_192_CTR;
            default:
                return StreamKey.AES_256_CTR;
        }
    }

    @Override
    protected byte[] engineWrap(Key it) throws IllegalBlockSizeException, InvalidKeyException {
        byte[] encoded = it.getEncoded();
        if (encoded == null || encoded.length == 0) {
            throw new InvalidKeyException("Cannot get an encoding of the key to be wrapped");
        }
        try {
            return engineDoFinal(encoded, 0, encoded.length);
        } finally {
            Arrays.fill(encoded, (byte) 0);
        }
    }

    @Override
    protected Key engineUnwrap(byte[] wrapped, String algorithm, int type) throws InvalidKeyException, NoSuchAlgorithmException {
        byte[] encoded = engineDoFinal(wrapped, 0, wrapped.length);
        try {
            return UnwrappedKeys.of(encoded, algorithm, type);
        } finally {
            Arrays.fill(encoded, (byte) 0);
        }
    }
}
