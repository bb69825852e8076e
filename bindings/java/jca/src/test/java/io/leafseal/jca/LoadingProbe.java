package io.leafseal.jca;

import java.security.Security;
import java.util.Arrays;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** The program that {@link LoadingTest} runs in virtual machines of its own: prints how the provider was loaded, and that it works. */
final class LoadingProbe {
    private LoadingProbe() {
    }

    public static void main(String[] arguments) throws Exception {
        Security.insertProviderAt(new LeafsealProvider(), 1);
        Security.insertProviderAt(new LeafsealProvider(), 1);
        Status status = LeafsealProvider.status();
        System.out.println("native: " + status.isNative());
        System.out.println("reason: " + status.reason());
        SecretKeySpec key = new SecretKeySpec(new byte[32], "AES");
        byte[] text = Both.cycle(100_000);
        for (String name : new String[] {"AES/GCM/NoPadding", "AES_256/GCM/NoPadding", "AES/CTR/NoPadding"}) {
            boolean isGcm = name.contains("GCM");
            var spec = isGcm ? new GCMParameterSpec(128, new byte[12]) : new IvParameterSpec(new byte[16]);
            Cipher cipher = Cipher.getInstance(name);
            cipher.init(Cipher.ENCRYPT_MODE, key, spec);
            Cipher jdk = Cipher.getInstance(name, "SunJCE");
            jdk.init(Cipher.ENCRYPT_MODE, key, spec);
            byte[] sealed = cipher.doFinal(text);
            boolean isSame = Arrays.equals(sealed, jdk.doFinal(text));
            cipher.init(Cipher.DECRYPT_MODE, key, spec);
            isSame &= Arrays.equals(text, cipher.doFinal(sealed));
            System.out.println(name + ": " + cipher.getProvider().getName() + " " + isSame);
        }
        System.out.println("hash: " + java.security.MessageDigest.getInstance("SHA-256").getProvider().getName());
    }
}
