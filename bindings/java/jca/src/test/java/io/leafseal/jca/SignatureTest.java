package io.leafseal.jca;

import static io.leafseal.jca.Pairs.EC;
import static io.leafseal.jca.Pairs.P256_PAIR;
import static io.leafseal.jca.Pairs.P384_PAIR;
import static io.leafseal.jca.Pairs.RSA;
import static io.leafseal.jca.Pairs.RSA_2048;
import static io.leafseal.jca.Pairs.RSA_3072;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.security.KeyPair;
import java.security.Provider;
import java.security.SecureRandom;
import java.security.Signature;
import java.security.interfaces.ECPublicKey;
import java.security.spec.AlgorithmParameterSpec;
import java.security.spec.MGF1ParameterSpec;
import java.security.spec.PSSParameterSpec;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.SplittableRandom;
import javax.crypto.spec.IvParameterSpec;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Signatures by ECDSA and RSA: those that the JDK's providers verify, and their semantics. */
class SignatureTest {
    private static PSSParameterSpec pss(String hash, int salt) {
        return new PSSParameterSpec(hash, "MGF1", new MGF1ParameterSpec(hash), salt, 1);
    }

    /** A signature of ours and one of the JDK's, each verified by both, for messages in random pieces. */
    private static void crosses(String name, AlgorithmParameterSpec parameters, KeyPair pair, Provider jdk, int rounds) throws Exception {
        SplittableRandom random = new SplittableRandom(3);
        Provider[] providers = {Both.LEAFSEAL, jdk};
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
                    Signature other = Signature.getInstance("NONEwithECDSA", log.provider == EC ? Both.LEAFSEAL : EC);
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
        Signature signing = Signature.getInstance("NONEwithECDSA", Both.LEAFSEAL);
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
        Signature signature = Signature.getInstance("SHA256withRSA", Both.LEAFSEAL);
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
        Signature signature = Signature.getInstance("SHA256withECDSA", Both.LEAFSEAL);
        signature.initSign(P256_PAIR.getPrivate());
        byte[] first = signature.sign();
        assertFalse(Arrays.equals(first, signature.sign()));
        Signature pss = Signature.getInstance("RSASSA-PSS", Both.LEAFSEAL);
        pss.setParameter(pss("SHA-256", 32));
        pss.initSign(RSA_2048.getPrivate());
        byte[] salted = pss.sign();
        assertFalse(Arrays.equals(salted, pss.sign()));
    }
}
