package io.fieldseal.jca;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.security.InvalidKeyException;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.PrivateKey;
import java.security.Provider;
import java.security.PublicKey;
import java.security.SecureRandom;
import java.security.Security;
import java.security.Signature;
import java.security.interfaces.ECPrivateKey;
import java.security.interfaces.ECPublicKey;
import java.security.interfaces.RSAPrivateCrtKey;
import java.security.interfaces.RSAPublicKey;
import java.security.spec.AlgorithmParameterSpec;
import java.security.spec.ECGenParameterSpec;
import java.security.spec.ECPoint;
import java.security.spec.ECPrivateKeySpec;
import java.security.spec.ECPublicKeySpec;
import java.security.spec.MGF1ParameterSpec;
import java.security.spec.PKCS8EncodedKeySpec;
import java.security.spec.PSSParameterSpec;
import java.security.spec.RSAPrivateCrtKeySpec;
import java.security.spec.RSAPrivateKeySpec;
import java.security.spec.RSAPublicKeySpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.SplittableRandom;
import javax.crypto.KeyAgreement;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** P-256 and RSA: results that the JDK's providers accept, and their semantics. */
class AsymmetricTest {
    private static final Provider EC = Security.getProvider("SunEC");
    private static final Provider RSA = Security.getProvider("SunRsaSign");
    private static final KeyPair P256_PAIR = ec("secp256r1");
    private static final KeyPair OTHER_PAIR = ec("secp256r1");
    private static final KeyPair P384_PAIR = ec("secp384r1");
    private static final KeyPair RSA_2048 = rsa(2048);
    private static final KeyPair RSA_3072 = rsa(3072);
    private static final KeyPair RSA_1024 = rsa(1024);

    private static KeyPair ec(String curve) {
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance("EC", EC);
            generator.initialize(new ECGenParameterSpec(curve));
            return generator.generateKeyPair();
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }

