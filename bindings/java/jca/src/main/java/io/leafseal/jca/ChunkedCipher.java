package io.leafseal.jca;

import java.nio.ByteBuffer;
import java.security.AlgorithmParameters;
import java.security.InvalidAlgorithmParameterException;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.NoSuchAlgorithmException;
import java.security.NoSuchProviderException;
import java.security.ProviderException;
import java.security.SecureRandom;
import java.security.spec.AlgorithmParameterSpec;
import javax.crypto.BadPaddingException;
import javax.crypto.Cipher;
import javax.crypto.CipherSpi;
import javax.crypto.IllegalBlockSizeException;
import javax.crypto.NoSuchPaddingException;
import javax.crypto.ShortBufferException;

/**
 * A cipher of the JDK, for machines without a native library. Passes long input in pieces: the JDK replaces its methods by fast code after a
 * number of calls, which a single call with many megabytes never reaches.
 */
final class ChunkedCipher extends CipherSpi {
    private static final int PIECE_SIZE = 16 * 1024;
    /** Of every Java runtime that is derived from OpenJDK. */
    private static final String PROVIDER = "SunJCE";

    private final Cipher cipher;

    ChunkedCipher(String transformation) throws NoSuchAlgorithmException {
        try {
            cipher = Cipher.getInstance(transformation, PROVIDER);
        } catch (NoSuchProviderException | NoSuchPaddingException error) {
            throw new NoSuchAlgorithmException(error);
        }
    }

    /** The provider registers whole transformations only. */
    @Override
    protected void engineSetMode(String mode) throws NoSuchAlgorithmException {
        throw new NoSuchAlgorithmException("Unsupported mode " + mode);
    }

    @Override
    protected void engineSetPadding(String padding) throws NoSuchPaddingException {
        throw new NoSuchPaddingException("Unsupported padding " + padding);
    }

    @Override
    protected int engineGetBlockSize() {
        return cipher.getBlockSize();
    }

    @Override
    protected int engineGetOutputSize(int size) {
        return cipher.getOutputSize(size);
    }

    @Override
    protected int engineGetKeySize(Key key) throws InvalidKeyException {
        return AesKeys.bits(key);
    }

    @Override
    protected byte[] engineGetIV() {
        return cipher.getIV();
    }

    @Override
    protected AlgorithmParameters engineGetParameters() {
        return cipher.getParameters();
    }

    @Override
    protected void engineInit(int mode, Key key, SecureRandom random) throws InvalidKeyException {
        if (random == null) {
            cipher.init(mode, key);
        } else {
            cipher.init(mode, key, random);
        }
    }

    @Override
    protected void engineInit(int mode, Key key, AlgorithmParameterSpec parameters, SecureRandom random)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        if (random == null) {
            cipher.init(mode, key, parameters);
        } else {
            cipher.init(mode, key, parameters, random);
        }
    }

    @Override
    protected void engineInit(int mode, Key key, AlgorithmParameters parameters, SecureRandom random)
            throws InvalidKeyException, InvalidAlgorithmParameterException {
        if (random == null) {
            cipher.init(mode, key, parameters);
        } else {
            cipher.init(mode, key, parameters, random);
        }
    }

    @Override
    protected void engineUpdateAAD(byte[] bytes, int offset, int size) {
        cipher.updateAAD(bytes, offset, size);
    }

    @Override
    protected void engineUpdateAAD(ByteBuffer source) {
        cipher.updateAAD(source);
    }

    @Override
    protected byte[] engineUpdate(byte[] input, int offset, int size) {
        return cipher.update(input, offset, size);
    }

    @Override
    protected int engineUpdate(byte[] input, int offset, int size, byte[] output, int outputOffset) throws ShortBufferException {
        return cipher.update(input, offset, size, output, outputOffset);
    }

    @Override
    protected byte[] engineDoFinal(byte[] input, int offset, int size) throws IllegalBlockSizeException, BadPaddingException {
        if (size <= PIECE_SIZE) {
            return input == null ? cipher.doFinal() : cipher.doFinal(input, offset, size);
        }
        byte[] output = new byte[cipher.getOutputSize(size)];
        try {
            engineDoFinal(input, offset, size, output, 0);
        } catch (ShortBufferException impossible) {
            throw new ProviderException(impossible);
        }
        return output;
    }

    @Override
    protected int engineDoFinal(byte[] input, int offset, int size, byte[] output, int outputOffset)
            throws ShortBufferException, IllegalBlockSizeException, BadPaddingException {
        if (input == null) {
            return cipher.doFinal(output, outputOffset);
        }
        // Overlapping pieces would read what was written; and a failure for lack of room must come before anything is written.
        boolean isApart = input != output || offset == outputOffset || !Bytes.overlaps(offset, outputOffset, size + AeadCipher.TAG_SIZE);
        if (size <= PIECE_SIZE || !isApart || cipher.getOutputSize(size) > output.length - outputOffset) {
            return cipher.doFinal(input, offset, size, output, outputOffset);
        }
        int read = 0;
        int written = 0;
        while (size - read > PIECE_SIZE) {
            written += cipher.update(input, offset + read, PIECE_SIZE, output, outputOffset + written);
            read += PIECE_SIZE;
        }
        return written + cipher.doFinal(input, offset + read, size - read, output, outputOffset + written);
    }

    @Override
    protected int engineUpdate(ByteBuffer source, ByteBuffer target) throws ShortBufferException {
        return cipher.update(source, target);
    }

    @Override
    protected int engineDoFinal(ByteBuffer source, ByteBuffer target)
            throws ShortBufferException, IllegalBlockSizeException, BadPaddingException {
        int size = source.remaining();
        // Whether direct buffers overlap cannot be known here.
        boolean isApart = source.hasArray() && target.hasArray() && source.array() != target.array();
        if (size <= PIECE_SIZE || !isApart || cipher.getOutputSize(size) > target.remaining()) {
            return cipher.doFinal(source, target);
        }
        int written = 0;
        int end = source.limit();
        while (end - source.position() > PIECE_SIZE) {
            source.limit(source.position() + PIECE_SIZE);
            written += cipher.update(source, target);
            source.limit(end);
        }
        return written + cipher.doFinal(source, target);
    }

    @Override
    protected byte[] engineWrap(Key key) throws IllegalBlockSizeException, InvalidKeyException {
        return cipher.wrap(key);
    }

    @Override
    protected Key engineUnwrap(byte[] wrapped, String algorithm, int type) throws InvalidKeyException, NoSuchAlgorithmException {
        return cipher.unwrap(wrapped, algorithm, type);
    }
}
