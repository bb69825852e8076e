package io.leafseal.jca;

import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.security.MessageDigest;
import java.util.concurrent.atomic.AtomicInteger;
import javax.crypto.Cipher;

/** A program whose memory disappears during calls, for MemoryTest. */
final class MemoryProbe {
    private static final int SIZE = 8 << 20;
    private static final int ROUNDS = 60;

    private interface Use {
        void of(ByteBuffer memory) throws Exception;
    }

    private static final Use[] USES = {
        memory -> MemoryTest.cipher("AES/GCM/NoPadding", Cipher.ENCRYPT_MODE).doFinal(memory, ByteBuffer.allocateDirect(SIZE + 16)),
        memory -> MemoryTest.cipher("AES/GCM/NoPadding", Cipher.ENCRYPT_MODE).doFinal(ByteBuffer.allocateDirect(SIZE - 16), memory),
        memory -> MemoryTest.cipher("AES/CTR/NoPadding", Cipher.ENCRYPT_MODE).doFinal(memory, memory.duplicate()),
        memory -> MemoryTest.cipher("ChaCha20-Poly1305", Cipher.ENCRYPT_MODE).update(memory, ByteBuffer.allocateDirect(SIZE)),
        memory -> MessageDigest.getInstance("SHA-256", new LeafsealProvider()).update(memory),
    };

    private MemoryProbe() {
    }

    public static void main(String[] arguments) throws Exception {
        AtomicInteger failed = new AtomicInteger();
        AtomicInteger closed = new AtomicInteger();
        for (int round = 0; round < ROUNDS; round++) {
            Use use = USES[round % USES.length];
            if (arguments[0].equals("closed")) {
                Object arena = Arenas.of("ofShared");
                ByteBuffer memory = Arenas.buffer(arena, SIZE);
                if (isLost(use, memory, round, () -> {
                    // Fails while the memory is held.
                    Arenas.close(arena);
                    closed.incrementAndGet();
                })) {
                    failed.incrementAndGet();
                }
            } else {
                try (RandomAccessFile file = new RandomAccessFile("file" + round, "rw")) {
                    file.setLength(SIZE);
                    ByteBuffer memory = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, SIZE);
                    if (isLost(use, memory, round, () -> file.setLength(0))) {
                        failed.incrementAndGet();
                    }
                }
            }
        }
        System.out.println(arguments[0] + ": " + failed + " failed, " + closed + " were closed");
    }

    private interface Action {
        void run() throws Exception;
    }

    /** Runs an action while another thread uses the memory; whether that use failed. */
    private static boolean isLost(Use use, ByteBuffer memory, int round, Action action) throws Exception {
        boolean[] isLost = new boolean[1];
        Thread user = new Thread(() -> {
            try {
                use.of(memory);
            } catch (IllegalStateException | InternalError lost) {
                isLost[0] = true;
            } catch (Exception error) {
                throw new AssertionError(error);
            }
        });
        user.start();
        // Early and late in the call; every sixth time before it.
        for (int wait = round % 6 * 100_000; wait > 0; wait--) {
            Thread.onSpinWait();
        }
        try {
            action.run();
        } catch (IllegalStateException held) {
            user.join();
            action.run();
        }
        user.join();
        return isLost[0];
    }
}
