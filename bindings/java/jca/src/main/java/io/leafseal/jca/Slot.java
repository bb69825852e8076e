package io.leafseal.jca;

import java.lang.ref.Cleaner;

/**
 * A native object, freed when this object is unreachable.
 *
 * <p>Never freed earlier: a second thread that uses the same cipher by mistake must not find freed memory.
 */
final class Slot {
    private static final int AEAD = 0;
    private static final int CIPHER = 1;
    private static final int HASHING = 2;
    private static final int RSA_KEY = 3;

    static final Cleaner CLEANER = Cleaner.create();

    /** The native address, which is not 0. */
    final long address;

    private Slot(long address, int kind) {
        this.address = address;
        CLEANER.register(this, new Release(address, kind));
    }

    static Slot ofAead() {
        return new Slot(Native.aeadSlot(), AEAD);
    }

    static Slot ofCipher() {
        return new Slot(Native.cipherSlot(), CIPHER);
    }

    /** Takes over an object of {@link Native#hashing}, {@link Native#hashingWithKey} or {@link Native#copyHashing}. */
    static Slot ofHashing(long address) {
        return new Slot(address, HASHING);
    }

    /** Takes over an object of {@link Native#rsaKey}. */
    static Slot ofRsaKey(long address) {
        return new Slot(address, RSA_KEY);
    }

    private static final class Release implements Runnable {
        private final long address;
        private final int kind;

        Release(long address, int kind) {
            this.address = address;
            this.kind = kind;
        }

        @Override
        public void run() {
            switch (kind) {
                case AEAD:
                    Native.freeAead(address);
                    break;
                case CIPHER:
                    Native.freeCipher(address);
                    break;
                case RSA_KEY:
                    Native.freeRsaKey(address);
                    break;
                default:
                    Native.freeHashing(address);
                    break;
            }
        }
    }
}
