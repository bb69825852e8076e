package io.leafseal.jca;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.ByteBuffer;
import java.security.AlgorithmParameters;
import java.security.Key;
import java.security.spec.AlgorithmParameterSpec;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.ShortBufferException;
import javax.crypto.spec.ChaCha20ParameterSpec;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;

/** AES/CTR, ChaCha20 and ChaCha20-Poly1305 behave as SunJCE's. */
class StreamSemanticsTest {
    private static final Key AES = new SecretKeySpec(Both.cycle(32), "AES");
    private static final Key CHACHA = new SecretKeySpec(Both.cycle(32), "ChaCha20");

    private static String init(Cipher cipher, int mode, Key key, AlgorithmParameterSpec spec) throws Exception {
        cipher.init(mode, key, spec);
        return "ready";
    }

    @Test
    void counterMode() {
        Both.same(log -> {
            Cipher cipher = Cipher.getInstance("AES/CTR/NoPadding", log.provider);
            log.step("block size", cipher::getBlockSize);
            for (int size : new int[] {0, 1, 12, 15, 16, 17, 32}) {
                log.step("iv of " + size, () -> init(cipher, Cipher.ENCRYPT_MODE, AES, new IvParameterSpec(new byte[size])));
            }
            log.step("gcm parameters", () -> init(cipher, Cipher.ENCRYPT_MODE, AES, new GCMParameterSpec(128, new byte[16])));
            log.step("no parameters, decryption", () -> init(cipher, Cipher.DECRYPT_MODE, AES, null));
            log.step("no parameters at all", () -> {
                cipher.init(Cipher.DECRYPT_MODE, AES);
                return "ready";
            });
            log.step("no parameters, encryption", () -> {
                cipher.init(Cipher.ENCRYPT_MODE, AES);
                return cipher.getIV().length;
            });
            for (int size : new int[] {15, 16, 17, 24, 32, 33}) {
                Key key = new SecretKeySpec(new byte[size], "AES");
                log.step("key of " + size, () -> init(cipher, Cipher.ENCRYPT_MODE, key, new IvParameterSpec(new byte[16])));
            }
            log.step("nothing", () -> cipher.doFinal());
            cipher.init(Cipher.ENCRYPT_MODE, AES, new IvParameterSpec(Both.cycle(16)));
            for (int round = 0; round < 2; round++) {
                for (int size : new int[] {1, 15, 16, 17, 0, 40}) {
                    log.step("size", () -> cipher.getOutputSize(size));
                    log.step("update of " + size, () -> cipher.update(Both.cycle(size)));
                }
                log.step("short", () -> cipher.doFinal(new byte[5], 0, 5, new byte[4], 0));
                log.step("end, then the same counter again", () -> cipher.doFinal(Both.cycle(3)));
            }
            AlgorithmParameters parameters = cipher.getParameters();
            log.step("parameters", () -> parameters.getAlgorithm() + parameters.getParameterSpec(IvParameterSpec.class).getIV().length);
            log.step("init with them", () -> {
                cipher.init(Cipher.DECRYPT_MODE, AES, parameters);
                return cipher.doFinal(Both.cycle(50));
            });
            log.step("aad", () -> {
                cipher.updateAAD(new byte[1]);
                return "taken";
            });
            cipher.init(Cipher.WRAP_MODE, AES, new IvParameterSpec(Both.cycle(16)));
            byte[] wrapped = cipher.wrap(CHACHA);
            log.step("wrapped", () -> wrapped);
            cipher.init(Cipher.UNWRAP_MODE, AES, new IvParameterSpec(Both.cycle(16)));
            log.step("unwrapped", () -> cipher.unwrap(wrapped, "ChaCha20", Cipher.SECRET_KEY).getEncoded());
        });
    }

    @Test
    void chaCha20() {
        Both.same(log -> {
            Cipher cipher = Cipher.getInstance("ChaCha20", log.provider);
            ChaCha20ParameterSpec spec = new ChaCha20ParameterSpec(Both.cycle(12), -1);
            log.step("block size", cipher::getBlockSize);
            log.step("iv parameters", () -> init(cipher, Cipher.ENCRYPT_MODE, CHACHA, new IvParameterSpec(new byte[12])));
            log.step("wrap", () -> init(cipher, Cipher.WRAP_MODE, CHACHA, spec));
            log.step("short key", () -> init(cipher, Cipher.ENCRYPT_MODE, new SecretKeySpec(new byte[16], "ChaCha20"), spec));
            log.step("another algorithm", () -> init(cipher, Cipher.ENCRYPT_MODE, AES, spec));
            log.step("a counter that wraps", () -> cipher.doFinal(Both.cycle(200)));
            log.step("again", () -> cipher.doFinal(Both.cycle(200)));
            log.step("same nonce", () -> init(cipher, Cipher.ENCRYPT_MODE, AES, spec));
            Key decryptionKey = isOld() ? CHACHA : AES;
            if (isOld()) {
                cipher.init(Cipher.ENCRYPT_MODE, new SecretKeySpec(new byte[32], "ChaCha20"), spec);
            }
            log.step("decryption", () -> init(cipher, Cipher.DECRYPT_MODE, decryptionKey, spec));
            log.step("in pieces", () -> cipher.update(Both.cycle(63)));
            log.step("in pieces", () -> cipher.update(Both.cycle(66)));
            log.step("end", () -> cipher.doFinal(Both.cycle(80)));
            log.step("iv", cipher::getIV);
            log.step("parameters", cipher::getParameters);
            log.step("no parameters, decryption", () -> init(cipher, Cipher.DECRYPT_MODE, CHACHA, null));
            log.step("no parameters, encryption", () -> init(cipher, Cipher.ENCRYPT_MODE, CHACHA, null));
            log.step("aad", () -> {
                cipher.updateAAD(new byte[1]);
                return "taken";
            });
        });
    }

