package io.leafseal.jca;

import static io.leafseal.jca.Pairs.EC;
import static io.leafseal.jca.Pairs.OTHER_PAIR;
import static io.leafseal.jca.Pairs.P256_PAIR;
import static io.leafseal.jca.Pairs.P384_PAIR;
import static io.leafseal.jca.Pairs.RSA;
import static io.leafseal.jca.Pairs.RSA_1024;
import static io.leafseal.jca.Pairs.RSA_2048;
import static io.leafseal.jca.Pairs.ec;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigInteger;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.PrivateKey;
import java.security.Provider;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.security.Security;
import java.security.Signature;
import java.security.interfaces.ECKey;
import java.security.interfaces.ECPrivateKey;
import java.security.interfaces.ECPublicKey;
import java.security.interfaces.RSAPrivateCrtKey;
import java.security.interfaces.RSAPublicKey;
import java.security.spec.ECGenParameterSpec;
import java.security.spec.ECPoint;
import java.security.spec.ECPrivateKeySpec;
import java.security.spec.ECPublicKeySpec;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.RSAPrivateCrtKeySpec;
import java.security.spec.RSAPrivateKeySpec;
import java.security.spec.RSAPublicKeySpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import javax.crypto.KeyAgreement;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Agreements and key pairs on P-256, which keys are taken, and how long native ones live. */
class KeyTest {
    @AfterEach
    void removeProvider() {
        Security.removeProvider(LeafsealProvider.NAME);
    }

    @Test
    void agreementsWithTheJdk() throws Exception {
        for (int i = 0; i < 50; i++) {
            KeyPair ours = ours();
            KeyPair jdk = ec("secp256r1");
            byte[] expected = agree(EC, jdk.getPrivate(), ours.getPublic());
            assertArrayEquals(expected, agree(Both.LEAFSEAL, ours.getPrivate(), jdk.getPublic()));
            assertArrayEquals(expected, agree(EC, ours.getPrivate(), jdk.getPublic()));
            assertArrayEquals(expected, agree(Both.LEAFSEAL, jdk.getPrivate(), ours.getPublic()));
        }
    }

    private static byte[] agree(Provider provider, PrivateKey key, PublicKey peer) throws Exception {
        KeyAgreement agreement = KeyAgreement.getInstance("ECDH", provider);
        agreement.init(key);
        agreement.doPhase(peer, true);
        return agreement.generateSecret();
    }

    private static KeyPair ours() throws Exception {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("EC", Both.LEAFSEAL);
        generator.initialize(256);
        return generator.generateKeyPair();
    }

    @Test
    void agreementSemantics() throws Exception {
        byte[] secret = agree(EC, P256_PAIR.getPrivate(), OTHER_PAIR.getPublic());
        Both.same(EC, log -> {
            KeyAgreement agreement = KeyAgreement.getInstance("ECDH", log.provider);
            log.step("phase before init", () -> agreement.doPhase(OTHER_PAIR.getPublic(), true));
            log.step("secret before init", agreement::generateSecret);
            log.step("a public key", () -> {
                agreement.init(OTHER_PAIR.getPublic());
                return null;
            });
            log.step("a key of another kind", () -> {
                agreement.init(RSA_2048.getPrivate());
                return null;
            });
            log.step("parameters", () -> {
                agreement.init(P256_PAIR.getPrivate(), new IvParameterSpec(new byte[16]));
                return null;
            });
            agreement.init(P256_PAIR.getPrivate());
            log.step("secret before the phase", agreement::generateSecret);
            log.step("not the last phase", () -> agreement.doPhase(OTHER_PAIR.getPublic(), false));
            log.step("a private key", () -> agreement.doPhase(OTHER_PAIR.getPrivate(), true));
            log.step("a peer of another kind", () -> agreement.doPhase(RSA_2048.getPublic(), true));
            log.step("a phase", () -> agreement.doPhase(OTHER_PAIR.getPublic(), true));
            log.step("a second phase", () -> agreement.doPhase(OTHER_PAIR.getPublic(), true));
            log.step("too short", () -> agreement.generateSecret(new byte[40], 9));
            log.step("unknown algorithm", () -> agreement.generateSecret("Unknown"));
            log.step("null", () -> agreement.generateSecret((String) null));
            log.step("the secret", agreement::generateSecret);
            log.step("the secret again", agreement::generateSecret);
            agreement.doPhase(OTHER_PAIR.getPublic(), true);
            byte[] output = new byte[40];
            log.step("into an array", () -> agreement.generateSecret(output, 8));
            log.step("its content", () -> output);
            agreement.doPhase(OTHER_PAIR.getPublic(), true);
            log.step("for TLS", () -> agreement.generateSecret("TlsPremasterSecret").getEncoded());
        });
        assertEquals(32, secret.length);
    }

