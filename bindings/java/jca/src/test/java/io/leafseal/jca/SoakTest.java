package io.leafseal.jca;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.Key;
import java.security.KeyFactory;
import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.MessageDigest;
import java.security.PrivateKey;
import java.security.PublicKey;
import java.security.Signature;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.ArrayList;
import java.util.ConcurrentModificationException;
import java.util.List;
import java.util.SplittableRandom;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import javax.crypto.Cipher;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;

/**
 * Eight threads with every kind of object, abandoned in every state: native objects are freed, and memory does not grow.
 *
 * <p>{@code -Dseconds=300} runs longer.
 */
class SoakTest {
    private static final int SECONDS = Integer.getInteger("seconds", 3);
    private static final int THREADS = 8;
    private static final KeyPair RSA = rsa();

    private static KeyPair rsa() {
        try {
            KeyPairGenerator generator = KeyPairGenerator.getInstance("RSA", "SunRsaSign");
            generator.initialize(2048);
            return generator.generateKeyPair();
        } catch (java.security.GeneralSecurityException error) {
            throw new AssertionError(error);
        }
    }

    @Test
    void nothingIsLeaked() throws Exception {
        // Libraries under other tests of this process may keep ciphers for ever.
        long before = Native.liveObjects();
        ExecutorService threads = Executors.newFixedThreadPool(THREADS);
        AtomicLong operations = new AtomicLong();
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(SECONDS);
        List<Future<?>> all = new ArrayList<>();
        for (int i = 0; i < THREADS; i++) {
            SplittableRandom random = new SplittableRandom(i);
            all.add(threads.submit(() -> {
                while (System.nanoTime() < end) {
                    one(random);
                    operations.incrementAndGet();
                }
                return null;
            }));
        }
        long middle = 0;
        while (System.nanoTime() < end) {
            Thread.sleep(100);
            if (middle == 0 && System.nanoTime() > end - TimeUnit.SECONDS.toNanos(SECONDS) / 2) {
                middle = residentKiB();
            }
        }
        for (Future<?> future : all) {
            future.get();
        }
        threads.shutdown();
        System.out.println("soak: " + operations + " operations, resident memory " + middle + " KiB half-way, " + residentKiB()
                + " KiB at the end, " + Native.liveObjects() + " native objects before collection");
        assertTrue(operations.get() > 0);
        assertFreed(before);
    }

    /** Waits until the cleaner has freed what is unreachable. */
    private static void assertFreed(long before) throws InterruptedException {
        for (int i = 0; i < 600 && Native.liveObjects() > before; i++) {
            System.gc();
            Thread.sleep(100);
        }
        assertTrue(Native.liveObjects() <= before, Native.liveObjects() + " native objects, " + before + " before");
    }

    private static long residentKiB() throws IOException {
        Path status = Path.of("/proc/self/status");
        if (!Files.exists(status)) {
            return 0;
        }
        for (String line : Files.readAllLines(status)) {
            if (line.startsWith("VmRSS:")) {
                return Long.parseLong(line.replaceAll("[^0-9]", ""));
            }
        }
        return 0;
    }

    private static void one(SplittableRandom random) throws Exception {
        byte[] text = new byte[random.nextInt(random.nextInt(20) == 0 ? 700_000 : 3000)];
        random.nextBytes(text);
        switch (random.nextInt(5)) {
            case 2:
                signature(text);
                break;
            case 0:
                MessageDigest digest = MessageDigest.getInstance("SHA-256", Both.LEAFSEAL);
                digest.update(text);
                if (random.nextBoolean()) {
                    assertArrayEquals(digest.digest(), MessageDigest.getInstance("SHA-256", "SUN").digest(text));
                }
                break;
            case 1:
                Mac mac = Mac.getInstance("HmacSHA512", Both.LEAFSEAL);
                mac.init(new SecretKeySpec(new byte[] {1}, "HMAC"));
                mac.update(text);
                assertArrayEquals(mac.doFinal(), mac.doFinal(text));
                break;
            default:
                cipher(text, random);
                break;
        }
    }

