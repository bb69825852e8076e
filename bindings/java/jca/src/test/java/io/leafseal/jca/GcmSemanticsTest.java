package io.leafseal.jca;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.leafseal.jca.Both.Log;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.security.AlgorithmParameters;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.KeyPairGenerator;
import java.security.Provider;
import java.security.SecureRandom;
import java.security.spec.AlgorithmParameterSpec;
import java.util.Arrays;
import java.util.HexFormat;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.SecretKey;
import javax.crypto.ShortBufferException;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** AES/GCM behaves as SunJCE's: the same steps have the same results and throw the same classes. */
class GcmSemanticsTest {
    private static final String GCM = "AES/GCM/NoPadding";
    private static final SecretKey KEY = new SecretKeySpec(Both.cycle(32), "AES");

    private static GCMParameterSpec spec(int number) {
        byte[] iv = new byte[12];
        iv[11] = (byte) number;
        return new GCMParameterSpec(128, iv);
    }

    private static Cipher cipher(Log log) throws Exception {
        return Cipher.getInstance(GCM, log.provider);
    }

    private static byte[] sealed(int size, int tagBits, int number) throws Exception {
        Cipher cipher = Cipher.getInstance(GCM, Both.JDK);
        cipher.init(Cipher.ENCRYPT_MODE, KEY, new GCMParameterSpec(tagBits, spec(number).getIV()));
        return cipher.doFinal(Both.cycle(size));
    }

    @Test
    void noncesAreNotReused() {
        Both.same(log -> {
            Cipher cipher = cipher(log);
            cipher.init(Cipher.ENCRYPT_MODE, KEY, spec(1));
            log.step("before any message", () -> init(cipher, Cipher.ENCRYPT_MODE, KEY, spec(1)));
            log.step("another nonce", () -> init(cipher, Cipher.ENCRYPT_MODE, KEY, spec(2)));
            log.step("message", () -> cipher.doFinal(Both.cycle(20)));
            log.step("second message", () -> cipher.doFinal(Both.cycle(20)));
            log.step("update", () -> cipher.update(Both.cycle(20)));
            log.step("aad", () -> aad(cipher));
            log.step("output size", () -> cipher.getOutputSize(20));
            log.step("iv", cipher::getIV);
            log.step("same nonce", () -> init(cipher, Cipher.ENCRYPT_MODE, KEY, spec(2)));
            log.step("still spent", () -> cipher.doFinal(Both.cycle(20)));
            log.step("decryption with it", () -> init(cipher, Cipher.DECRYPT_MODE, KEY, spec(2)));
            log.step("encryption after that", () -> init(cipher, Cipher.ENCRYPT_MODE, KEY, spec(2)));
            log.step("another key", () -> init(cipher, Cipher.ENCRYPT_MODE, new SecretKeySpec(Both.cycle(16), "AES"), spec(2)));
            log.step("first again, no longer known", () -> init(cipher, Cipher.ENCRYPT_MODE, KEY, spec(1)));
            log.step("shorter tag, same nonce", () -> init(cipher, Cipher.ENCRYPT_MODE, KEY, new GCMParameterSpec(96, spec(1).getIV())));
            log.step("wrap with the same nonce", () -> init(cipher, Cipher.WRAP_MODE, KEY, spec(1)));
        });
    }

    private static String init(Cipher cipher, int mode, Key key, AlgorithmParameterSpec spec) throws Exception {
        cipher.init(mode, key, spec);
        return "ready";
    }

    private static String aad(Cipher cipher) {
        cipher.updateAAD(new byte[3]);
        return "taken";
    }

