package io.leafseal.jca;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.security.DigestException;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.security.ProviderException;
import java.util.Arrays;

/**
 * The message of a hash function or of HMAC. Up to {@link #BUFFER_SIZE_MAX} bytes wait in an array and are hashed in one native call; only a
 * longer message in pieces has a native object. Digests of up to {@link #JDK_SIZE_MAX} bytes are the JDK's, which spare the native call.
 */
final class Hasher implements Cloneable {
    static final int SHA_1 = 0;
    static final int SHA_224 = 1;
    static final int SHA_256 = 2;
    static final int SHA_384 = 3;
    static final int SHA_512 = 4;

    /** Where the JDK's digests, compiled, and a native call take about the same time. */
    private static final int JDK_SIZE_MAX = 256;
    private static final int BUFFER_SIZE_MIN = 128;
    private static final int BUFFER_SIZE_MAX = 4096;
    private static final int[] SIZES = {20, 28, 32, 48, 64};

    private static final String[] NAMES = {"SHA-1", "SHA-224", "SHA-256", "SHA-384", "SHA-512"};
    /** The JDK's digests, made when they are first used, and copied for each hasher. */
    private static final MessageDigest[] OF_JDK = new MessageDigest[NAMES.length];

    private final int algorithm;
    private MessageDigest ofJdk;
    /** The key of HMAC; null for a digest. */
    private byte[] key;
    private byte[] buffer = new byte[BUFFER_SIZE_MIN];
    private int buffered;
    /** Holds HMAC's key in hashed form from its second use on, and the message once it is long. */
    private Slot slot;
    private boolean isKeyUsed;
    private boolean isBegun;

    Hasher(int algorithm) {
        this.algorithm = algorithm;
    }

    /** Bytes of the result. */
    int size() {
        return SIZES[algorithm];
    }

    /** Takes over the key of HMAC, wipes the old one and begins again. */
    void setKey(byte[] newKey) {
        wipeBuffer();
        isBegun = false;
        isKeyUsed = false;
        if (key != null) {
            Arrays.fill(key, (byte) 0);
        }
        key = newKey;
        Slot it = slot;
        if (it != null) {
            try {
                Native.hashingKey(it.address, algorithm, newKey);
            } finally {
                Reference.reachabilityFence(it);
            }
        }
    }


    void update(byte value) {
        if (buffered == buffer.length) {
            makeRoom(1);
        }
        buffer[buffered++] = value;
    }

    /** Adds bytes; the range lies within the array. */
    void update(byte[] bytes, int offset, int size) {
        if (size > buffer.length - buffered && !makeRoom(size)) {
            piece(bytes, offset, size, Native.INPUT_IS_ARRAY);
            return;
        }
        System.arraycopy(bytes, offset, buffer, buffered, size);
        buffered += size;
    }

    /** Adds the buffer's remaining bytes. */
    void update(ByteBuffer source) {
        int from = source.position();
        int size = source.limit() - from;
        if (source.hasArray()) {
            update(source.array(), source.arrayOffset() + from, size);
            source.position(from + size);
        } else if (size <= buffer.length - buffered || makeRoom(size)) {
            source.get(buffer, buffered, size);
            buffered += size;
        } else if (source.isDirect() && DirectMemory.isPermanent(source)) {
            piece(source, from, size, 0);
            source.position(from + size);
        } else {
            copied(source, size);
        }
    }

    /** Adds bytes of memory that native code may not use where it is. */
    private void copied(ByteBuffer source, int size) {
        byte[] copy = new byte[Math.min(size, Buffers.PIECE_SIZE)];
        try {
            for (int left = size; left > 0;) {
                int piece = Math.min(left, copy.length);
                source.get(copy, 0, piece);
                piece(copy, 0, piece, Native.INPUT_IS_ARRAY);
                left -= piece;
            }
        } finally {
            Arrays.fill(copy, (byte) 0);
        }
    }