    /** A fresh RSA key object each time, so that native keys come and go, and a fresh pair on P-256. */
    private static void signature(byte[] text) throws Exception {
        KeyFactory factory = KeyFactory.getInstance("RSA", "SunRsaSign");
        PrivateKey rsa = factory.generatePrivate(new PKCS8EncodedKeySpec(RSA.getPrivate().getEncoded()));
        KeyPairGenerator generator = KeyPairGenerator.getInstance("EC", Both.LEAFSEAL);
        generator.initialize(256);
        KeyPair ec = generator.generateKeyPair();
        verified("SHA256withRSA", rsa, RSA.getPublic(), text);
        verified("SHA256withECDSA", ec.getPrivate(), ec.getPublic(), text);
    }

    private static void verified(String name, PrivateKey key, PublicKey publicKey, byte[] text) throws Exception {
        Signature signature = Signature.getInstance(name, Both.LEAFSEAL);
        signature.initSign(key);
        signature.update(text);
        byte[] result = signature.sign();
        signature.initVerify(publicKey);
        signature.update(text);
        assertTrue(signature.verify(result));
    }

    private static void cipher(byte[] text, SplittableRandom random) throws Exception {
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding", Both.LEAFSEAL);
        byte[] keyBytes = new byte[16];
        random.nextBytes(keyBytes);
        Key key = new SecretKeySpec(keyBytes, "AES");
        for (int i = 0; i < 3; i++) {
            GCMParameterSpec spec = new GCMParameterSpec(128, new byte[] {(byte) i});
            cipher.init(Cipher.ENCRYPT_MODE, key, spec);
            ByteBuffer sealed = ByteBuffer.allocateDirect(text.length + 16);
            byte[] first = cipher.update(text, 0, text.length / 2);
            sealed.put(first == null ? new byte[0] : first).put(cipher.doFinal(text, text.length / 2, text.length - text.length / 2));
            cipher.init(Cipher.DECRYPT_MODE, key, spec);
            ByteBuffer opened = ByteBuffer.allocate(text.length);
            cipher.update(sealed.flip().limit(sealed.limit() / 2), opened);
            if (random.nextInt(3) == 0) {
                // Abandoned in the middle.
                return;
            }
            cipher.doFinal(sealed.limit(sealed.capacity()), opened);
            assertArrayEquals(text, opened.array());
        }
    }

    /** A cipher belongs to one thread at a time. Two at once get exceptions or wrong results, and never harm the process. */
    @Test
    void sharedCiphersHarmNothing() throws Exception {
        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding", Both.LEAFSEAL);
        Key key = new SecretKeySpec(new byte[32], "AES");
        AtomicLong number = new AtomicLong();
        ExecutorService threads = Executors.newFixedThreadPool(4);
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(1500);
        List<Future<?>> all = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            SplittableRandom random = new SplittableRandom(i);
            all.add(threads.submit(() -> {
                while (System.nanoTime() < end) {
                    misuse(cipher, key, number.incrementAndGet(), random);
                }
            }));
        }
        for (Future<?> future : all) {
            future.get();
        }
        threads.shutdown();
        cipher.init(Cipher.ENCRYPT_MODE, key, new GCMParameterSpec(128, new byte[] {1, 2, 3}));
        assertEquals(116, cipher.doFinal(new byte[100]).length);
    }

    private static void misuse(Cipher cipher, Key key, long number, SplittableRandom random) {
        byte[] text = new byte[random.nextInt(40_000)];
        try {
            switch (random.nextInt(4)) {
                case 0:
                    byte[] iv = ByteBuffer.allocate(12).putLong(number).array();
                    cipher.init(1 + random.nextInt(2), key, new GCMParameterSpec(128, iv));
                    break;
                case 1:
                    cipher.update(text, 0, text.length, new byte[text.length], 0);
                    break;
                case 2:
                    cipher.doFinal(ByteBuffer.wrap(text), ByteBuffer.allocateDirect(text.length + 16));
                    break;
                default:
                    cipher.doFinal(text);
                    break;
            }
        } catch (ConcurrentModificationException | java.security.GeneralSecurityException | IllegalStateException
                | IndexOutOfBoundsException | NullPointerException | NegativeArraySizeException | InternalError
                | java.security.ProviderException expected) {
            // Expected after misuse.
        }
    }
}
