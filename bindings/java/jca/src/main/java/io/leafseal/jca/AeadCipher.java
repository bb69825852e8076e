package io.leafseal.jca;

import java.nio.ByteBuffer;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.NoSuchAlgorithmException;
import java.security.ProviderException;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Objects;
import javax.crypto.AEADBadTagException;
import javax.crypto.BadPaddingException;
import javax.crypto.CipherSpi;
import javax.crypto.IllegalBlockSizeException;
import javax.crypto.NoSuchPaddingException;
import javax.crypto.ShortBufferException;

/**
 * Shared by AES/GCM and ChaCha20-Poly1305: states, ranges and buffers, with the semantics of SunJCE.
 *
 * <p>A call that throws {@link ShortBufferException} changes nothing: neither the state nor a buffer's position.
 */
abstract class AeadCipher extends CipherSpi {
    /** Bytes of a nonce that is made here, and of a whole tag. */
    static final int IV_SIZE = 12;
    static final int TAG_SIZE = 16;

    private static final int ARRAYS = Native.INPUT_IS_ARRAY | Native.OUTPUT_IS_ARRAY;

    final AeadMessage message = new AeadMessage();
    byte[] iv;
    boolean encrypts;
    private boolean isReady;
    /** The checkpoints at the initialisation. */
    private int checkpoints;
    /** After an encryption: its nonce is used up. */
    private boolean isSpent;
    /** Whether bytes of the message have come, so that associated data must not. */
    private boolean hasData;

    /** The exception that is thrown after an encryption until {@code init} sets another nonce. */
    abstract String spentMessage();

    /** Makes the cipher ready for a message under the key that {@link #message} has. */
    final void ready(byte[] newIv, int tagSize, boolean newEncrypts) {
        iv = newIv;
        encrypts = newEncrypts;
        message.start(newIv, tagSize, newEncrypts);
        hasData = false;
        isSpent = false;
        checkpoints = Checkpoints.count();
        isReady = true;
    }

    /** A failed {@code init} leaves no message behind. */
    final void unready() {
        isReady = false;
    }

    private void checkReady() {
        if (!isReady) {
            throw new IllegalStateException("Operation not initialized.");
        }
    }

    private void checkUsable() {
        checkReady();
        if (isSpent) {
            throw new IllegalStateException(spentMessage());
        }
        if (encrypts) {
            Checkpoints.check(checkpoints);
        }
    }

    private void ended() {
        isSpent = encrypts;
        hasData = false;
        message.restart();
    }

    static byte[] randomIv(SecureRandom random) {
        byte[] iv = new byte[IV_SIZE];
        (random == null ? DefaultRandom.INSTANCE : random).nextBytes(iv);
        return iv;
    }

    private static final class DefaultRandom {
        static final SecureRandom INSTANCE = new SecureRandom();
    }

    @Override
    protected void engineSetPadding(String padding) throws NoSuchPaddingException {
        if (!padding.equalsIgnoreCase("NoPadding")) {
            throw new NoSuchPaddingException("Padding must be NoPadding");
        }
    }

    @Override
    protected int engineGetOutputSize(int size) {
        checkReady();
        return message.outputSize(size, true);
    }

    @Override
    protected byte[] engineGetIV() {
        return iv == null ? null : iv.clone();
    }

    @Override
    protected void engineUpdateAAD(byte[] bytes, int offset, int size) {
        checkAad();
        Objects.checkFromIndexSize(offset, size, bytes.length);
        message.addAad(bytes, offset, size);
    }

    @Override
    protected void engineUpdateAAD(ByteBuffer source) {
        checkAad();
        int size = source.remaining();
        if (source.hasArray()) {
            message.addAad(source.array(), source.arrayOffset() + source.position(), size);
            source.position(source.limit());
        } else {
            byte[] bytes = new byte[size];
            source.get(bytes);
            message.addAad(bytes, 0, size);
        }
    }

    private void checkAad() {
        checkUsable();
        if (hasData) {
            throw new IllegalStateException("Update has been called; no more AAD data");
        }
    }

    @Override
    protected byte[] engineUpdate(byte[] input, int offset, int size) {
        checkUsable();
        byte[] output = message.outputSize(size, false) == 0 ? Bytes.EMPTY : new byte[message.outputSize(size, false)];
        updateArrays(input, offset, size, output, 0);
        return output;
    }

    @Override
    protected int engineUpdate(byte[] input, int offset, int size, byte[] output, int outputOffset) throws ShortBufferException {
        checkUsable();
        checkRoom(message.outputSize(size, false), output.length - outputOffset);
        return updateArrays(input, offset, size, output, outputOffset);
    }

    private int updateArrays(byte[] input, int offset, int size, byte[] output, int outputOffset) {
        Objects.checkFromIndexSize(offset, size, input.length);
        int room = output.length - Objects.checkFromToIndex(outputOffset, output.length, output.length);
        hasData = true;
        return message.update(input, offset, size, output, outputOffset, room, ARRAYS);
    }

