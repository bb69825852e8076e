package io.leafseal.jca;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Buffers over every kind of memory, also such that disappears before or during a call. */
class MemoryTest {
    private static final LeafsealProvider PROVIDER = new LeafsealProvider();
    private static final SecretKeySpec KEY = new SecretKeySpec(new byte[32], "AES");
    private static final int[] SIZES = {0, 1, 15, 16, 1000, 4097, Buffers.PIECE_SIZE, 2 * Buffers.PIECE_SIZE + 5};
    private static final String[] TRANSFORMATIONS = {"AES/GCM/NoPadding", "AES/CTR/NoPadding", "ChaCha20-Poly1305"};
    private static final int TAG_SIZE = 16;

    private static final String[] ARENAS = {"ofShared", "ofConfined", "ofAuto", "global"};

    @TempDir
    Path folder;
    private final List<Object> open = new ArrayList<>();

    static Cipher cipher(String transformation, int mode) throws Exception {
        Cipher cipher = Cipher.getInstance(transformation, PROVIDER);
        boolean isGcm = transformation.contains("GCM");
        byte[] nonce = new byte[transformation.contains("CTR") ? 16 : 12];
        cipher.init(mode, KEY, isGcm ? new GCMParameterSpec(8 * TAG_SIZE, nonce) : new IvParameterSpec(nonce));
        return cipher;
    }

    private FileChannel file(int size) throws Exception {
        FileChannel file = FileChannel.open(Files.createTempFile(folder, "mapped", ""), StandardOpenOption.READ, StandardOpenOption.WRITE);
        file.write(ByteBuffer.allocate(1), size - 1);
        return file;
    }

    /** Kinds of memory. Those that are copied begin with "copied". */
    private static List<String> kinds() {
        List<String> kinds = new ArrayList<>(List.of("heap", "direct", "view", "copied file", "copied private file", "copied view of a file"));
        if (Arenas.exist()) {
            for (String arena : ARENAS) {
                kinds.addAll(List.of("copied " + arena, "copied view of " + arena));
            }
            kinds.add("copied segment of a file");
        }
        return kinds;
    }

    /** A new buffer of the kind. */
    private ByteBuffer buffer(String kind, int size) throws Exception {
        switch (kind) {
            case "heap":
                return ByteBuffer.allocate(size);
            case "direct":
                return ByteBuffer.allocateDirect(size);
            case "view":
                return ByteBuffer.allocateDirect(size + 7).slice(3, size).duplicate();
            default:
                return kind.contains("file") ? ofFile(kind, size) : ofArena(kind, size);
        }
    }

    private ByteBuffer ofFile(String kind, int size) throws Exception {
        try (FileChannel file = file(size + 10)) {
            switch (kind) {
                case "copied file":
                    return file.map(FileChannel.MapMode.READ_WRITE, 0, size);
                case "copied private file":
                    return file.map(FileChannel.MapMode.PRIVATE, 5, size);
                case "copied view of a file":
                    return file.map(FileChannel.MapMode.READ_WRITE, 0, size + 10).slice(10, size);
                default:
                    return Arenas.mapped(arena("ofShared"), file, size);
            }
        }
    }

    private ByteBuffer ofArena(String kind, int size) {
        String arena = kind.substring(kind.lastIndexOf(' ') + 1);
        return kind.contains("view") ? Arenas.buffer(arena(arena), size + 9).slice(4, size) : Arenas.buffer(arena(arena), size);
    }

    private Object arena(String kind) {
        Object arena = Arenas.of(kind);
        if (kind.equals("ofShared") || kind.equals("ofConfined")) {
            open.add(arena);
        }
        return arena;
    }

    @AfterEach
    void closeArenas() {
        open.forEach(Arenas::close);
        open.clear();
    }

    @Test
    void onlyMemoryThatStaysIsUsedInPlace() throws Exception {
        for (String kind : kinds()) {
            ByteBuffer buffer = buffer(kind, 100);
            if (buffer.isDirect()) {
                boolean stays = !kind.startsWith("copied");
                assertEquals(stays, DirectMemory.isPermanent(buffer), kind);
                assertEquals(stays, DirectMemory.isPermanent(buffer.asReadOnlyBuffer()), kind);
            }
        }
    }

    /** The bytes that a method writes to the target, whose position it moves by as many. */
    private static byte[] written(ByteBuffer target, int before, int count) {
        assertEquals(before + count, target.position());
        byte[] bytes = new byte[count];
        target.get(before, bytes);
        return bytes;
    }

    private static byte[] bytes(int size, long seed) {
        byte[] bytes = new byte[size];
        new Random(seed).nextBytes(bytes);
        return bytes;
    }

    @Test
    void everyMemoryGivesTheSame() throws Exception {
        for (String transformation : TRANSFORMATIONS) {
            for (int size : SIZES) {
                byte[] text = bytes(size, size);
                byte[] sealed = cipher(transformation, Cipher.ENCRYPT_MODE).doFinal(text);
                for (String kind : kinds()) {
                    everyMemoryGivesTheSame(transformation, kind, text, sealed);
                    closeArenas();
                }
            }
        }
    }

