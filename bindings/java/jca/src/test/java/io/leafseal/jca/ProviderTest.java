package io.leafseal.jca;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.security.Provider;
import java.security.Security;
import java.util.ServiceLoader;
import javax.crypto.Cipher;
import javax.crypto.Mac;
import org.junit.jupiter.api.Test;

/** The services that the provider registers, and how they are found. */
class ProviderTest {
    @Test
    void everyServiceCanBeMade() throws Exception {
        int count = 0;
        for (Provider.Service service : Both.LEAFSEAL.getServices()) {
            Object made = service.newInstance(null);
            assertEquals(service.getClassName().equals(made.getClass().getName()) || service.getType().equals("Cipher"), true);
            count++;
        }
        assertTrue(count >= 18, count + " services");
    }

    @Test
    void namesInAnyCaseAndObjectIdentifiers() throws Exception {
        for (String name : new String[] {"aes/gcm/nopadding", "AES_128/gcm/NoPadding", "2.16.840.1.101.3.4.1.46", "chacha20-poly1305",
            "1.2.840.113549.1.9.16.3.18", "ChaCha20"}) {
            assertEquals("Leafseal", Cipher.getInstance(name, Both.LEAFSEAL).getProvider().getName());
        }
        for (String name : new String[] {"SHA", "SHA1", "sha-256", "2.16.840.1.101.3.4.2.3"}) {
            MessageDigest.getInstance(name, Both.LEAFSEAL);
        }
        for (String name : new String[] {"hmacsha1", "HmacSHA512", "1.2.840.113549.2.9"}) {
            Mac.getInstance(name, Both.LEAFSEAL);
        }
    }

    @Test
    void othersAreLeftToOtherProviders() throws Exception {
        assertThrows(NoSuchAlgorithmException.class, () -> Cipher.getInstance("AES/CBC/PKCS5Padding", Both.LEAFSEAL));
        assertThrows(NoSuchAlgorithmException.class, () -> Cipher.getInstance("AES/GCM/PKCS5Padding", Both.LEAFSEAL));
        assertThrows(NoSuchAlgorithmException.class, () -> Cipher.getInstance("AES", Both.LEAFSEAL));
        Security.insertProviderAt(Both.LEAFSEAL, 1);
        try {
            assertEquals("Leafseal", Cipher.getInstance("AES/CTR/NoPadding").getProvider().getName());
            assertEquals("SunJCE", Cipher.getInstance("AES/CBC/PKCS5Padding").getProvider().getName());
        } finally {
            Security.removeProvider("Leafseal");
        }
    }

    @Test
    void isFoundByTheServiceLoader() {
        assertTrue(ServiceLoader.load(Provider.class).stream().anyMatch(it -> it.type() == LeafsealProvider.class));
    }
}
