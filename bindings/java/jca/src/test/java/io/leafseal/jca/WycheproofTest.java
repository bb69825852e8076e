package io.leafseal.jca;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.math.BigInteger;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.security.InvalidKeyException;
import java.security.Key;
import java.security.KeyFactory;
import java.security.Signature;
import java.security.SignatureException;
import java.security.interfaces.ECPublicKey;
import java.security.spec.AlgorithmParameterSpec;
import java.security.spec.ECPrivateKeySpec;
import java.security.spec.MGF1ParameterSpec;
import java.security.spec.PSSParameterSpec;
import java.security.spec.X509EncodedKeySpec;
import java.util.Arrays;
import java.util.HexFormat;
import javax.crypto.Cipher;
import javax.crypto.KeyAgreement;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Project Wycheproof's vectors through the provider, whole and in pieces, with the expected failures. */
class WycheproofTest {
    private interface Check {
        void run(JsonNode group, JsonNode test, boolean isValid) throws Exception;
    }

    private static void each(String name, Check check) throws Exception {
        Path path = Path.of(System.getProperty("leafseal.vectors"), "wycheproof", name + ".json");
        JsonNode set = new ObjectMapper().readTree(path.toFile());
        int ran = 0;
        for (JsonNode group : set.get("testGroups")) {
            for (JsonNode test : group.get("tests")) {
                try {
                    check.run(group, test, !test.get("result").asText().equals("invalid"));
                } catch (AssertionError | Exception error) {
                    throw new AssertionError(name + " case " + test.get("tcId"), error);
                }
                ran++;
            }
        }
        assertEquals(set.get("numberOfTests").asInt(), ran);
    }

    private static byte[] bytes(JsonNode test, String name) {
        return HexFormat.of().parseHex(test.get(name).asText());
    }

    private static byte[] join(byte[] front, byte[] back) {
        byte[] all = Arrays.copyOf(front, front.length + back.length);
        System.arraycopy(back, 0, all, front.length, back.length);
        return all;
    }

    @Test
    void aesGcm() throws Exception {
        each("aes_gcm", (group, test, isValid) -> {
            byte[] iv = bytes(test, "iv");
            if (iv.length == 0) {
                assertEquals(false, isValid);
                return;
            }
            aead("AES/GCM/NoPadding", "AES", new GCMParameterSpec(group.get("tagSize").asInt(), iv), test, isValid);
        });
    }

    @Test
    void chaCha20Poly1305() throws Exception {
        each("chacha20_poly1305", (group, test, isValid) -> {
            byte[] iv = bytes(test, "iv");
            if (iv.length != 12) {
                assertEquals(false, isValid);
                return;
            }
            aead("ChaCha20-Poly1305", "ChaCha20", new IvParameterSpec(iv), test, isValid);
        });
    }

    private static void aead(String name, String keyName, AlgorithmParameterSpec spec, JsonNode test, boolean isValid)
            throws Exception {
        Key key = new SecretKeySpec(bytes(test, "key"), keyName);
        byte[] plaintext = bytes(test, "msg");
        byte[] sealed = join(bytes(test, "ct"), bytes(test, "tag"));
        Cipher cipher = Cipher.getInstance(name, Both.LEAFSEAL);
        for (int first : new int[] {0, 1, sealed.length / 2, sealed.length}) {
            cipher.init(Cipher.DECRYPT_MODE, key, spec);
            cipher.updateAAD(bytes(test, "aad"));
            cipher.update(sealed, 0, Math.min(first, sealed.length), new byte[0], 0);
            int at = Math.min(first, sealed.length);
            if (isValid) {
                assertArrayEquals(plaintext, cipher.doFinal(sealed, at, sealed.length - at));
            } else {
                assertThrows(GeneralSecurityException.class, () -> cipher.doFinal(sealed, at, sealed.length - at));
            }
        }
        Cipher encryption = Cipher.getInstance(name, Both.LEAFSEAL);
        encryption.init(Cipher.ENCRYPT_MODE, key, spec);
        encryption.updateAAD(bytes(test, "aad"));
        assertEquals(isValid, Arrays.equals(sealed, encryption.doFinal(plaintext)));
    }

