package io.leafseal.jca;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.security.Key;
import java.security.spec.AlgorithmParameterSpec;
import javax.crypto.Cipher;
import javax.crypto.spec.ChaCha20ParameterSpec;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.crac.Core;
import org.crac.Resource;
import org.junit.jupiter.api.Test;

/** Checkpoints of the program, as CRaC makes them: a nonce that was set before is not used after, because every copy would use it. */
class CheckpointTest {
    private static final byte[] TEXT = new byte[100];
    private static final String[] TRANSFORMATIONS = {"AES/GCM/NoPadding", "ChaCha20-Poly1305", "AES/CTR/NoPadding", "ChaCha20"};

    private static Cipher cipher(String transformation, int mode) throws Exception {
        boolean isAes = transformation.startsWith("AES");
        Key key = new SecretKeySpec(new byte[32], isAes ? "AES" : "ChaCha20");
        AlgorithmParameterSpec parameters;
        switch (transformation) {
            case "AES/GCM/NoPadding":
                parameters = new GCMParameterSpec(128, new byte[12]);
                break;
            case "ChaCha20":
                parameters = new ChaCha20ParameterSpec(new byte[12], 1);
                break;
            default:
                parameters = new IvParameterSpec(new byte[isAes ? 16 : 12]);
                break;
        }
        Cipher cipher = Cipher.getInstance(transformation, new LeafsealProvider());
        cipher.init(mode, key, parameters);
        return cipher;
    }

    private static void checkpoint() throws Exception {
        System.gc();
        Resource context = Core.getGlobalContext();
        context.beforeCheckpoint(null);
        context.afterRestore(null);
    }

    @Test
    void aNonceIsNotUsedAfterACheckpoint() throws Exception {
        assertTrue(Checkpoints.areCounted());
        for (String transformation : TRANSFORMATIONS) {
            Cipher fresh = cipher(transformation, Cipher.ENCRYPT_MODE);
            Cipher begun = cipher(transformation, Cipher.ENCRYPT_MODE);
            begun.update(TEXT);
            checkpoint();
            for (Cipher cipher : new Cipher[] {fresh, begun}) {
                assertTrue(assertThrows(IllegalStateException.class, () -> cipher.doFinal(TEXT)).getMessage().contains("call init"));
                assertThrows(IllegalStateException.class, () -> cipher.update(TEXT));
                assertThrows(IllegalStateException.class,
                        () -> cipher.doFinal(ByteBuffer.wrap(TEXT), ByteBuffer.allocateDirect(1000)), transformation);
            }
            assertTrue(cipher(transformation, Cipher.ENCRYPT_MODE).doFinal(TEXT).length >= TEXT.length, transformation);
        }
    }

    @Test
    void decryptionContinues() throws Exception {
        for (String transformation : TRANSFORMATIONS) {
            byte[] sealed = cipher(transformation, Cipher.ENCRYPT_MODE).doFinal(TEXT);
            Cipher fresh = cipher(transformation, Cipher.DECRYPT_MODE);
            checkpoint();
            assertArrayEquals(TEXT, fresh.doFinal(sealed), transformation);
        }
    }
}
