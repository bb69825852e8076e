package io.leafseal.jca;

import java.nio.ByteBuffer;
import java.security.AlgorithmParameters;
import java.security.InvalidAlgorithmParameterException;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.ProviderException;
import java.security.SecureRandom;
import java.security.spec.AlgorithmParameterSpec;
import java.util.Arrays;
import javax.crypto.Cipher;
import javax.crypto.spec.ChaCha20ParameterSpec;

/** ChaCha20 (RFC 8439, 2.4) with a counter of 32 bits, which wraps to 0 without a change of the nonce, as in SunJCE. */
final class ChaCha20Cipher extends StreamCipher {
    private static final int IV_SIZE = 12;
    private static final long BLOCK_SIZE = 64;
    private static final long BLOCKS = 1L << 32;

    private boolean isReady;
    private boolean isEncryption;
    private long counter;
    private long position;

    @Override
    void checkReady() {
        if (!isReady) {
            throw new IllegalStateException("Must use either a different key or iv.");
        }
    }

    @Override
    void apply(Object input, int inputOffset, int size, Object output, int outputOffset, int kinds) {
        if (position + size > BLOCKS * BLOCK_SIZE) {
            throw new ProviderException("Counter exhausted. Reinitialize with new key and/or nonce");
        }
        long beforeWrap = (BLOCKS - counter) * BLOCK_SIZE;
        if (position + size <= beforeWrap) {
            applyAt(counter, position, input, inputOffset, size, output, outputOffset, kinds);
        } else if (position >= beforeWrap) {
            applyAt(0, position - beforeWrap, input, inputOffset, size, output, outputOffset, kinds);
        } else {
            // The counter wraps within the text. From a copy: the output of the first part may overlap the input of the second.
            int front = (int) (beforeWrap - position);
            byte[] copy = Bytes.copy(input, inputOffset, size, (kinds & Native.INPUT_IS_ARRAY) != 0);
            int how = kinds | Native.INPUT_IS_ARRAY;
            applyAt(counter, position, copy, 0, front, output, outputOffset, how);
            applyAt(0, 0, copy, front, size - front, output, outputOffset + front, how);
            Arrays.fill(copy, (byte) 0);
        }
        position += size;
    }

    private void applyAt(long first, long from, Object input, int inputOffset, int size, Object output, int outputOffset, int kinds) {
        long high = (long) Integer.reverseBytes((int) first) << Integer.SIZE | Bytes.intAt(iv, 0) & 0xffffffffL;
        key.apply(high, Bytes.longAt(iv, Integer.BYTES), from, input, inputOffset, size, output, outputOffset, kinds);
    }

    @Override
    protected void engineUpdateAAD(byte[] bytes, int offset, int size) {
        throw new IllegalStateException("Cipher is running in non-AEAD mode");
    }

    @Override
    protected void engineUpdateAAD(ByteBuffer source) {
        throw new IllegalStateException("Cipher is running in non-AEAD mode");
    }

    /** After an encryption the nonce is used up. */
    @Override
    void ended() {
        position = 0;
        isReady = !isEncryption;
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

    /** ChaCha20 has no parameters in encoded form. */
    @Override
    protected AlgorithmParameters engineGetParameters() {
        return null;
    }

    @Override
    protected void engineInit(int mode, Key newKey, SecureRandom random) throws InvalidKeyException {
        if (mode == Cipher.DECRYPT_MODE) {
            throw new InvalidKeyException("Default parameter generation disallowed in DECRYPT and UNWRAP modes");
        }
        initialize(mode, newKey, randomIv(random, IV_SIZE), 1);
    }

    @Override
    protected void engineInit(int mode, Key newKey, AlgorithmParameterSpec parameters, SecureRandom random)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        if (parameters == null) {
            engineInit(mode, newKey, random);
            return;
        }
        if (!(parameters instanceof ChaCha20ParameterSpec)) {
            throw new InvalidAlgorithmParameterException("ChaCha20 algorithm requires ChaCha20ParameterSpec");
        }
        ChaCha20ParameterSpec spec = (ChaCha20ParameterSpec) parameters;
        initialize(mode, newKey, spec.getNonce(), spec.getCounter() & 0xffffffffL);
    }

    @Override
    protected void engineInit(int mode, Key newKey, AlgorithmParameters parameters, SecureRandom random)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        if (parameters != null) {
            throw new InvalidAlgorithmParameterException("AlgorithmParameters not supported");
        }
        engineInit(mode, newKey, random);
    }

    private void initialize(int mode, Key newKey, byte[] nonce, long newCounter) throws InvalidKeyException {
        ChaCha20Keys.checkOperation(mode);
        byte[] bytes = ChaCha20Keys.bytes(newKey);
        if (mode == Cipher.ENCRYPT_MODE && MessageDigest.isEqual(nonce, iv) && key.isKey(bytes)) {
            Arrays.fill(bytes, (byte) 0);
            throw new InvalidKeyException("Matching key and nonce from previous initialization");
        }
        key.set(StreamKey.CHACHA20, bytes);
        iv = nonce;
        counter = newCounter;
        position = 0;
        isEncryption = mode == Cipher.ENCRYPT_MODE;
        initialized(isEncryption);
        isReady = true;
    }

    @Override
    protected byte[] engineWrap(Key it) {
        throw new UnsupportedOperationException("Wrap operations are not supported");
    }

    @Override
    protected Key engineUnwrap(byte[] wrapped, String algorithm, int type) {
        throw new UnsupportedOperationException("Unwrap operations are not supported");
    }
}
