package io.leafseal.bench;

import java.security.Provider;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * The first calls of a fresh virtual machine: {@code Cold provider transformation size heap|direct entire|chunked encrypt|decrypt}.
 *
 * <p>Prints the milliseconds of loading the provider, of the first instance with its first message of 1 KiB, and the nanoseconds of five calls.
 */
public final class Cold {
    private static final int CALLS = 5;

    private Cold() {
    }

    public static void main(String[] arguments) throws Exception {
        long start = System.nanoTime();
        Provider provider = Providers.named(arguments[0]);
        long loaded = System.nanoTime();
        Cipher first = Cipher.getInstance(arguments[1], provider);
        boolean isGcm = arguments[1].contains("GCM");
        SecretKeySpec key = new SecretKeySpec(new byte[16], "AES");
        first.init(Cipher.ENCRYPT_MODE, key, isGcm ? new GCMParameterSpec(128, new byte[12]) : new IvParameterSpec(new byte[16]));
        first.doFinal(new byte[1024]);
        long used = System.nanoTime();
        StringBuilder line = new StringBuilder();
        line.append((loaded - start) / 1e6).append(' ').append((used - loaded) / 1e6);
        int size = Integer.parseInt(arguments[2]);
        if (size > 0) {
            Cipher cipher = Cipher.getInstance(arguments[1], provider);
            Message message = new Message(cipher, arguments[5].equals("encrypt"), size, arguments[3].equals("direct"),
                    arguments[4].equals("chunked"));
            for (int i = 0; i < CALLS; i++) {
                long before = System.nanoTime();
                message.process();
                line.append(' ').append(System.nanoTime() - before);
            }
        }
        System.out.println(line);
    }
}
