package io.leafseal.jca;

import java.nio.ByteBuffer;
import java.security.ProviderException;
import java.security.SecureRandom;
import java.util.Objects;
import javax.crypto.AEADBadTagException;
import javax.crypto.CipherSpi;
import javax.crypto.IllegalBlockSizeException;
import javax.crypto.NoSuchPaddingException;
import javax.crypto.ShortBufferException;

/** Shared by AES/CTR and ChaCha20: every byte comes out at once, and nothing is held back. */
abstract class StreamCipher extends CipherSpi {
    private static final int ARRAYS = Native.INPUT_IS_ARRAY | Native.OUTPUT_IS_ARRAY;

    final StreamKey key = new StreamKey();
    byte[] iv;

    private boolean encrypts;
    /** The checkpoints at the initialisation. */
    private int checkpoints;

    /** Throws if the cipher is not ready for a message. */
    abstract void checkReady();

    /** Notes an initialisation for encryption or for decryption. */
    final void initialized(boolean newEncrypts) {
        encrypts = newEncrypts;
        checkpoints = Checkpoints.count();
    }

    private void checkUsable() {
        checkReady();
        if (encrypts) {
            Checkpoints.check(checkpoints);
        }
    }

    /** Encrypts or decrypts the next bytes. */
    abstract void apply(Object input, int inputOffset, int size, Object output, int outputOffset, int kinds);

    /** The end of a message. */
    abstract void ended();

    static byte[] randomIv(SecureRandom random, int size) {
        byte[] iv = new byte[size];
        (random == null ? new SecureRandom() : random).nextBytes(iv);
        return iv;
    }

    @Override
    protected void engineSetPadding(String padding) throws NoSuchPaddingException {
        if (!padding.equalsIgnoreCase("NoPadding")) {
            throw new NoSuchPaddingException("Padding must be NoPadding");
        }
    }

    @Override
    protected int engineGetOutputSize(int size) {
        return size;
    }

    @Override
    protected byte[] engineGetIV() {
        return iv == null ? null : iv.clone();
    }

    @Override
    protected byte[] engineUpdate(byte[] input, int offset, int size) {
        byte[] output = size == 0 ? Bytes.EMPTY : new byte[size];
        applyArrays(input, offset, size, output, 0);
        return output;
    }

    @Override
    protected int engineUpdate(byte[] input, int offset, int size, byte[] output, int outputOffset) throws ShortBufferException {
        checkUsable();
        checkRoom(size, output.length - outputOffset);
        applyArrays(input, offset, size, output, outputOffset);
        return size;
    }

    @Override
    protected byte[] engineDoFinal(byte[] input, int offset, int size) {
        byte[] output = engineUpdate(input == null ? Bytes.EMPTY : input, offset, size);
        ended();
        return output;
    }

    @Override
    protected int engineDoFinal(byte[] input, int offset, int size, byte[] output, int outputOffset) throws ShortBufferException {
        engineUpdate(input == null ? Bytes.EMPTY : input, offset, size, output, outputOffset);
        ended();
        return size;
    }

    @Override
    protected int engineUpdate(ByteBuffer source, ByteBuffer target) throws ShortBufferException {
        checkUsable();
        Buffers buffers = new Buffers(source, target);
        checkRoom(buffers.size, buffers.room);
        if (!buffers.isUsable) {
            return applyCopied(buffers);
        }
        apply(buffers.input, buffers.inputOffset, buffers.size, buffers.output, buffers.outputOffset, buffers.kinds);
        buffers.advance(buffers.size);
        return buffers.size;
    }

    private int applyCopied(Buffers buffers) {
        try {
            return buffers.copied(buffers.size, false, (text, size, isLast) -> {
                apply(text, 0, size, text, 0, ARRAYS);
                return size;
            });
        } catch (AEADBadTagException | IllegalBlockSizeException impossible) {
            throw new ProviderException(impossible);
        }
    }

    @Override
    protected int engineDoFinal(ByteBuffer source, ByteBuffer target) throws ShortBufferException {
        int written = engineUpdate(source, target);
        ended();
        return written;
    }

    private void applyArrays(byte[] input, int offset, int size, byte[] output, int outputOffset) {
        checkUsable();
        Objects.checkFromIndexSize(offset, size, input.length);
        Objects.checkFromIndexSize(outputOffset, size, output.length);
        apply(input, offset, size, output, outputOffset, ARRAYS);
    }

    private static void checkRoom(int needed, int room) throws ShortBufferException {
        if (needed > room) {
            throw new ShortBufferException("Output buffer must be (at least) " + needed + " bytes long");
        }
    }
}