    @Test
    void parametersThatAreRefused() {
        Both.same(log -> {
            Cipher cipher = cipher(log);
            for (int bits : new int[] {0, 8, 32, 64, 88, 95, 96, 100, 104, 112, 120, 128, 129, 136, 256}) {
                log.step("tag of " + bits, () -> init(cipher, Cipher.ENCRYPT_MODE, KEY, new GCMParameterSpec(bits, new byte[] {(byte) bits})));
            }
            log.step("empty iv", () -> init(cipher, Cipher.ENCRYPT_MODE, KEY, new GCMParameterSpec(128, new byte[0])));
            log.step("another class", () -> init(cipher, Cipher.ENCRYPT_MODE, KEY, new IvParameterSpec(new byte[12])));
            log.step("none, encryption", () -> init(cipher, Cipher.ENCRYPT_MODE, KEY, null));
            log.step("size of the iv", () -> cipher.getIV().length);
            log.step("none, decryption", () -> init(cipher, Cipher.DECRYPT_MODE, KEY, null));
            for (int size : new int[] {1, 8, 15, 16, 17, 23, 24, 25, 31, 32, 33, 64}) {
                Key key = new SecretKeySpec(new byte[size], "AES");
                log.step("key of " + size, () -> init(cipher, Cipher.ENCRYPT_MODE, key, spec(size)));
            }
            log.step("another algorithm", () -> init(cipher, Cipher.ENCRYPT_MODE, new SecretKeySpec(new byte[16], "DES"), spec(101)));
            log.step("Rijndael", () -> init(cipher, Cipher.ENCRYPT_MODE, new SecretKeySpec(new byte[16], "rijndael"), spec(102)));
            log.step("no key", () -> init(cipher, Cipher.ENCRYPT_MODE, null, spec(1)));
            Key publicKey = KeyPairGenerator.getInstance("EC").generateKeyPair().getPublic();
            log.step("public key", () -> init(cipher, Cipher.ENCRYPT_MODE, publicKey, spec(1)));
        });
    }

    @ParameterizedTest
    @ValueSource(ints = {128, 192, 256})
    void namesWithALength(int bits) {
        Both.same(log -> {
            Cipher cipher = Cipher.getInstance("AES_" + bits + "/GCM/NoPadding", log.provider);
            log.step("name", cipher::getAlgorithm);
            for (int size : new int[] {16, 24, 32}) {
                Key key = new SecretKeySpec(new byte[size], "AES");
                log.step("key of " + size, () -> init(cipher, Cipher.ENCRYPT_MODE, key, spec(size)));
                log.step("message", () -> cipher.doFinal(Both.cycle(5)));
            }
        });
    }

    @Test
    void ivsOfAnyLength() {
        Both.same(log -> {
            Cipher cipher = cipher(log);
            for (int size = 1; size <= 140; size++) {
                byte[] iv = Both.cycle(size);
                log.step("iv of " + size, () -> {
                    cipher.init(Cipher.ENCRYPT_MODE, KEY, new GCMParameterSpec(120, iv));
                    cipher.updateAAD(iv);
                    byte[] first = cipher.update(Both.cycle(33));
                    return Arrays.toString(first) + Arrays.toString(cipher.doFinal(Both.cycle(300)));
                });
                log.step("whole with iv of " + size, () -> {
                    cipher.init(Cipher.DECRYPT_MODE, KEY, new GCMParameterSpec(128, iv));
                    return cipher.doFinal(sealedWith(iv));
                });
            }
        });
    }

    private static byte[] sealedWith(byte[] iv) throws Exception {
        Cipher cipher = Cipher.getInstance(GCM, Both.JDK);
        cipher.init(Cipher.ENCRYPT_MODE, KEY, new GCMParameterSpec(128, iv));
        return cipher.doFinal(Both.cycle(77));
    }

    @Test
    void updateEmitsWholeBlocksAndSizesAreExact() {
        Both.same(log -> {
            Cipher cipher = cipher(log);
            cipher.init(Cipher.ENCRYPT_MODE, KEY, spec(1));
            for (int size : new int[] {0, 1, 14, 1, 1, 15, 16, 17, 31, 32, 33, 100, 5, 1000, 4096, 7}) {
                log.step("size before " + size, () -> cipher.getOutputSize(size));
                log.step("update of " + size, () -> {
                    byte[] output = cipher.update(Both.cycle(size));
                    return output == null ? new byte[0] : output;
                });
            }
            log.step("block size", cipher::getBlockSize);
            log.step("end", cipher::doFinal);
        });
    }

    @Test
    void decryptionReleasesNothingBeforeTheEnd() {
        Both.same(log -> {
            byte[] sealed = sealed(1000, 104, 1);
            Cipher cipher = cipher(log);
            cipher.init(Cipher.DECRYPT_MODE, KEY, new GCMParameterSpec(104, spec(1).getIV()));
            for (int round = 0; round < 2; round++) {
                for (int at = 0; at < sealed.length; at += 50) {
                    int offset = at;
                    int size = Math.min(50, sealed.length - at);
                    log.step("size", () -> cipher.getOutputSize(size));
                    log.step("update", () -> cipher.update(sealed, offset, size, new byte[0], 0));
                }
                log.step("size of the end", () -> cipher.getOutputSize(0));
                log.step("end, without init the next round", () -> cipher.doFinal());
            }
        });
    }

