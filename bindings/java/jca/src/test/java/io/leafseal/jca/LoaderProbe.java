package io.leafseal.jca;

import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.MessageDigest;
import java.security.Provider;
import java.security.Signature;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import javax.crypto.Cipher;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * The program that {@link LoaderTest} runs in virtual machines of its own, without the package on the class path: loads the package in
 * several class loaders, uses them side by side, drops them, and ends the threads that have used them.
 */
final class LoaderProbe {
    private static final int LOADERS = 3;
    private static final int TURNS_MAX = 200;
    private static final int UNLOADED_AFTER_MS = 300;
    private static final byte[] TEXT = new byte[100_000];

    private LoaderProbe() {
    }

    public static void main(String[] path) throws Exception {
        URL[] urls = new URL[path.length];
        for (int i = 0; i < path.length; i++) {
            urls[i] = Path.of(path[i]).toUri().toURL();
        }
        // A daemon: a failure ends the program.
        ExecutorService thread = Executors.newSingleThreadExecutor(task -> {
            Thread made = new Thread(task);
            made.setDaemon(true);
            return made;
        });
        List<WeakReference<ClassLoader>> loaders = thread.submit(() -> useAll(urls)).get();
        for (int turn = 0; turn < TURNS_MAX && !loaders.stream().allMatch(it -> it.get() == null); turn++) {
            System.gc();
            Thread.sleep(10);
        }
        // The virtual machine unloads libraries a moment later.
        Thread.sleep(UNLOADED_AFTER_MS);
        System.out.println("collected: " + loaders.stream().filter(it -> it.get() == null).count());
        // The thread has used libraries whose class loaders are gone.
        thread.shutdown();
        System.out.println("ended: " + thread.awaitTermination(1, TimeUnit.MINUTES));
        // The C library ends it after Java has.
        Thread.sleep(UNLOADED_AFTER_MS);
    }

    private static List<WeakReference<ClassLoader>> useAll(URL[] urls) throws Exception {
        List<WeakReference<ClassLoader>> loaders = new ArrayList<>();
        List<Provider> providers = new ArrayList<>();
        for (int i = 0; i < LOADERS; i++) {
            URLClassLoader loader = new URLClassLoader(urls, ClassLoader.getPlatformClassLoader());
            Class<?> type = loader.loadClass("io.leafseal.jca.LeafsealProvider");
            providers.add((Provider) type.getConstructor().newInstance());
            System.out.println(type.getMethod("status").invoke(null));
            loaders.add(new WeakReference<>(loader));
        }
        KeyPairGenerator rsa = KeyPairGenerator.getInstance("RSA");
        rsa.initialize(2048);
        KeyPair pair = rsa.generateKeyPair();
        for (Provider one : providers) {
            for (Provider other : providers) {
                use(one, other);
            }
            // A failure leaves state of the thread in the library.
            Signature fails = Signature.getInstance("SHA256withRSA", one);
            fails.initVerify(pair.getPublic());
            if (fails.verify(new byte[256])) {
                throw new AssertionError("a wrong signature was accepted");
            }
        }
        return loaders;
    }

    /** Keys that one class loader's provider has created are read by another one's. */
    private static void use(Provider one, Provider other) throws Exception {
        SecretKeySpec key = new SecretKeySpec(new byte[32], "AES");
        GCMParameterSpec nonce = new GCMParameterSpec(128, new byte[12]);
        Cipher seals = Cipher.getInstance("AES/GCM/NoPadding", one);
        seals.init(Cipher.ENCRYPT_MODE, key, nonce);
        Cipher opens = Cipher.getInstance("AES/GCM/NoPadding", other);
        opens.init(Cipher.DECRYPT_MODE, key, nonce);
        boolean isSame = Arrays.equals(TEXT, opens.doFinal(seals.doFinal(TEXT)));
        KeyPairGenerator generator = KeyPairGenerator.getInstance("EC", one);
        generator.initialize(256);
        KeyPair pair = generator.generateKeyPair();
        Signature signs = Signature.getInstance("SHA256withECDSA", other);
        signs.initSign(pair.getPrivate());
        signs.update(MessageDigest.getInstance("SHA-256", other).digest(TEXT));
        Signature verifies = Signature.getInstance("SHA256withECDSA", one);
        verifies.initVerify(pair.getPublic());
        verifies.update(MessageDigest.getInstance("SHA-256", one).digest(TEXT));
        if (!isSame || !verifies.verify(signs.sign())) {
            throw new AssertionError("wrong results");
        }
    }
}
