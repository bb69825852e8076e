package io.leafseal.jca;

import java.io.RandomAccessFile;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.security.MessageDigest;
import java.util.concurrent.atomic.AtomicInteger;
import javax.crypto.Cipher;

/** A program whose memory disappears during calls, for MemoryTest. */
final class MemoryProbe {
    /** So large that the allocator always unmaps it at once. */
    private static final int SIZE = 48 << 20;
    private static final int ROUNDS = 20;
    private static final LeafsealProvider PROVIDER = new LeafsealProvider();
    /** Memory that stays. */
    private static final ByteBuffer OTHER = ByteBuffer.allocateDirect(SIZE + 16);

    private interface Use {
        void of(ByteBuffer memory) throws Exception;
    }

    private static final Use[] USES = {
        memory -> MemoryTest.cipher("AES/GCM/NoPadding", Cipher.ENCRYPT_MODE).doFinal(memory, OTHER.duplicate()),
        memory -> MemoryTest.cipher("AES/GCM/NoPadding", Cipher.ENCRYPT_MODE).doFinal(OTHER.duplicate().limit(SIZE - 16), memory),
        memory -> MemoryTest.cipher("AES/CTR/NoPadding", Cipher.ENCRYPT_MODE).doFinal(memory, memory.duplicate()),
        memory -> MemoryTest.cipher("ChaCha20-Poly1305", Cipher.ENCRYPT_MODE).update(memory, OTHER.duplicate()),
        memory -> MessageDigest.getInstance("SHA-256", PROVIDER).update(memory),
    };

    private interface Action {
        void run() throws Exception;
    }

    private MemoryProbe() {
    }

    public static void main(String[] arguments) throws Exception {
        int ended = 0;
        for (int round = 0; round < ROUNDS; round++) {
            Use use = USES[round % USES.length];
            if (arguments[0].equals("closed")) {
                Object arena = Arenas.of("ofShared");
                ended += endsByError(use, Arenas.buffer(arena, SIZE), round, () -> Arenas.close(arena));
            } else {
                try (RandomAccessFile file = new RandomAccessFile("file" + round, "rw")) {
                    file.setLength(SIZE);
                    ByteBuffer memory = file.getChannel().map(FileChannel.MapMode.READ_WRITE, 0, SIZE);
                    ended += endsByError(use, memory, round, () -> file.setLength(0));
                }
            }
        }
        System.out.println(arguments[0] + ": " + ended + " of " + ROUNDS + " ended by an error");
    }

    /** Runs an action while another thread uses the memory again and again; 1 if that ends by one of the expected errors. */
    private static int endsByError(Use use, ByteBuffer memory, int round, Action action) throws Exception {
        AtomicInteger uses = new AtomicInteger();
        AtomicInteger ended = new AtomicInteger();
        Thread user = new Thread(() -> {
            try {
                while (true) {
                    use.of(memory.duplicate());
                    uses.incrementAndGet();
                }
            } catch (IllegalStateException | InternalError lost) {
                ended.incrementAndGet();
            } catch (Exception error) {
                throw new AssertionError(error);
            }
        });
        user.start();
        // Then at another moment of a call in each round.
        while (uses.get() == 0 && user.isAlive()) {
            Thread.onSpinWait();
        }
        for (int wait = round * 500; wait > 0; wait--) {
            Thread.onSpinWait();
        }
        boolean isDone = false;
        while (!isDone) {
            try {
                action.run();
                isDone = true;
            } catch (IllegalStateException held) {
                // In use at this moment.
                Thread.onSpinWait();
            }
        }
        user.join();
        return ended.get();
    }
}
