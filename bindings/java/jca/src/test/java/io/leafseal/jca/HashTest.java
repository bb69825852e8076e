package io.leafseal.jca;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.ByteBuffer;
import java.security.DigestException;
import java.security.InvalidAlgorithmParameterException;
import java.security.InvalidKeyException;
import java.security.KeyPairGenerator;
import java.security.MessageDigest;
import java.util.SplittableRandom;
import javax.crypto.Mac;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Hash functions and HMAC equal the JDK's, in any pieces. */
class HashTest {
    @ParameterizedTest
    @ValueSource(strings = {"SHA-1", "SHA-224", "SHA-256", "SHA-384", "SHA-512"})
    void digestsInPieces(String name) throws Exception {
        SplittableRandom random = new SplittableRandom(1);
        MessageDigest ours = MessageDigest.getInstance(name, Both.LEAFSEAL);
        MessageDigest jdk = MessageDigest.getInstance(name, "SUN");
        assertEquals(jdk.getDigestLength(), ours.getDigestLength());
        for (int round = 0; round < 400; round++) {
            byte[] message = new byte[random.nextInt(round % 10 == 0 ? 600_000 : 9000)];
            random.nextBytes(message);
            int at = 0;
            while (at < message.length) {
                int piece = Math.min(message.length - at, 1 + random.nextInt(random.nextBoolean() ? 200 : 100_000));
                feed(ours, message, at, piece, random);
                at += piece;
                if (random.nextInt(10) == 0) {
                    MessageDigest copy = (MessageDigest) ours.clone();
                    ours = random.nextBoolean() ? copy : ours;
                }
            }
            assertArrayEquals(jdk.digest(message), ours.digest());
        }
        ours.update(new byte[10_000]);
        ours.reset();
        assertArrayEquals(jdk.digest(), ours.digest());
        assertArrayEquals(jdk.digest(new byte[5000]), ours.digest(new byte[5000]));
    }

    private static void feed(MessageDigest digest, byte[] bytes, int at, int size, SplittableRandom random) {
        switch (random.nextInt(4)) {
            case 0:
                digest.update(bytes, at, size);
                break;
            case 1:
                ByteBuffer direct = ByteBuffer.allocateDirect(size + 3).put(3, bytes, at, size).position(3);
                digest.update(direct);
                assertEquals(0, direct.remaining());
                break;
            case 2:
                ByteBuffer readOnly = ByteBuffer.wrap(bytes, at, size).asReadOnlyBuffer();
                digest.update(readOnly);
                assertEquals(0, readOnly.remaining());
                break;
            default:
                digest.update(bytes[at]);
                digest.update(ByteBuffer.wrap(bytes, at + 1, size - 1));
                break;
        }
    }

    @Test
    void digestsIntoArrays() throws Exception {
        MessageDigest ours = MessageDigest.getInstance("SHA-256", Both.LEAFSEAL);
        assertThrows(DigestException.class, () -> ours.digest(new byte[41], 10, 31));
        byte[] output = new byte[40];
        ours.reset();
        assertEquals(32, ours.digest(output, 8, 32));
    }

    @ParameterizedTest
    @ValueSource(strings = {"HmacSHA1", "HmacSHA224", "HmacSHA256", "HmacSHA384", "HmacSHA512"})
    void codesUnderKeysOfAnyLength(String name) throws Exception {
        SplittableRandom random = new SplittableRandom(2);
        Mac ours = Mac.getInstance(name, Both.LEAFSEAL);
        Mac jdk = Mac.getInstance(name, Both.JDK);
        assertEquals(jdk.getMacLength(), ours.getMacLength());
        for (int size = 1; size < 300; size++) {
            SecretKeySpec key = new SecretKeySpec(Both.cycle(size), name);
            jdk.init(key);
            ours.init(key);
            for (int round = 0; round < 3; round++) {
                byte[] message = new byte[random.nextInt(round == 0 ? 20_000 : 300)];
                random.nextBytes(message);
                int first = random.nextInt(message.length + 1);
                ours.update(message, 0, first);
                if (random.nextInt(4) == 0) {
                    ours = (Mac) ours.clone();
                }
                ours.update(ByteBuffer.wrap(message, first, message.length - first));
                assertArrayEquals(jdk.doFinal(message), ours.doFinal());
            }
        }
        ours.update(new byte[9000]);
        ours.reset();
        assertArrayEquals(jdk.doFinal(), ours.doFinal());
    }

    @Test
    void keysThatAreRefused() throws Exception {
        Mac mac = Mac.getInstance("HmacSHA256", Both.LEAFSEAL);
        assertThrows(IllegalStateException.class, mac::doFinal);
        assertThrows(InvalidKeyException.class, () -> mac.init(KeyPairGenerator.getInstance("EC").generateKeyPair().getPublic()));
        SecretKeySpec key = new SecretKeySpec(new byte[32], "HmacSHA256");
        assertThrows(InvalidAlgorithmParameterException.class, () -> mac.init(key, new IvParameterSpec(new byte[12])));
    }
}