    /** Points off the curve, on its twist, infinity, and scalars out of range never give a secret. */
    @Test
    void agreementsWithInvalidKeys() throws Exception {
        KeyAgreement agreement = KeyAgreement.getInstance("ECDH", Both.LEAFSEAL);
        agreement.init(P256_PAIR.getPrivate());
        ECPoint good = ((ECPublicKey) OTHER_PAIR.getPublic()).getW();
        BigInteger x = good.getAffineX();
        BigInteger y = good.getAffineY();
        BigInteger p = ((java.security.spec.ECFieldFp) P256.PARAMETERS.getCurve().getField()).getP();
        ECPoint[] points = {new ECPoint(x, y.add(BigInteger.ONE)), new ECPoint(BigInteger.ZERO, BigInteger.ZERO), new ECPoint(p, y),
            new ECPoint(x.add(p), y), new ECPoint(x, BigInteger.ONE.shiftLeft(300)), new ECPoint(x.negate(), y), ECPoint.POINT_INFINITY};
        for (ECPoint point : points) {
            assertThrows(InvalidKeyException.class, () -> agreement.doPhase(new Point(point), true));
        }
        agreement.doPhase(new Point(good), true);
        assertArrayEquals(agree(EC, P256_PAIR.getPrivate(), OTHER_PAIR.getPublic()), agreement.generateSecret());
        BigInteger order = P256.PARAMETERS.getOrder();
        for (BigInteger scalar : new BigInteger[] {BigInteger.ZERO, order, order.add(BigInteger.ONE)}) {
            agreement.init(new Scalar(scalar));
            assertThrows(InvalidKeyException.class, () -> agreement.doPhase(OTHER_PAIR.getPublic(), true));
        }
        assertThrows(InvalidKeyException.class, () -> agreement.init(new Scalar(BigInteger.ONE.shiftLeft(256))));
        assertThrows(InvalidKeyException.class, () -> agreement.init(new Scalar(BigInteger.ONE.negate())));
        agreement.init(new Scalar(BigInteger.ONE));
        agreement.doPhase(OTHER_PAIR.getPublic(), true);
        assertArrayEquals(P256.bytes(x), agreement.generateSecret());
    }

    /** Keys of a class that the JDK did not make and does not check. */
    private abstract static class Unchecked implements Key, ECKey {        @Override
        public java.security.spec.ECParameterSpec getParams() {
            return P256.PARAMETERS;
        }

        @Override
        public String getAlgorithm() {
            return "EC";
        }

        @Override
        public String getFormat() {
            return null;
        }

        @Override
        public byte[] getEncoded() {
            return null;
        }
    }

    private static final class Point extends Unchecked implements ECPublicKey {
        private final ECPoint point;

        Point(ECPoint point) {
            this.point = point;
        }

        @Override
        public ECPoint getW() {
            return point;
        }
    }

    private static final class Scalar extends Unchecked implements ECPrivateKey {
        private final BigInteger scalar;

        Scalar(BigInteger scalar) {
            this.scalar = scalar;
        }

        @Override
        public BigInteger getS() {
            return scalar;
        }
    }