    @Test
    void chaCha20Poly1305() {
        Both.same(log -> {
            Cipher cipher = Cipher.getInstance("ChaCha20-Poly1305", log.provider);
            IvParameterSpec spec = new IvParameterSpec(Both.cycle(12));
            log.step("block size", cipher::getBlockSize);
            log.step("chacha parameters", () -> init(cipher, Cipher.ENCRYPT_MODE, CHACHA, new ChaCha20ParameterSpec(new byte[12], 1)));
            log.step("long nonce", () -> init(cipher, Cipher.ENCRYPT_MODE, CHACHA, new IvParameterSpec(new byte[16])));
            log.step("wrap", () -> init(cipher, Cipher.WRAP_MODE, CHACHA, spec));
            log.step("ready", () -> init(cipher, Cipher.ENCRYPT_MODE, CHACHA, spec));
            cipher.updateAAD(Both.cycle(33));
            log.step("size", () -> cipher.getOutputSize(5));
            log.step("update", () -> cipher.update(Both.cycle(5)));
            log.step("late aad", () -> {
                cipher.updateAAD(new byte[1]);
                return "taken";
            });
            log.step("end", () -> cipher.doFinal(Both.cycle(70)));
            log.step("again", () -> cipher.doFinal(Both.cycle(70)));
            log.step("same nonce", () -> init(cipher, Cipher.ENCRYPT_MODE, CHACHA, spec));
            AlgorithmParameters parameters = cipher.getParameters();
            log.step("parameters", parameters::getEncoded);
            if (isOld()) {
                cipher.init(Cipher.ENCRYPT_MODE, new SecretKeySpec(new byte[32], "ChaCha20"), spec);
            }
            log.step("decryption", () -> {
                cipher.init(Cipher.DECRYPT_MODE, CHACHA, parameters);
                return cipher.getOutputSize(80);
            });
            log.step("wrong", () -> cipher.doFinal(Both.cycle(80)));
        });
    }

    /** The JDK before 25 refuses to decrypt under the last key and nonce, and wants {@code init} before each decryption. */
    private static boolean isOld() {
        return Runtime.version().feature() < 25;
    }

    @Test
    void severalMessagesAreDecryptedUnderOneNonce() throws Exception {
        for (String name : new String[] {"ChaCha20", "ChaCha20-Poly1305"}) {
            AlgorithmParameterSpec spec = name.equals("ChaCha20")
                    ? new ChaCha20ParameterSpec(Both.cycle(12), 1) : new IvParameterSpec(Both.cycle(12));
            Cipher cipher = Cipher.getInstance(name, Both.LEAFSEAL);
            cipher.init(Cipher.ENCRYPT_MODE, CHACHA, spec);
            byte[] sealed = cipher.doFinal(Both.cycle(100));
            cipher.init(Cipher.DECRYPT_MODE, CHACHA, spec);
            assertArrayEquals(Both.cycle(100), cipher.doFinal(sealed));
            assertArrayEquals(Both.cycle(100), cipher.doFinal(sealed));
        }
    }

    /** SunJCE resets a cipher of ChaCha20-Poly1305 when the output is short; here its state stays. */
    @Test
    void shortBuffersChangeNothing() throws Exception {
        Cipher cipher = Cipher.getInstance("ChaCha20-Poly1305", Both.LEAFSEAL);
        cipher.init(Cipher.ENCRYPT_MODE, CHACHA, new IvParameterSpec(new byte[12]));
        assertThrows(ShortBufferException.class, () -> cipher.doFinal(new byte[9], 0, 9, new byte[24], 0));
        ByteBuffer source = ByteBuffer.allocate(9);
        assertThrows(ShortBufferException.class, () -> cipher.doFinal(source, ByteBuffer.allocate(24)));
        assertEquals(0, source.position());
        byte[] sealed = new byte[25];
        assertEquals(25, cipher.doFinal(new byte[9], 0, 9, sealed, 0));
        Cipher jdk = Cipher.getInstance("ChaCha20-Poly1305", Both.JDK);
        jdk.init(Cipher.DECRYPT_MODE, CHACHA, new IvParameterSpec(new byte[12]));
        assertArrayEquals(new byte[9], jdk.doFinal(sealed));
        cipher.init(Cipher.DECRYPT_MODE, CHACHA, new IvParameterSpec(new byte[12]));
        sealed[3] ^= 1;
        assertThrows(AEADBadTagException.class, () -> cipher.doFinal(sealed));
    }
}