    @Test
    void associatedDataComesFirst() {
        Both.same(log -> {
            for (int mode : new int[] {Cipher.ENCRYPT_MODE, Cipher.DECRYPT_MODE}) {
                Cipher cipher = cipher(log);
                log.step("before init", () -> aad(cipher));
                cipher.init(mode, KEY, spec(1));
                log.step("first", () -> aad(cipher));
                log.step("second", () -> aad(cipher));
                ByteBuffer direct = ByteBuffer.allocateDirect(20).position(3).limit(17);
                cipher.updateAAD(direct);
                log.step("position", direct::position);
                ByteBuffer readOnly = ByteBuffer.wrap(Both.cycle(20), 3, 4).slice().asReadOnlyBuffer();
                cipher.updateAAD(readOnly);
                log.step("position", readOnly::position);
                log.step("update", () -> cipher.update(Both.cycle(40), 0, 40, new byte[40], 0));
                log.step("after data", () -> aad(cipher));
                if (mode == Cipher.ENCRYPT_MODE) {
                    log.step("end", cipher::doFinal);
                }
            }
        });
    }

    @Test
    void shortBuffersChangeNothing() {
        Both.same(log -> {
            Cipher cipher = cipher(log);
            cipher.init(Cipher.ENCRYPT_MODE, KEY, spec(1));
            log.step("update", () -> cipher.update(Both.cycle(33), 0, 33, new byte[31], 0));
            log.step("update that fits", () -> cipher.update(Both.cycle(33), 0, 33, new byte[32], 0));
            log.step("end", () -> cipher.doFinal(Both.cycle(10), 0, 10, new byte[26], 0));
            ByteBuffer source = ByteBuffer.wrap(Both.cycle(10));
            ByteBuffer target = ByteBuffer.allocate(26);
            log.step("end in buffers", () -> cipher.doFinal(source, target));
            log.step("positions", () -> source.position() + " " + target.position());
            log.step("end that fits", () -> {
                byte[] output = new byte[27];
                return cipher.doFinal(Both.cycle(10), 0, 10, output, 0) + Arrays.toString(output);
            });

            byte[] sealed = sealed(50, 128, 2);
            cipher.init(Cipher.DECRYPT_MODE, KEY, spec(2));
            log.step("decryption", () -> cipher.doFinal(sealed, 0, sealed.length, new byte[49], 0));
            log.step("decryption, offset", () -> cipher.doFinal(sealed, 0, sealed.length, new byte[50], 1));
            log.step("decryption that fits", () -> cipher.doFinal(sealed, 0, sealed.length, new byte[51], 1));
        });
    }

    /** The JDK before 25 leaves the output as it was. */
    @Test
    void wrongTagsAreFoundAndTheOutputIsZeros() throws Exception {
        for (int size : new int[] {0, 1, 15, 16, 17, 1008, 1024, 1025, 300_000}) {
            byte[] sealed = sealed(size, 128, 3);
            for (int place : new int[] {0, size / 2, size, size + 7, size + 15}) {
                byte[] wrong = sealed.clone();
                wrong[place] ^= 1;
                for (Provider provider : new Provider[] {Both.JDK, Both.LEAFSEAL}) {
                    Cipher cipher = Cipher.getInstance(GCM, provider);
                    cipher.init(Cipher.DECRYPT_MODE, KEY, spec(3));
                    byte[] output = new byte[size + 2];
                    Arrays.fill(output, (byte) 9);
                    assertThrows(AEADBadTagException.class, () -> cipher.doFinal(wrong, 0, wrong.length, output, 1));
                    if (provider == Both.LEAFSEAL) {
                        byte[] zeros = new byte[size + 2];
                        zeros[0] = 9;
                        zeros[size + 1] = 9;
                        assertArrayEquals(zeros, output);
                    }
                }
            }
        }
        Cipher cipher = Cipher.getInstance(GCM, Both.LEAFSEAL);
        cipher.init(Cipher.DECRYPT_MODE, KEY, spec(3));
        assertThrows(AEADBadTagException.class, () -> cipher.doFinal(new byte[15]));
        assertThrows(AEADBadTagException.class, cipher::doFinal);
    }

