package io.leafseal.jca;

import java.nio.ByteBuffer;

/**
 * The native methods; {@code native/src} documents each beside its code.
 *
 * <p>Callers check every range before a call: the native side trusts offsets and sizes. They keep the {@link Slot} of a native object
 * reachable until the call has returned. A native method throws {@code OutOfMemoryError}, {@code ConcurrentModificationException} when
 * two threads use one slot at the same time, and {@code InternalError} for a fault of the library.
 */
final class Native {
    /** The input is a {@code byte[]}; otherwise a direct buffer. */
    static final int INPUT_IS_ARRAY = 1;
    /** The output is a {@code byte[]}; otherwise a direct buffer. */
    static final int OUTPUT_IS_ARRAY = 2;
    /** Input and output are the same bytes of one array. */
    static final int IN_PLACE = 4;

    private Native() {
    }

    static native String version();

    static native String implementations();

    static native long liveObjects();

    static native boolean overlap(ByteBuffer input, int inputOffset, int inputSize, ByteBuffer output, int outputOffset, int outputSize);

    static native long aeadSlot();

    static native void clearAead(long slot);

    static native void freeAead(long slot);

    static native void seal(long slot, int algorithm, byte[] key, byte[] iv, long ivHigh, int ivLow, byte[] aad, int aadSize,
            int tagSize, Object input, int inputOffset, int size, Object output, int outputOffset, int kinds);

    static native boolean open(long slot, int algorithm, byte[] key, byte[] iv, long ivHigh, int ivLow, byte[] aad, int aadSize,
            int tagSize, Object input, int inputOffset, int size, Object output, int outputOffset, int kinds);

    static native void begin(long slot, int algorithm, byte[] key, byte[] iv, long ivHigh, int ivLow, byte[] aad, int aadSize,
            int tagSize, boolean seals);

    static native int sealPiece(long slot, Object input, int inputOffset, int size, Object output, int outputOffset, int room,
            int kinds, boolean isLast);

    static native void openPiece(long slot, Object input, int inputOffset, int size, int kinds);

    static native boolean openEnd(long slot, Object output, int outputOffset, int size, int kinds);

    static native long cipherSlot();

    static native void clearCipher(long slot);

    static native void freeCipher(long slot);

    static native void apply(long slot, int algorithm, byte[] key, long ivHigh, long ivLow, long position, Object input,
            int inputOffset, int size, Object output, int outputOffset, int kinds);

    static native void digest(int algorithm, byte[] input, int inputOffset, int size, byte[] output, int outputOffset);

    static native void mac(long hashing, int algorithm, byte[] key, byte[] input, int inputOffset, int size, byte[] output,
            int outputOffset);

    static native long hashing(int algorithm);

    static native long hashingWithKey(int algorithm, byte[] key);

    static native void hashingKey(long hashing, int algorithm, byte[] key);

    static native long copyHashing(long hashing);

    static native void freeHashing(long hashing);

    static native void hashPiece(long hashing, Object input, int inputOffset, int size, int kinds);

    static native void hashEnd(long hashing, byte[] output, int outputOffset);

    static native void hashRestart(long hashing);

    static native boolean generateKeyPair(byte[] seed, byte[] scalar, byte[] point);

    static native boolean agree(byte[] scalar, byte[] point, byte[] secret);

    static native int signEcdsa(byte[] scalar, byte[] digest, byte[] signature);

    static native int verifyEcdsa(byte[] point, byte[] digest, byte[] signature);

    static native long rsaKey(byte[] modulus, byte[] publicExponent, byte[] privateExponent, byte[] prime1, byte[] prime2,
            byte[] exponent1, byte[] exponent2, byte[] coefficient);

    static native void freeRsaKey(long key);

    static native void signRsa(long key, int scheme, byte[] digest, byte[] signature);

    static native int verifyRsa(byte[] modulus, byte[] publicExponent, int scheme, byte[] digest, byte[] signature);

    static native boolean isRsaKey(byte[] modulus, byte[] publicExponent);
}