    @Test
    void keyPairs() throws Exception {
        KeyPair pair = ours();
        KeyFactory factory = KeyFactory.getInstance("EC", EC);
        assertEquals(pair.getPrivate(), factory.generatePrivate(new PKCS8EncodedKeySpec(pair.getPrivate().getEncoded())));
        assertEquals(pair.getPublic(), factory.generatePublic(new X509EncodedKeySpec(pair.getPublic().getEncoded())));
        assertNotEquals(pair.getPrivate(), ours().getPrivate());
        BigInteger scalar = ((ECPrivateKey) pair.getPrivate()).getS();
        KeyAgreement agreement = KeyAgreement.getInstance("ECDH", EC);
        agreement.init(factory.generatePrivate(new ECPrivateKeySpec(scalar, P256.PARAMETERS)));
        ECPoint generator = P256.PARAMETERS.getGenerator();
        agreement.doPhase(factory.generatePublic(new ECPublicKeySpec(generator, P256.PARAMETERS)), true);
        assertArrayEquals(agreement.generateSecret(), P256.bytes(((ECPublicKey) pair.getPublic()).getW().getAffineX()));
    }

    /** The caller's generator makes the key, and what it draws out of range is drawn again. */
    @Test
    void keyPairsFromTheCallersGenerator() throws Exception {
        SecureRandom scripted = new SecureRandom() {
            private static final long serialVersionUID = 1;
            private int draws;

            @Override
            public void nextBytes(byte[] bytes) {
                Arrays.fill(bytes, (byte) (draws == 0 ? 0 : draws == 1 ? 0xff : 0x11));
                draws++;
            }
        };
        KeyPairGenerator generator = KeyPairGenerator.getInstance("EC", Both.LEAFSEAL);
        generator.initialize(new ECGenParameterSpec("secp256r1"), scripted);
        assertEquals(new BigInteger("11".repeat(32), 16), ((ECPrivateKey) generator.generateKeyPair().getPrivate()).getS());
    }

    /** Algorithms that native code does not have are served by the JDK when Leafseal is first in the list. */
    @Test
    void otherKeysAreLeftToTheJdk() throws Exception {
        Security.insertProviderAt(new LeafsealProvider(), 1);
        assertSame(LeafsealProvider.NAME, signer("SHA256withECDSA", P256_PAIR));
        assertSame("SunEC", signer("SHA256withECDSA", P384_PAIR));
        assertSame(LeafsealProvider.NAME, signer("SHA256withRSA", RSA_2048));
        assertSame("SunRsaSign", signer("SHA256withRSA", RSA_1024));
        assertSame("SunRsaSign", signer("SHA1withRSA", RSA_2048));
        KeyAgreement agreement = KeyAgreement.getInstance("ECDH");
        agreement.init(P384_PAIR.getPrivate());
        assertSame("SunEC", agreement.getProvider().getName());
        KeyAgreement ours = KeyAgreement.getInstance("ECDH");
        ours.init(P256_PAIR.getPrivate());
        assertSame(LeafsealProvider.NAME, ours.getProvider().getName());
        KeyPairGenerator generator = KeyPairGenerator.getInstance("EC");
        generator.initialize(new ECGenParameterSpec("secp521r1"));
        assertEquals(521, ((ECPublicKey) generator.generateKeyPair().getPublic()).getParams().getCurve().getField().getFieldSize());
        KeyPairGenerator bySize = KeyPairGenerator.getInstance("EC");
        bySize.initialize(384);
        assertEquals(384, ((ECPublicKey) bySize.generateKeyPair().getPublic()).getParams().getCurve().getField().getFieldSize());
        int usual = size(KeyPairGenerator.getInstance("EC", EC).generateKeyPair());
        assertEquals(usual, size(KeyPairGenerator.getInstance("EC").generateKeyPair()));
    }

    private static int size(KeyPair pair) {
        return ((ECPublicKey) pair.getPublic()).getParams().getCurve().getField().getFieldSize();
    }

    private static String signer(String name, KeyPair pair) throws Exception {
        Signature signature = Signature.getInstance(name);
        signature.initSign(pair.getPrivate());
        byte[] result = signature.sign();
        String provider = signature.getProvider().getName();
        Signature verifying = Signature.getInstance(name);
        verifying.initVerify(pair.getPublic());
        assertTrue(verifying.verify(result));
        assertSame(provider, verifying.getProvider().getName());
        return provider;
    }

