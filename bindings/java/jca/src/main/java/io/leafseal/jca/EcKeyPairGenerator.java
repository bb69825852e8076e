package io.leafseal.jca;

import java.math.BigInteger;
import java.security.GeneralSecurityException;
import java.security.InvalidAlgorithmParameterException;
import java.security.InvalidParameterException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.KeyPairGeneratorSpi;
import java.security.ProviderException;
import java.security.SecureRandom;
import java.security.spec.AlgorithmParameterSpec;
import java.security.spec.ECGenParameterSpec;
import java.security.spec.ECParameterSpec;
import java.security.spec.ECPoint;
import java.security.spec.ECPrivateKeySpec;
import java.security.spec.ECPublicKeySpec;
import java.util.Arrays;

/**
 * Key pairs on P-256, as objects of the JDK's provider, so that everything else that takes EC keys takes them. Without {@code initialize},
 * the JDK's generator makes a pair on its own default curve.
 */
final class EcKeyPairGenerator extends KeyPairGeneratorSpi {
    private static final String JDK = "SunEC";
    private static final int BITS = 256;

    private boolean isInitialized;
    /** The caller's generator; null for the system's. */
    private SecureRandom random;

    @Override
    public void initialize(int bits, SecureRandom generator) {
        if (bits != BITS) {
            throw new InvalidParameterException("only P-256, of 256 bits, is supported, not " + bits);
        }
        isInitialized = true;
        random = generator;
    }

    @Override
    public void initialize(AlgorithmParameterSpec parameters, SecureRandom generator) throws InvalidAlgorithmParameterException {
        boolean isCurve = parameters instanceof ECParameterSpec && P256.isCurve((ECParameterSpec) parameters)
                || parameters instanceof ECGenParameterSpec && P256.NAMES.contains(((ECGenParameterSpec) parameters).getName());
        if (!isCurve) {
            throw new InvalidAlgorithmParameterException("only P-256 is supported");
        }
        isInitialized = true;
        random = generator;
    }

    @Override
    public KeyPair generateKeyPair() {
        try {
            return isInitialized ? pair() : KeyPairGenerator.getInstance("EC", JDK).generateKeyPair();
        } catch (GeneralSecurityException error) {
            throw new ProviderException("EC keys need the JDK's provider " + JDK, error);
        }
    }

    private KeyPair pair() throws GeneralSecurityException {
        byte[] scalar = new byte[P256.SIZE];
        byte[] point = new byte[P256.POINT_SIZE];
        byte[] seed = random == null ? null : new byte[P256.SIZE];
        try {
            do {
                if (seed != null) {
                    random.nextBytes(seed);
                }
            } while (!Native.generateKeyPair(seed, scalar, point));
            ECPoint w = new ECPoint(new BigInteger(1, point, 1, P256.SIZE), new BigInteger(1, point, 1 + P256.SIZE, P256.SIZE));
            KeyFactory factory = KeyFactory.getInstance("EC", JDK);
            return new KeyPair(factory.generatePublic(new ECPublicKeySpec(w, P256.PARAMETERS)),
                    factory.generatePrivate(new ECPrivateKeySpec(new BigInteger(1, scalar), P256.PARAMETERS)));
        } finally {
            Arrays.fill(scalar, (byte) 0);
            if (seed != null) {
                Arrays.fill(seed, (byte) 0);
            }
        }
    }
}