    private void everyMemoryGivesTheSame(String transformation, String kind, byte[] text, byte[] sealed) throws Exception {
        String name = transformation + " " + kind + " " + text.length;
        for (int mode : new int[] {Cipher.ENCRYPT_MODE, Cipher.DECRYPT_MODE}) {
            byte[] from = mode == Cipher.ENCRYPT_MODE ? text : sealed;
            byte[] to = mode == Cipher.ENCRYPT_MODE ? sealed : text;
            ByteBuffer source = buffer(kind, from.length + 3).put(3, from).position(3);
            ByteBuffer direct = ByteBuffer.allocateDirect(to.length + 2).position(2);
            assertEquals(to.length, cipher(transformation, mode).doFinal(source.duplicate().asReadOnlyBuffer(), direct), name);
            assertArrayEquals(to, written(direct, 2, to.length), name);
            ByteBuffer target = buffer(kind, to.length + 1).position(1);
            assertEquals(to.length, cipher(transformation, mode).doFinal(ByteBuffer.wrap(from), target), name);
            assertArrayEquals(to, written(target, 1, to.length), name);
            // In pieces, then in ranges that overlap in any way.
            int half = from.length / 2;
            Cipher cipher = cipher(transformation, mode);
            target.position(1);
            int count = cipher.update(source.limit(3 + half), target);
            count += cipher.doFinal(source.limit(3 + from.length), target);
            assertArrayEquals(to, written(target, 1, count), name);
            for (int shift : new int[] {-40, -1, 0, 1, 40}) {
                ByteBuffer memory = buffer(kind, from.length + TAG_SIZE + 80).put(40, from);
                ByteBuffer input = memory.duplicate().position(40).limit(40 + from.length);
                ByteBuffer output = memory.duplicate().position(40 + shift);
                cipher(transformation, mode).doFinal(input, output);
                assertArrayEquals(to, written(output, 40 + shift, to.length), name + " shifted " + shift);
            }
        }
    }

    @Test
    void aWrongTagLeavesZeros() throws Exception {
        byte[] sealed = cipher("AES/GCM/NoPadding", Cipher.ENCRYPT_MODE).doFinal(bytes(5000, 1));
        sealed[4000] ^= 1;
        for (String kind : kinds()) {
            ByteBuffer target = buffer(kind, 6000).put(0, bytes(6000, 2)).position(10);
            assertThrows(AEADBadTagException.class,
                    () -> cipher("AES/GCM/NoPadding", Cipher.DECRYPT_MODE).doFinal(ByteBuffer.wrap(sealed), target), kind);
            byte[] left = new byte[5000];
            target.get(10, left);
            assertArrayEquals(new byte[5000], left, kind);
            assertEquals(bytes(6000, 2)[5010], target.get(5010), kind);
        }
    }

    @Test
    void hashesOfEveryMemoryAreTheSame() throws Exception {
        for (int size : SIZES) {
            byte[] text = bytes(size, size);
            byte[] expected = MessageDigest.getInstance("SHA-256", "SUN").digest(text);
            for (String kind : kinds()) {
                MessageDigest digest = MessageDigest.getInstance("SHA-256", PROVIDER);
                ByteBuffer buffer = buffer(kind, size + 3).put(3, text).position(3).asReadOnlyBuffer();
                digest.update(buffer);
                assertEquals(0, buffer.remaining());
                assertArrayEquals(expected, digest.digest(), kind + " " + size);
            }
        }
    }

    @Test
    void memoryThatIsGoneIsAnError() throws Exception {
        assumeTrue(Arenas.exist());
        for (String kind : new String[] {"ofShared", "ofConfined"}) {
            Object arena = Arenas.of(kind);
            ByteBuffer gone = Arenas.buffer(arena, 5000);
            Arenas.close(arena);
            ByteBuffer direct = ByteBuffer.allocateDirect(6000);
            for (String transformation : TRANSFORMATIONS) {
                Cipher cipher = cipher(transformation, Cipher.ENCRYPT_MODE);
                assertThrows(IllegalStateException.class, () -> cipher.doFinal(gone, direct));
                assertThrows(IllegalStateException.class, () -> cipher.doFinal(direct.duplicate().limit(100), gone));
                assertThrows(IllegalStateException.class, () -> cipher.update(gone, direct));
                assertTrue(cipher.doFinal(new byte[10]).length >= 10, "the nonce was not used");
            }
            Mac mac = Mac.getInstance("HmacSHA256", PROVIDER);
            mac.init(KEY);
            assertThrows(IllegalStateException.class, () -> mac.update(gone));
        }
    }

    @Test
    void memoryOfAnotherThreadIsAnError() throws Exception {
        assumeTrue(Arenas.exist());
        ByteBuffer confined = Arenas.buffer(Arenas.of("ofConfined"), 5000);
        List<Throwable> thrown = new ArrayList<>();
        Thread other = new Thread(() -> {
            try {
                cipher("AES/GCM/NoPadding", Cipher.ENCRYPT_MODE).doFinal(confined, ByteBuffer.allocateDirect(6000));
            } catch (Throwable error) {
                thrown.add(error);
            }
        });
        other.start();
        other.join();
        assertEquals(List.of("WrongThreadException"), thrown.stream().map(error -> error.getClass().getSimpleName()).toList());
    }

    /** In a virtual machine of its own, which would end. */
    private static String probe(String what, Path folder) throws Exception {
        List<String> command = List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xmx1g",
                "--enable-native-access=ALL-UNNAMED", "-XX:-CreateCoredumpOnCrash", "-cp", System.getProperty("java.class.path"),
                MemoryProbe.class.getName(), what);
        Process process = new ProcessBuilder(command).directory(folder.toFile()).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), output);
        assertFalse(output.contains("AssertionError"), output);
        return output;
    }

    @Test
    void anArenaThatIsClosedDuringACallEndsTheCallAlone() throws Exception {
        assumeTrue(Arenas.exist());
        String output = probe("closed", folder);
        assertTrue(output.contains("closed: 20 of 20 ended by an error"), output);
    }

    @Test
    void aFileThatIsTruncatedDuringACallEndsTheCallAlone() throws Exception {
        String output = probe("truncated", folder);
        assertTrue(output.contains("truncated: 20 of 20 ended by an error"), output);
    }
}