    /** Grows the buffer or empties it. False if {@code size} bytes are too many for it: then it is empty. */
    private boolean makeRoom(int size) {
        if (size <= BUFFER_SIZE_MAX - buffered) {
            int length = buffer.length;
            while (length < buffered + size) {
                length *= 2;
            }
            buffer = Arrays.copyOf(buffer, length);
            return true;
        }
        flush();
        return size <= buffer.length;
    }

    private void flush() {
        if (buffered > 0) {
            int size = buffered;
            piece(buffer, 0, size, Native.INPUT_IS_ARRAY);
            wipeBuffer();
        }
    }

    private void wipeBuffer() {
        Arrays.fill(buffer, 0, buffered, (byte) 0);
        buffered = 0;
    }

    private void piece(Object input, int offset, int size, int kinds) {
        Slot it = open();
        isBegun = true;
        try {
            Native.hashPiece(it.address, input, offset, size, kinds);
        } finally {
            Reference.reachabilityFence(it);
        }
    }

    private Slot open() {
        if (slot == null) {
            slot = Slot.ofHashing(key == null ? Native.hashing(algorithm) : Native.hashingWithKey(algorithm, key));
        }
        return slot;
    }

    /** Ends the message: writes the result and begins again. */
    void end(byte[] output, int offset) {
        if (isBegun) {
            flush();
            Slot it = slot;
            isBegun = false;
            try {
                Native.hashEnd(it.address, output, offset);
            } finally {
                Reference.reachabilityFence(it);
            }
            return;
        }
        // Taken once, as in AeadMessage.
        byte[] message = buffer;
        int size = buffered;
        if (key == null && size <= JDK_SIZE_MAX) {
            digestByJdk(message, size, output, offset);
        } else if (key == null) {
            Native.digest(algorithm, message, 0, size, output, offset);
        } else {
            Slot it = isKeyUsed ? open() : slot;
            isKeyUsed = true;
            try {
                Native.mac(it == null ? 0 : it.address, algorithm, key, message, 0, size, output, offset);
            } finally {
                Reference.reachabilityFence(it);
            }
        }
        wipeBuffer();
    }

    private void digestByJdk(byte[] message, int size, byte[] output, int offset) {
        try {
            if (ofJdk == null) {
                ofJdk = copyOfJdk(algorithm);
            }
            ofJdk.update(message, 0, size);
            ofJdk.digest(output, offset, SIZES[algorithm]);
        } catch (DigestException error) {
            throw new ProviderException(error);
        }
    }

    private static MessageDigest copyOfJdk(int algorithm) {
        try {
            // A race makes the same object twice.
            if (OF_JDK[algorithm] == null) {
                OF_JDK[algorithm] = MessageDigest.getInstance(NAMES[algorithm], "SUN");
            }
            return (MessageDigest) OF_JDK[algorithm].clone();
        } catch (GeneralSecurityException | CloneNotSupportedException error) {
            throw new ProviderException("the JDK's digest " + NAMES[algorithm] + " is missing", error);
        }
    }

    /** Discards the message. */
    void reset() {
        wipeBuffer();
        if (isBegun) {
            isBegun = false;
            Slot it = slot;
            try {
                Native.hashRestart(it.address);
            } finally {
                Reference.reachabilityFence(it);
            }
        }
    }

    @Override
    public Hasher clone() {
        try {
            Hasher copy = (Hasher) super.clone();
            copy.buffer = buffer.clone();
            copy.key = key == null ? null : key.clone();
            copy.slot = null;
            copy.ofJdk = null;
            if (isBegun) {
                Slot it = slot;
                try {
                    copy.slot = Slot.ofHashing(Native.copyHashing(it.address));
                } finally {
                    Reference.reachabilityFence(it);
                }
            }
            return copy;
        } catch (CloneNotSupportedException impossible) {
            throw new AssertionError(impossible);
        }
    }
}