    @Test
    void aWrongTagAfterPiecesLeavesNoPlaintext() throws Exception {
        for (int size : new int[] {10, 5000, 3_000_000}) {
            byte[] wrong = sealed(size, 128, 4);
            wrong[size / 2] ^= 1;
            Cipher cipher = Cipher.getInstance(GCM, Both.LEAFSEAL);
            cipher.init(Cipher.DECRYPT_MODE, KEY, spec(4));
            byte[] output = new byte[size];
            Arrays.fill(output, (byte) 9);
            assertEquals(0, cipher.update(wrong, 0, size, output, 0));
            assertThrows(AEADBadTagException.class, () -> cipher.doFinal(wrong, size, 16, output, 0));
            assertArrayEquals(new byte[size], output);
            // Ready for the next message.
            wrong[size / 2] ^= 1;
            assertArrayEquals(Both.cycle(size), cipher.doFinal(wrong));
        }
    }

    @Test
    void keysAreWrapped() throws Exception {
        Both.same(log -> {
            Cipher cipher = cipher(log);
            Key secret = new SecretKeySpec(Both.cycle(40), "HmacSHA256");
            cipher.init(Cipher.WRAP_MODE, KEY, spec(1));
            byte[] wrapped = cipher.wrap(secret);
            log.step("wrapped", () -> wrapped);
            log.step("wrapped again", () -> cipher.wrap(secret));
            log.step("cannot encrypt", () -> cipher.doFinal(new byte[1]));
            cipher.init(Cipher.UNWRAP_MODE, KEY, spec(1));
            log.step("unwrapped", () -> cipher.unwrap(wrapped, "HmacSHA256", Cipher.SECRET_KEY).equals(secret));
            log.step("unwrapped again", () -> cipher.unwrap(wrapped, "HmacSHA256", Cipher.SECRET_KEY).getAlgorithm());
            log.step("as a private key", () -> cipher.unwrap(wrapped, "EC", Cipher.PRIVATE_KEY));
            wrapped[0] ^= 1;
            log.step("changed", () -> cipher.unwrap(wrapped, "HmacSHA256", Cipher.SECRET_KEY));
        });
        Cipher cipher = Cipher.getInstance(GCM, Both.LEAFSEAL);
        cipher.init(Cipher.UNWRAP_MODE, KEY, spec(1));
        assertThrows(InvalidKeyException.class, () -> cipher.unwrap(new byte[3], "HmacSHA256", Cipher.SECRET_KEY));
    }

    @Test
    void privateAndPublicKeysAreWrapped() throws Exception {
        var pair = KeyPairGenerator.getInstance("EC").generateKeyPair();
        Cipher cipher = Cipher.getInstance(GCM, Both.LEAFSEAL);
        int number = 0;
        for (Key key : new Key[] {pair.getPrivate(), pair.getPublic()}) {
            cipher.init(Cipher.WRAP_MODE, KEY, spec(++number));
            byte[] wrapped = cipher.wrap(key);
            cipher.init(Cipher.UNWRAP_MODE, KEY, spec(number));
            int type = number == 1 ? Cipher.PRIVATE_KEY : Cipher.PUBLIC_KEY;
            assertArrayEquals(key.getEncoded(), cipher.unwrap(wrapped, "EC", type).getEncoded());
        }
    }

    @Test
    void parametersOfACipher() throws Exception {
        Both.same(log -> {
            Cipher cipher = cipher(log);
            log.step("before init", () -> cipher.getParameters().getAlgorithm());
            for (int bits : new int[] {104, 112, 120, 128}) {
                cipher.init(Cipher.ENCRYPT_MODE, KEY, new GCMParameterSpec(bits, Both.cycle(12 + bits)));
                AlgorithmParameters parameters = cipher.getParameters();
                log.step("encoding", parameters::getEncoded);
                log.step("spec", () -> parameters.getParameterSpec(GCMParameterSpec.class).getTLen());
                log.step("another spec", () -> parameters.getParameterSpec(IvParameterSpec.class));
                byte[] sealed = cipher.doFinal(Both.cycle(9));
                cipher.init(Cipher.DECRYPT_MODE, KEY, parameters);
                log.step("decrypted", () -> cipher.doFinal(sealed));
            }
            AlgorithmParameters other = AlgorithmParameters.getInstance("AES");
            other.init(new IvParameterSpec(new byte[16]));
            log.step("of another algorithm", () -> {
                cipher.init(Cipher.DECRYPT_MODE, KEY, other);
                return "ready";
            });
        });
    }