    @ParameterizedTest
    @ValueSource(ints = {1, 224, 256, 384, 512})
    void hmac(int size) throws Exception {
        each("hmac_sha" + size, (group, test, isValid) -> {
            byte[] key = bytes(test, "key");
            if (key.length == 0) {
                // The JDK has no empty keys.
                return;
            }
            Mac mac = Mac.getInstance("HmacSHA" + size, Both.LEAFSEAL);
            mac.init(new SecretKeySpec(key, "HMAC"));
            byte[] tag = bytes(test, "tag");
            byte[] code = Arrays.copyOf(mac.doFinal(bytes(test, "msg")), tag.length);
            assertEquals(isValid, Arrays.equals(tag, code));
            assertTrue(tag.length >= group.get("tagSize").asInt() / 8 || !isValid);
        });
    }

    private static KeyFactory keys(String algorithm) throws GeneralSecurityException {
        return KeyFactory.getInstance(algorithm);
    }

    @Test
    void ecdh() throws Exception {
        each("ecdh_secp256r1", (group, test, isValid) -> {
            boolean isPlain = test.get("result").asText().equals("valid");
            ECPublicKey peer;
            try {
                peer = (ECPublicKey) keys("EC").generatePublic(new X509EncodedKeySpec(bytes(test, "public")));
            } catch (GeneralSecurityException refused) {
                // The JDK's key factory refuses the key before an agreement could.
                assertEquals(false, isPlain);
                return;
            }
            BigInteger scalar = new BigInteger(test.get("private").asText(), 16);
            KeyAgreement agreement = KeyAgreement.getInstance("ECDH", Both.LEAFSEAL);
            agreement.init(keys("EC").generatePrivate(new ECPrivateKeySpec(scalar, P256.PARAMETERS)));
            try {
                agreement.doPhase(peer, true);
                assertArrayEquals(bytes(test, "shared"), agreement.generateSecret());
                assertTrue(isValid);
            } catch (InvalidKeyException refused) {
                assertEquals(false, isPlain);
            }
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"ecdsa_secp256r1_sha256", "ecdsa_secp256r1_sha512", "ecdsa_secp256r1_sha256_p1363"})
    void ecdsa(String name) throws Exception {
        String form = name.endsWith("p1363") ? "inP1363Format" : "";
        each(name, (group, test, isValid) -> {
            String algorithm = group.get("sha").asText().replace("-", "") + "withECDSA" + form;
            verify(Signature.getInstance(algorithm, Both.LEAFSEAL), "EC", group, test, isValid);
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"rsa_signature_2048_sha256", "rsa_signature_3072_sha384", "rsa_signature_4096_sha512"})
    void rsaPkcs1(String name) throws Exception {
        each(name, (group, test, isValid) -> {
            String algorithm = group.get("sha").asText().replace("-", "") + "withRSA";
            boolean isStrict = !test.get("result").asText().equals("acceptable");
            verify(Signature.getInstance(algorithm, Both.LEAFSEAL), "RSA", group, test, isValid && isStrict);
        });
    }

    @ParameterizedTest
    @ValueSource(strings = {"rsa_pss_2048_sha256_mgf1_32", "rsa_pss_4096_sha384_mgf1_48", "rsa_pss_4096_sha512_mgf1_64"})
    void rsaPss(String name) throws Exception {
        each(name, (group, test, isValid) -> {
            Signature signature = Signature.getInstance("RSASSA-PSS", Both.LEAFSEAL);
            String hash = group.get("sha").asText();
            MGF1ParameterSpec mask = new MGF1ParameterSpec(group.get("mgfSha").asText());
            signature.setParameter(new PSSParameterSpec(hash, "MGF1", mask, group.get("sLen").asInt(), 1));
            verify(signature, "RSA", group, test, isValid);
        });
    }

    private static void verify(Signature signature, String keys, JsonNode group, JsonNode test, boolean isValid) throws Exception {
        signature.initVerify(keys(keys).generatePublic(new X509EncodedKeySpec(bytes(group, "publicKeyDer"))));
        signature.update(bytes(test, "msg"));
        try {
            assertEquals(isValid, signature.verify(bytes(test, "sig")));
        } catch (SignatureException malformed) {
            assertEquals(false, isValid);
        }
    }
}
