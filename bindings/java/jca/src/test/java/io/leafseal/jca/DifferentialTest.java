package io.leafseal.jca;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.nio.ByteBuffer;
import java.security.Key;
import java.security.Provider;
import java.security.spec.AlgorithmParameterSpec;
import java.util.Arrays;
import java.util.SplittableRandom;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.spec.ChaCha20ParameterSpec;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;
import org.junit.jupiter.api.Test;

/**
 * Random operations against SunJCE: sizes, pieces, kinds of buffers, offsets, overlaps, tags, associated data, changed bits.
 *
 * <p>{@code -Dcases=1000000} runs more cases, {@code -Dseed=17} others.
 */
class DifferentialTest {
    private static final int CASES = Integer.getInteger("cases", 20_000);
    private static final long SEED = Long.getLong("seed", 1);
    private static final int SPARE = 40;

    private final SplittableRandom random = new SplittableRandom(SEED);
    /** Used again for case after case, as programs do. */
    private final Cipher[] kept = new Cipher[4];

    private enum Kind {
        GCM("AES/GCM/NoPadding"), CTR("AES/CTR/NoPadding"), CHACHA20("ChaCha20"), CHACHA20_POLY1305("ChaCha20-Poly1305");

        final String name;

        Kind(String name) {
            this.name = name;
        }

        boolean hasTag() {
            return this == GCM || this == CHACHA20_POLY1305;
        }
    }

    @Test
    void everyCaseEqualsTheJdk() throws Exception {
        for (int i = 0; i < CASES; i++) {
            SplittableRandom before = random.split();
            try {
                one(before);
            } catch (AssertionError | Exception error) {
                throw new AssertionError("case " + i + " of seed " + SEED, error);
            }
        }
    }

    private void one(SplittableRandom random) throws Exception {
        Kind kind = random.nextInt(3) > 0 ? Kind.GCM : Kind.values()[random.nextInt(4)];
        boolean isAes = kind == Kind.GCM || kind == Kind.CTR;
        byte[] keyBytes = bytes(random, isAes ? 16 + 8 * random.nextInt(3) : 32);
        Key key = new SecretKeySpec(keyBytes, isAes ? "AES" : "ChaCha20");
        AlgorithmParameterSpec spec = spec(kind, random);
        int tagSize = !kind.hasTag() ? 0 : kind == Kind.GCM ? ((GCMParameterSpec) spec).getTLen() / 8 : 16;
        byte[] aad = kind.hasTag() && random.nextBoolean() ? bytes(random, size(random, 2000)) : new byte[0];
        byte[] plaintext = bytes(random, size(random, 300_000));

        Cipher jdk = Cipher.getInstance(kind.name, Both.JDK);
        jdk.init(Cipher.ENCRYPT_MODE, key, spec);
        if (aad.length > 0) {
            jdk.updateAAD(aad);
        }
        byte[] expected = jdk.doFinal(plaintext);

        Cipher cipher = cipher(kind, random);
        start(cipher, Cipher.ENCRYPT_MODE, key, spec, aad, random);
        assertArrayEquals(expected, process(cipher, plaintext, expected.length, random), () -> describe(kind, plaintext));
        start(cipher, Cipher.DECRYPT_MODE, key, spec, aad, random);
        assertArrayEquals(plaintext, process(cipher, expected, plaintext.length, random), () -> describe(kind, plaintext));
        if (kind.hasTag()) {
            byte[] wrong = expected.clone();
            wrong[random.nextInt(wrong.length)] ^= (byte) (1 << random.nextInt(8));
            start(cipher, Cipher.DECRYPT_MODE, key, spec, aad, random);
            assertThrows(AEADBadTagException.class, () -> process(cipher, wrong, plaintext.length, random));
            assertEquals(tagSize + plaintext.length, expected.length);
        }
    }

    private static String describe(Kind kind, byte[] plaintext) {
        return kind + " of " + plaintext.length + " bytes";
    }

    private Cipher cipher(Kind kind, SplittableRandom random) throws Exception {
        Provider provider = Both.LEAFSEAL;
        if (kept[kind.ordinal()] == null || random.nextInt(4) == 0) {
            kept[kind.ordinal()] = Cipher.getInstance(kind.name, provider);
        }
        return kept[kind.ordinal()];
    }