    /** The JDK before 25 writes the default size, which DER leaves out; either form is read. */
    @Test
    void parametersInBothForms() throws Exception {
        for (String text : new String[] {"3008040301020302010c", "30050403010203"}) {
            byte[] encoded = HexFormat.of().parseHex(text);
            for (Provider provider : new Provider[] {Both.JDK, Both.LEAFSEAL}) {
                AlgorithmParameters parameters = AlgorithmParameters.getInstance("GCM", provider);
                parameters.init(encoded);
                GCMParameterSpec spec = parameters.getParameterSpec(GCMParameterSpec.class);
                assertEquals(96, spec.getTLen());
                assertArrayEquals(new byte[] {1, 2, 3}, spec.getIV());
            }
        }
        AlgorithmParameters ours = AlgorithmParameters.getInstance("GCM", Both.LEAFSEAL);
        ours.init(new GCMParameterSpec(96, new byte[] {1, 2, 3}));
        assertEquals("30050403010203", HexFormat.of().formatHex(ours.getEncoded()));
        assertEquals("GCM parameters: iv 010203, tag of 96 bits", ours.toString());
    }

    @Test
    void malformedParametersAreRefused() throws Exception {
        String[] all = {"", "30", "3000", "30050403010203ff", "3004040301", "308004030102030000", "3081050403010203", "30050483000102",
            "31050403010203", "30050303010203", "3008040301020302010b", "30080403010203020111", "300a04030102030202001000",
            "300904030102030202000c", "3006040301020305", "3084000000050403010203"};
        for (String text : all) {
            AlgorithmParameters parameters = AlgorithmParameters.getInstance("GCM", Both.LEAFSEAL);
            byte[] encoded = HexFormat.of().parseHex(text);
            assertThrows(IOException.class, () -> parameters.init(encoded), text);
        }
    }

    @Test
    void generatedNoncesDiffer() throws Exception {
        Cipher cipher = Cipher.getInstance(GCM, Both.LEAFSEAL);
        byte[] last = {};
        for (int i = 0; i < 100; i++) {
            cipher.init(Cipher.ENCRYPT_MODE, KEY);
            assertEquals(12, cipher.getIV().length);
            assertEquals(false, Arrays.equals(last, cipher.getIV()));
            last = cipher.getIV();
            cipher.doFinal();
        }
        SecureRandom fixed = new SecureRandom() {
            private static final long serialVersionUID = 1;

            @Override
            public void nextBytes(byte[] bytes) {
                Arrays.fill(bytes, (byte) 7);
            }
        };
        cipher.init(Cipher.ENCRYPT_MODE, KEY, fixed);
        assertArrayEquals(new byte[] {7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}, cipher.getIV());
    }

    @Test
    void inPlaceFailureLeavesZeros() throws Exception {
        byte[] sealed = sealed(5000, 128, 5);
        sealed[17] ^= 1;
        Cipher cipher = Cipher.getInstance(GCM, Both.LEAFSEAL);
        cipher.init(Cipher.DECRYPT_MODE, KEY, spec(5));
        assertThrows(AEADBadTagException.class, () -> cipher.doFinal(sealed, 0, sealed.length, sealed, 0));
        assertArrayEquals(new byte[5000], Arrays.copyOf(sealed, 5000));
    }

    @Test
    void bytesOutsideTheRangesStay() throws Exception {
        for (int size : new int[] {0, 1, 100, 1024, 1025, 70_000, 600_000}) {
            byte[] input = Both.cycle(size + 20);
            byte[] output = new byte[size + 16 + 20];
            Arrays.fill(output, (byte) 0x5a);
            Cipher cipher = Cipher.getInstance(GCM, Both.LEAFSEAL);
            cipher.init(Cipher.ENCRYPT_MODE, KEY, spec(6));
            assertEquals(size + 16, cipher.doFinal(input, 7, size, output, 9));
            assertArrayEquals(Both.cycle(size + 20), input);
            for (int i = 0; i < 9; i++) {
                assertEquals(0x5a, output[i]);
            }
            for (int i = size + 16 + 9; i < output.length; i++) {
                assertEquals(0x5a, output[i]);
            }
        }
    }

    @Test
    void hugeRequestsFailCleanly() throws Exception {
        Cipher cipher = Cipher.getInstance(GCM, Both.LEAFSEAL);
        cipher.init(Cipher.ENCRYPT_MODE, KEY, spec(7));
        assertThrows(ShortBufferException.class, () -> cipher.doFinal(new byte[8], 0, 8, new byte[8], 8));
        assertThrows(IllegalArgumentException.class, () -> cipher.doFinal(new byte[8], 4, 8));
        assertThrows(IllegalArgumentException.class, () -> cipher.update(new byte[8], 4, Integer.MAX_VALUE));
    }
}