    @Test
    void keysThatAreRefused() throws Exception {
        KeyFactory factory = KeyFactory.getInstance("RSA", RSA);
        RSAPrivateCrtKey good = (RSAPrivateCrtKey) RSA_2048.getPrivate();
        PrivateKey mixed = factory.generatePrivate(new RSAPrivateCrtKeySpec(good.getModulus(), good.getPublicExponent(),
                good.getPrivateExponent(), good.getPrimeP(), good.getPrimeQ().add(BigInteger.TWO), good.getPrimeExponentP(),
                good.getPrimeExponentQ(), good.getCrtCoefficient()));
        PrivateKey plain = factory.generatePrivate(new RSAPrivateKeySpec(good.getModulus(), good.getPrivateExponent()));
        for (PrivateKey key : new PrivateKey[] {mixed, plain, RSA_1024.getPrivate(), P256_PAIR.getPrivate()}) {
            Signature signature = Signature.getInstance("SHA256withRSA", Both.LEAFSEAL);
            assertThrows(InvalidKeyException.class, () -> signature.initSign(key));
        }
        BigInteger modulus = ((RSAPublicKey) RSA_2048.getPublic()).getModulus();
        PublicKey longExponent = factory.generatePublic(new RSAPublicKeySpec(modulus, BigInteger.ONE.shiftLeft(40).add(BigInteger.ONE)));
        for (PublicKey key : new PublicKey[] {longExponent, RSA_1024.getPublic(), P256_PAIR.getPublic()}) {
            Signature signature = Signature.getInstance("SHA256withRSA", Both.LEAFSEAL);
            assertThrows(InvalidKeyException.class, () -> signature.initVerify(key));
        }
        for (KeyPair pair : new KeyPair[] {P384_PAIR, RSA_2048}) {
            Signature signature = Signature.getInstance("SHA256withECDSA", Both.LEAFSEAL);
            assertThrows(InvalidKeyException.class, () -> signature.initSign(pair.getPrivate()));
            assertThrows(InvalidKeyException.class, () -> signature.initVerify(pair.getPublic()));
        }
        KeyAgreement agreement = KeyAgreement.getInstance("ECDH", Both.LEAFSEAL);
        agreement.init(P256_PAIR.getPrivate());
        assertThrows(InvalidKeyException.class, () -> agreement.doPhase(P384_PAIR.getPublic(), true));
        assertThrows(InvalidKeyException.class, () -> agreement.init(new SecretKeySpec(new byte[32], "EC")));
    }

    /** A native key serves all signatures under its key object, on all threads, and goes with it. */
    @Test
    void nativeKeysGoWithTheirKeyObjects() throws Exception {
        long before = settled(Long.MAX_VALUE);
        KeyFactory factory = KeyFactory.getInstance("RSA", RSA);
        PKCS8EncodedKeySpec encoded = new PKCS8EncodedKeySpec(RSA_2048.getPrivate().getEncoded());
        PrivateKey[] keys = new PrivateKey[4];
        for (int i = 0; i < keys.length; i++) {
            keys[i] = factory.generatePrivate(encoded);
        }
        Thread[] threads = new Thread[8];
        byte[][] signatures = new byte[threads.length][];
        for (int i = 0; i < threads.length; i++) {
            int number = i;
            threads[i] = new Thread(() -> {
                try {
                    Signature signature = Signature.getInstance("SHA256withRSA", Both.LEAFSEAL);
                    signature.initSign(keys[number % keys.length]);
                    signature.update(Both.cycle(100));
                    signatures[number] = signature.sign();
                } catch (Exception error) {
                    throw new AssertionError(error);
                }
            });
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        for (byte[] signature : signatures) {
            assertArrayEquals(signatures[0], signature);
        }
        assertTrue(Native.liveObjects() >= before + keys.length);
        Arrays.fill(keys, null);
        assertTrue(settled(before) <= before);
    }

    /** How many native objects are left once the collector and the cleaner ran. */
    private static long settled(long wanted) throws Exception {
        long live = Long.MAX_VALUE;
        for (int i = 0; i < 100 && live > wanted || i < 2; i++) {
            System.gc();
            Thread.sleep(20);
            live = Native.liveObjects();
        }
        return live;
    }
}