    private static KeyPair rsa(int bits) {
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA", RSA);
            generator.initialize(bits);
            return generator.generateKeyPair();
        } catch (Exception error) {
            throw new AssertionError(error);
        }
    }

    @AfterEach
    void removeProvider() {
        Security.removeProvider(FieldsealProvider.NAME);
    }

    private static PSSParameterSpec pss(String hash, int salt) {
        return new PSSParameterSpec(hash, "MGF1", new MGF1ParameterSpec(hash), salt, 1);
    }

    /** A signature of ours and one of the JDK's, each verified by both, for messages in random pieces. */
    private static void crosses(String name, AlgorithmParameterSpec parameters, KeyPair pair, Provider jdk, int rounds) throws Exception {
        SplittableRandom random = new SplittableRandom(3);
        Provider[] providers = {Both.FIELDSEAL, jdk};
        for (int round = 0; round < rounds; round++) {
            byte[] message = new byte[round < 3 ? round : random.nextInt(round % 5 == 0 ? 300_000 : 500)];
            random.nextBytes(message);
            for (Provider signer : providers) {
                Signature signing = Signature.getInstance(name, signer);
                if (parameters != null) {
                    signing.setParameter(parameters);
                }
                signing.initSign(pair.getPrivate());
                feed(signing, message, random);
                byte[] signature = signing.sign();
                for (Provider verifier : providers) {
                    Signature verifying = Signature.getInstance(name, verifier);
                    verifying.initVerify(pair.getPublic());
                    if (parameters != null) {
                        verifying.setParameter(parameters);
                    }
                    feed(verifying, message, random);
                    assertTrue(verifying.verify(signature), name + " by " + signer + " for " + verifier);
                    // The object is ready for the next message.
                    verifying.update((byte) 1);
                    verifying.update(message);
                    assertFalse(verifying.verify(signature));
                }
            }
        }
    }

    private static void feed(Signature signature, byte[] message, SplittableRandom random) throws Exception {
        int at = 0;
        while (at < message.length) {
            int size = Math.min(message.length - at, 1 + random.nextInt(random.nextBoolean() ? 50 : 100_000));
            switch (random.nextInt(3)) {
                case 0:
                    signature.update(message, at, size);
                    break;
                case 1:
                    signature.update(ByteBuffer.allocateDirect(size).put(message, at, size).flip());
                    break;
                default:
                    signature.update(message[at]);
                    signature.update(ByteBuffer.wrap(message, at + 1, size - 1).asReadOnlyBuffer());
                    break;
            }
            at += size;
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"SHA1", "SHA224", "SHA256", "SHA384", "SHA512"})
    void ecdsaWithTheJdk(String hash) throws Exception {
        crosses(hash + "withECDSA", null, P256_PAIR, EC, 30);
        crosses(hash + "withECDSAinP1363Format", null, P256_PAIR, EC, 30);
    }

    @Test
    void ecdsaOfDigests() throws Exception {
        for (int size = 0; size <= 66; size++) {
            int bytes = size;
            if (size == 64) {
                // The JDK refuses digests of 64 bytes, such as those of SHA-512; see the README's differences.
                continue;
            }
            Both.same(EC, log -> {
                Signature signature = Signature.getInstance("NONEwithECDSA", log.provider);
                signature.initSign(P256_PAIR.getPrivate());
                signature.update(new byte[bytes / 2]);
                signature.update(ByteBuffer.wrap(Both.cycle(bytes - bytes / 2)));
                log.step("sign " + bytes, () -> {
                    byte[] result = signature.sign();
                    Signature other = Signature.getInstance("NONEwithECDSA", log.provider == EC ? Both.FIELDSEAL : EC);
                    other.initVerify(P256_PAIR.getPublic());
                    other.update(new byte[bytes / 2]);
                    other.update(Both.cycle(bytes - bytes / 2));
                    return other.verify(result);
                });
            });
        }
    }

    @Test
    void ecdsaOfDigestsOf64Bytes() throws Exception {
        byte[] message = Both.cycle(1000);
        Signature signing = Signature.getInstance("NONEwithECDSA", Both.FIELDSEAL);
        signing.initSign(P256_PAIR.getPrivate());
        signing.update(java.security.MessageDigest.getInstance("SHA-512", "SUN").digest(message));
        Signature verifying = Signature.getInstance("SHA512withECDSA", EC);
        verifying.initVerify(P256_PAIR.getPublic());
        verifying.update(message);
        assertTrue(verifying.verify(signing.sign()));
    }

    @ParameterizedTest
    @ValueSource(strings = {"SHA256", "SHA384", "SHA512"})
    void rsaWithTheJdk(String hash) throws Exception {
        String name = hash.replace("SHA", "SHA-");
        int size = Integer.parseInt(hash.substring(3)) / 8;
        for (KeyPair pair : new KeyPair[] {RSA_2048, RSA_3072}) {
            crosses(hash + "withRSA", null, pair, RSA, 10);
            crosses("RSASSA-PSS", pss(name, size), pair, RSA, 10);
        }
    }

    /** Parameters that native code does not have are those of the JDK's implementation. */
    @Test
    void pssWithOtherParameters() throws Exception {
        crosses("RSASSA-PSS", PSSParameterSpec.DEFAULT, RSA_2048, RSA, 5);
        crosses("RSASSA-PSS", pss("SHA-256", 20), RSA_2048, RSA, 5);
        crosses("RSASSA-PSS", pss("SHA-512/256", 32), RSA_2048, RSA, 5);
        crosses("RSASSA-PSS", new PSSParameterSpec("SHA-512", "MGF1", MGF1ParameterSpec.SHA256, 64, 1), RSA_2048, RSA, 5);
    }

    /** Signatures that are no signatures. */
    @ParameterizedTest
    @ValueSource(strings = {"SHA256withECDSA", "SHA256withECDSAinP1363Format"})
    void malformedEcdsa(String name) throws Exception {
        Signature signing = Signature.getInstance(name, EC);
        signing.initSign(P256_PAIR.getPrivate());
        byte[] good = signing.sign();
        Both.same(EC, log -> {
            Signature signature = Signature.getInstance(name, log.provider);
            signature.initVerify(P256_PAIR.getPublic());
            log.step("good", () -> signature.verify(good));
            log.step("empty", () -> signature.verify(new byte[0]));
            log.step("zeros", () -> signature.verify(new byte[64]));
            log.step("short", () -> signature.verify(Arrays.copyOf(good, good.length - 1)));
            log.step("one more", () -> signature.verify(Arrays.copyOf(good, good.length + 1)));
            log.step("two more", () -> signature.verify(Arrays.copyOf(good, good.length + 2)));
            log.step("good again", () -> signature.verify(good));
            for (String hex : new String[] {"3006020101020101", "3006020100020100", "300602010102017f", "30060201810201ff"}) {
                log.step(hex, () -> signature.verify(HexFormat.of().parseHex(hex)));
            }
            log.step("range", () -> signature.verify(good, 1, good.length));
            log.step("range of none", () -> signature.verify(good, good.length, 0));
        });
    }

    @Test
    void rsaSemantics() throws Exception {
        Both.same(RSA, log -> {
            Signature signature = Signature.getInstance("SHA256withRSA", log.provider);
            log.step("sign before init", signature::sign);
            log.step("update before init", () -> {
                signature.update((byte) 0);
                return null;
            });
            signature.initSign(RSA_2048.getPrivate());
            byte[] good = signature.sign();
            log.step("the signature", () -> good);
            log.step("verify while signing", () -> signature.verify(good));
            log.step("into an array that is too short", () -> signature.sign(new byte[255], 0, 255));
            log.step("into an array", () -> signature.sign(new byte[300], 44, 256));
            signature.update(Both.cycle(1000));
            signature.initVerify(RSA_2048.getPublic());
            log.step("init discards the message", () -> signature.verify(good));
            log.step("wrong", () -> signature.verify(new byte[256]));
            log.step("not below the modulus", () -> {
                byte[] bytes = new byte[256];
                Arrays.fill(bytes, (byte) 0xff);
                return signature.verify(bytes);
            });
            log.step("a key of another kind", () -> {
                signature.initVerify(P256_PAIR.getPublic());
                return null;
            });
            log.step("no key", () -> {
                signature.initSign(null);
                return null;
            });
            log.step("parameters", signature::getParameters);
            log.step("null as parameter", () -> {
                signature.setParameter((AlgorithmParameterSpec) null);
                return null;
            });
            log.step("a parameter", () -> {
                signature.setParameter(new IvParameterSpec(new byte[12]));
                return null;
            });
        });
    }

    /** The JDK's behaviour for a signature of another length differs between releases; ours is the older one, an exception. */
    @Test
    void rsaSignaturesOfAnotherLength() throws Exception {
        Signature signature = Signature.getInstance("SHA256withRSA", Both.FIELDSEAL);
        signature.initVerify(RSA_2048.getPublic());
        for (int size : new int[] {0, 1, 255, 257, 512}) {
            assertThrows(java.security.SignatureException.class, () -> signature.verify(new byte[size]));
        }
    }

    @Test
    void pssSemantics() throws Exception {
        Both.same(RSA, log -> {
            Signature signature = Signature.getInstance("RSASSA-PSS", log.provider);
            log.step("no parameters yet", signature::getParameters);
            signature.initSign(RSA_2048.getPrivate());
            log.step("update without parameters", () -> {
                signature.update((byte) 1);
                return null;
            });
            log.step("sign without parameters", signature::sign);
            log.step("parameters of another kind", () -> {
                signature.setParameter(new IvParameterSpec(new byte[12]));
                return null;
            });
            log.step("a trailer of another kind", () -> {
                signature.setParameter(new PSSParameterSpec("SHA-256", "MGF1", MGF1ParameterSpec.SHA256, 32, 2));
                return null;
            });
            log.step("a negative salt", () -> {
                signature.setParameter(new PSSParameterSpec("SHA-256", "MGF1", MGF1ParameterSpec.SHA256, -1, 1));
                return null;
            });
            log.step("an unknown hash", () -> {
                signature.setParameter(new PSSParameterSpec("MD5", "MGF1", MGF1ParameterSpec.SHA256, 32, 1));
                return null;
            });
            log.step("good ones", () -> {
                signature.setParameter(pss("SHA-256", 32));
                return signature.getParameters().getParameterSpec(PSSParameterSpec.class).getSaltLength();
            });
            log.step("a signature", () -> signature.sign().length);
            signature.update((byte) 1);
            log.step("parameters in the middle", () -> {
                signature.setParameter(pss("SHA-512", 64));
                return null;
            });
            log.step("a signature all the same", () -> signature.sign().length);
            log.step("others", () -> {
                signature.setParameter(pss("SHA-512", 64));
                return signature.sign().length;
            });
        });
    }

    @Test
    void ecdsaSemantics() throws Exception {
        Both.same(EC, log -> {
            Signature signature = Signature.getInstance("SHA256withECDSA", log.provider);
            log.step("sign before init", signature::sign);
            log.step("a key of another kind", () -> {
                signature.initVerify(RSA_2048.getPublic());
                return null;
            });
            log.step("no key", () -> {
                signature.initSign(null);
                return null;
            });
            signature.initSign(P256_PAIR.getPrivate(), new SecureRandom());
            log.step("parameters", signature::getParameters);
            log.step("parameters of another kind", () -> {
                signature.setParameter(new IvParameterSpec(new byte[12]));
                return null;
            });
            log.step("parameters of another curve", () -> {
                signature.setParameter(((ECPublicKey) P384_PAIR.getPublic()).getParams());
                return null;
            });
            log.step("parameters of the curve", () -> {
                // Newer JDKs do not return them.
                signature.setParameter(((ECPublicKey) P256_PAIR.getPublic()).getParams());
                return null;
            });
            signature.update(Both.cycle(9000));
            signature.initSign(P256_PAIR.getPrivate());
            byte[] empty = signature.sign();
            log.step("init discards the message", () -> {
                Signature other = Signature.getInstance("SHA256withECDSA", log.provider);
                other.initVerify(P256_PAIR.getPublic());
                return other.verify(empty);
            });
            log.step("into an array that is too short", () -> signature.sign(new byte[30], 0, 30));
        });
    }

    /** Two signatures of one message differ: nonces are fresh. */
    @Test
    void signaturesAreFresh() throws Exception {
        Signature signature = Signature.getInstance("SHA256withECDSA", Both.FIELDSEAL);
        signature.initSign(P256_PAIR.getPrivate());
        byte[] first = signature.sign();
        assertFalse(Arrays.equals(first, signature.sign()));
        Signature pss = Signature.getInstance("RSASSA-PSS", Both.FIELDSEAL);
        pss.setParameter(pss("SHA-256", 32));
        pss.initSign(RSA_2048.getPrivate());
        byte[] salted = pss.sign();
        assertFalse(Arrays.equals(salted, pss.sign()));
    }

    @Test
    void agreementsWithTheJdk() throws Exception {
        for (int i = 0; i < 50; i++) {
            KeyPair ours = ours();
            KeyPair jdk = ec("secp256r1");
            byte[] expected = agree(EC, jdk.getPrivate(), ours.getPublic());
            assertArrayEquals(expected, agree(Both.FIELDSEAL, ours.getPrivate(), jdk.getPublic()));
            assertArrayEquals(expected, agree(EC, ours.getPrivate(), jdk.getPublic()));
            assertArrayEquals(expected, agree(Both.FIELDSEAL, jdk.getPrivate(), ours.getPublic()));
        }
    }

    private static byte[] agree(Provider provider, PrivateKey key, PublicKey peer) throws Exception {
        KeyAgreement agreement = KeyAgreement.getInstance("ECDH", provider);
        agreement.init(key);
        agreement.doPhase(peer, true);
        return agreement.generateSecret();
    }

    private static KeyPair ours() throws Exception {
        KeyPairGenerator generator = KeyPairGenerator.getInstance("EC", Both.FIELDSEAL);
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
        KeyAgreement agreement = KeyAgreement.getInstance("ECDH", Both.FIELDSEAL);
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
    private static final class Point implements ECPublicKey {
        private final ECPoint point;

        Point(ECPoint point) {
            this.point = point;
        }

        @Override
        public ECPoint getW() {
            return point;
        }

        @Override
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

    private static final class Scalar implements ECPrivateKey {
        private final BigInteger scalar;

        Scalar(BigInteger scalar) {
            this.scalar = scalar;
        }

        @Override
        public BigInteger getS() {
            return scalar;
        }

        @Override
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
        KeyPairGenerator generator = KeyPairGenerator.getInstance("EC", Both.FIELDSEAL);
        generator.initialize(new ECGenParameterSpec("secp256r1"), scripted);
        assertEquals(new BigInteger("11".repeat(32), 16), ((ECPrivateKey) generator.generateKeyPair().getPrivate()).getS());
    }

    /** What native code does not have is served by the JDK when Fieldseal is first in the list. */
    @Test
    void otherKeysAreLeftToTheJdk() throws Exception {
        Security.insertProviderAt(new FieldsealProvider(), 1);
        assertSame(FieldsealProvider.NAME, signer("SHA256withECDSA", P256_PAIR));
        assertSame("SunEC", signer("SHA256withECDSA", P384_PAIR));
        assertSame(FieldsealProvider.NAME, signer("SHA256withRSA", RSA_2048));
        assertSame("SunRsaSign", signer("SHA256withRSA", RSA_1024));
        assertSame("SunRsaSign", signer("SHA1withRSA", RSA_2048));
        KeyAgreement agreement = KeyAgreement.getInstance("ECDH");
        agreement.init(P384_PAIR.getPrivate());
        assertSame("SunEC", agreement.getProvider().getName());
        KeyAgreement ours = KeyAgreement.getInstance("ECDH");
        ours.init(P256_PAIR.getPrivate());
        assertSame(FieldsealProvider.NAME, ours.getProvider().getName());
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
            Signature signature = Signature.getInstance("SHA256withRSA", Both.FIELDSEAL);
            assertThrows(InvalidKeyException.class, () -> signature.initSign(key));
        }
        BigInteger modulus = ((RSAPublicKey) RSA_2048.getPublic()).getModulus();
        PublicKey longExponent = factory.generatePublic(new RSAPublicKeySpec(modulus, BigInteger.ONE.shiftLeft(40).add(BigInteger.ONE)));
        for (PublicKey key : new PublicKey[] {longExponent, RSA_1024.getPublic(), P256_PAIR.getPublic()}) {
            Signature signature = Signature.getInstance("SHA256withRSA", Both.FIELDSEAL);
            assertThrows(InvalidKeyException.class, () -> signature.initVerify(key));
        }
        for (KeyPair pair : new KeyPair[] {P384_PAIR, RSA_2048}) {
            Signature signature = Signature.getInstance("SHA256withECDSA", Both.FIELDSEAL);
            assertThrows(InvalidKeyException.class, () -> signature.initSign(pair.getPrivate()));
            assertThrows(InvalidKeyException.class, () -> signature.initVerify(pair.getPublic()));
        }
        KeyAgreement agreement = KeyAgreement.getInstance("ECDH", Both.FIELDSEAL);
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
                    Signature signature = Signature.getInstance("SHA256withRSA", Both.FIELDSEAL);
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
