package io.leafseal.jca;

import java.lang.ref.WeakReference;
import java.math.BigInteger;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.interfaces.RSAKey;
import java.security.interfaces.RSAPrivateCrtKey;
import java.security.interfaces.RSAPublicKey;
import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Keys of RSA. Making a native private key takes milliseconds, and a TLS server makes a {@code Signature} for each handshake: native keys
 * are kept as long as the key object of Java is reachable.
 */
final class RsaKeys {
    private static final int BITS_MIN = 2048;
    /** Larger keys are left to the JDK: native code would take seconds for one operation. */
    private static final int BITS_MAX = 8192;

    private static final ConcurrentHashMap<Identity, Slot> SLOTS = new ConcurrentHashMap<>();

    private RsaKeys() {
    }

    /** Whether native code can use the key, judged by its class and size. {@code isPss}: for RSASSA-PSS. */
    static boolean isKey(Object key, boolean isPss) {
        if (!(key instanceof RSAPrivateCrtKey) && !(key instanceof RSAPublicKey)) {
            return false;
        }
        RSAKey rsa = (RSAKey) key;
        int bits = rsa.getModulus().bitLength();
        boolean isSize = bits >= BITS_MIN && bits <= BITS_MAX && bits % 8 == 0;
        // A key that is restricted to PSS may have parameters of its own, which the JDK checks.
        boolean isOfScheme = ((Key) key).getAlgorithm().equals("RSA") || isPss && rsa.getParams() == null;
        return isSize && isOfScheme;
    }

    /** The native form of a private key. */
    static Slot slot(Key key, boolean isPss) throws InvalidKeyException {
        if (!(key instanceof RSAPrivateCrtKey) || !isKey(key, isPss)) {
            throw new InvalidKeyException("a private RSA key of 2048 to 8192 bits with its primes is required");
        }
        Slot known = SLOTS.get(new Identity(key));
        return known == null ? add((RSAPrivateCrtKey) key) : known;
    }

    private static Slot add(RSAPrivateCrtKey key) throws InvalidKeyException {
        byte[][] numbers = {bytes(key.getModulus()), bytes(key.getPublicExponent()), bytes(key.getPrivateExponent()),
            bytes(key.getPrimeP()), bytes(key.getPrimeQ()), bytes(key.getPrimeExponentP()), bytes(key.getPrimeExponentQ()),
            bytes(key.getCrtCoefficient())};
        long address = Native.rsaKey(numbers[0], numbers[1], numbers[2], numbers[3], numbers[4], numbers[5], numbers[6], numbers[7]);
        for (byte[] number : numbers) {
            Arrays.fill(number, (byte) 0);
        }
        if (address == 0) {
            throw new InvalidKeyException("the numbers of the RSA key do not fit each other, or are not supported");
        }
        Slot slot = Slot.ofRsaKey(address);
        Identity identity = new Identity(key);
        Slot earlier = SLOTS.putIfAbsent(identity, slot);
        if (earlier != null) {
            return earlier;
        }
        Slot.CLEANER.register(key, () -> SLOTS.remove(identity));
        return slot;
    }

    /** Modulus and exponent of a public key. */
    static byte[][] numbers(Key key, boolean isPss) throws InvalidKeyException {
        if (!(key instanceof RSAPublicKey) || !isKey(key, isPss)) {
            throw new InvalidKeyException("a public RSA key of 2048 to 8192 bits is required");
        }
        RSAPublicKey rsa = (RSAPublicKey) key;
        byte[][] numbers = {bytes(rsa.getModulus()), bytes(rsa.getPublicExponent())};
        if (!Native.isRsaKey(numbers[0], numbers[1])) {
            throw new InvalidKeyException("the numbers of the RSA key are not supported");
        }
        return numbers;
    }

    /** Without a leading zero. */
    private static byte[] bytes(BigInteger number) throws InvalidKeyException {
        if (number.signum() < 0) {
            throw new InvalidKeyException("a number of the RSA key is negative");
        }
        byte[] signed = number.toByteArray();
        if (signed[0] != 0) {
            return signed;
        }
        byte[] bytes = Arrays.copyOfRange(signed, 1, signed.length);
        Arrays.fill(signed, (byte) 0);
        return bytes;
    }

    /** A key object itself: equal keys would have to compare their numbers. */
    private static final class Identity extends WeakReference<Object> {
        private final int hash;

        Identity(Object key) {
            super(key);
            hash = System.identityHashCode(key);
        }

        @Override
        public int hashCode() {
            return hash;
        }

        @Override
        public boolean equals(Object other) {
            if (this == other) {
                return true;
            }
            Object key = get();
            return key != null && other instanceof Identity && ((Identity) other).get() == key;
        }
    }
}