    private static AlgorithmParameterSpec spec(Kind kind, SplittableRandom random) {
        switch (kind) {
            case GCM:
                int size = random.nextInt(4) > 0 ? 12 : 1 + random.nextInt(40);
                return new GCMParameterSpec(96 + 8 * random.nextInt(5), bytes(random, size));
            case CTR:
                byte[] iv = bytes(random, 16);
                if (random.nextInt(4) == 0) {
                    Arrays.fill(iv, 8, 15, (byte) 0xff);
                }
                return new IvParameterSpec(iv);
            case CHACHA20:
                int counter = random.nextInt(3) == 0 ? -1 - random.nextInt(200) : random.nextInt();
                return new ChaCha20ParameterSpec(bytes(random, 12), counter);
            default:
                return new IvParameterSpec(bytes(random, 12));
        }
    }

    private static void start(Cipher cipher, int mode, Key key, AlgorithmParameterSpec spec, byte[] aad, SplittableRandom random)
            throws Exception {
        cipher.init(mode, key, spec);
        int at = 0;
        while (at < aad.length) {
            int piece = random.nextBoolean() ? aad.length - at : 1 + random.nextInt(aad.length - at);
            if (random.nextBoolean()) {
                cipher.updateAAD(aad, at, piece);
            } else {
                cipher.updateAAD(place(aad, at, piece, random));
            }
            at += piece;
        }
    }

    /** Mostly short, and often beside a limit: a block, what is copied, a piece. */
    private static int size(SplittableRandom random, int max) {
        int[] limits = {0, 16, 64, 192, 256, 1024, 4096, 65_536, 262_144};
        switch (random.nextInt(4)) {
            case 0:
                return Math.min(max, Math.max(0, limits[random.nextInt(limits.length)] + random.nextInt(-17, 18)));
            case 1:
                return random.nextInt(Math.min(max, 5000) + 1);
            case 2:
                return random.nextInt(40) > 0 ? random.nextInt(100) : random.nextInt(max + 1);
            default:
                return random.nextInt(300);
        }
    }

    private static byte[] bytes(SplittableRandom random, int size) {
        byte[] bytes = new byte[size];
        random.nextBytes(bytes);
        return bytes;
    }

    /** A buffer of some kind with these bytes, its limits inside a larger one. */
    private static ByteBuffer place(byte[] bytes, int offset, int size, SplittableRandom random) {
        int before = random.nextInt(SPARE);
        int kind = random.nextInt(4);
        ByteBuffer whole = (kind & 1) == 0 ? ByteBuffer.allocate(before + size + SPARE) : ByteBuffer.allocateDirect(before + size + SPARE);
        whole.put(before, bytes, offset, size).position(before).limit(before + size);
        ByteBuffer it = random.nextBoolean() ? whole.slice() : whole;
        return kind >= 2 ? it.asReadOnlyBuffer() : it;
    }

    /** The output for an input, by a random mix of calls. */
    private static byte[] process(Cipher cipher, byte[] input, int outputSize, SplittableRandom random) throws Exception {
        switch (random.nextInt(5)) {
            case 0:
                return cipher.doFinal(input);
            case 1:
                return overlapping(cipher, input, outputSize, random);
            case 2:
                return overlappingBuffers(cipher, input, outputSize, random);
            default:
                return pieces(cipher, input, outputSize, random);
        }
    }

    private static byte[] overlapping(Cipher cipher, byte[] input, int outputSize, SplittableRandom random) throws Exception {
        int reach = Math.max(input.length, outputSize);
        byte[] memory = bytes(random, 2 * reach + 2 * SPARE);
        int from = random.nextInt(memory.length - input.length + 1);
        int to = random.nextInt(4) == 0 && from + outputSize <= memory.length ? from : random.nextInt(memory.length - outputSize + 1);
        if (random.nextBoolean()) {
            to = Math.max(0, Math.min(memory.length - outputSize, from + random.nextInt(-SPARE, SPARE)));
        }
        System.arraycopy(input, 0, memory, from, input.length);
        byte[] before = memory.clone();
        assertEquals(outputSize, cipher.doFinal(memory, from, input.length, memory, to));
        byte[] output = Arrays.copyOfRange(memory, to, to + outputSize);
        // Nothing but the output was written to.
        System.arraycopy(before, to, memory, to, outputSize);
        assertArrayEquals(before, memory);
        return output;
    }