    @Override
    protected byte[] engineDoFinal(byte[] input, int offset, int size) throws IllegalBlockSizeException, BadPaddingException {
        checkUsable();
        try {
            checkTag(size);
            byte[] output = new byte[message.outputSize(size, true)];
            finishArrays(input, offset, size, output, 0);
            return output;
        } finally {
            ended();
        }
    }

    @Override
    protected int engineDoFinal(byte[] input, int offset, int size, byte[] output, int outputOffset)
            throws ShortBufferException, IllegalBlockSizeException, BadPaddingException {
        checkUsable();
        if (!message.lacksTag(size)) {
            checkRoom(message.outputSize(size, true), output.length - outputOffset);
        }
        try {
            checkTag(size);
            return finishArrays(input, offset, size, output, outputOffset);
        } finally {
            ended();
        }
    }

    private int finishArrays(byte[] input, int offset, int size, byte[] output, int outputOffset)
            throws AEADBadTagException, IllegalBlockSizeException {
        byte[] from = input == null ? Bytes.EMPTY : input;
        if ((offset | size) < 0 || size > from.length - offset) {
            throw new IllegalBlockSizeException("input array invalid");
        }
        int room = output.length - Objects.checkFromToIndex(outputOffset, output.length, output.length);
        return message.finish(from, offset, size, output, outputOffset, room, ARRAYS);
    }

    private void checkTag(int size) throws AEADBadTagException {
        if (message.lacksTag(size)) {
            throw new AEADBadTagException(
                    "Input data too short to contain an expected tag length of " + message.tagSize() + "bytes");
        }
    }

    private static void checkRoom(int needed, int room) throws ShortBufferException {
        if (needed > room) {
            throw new ShortBufferException("Output buffer too small, must be at least " + needed + " bytes long");
        }
    }

    @Override
    protected int engineUpdate(ByteBuffer source, ByteBuffer target) throws ShortBufferException {
        checkUsable();
        Buffers buffers = new Buffers(source, target);
        int needed = message.outputSize(buffers.size, false);
        checkRoom(needed, buffers.room);
        hasData = true;
        if (!buffers.isUsable) {
            return updateCopied(buffers, needed);
        }
        int written = message.update(buffers.input, buffers.inputOffset, buffers.size, buffers.output, buffers.outputOffset,
                buffers.room, buffers.kinds);
        buffers.advance(written);
        return written;
    }

    private int updateCopied(Buffers buffers, int needed) {
        boolean isDone = false;
        try {
            int written = buffers.copied(needed, false,
                    (text, size, isLast) -> message.update(text, 0, size, text, 0, text.length, ARRAYS));
            isDone = true;
            return written;
        } catch (AEADBadTagException | IllegalBlockSizeException impossible) {
            throw new ProviderException(impossible);
        } finally {
            if (!isDone) {
                // Some of its bytes may be missing: the message has no end.
                ended();
            }
        }
    }

    @Override
    protected int engineDoFinal(ByteBuffer source, ByteBuffer target)
            throws ShortBufferException, IllegalBlockSizeException, BadPaddingException {
        checkUsable();
        Buffers buffers = new Buffers(source, target);
        int needed = message.outputSize(buffers.size, true);
        if (!message.lacksTag(buffers.size)) {
            checkRoom(needed, buffers.room);
        }
        try {
            checkTag(buffers.size);
            if (!buffers.isUsable) {
                return buffers.copied(needed, !encrypts, this::finishCopied);
            }
            int written = message.finish(buffers.input, buffers.inputOffset, buffers.size, buffers.output, buffers.outputOffset,
                    buffers.room, buffers.kinds);
            buffers.advance(written);
            return written;
        } finally {
            ended();
        }
    }

    private int finishCopied(byte[] text, int size, boolean isLast) throws AEADBadTagException {
        return isLast
                ? message.finish(text, 0, size, text, 0, text.length, ARRAYS)
                : message.update(text, 0, size, text, 0, text.length, ARRAYS);
    }

    /** The key's encoding, sealed. */
    final byte[] wrap(Key key) throws IllegalBlockSizeException, InvalidKeyException {
        checkUsable();
        byte[] encoded = key.getEncoded();
        if (encoded == null || encoded.length == 0) {
            throw new InvalidKeyException("Cannot get an encoding of the key to be wrapped");
        }
        try {
            return engineDoFinal(encoded, 0, encoded.length);
        } catch (BadPaddingException impossible) {
            throw new ProviderException(impossible);
        } finally {
            Arrays.fill(encoded, (byte) 0);
        }
    }

    /** The key whose encoding was sealed. */
    final Key unwrap(byte[] wrapped, String algorithm, int type) throws InvalidKeyException, NoSuchAlgorithmException {
        byte[] encoded;
        try {
            encoded = engineDoFinal(wrapped, 0, wrapped.length);
        } catch (BadPaddingException error) {
            throw new InvalidKeyException("The wrapped key is not padded correctly");
        } catch (IllegalBlockSizeException error) {
            throw new InvalidKeyException("The wrapped key does not have the correct length");
        }
        try {
            return UnwrappedKeys.of(encoded, algorithm, type);
        } finally {
            Arrays.fill(encoded, (byte) 0);
        }
    }
}