    private static byte[] overlappingBuffers(Cipher cipher, byte[] input, int outputSize, SplittableRandom random) throws Exception {
        int reach = Math.max(input.length, outputSize);
        int capacity = 2 * reach + 2 * SPARE;
        ByteBuffer memory = random.nextBoolean() ? ByteBuffer.allocate(capacity) : ByteBuffer.allocateDirect(capacity);
        int from = random.nextInt(capacity - input.length + 1);
        int to = random.nextInt(3) == 0 && from + outputSize <= capacity ? from : random.nextInt(capacity - outputSize + 1);
        if (random.nextBoolean()) {
            to = Math.max(0, Math.min(capacity - outputSize, from + random.nextInt(-SPARE, SPARE)));
        }
        memory.put(from, input);
        ByteBuffer source = memory.duplicate().position(from).limit(from + input.length);
        ByteBuffer target = memory.duplicate().position(to).limit(to + outputSize);
        assertEquals(outputSize, cipher.doFinal(source, target));
        assertEquals(from + input.length, source.position());
        assertEquals(to + outputSize, target.position());
        byte[] output = new byte[outputSize];
        memory.get(to, output);
        return output;
    }

    private static byte[] pieces(Cipher cipher, byte[] input, int outputSize, SplittableRandom random) throws Exception {
        byte[] output = new byte[outputSize + SPARE];
        int written = 0;
        int at = 0;
        int pieceMax = 1 + random.nextInt(random.nextBoolean() ? 50 : 100_000);
        int count = 0;
        while (at < input.length && count++ < 30) {
            int piece = Math.min(input.length - at, random.nextInt(pieceMax + 1));
            written += random.nextBoolean()
                    ? updateArrays(cipher, input, at, piece, output, written, random)
                    : updateBuffers(cipher, input, at, piece, output, written, random);
            at += piece;
        }
        int rest = input.length - at;
        if (random.nextBoolean()) {
            written += cipher.doFinal(input, at, rest, output, written);
        } else {
            ByteBuffer target = target(outputSize - written, random);
            int start = target.position();
            int count2 = cipher.doFinal(place(input, at, rest, random), target);
            assertEquals(start + count2, target.position());
            target.get(start, output, written, count2);
            written += count2;
        }
        assertEquals(outputSize, written);
        return Arrays.copyOf(output, outputSize);
    }

    private static int updateArrays(Cipher cipher, byte[] input, int at, int piece, byte[] output, int written, SplittableRandom random)
            throws Exception {
        if (random.nextBoolean()) {
            byte[] some = cipher.update(input, at, piece);
            if (some == null) {
                return 0;
            }
            System.arraycopy(some, 0, output, written, some.length);
            return some.length;
        }
        if (random.nextInt(3) == 0) {
            // In memory shared with the output, at any distance.
            byte[] memory = new byte[2 * piece + 3 * SPARE];
            int from = random.nextInt(piece + SPARE);
            int to = random.nextInt(piece + SPARE);
            System.arraycopy(input, at, memory, from, piece);
            int count = cipher.update(memory, from, piece, memory, to);
            System.arraycopy(memory, to, output, written, count);
            return count;
        }
        return cipher.update(input, at, piece, output, written);
    }

    private static int updateBuffers(Cipher cipher, byte[] input, int at, int piece, byte[] output, int written, SplittableRandom random)
            throws Exception {
        ByteBuffer source;
        ByteBuffer target;
        if (random.nextInt(3) == 0) {
            ByteBuffer memory = random.nextBoolean()
                    ? ByteBuffer.allocate(2 * piece + 3 * SPARE) : ByteBuffer.allocateDirect(2 * piece + 3 * SPARE);
            int from = random.nextInt(piece + SPARE);
            memory.put(from, input, at, piece);
            source = memory.duplicate().position(from).limit(from + piece);
            int to = random.nextInt(piece + SPARE);
            target = memory.duplicate().position(to).limit(to + piece + SPARE);
        } else {
            source = place(input, at, piece, random);
            target = target(piece + 16, random);
        }
        int start = target.position();
        int limit = source.limit();
        int count = cipher.update(source, target);
        assertEquals(limit, source.position());
        assertEquals(start + count, target.position());
        target.get(start, output, written, count);
        return count;
    }

    private static ByteBuffer target(int size, SplittableRandom random) {
        int before = random.nextInt(SPARE);
        ByteBuffer whole = random.nextBoolean() ? ByteBuffer.allocate(before + size) : ByteBuffer.allocateDirect(before + size);
        whole.position(before);
        return random.nextBoolean() ? whole.slice() : whole;
    }
}
