package io.leafseal.client;

import static io.leafseal.client.Testing.pause;
import static io.leafseal.client.Testing.rejects;
import static io.leafseal.client.Testing.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.leafseal.client.Testing.Peer;
import io.leafseal.client.Testing.Serving;
import io.leafseal.client.testing.Engine;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import javax.net.ssl.SSLSocket;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** Peers with a valid certificate that send anything, over real sockets. Every call ends with a code, and memory stays bounded. */
class HostileTest {
    private static final EncryptOptions ENCRYPT = EncryptOptions.defaults();
    private static Engine engine;

    @BeforeAll
    static void start() {
        engine = Engine.start();
    }

    @AfterAll
    static void stop() {
        if (engine != null) {
            engine.close();
        }
    }

    private static byte[] hex(String digits) {
        return HexFormat.of().parseHex(digits.replace(" ", ""));
    }

    /** Sends `bytes` after the first request has arrived, and keeps the connection. */
    private static Serving answering(byte[] bytes) {
        return socket -> {
            waitForRequest(socket);
            socket.getOutputStream().write(bytes);
            socket.getOutputStream().flush();
            while (socket.getInputStream().read() >= 0) {
                // Until the client closes.
            }
        };
    }

    private static void waitForRequest(SSLSocket socket) throws IOException {
        byte[] buffer = new byte[1 << 12];
        if (socket.getInputStream().read(buffer) < 0) {
            throw new IOException("no request");
        }
    }

    private static LeafsealException outcome(Serving serving, int answerSizeMax) {
        try (Peer bad = new Peer(engine, serving);
                LeafsealClient client = engine.client().addresses(bad.address).timeout(Duration.ofSeconds(20)).retriesMax(1).answerSizeMax(answerSizeMax).build()) {
            LeafsealException error = assertThrows(LeafsealException.class, () -> client.encrypt("x"));
            client.closeNow();
            return error;
        }
    }

    @Test
    void garbageEndsTheConnection() {
        List<String> messages = List.of(
                "48545450 2f312e31 20343030 0d0a0d0a", // HTTP/1.1 400
                "c1", "c7 00 00", "d4 00 00",
                "94 01 63 c0 80", // an answer to a request that was not made
                "94 01 ce ffffffff c0 80", "94 01 ff c0 80", "94 01 cf ffffffffffffffff c0 80",
                "94 00 01 a4 696e666f 90", // a request
                "93 01 00 c0", "95 01 00 c0 80 80", "92 02 a0", "93 02 01 90", "80", "00", "90", "a1 78",
                "dd ffffffff", "df ffffffff", "dd 01000001", // beyond the number of elements
                "91".repeat(40), // too deep
                "94 01 00 c0 a1 78", // a result that is no map
                "94 01 00 a1 78 c0", "94 01 00 80 c0", "94 01 00 81 a4 636f6465 01 c0", // errors that are none
                "94 01 00 c0 80", "94 01 00 c0 81 a6 76616c756573 90", // no values; none
                "94 01 00 c0 81 a6 76616c756573 92 c0 c0", "94 01 00 c0 81 a6 76616c756573 91 01",
                "94 01 00 c0 81 a6 76616c756573 91 a1 ff", // no UTF-8
                "94 01 00 c0 81 01 a0", "94 01 00 c0 82 a6 76616c756573 91 a1 78 a8 72657365616c6564 a1 78",
                "93 02 b0 636f6e6e656374696f6e5f6572726f72 90", "93 02 b0 636f6e6e656374696f6e5f6572726f72 91 c0");
        for (String message : messages) {
            LeafsealException error = outcome(answering(hex(message)), 1 << 20);
            // An error of a connection may come with any code; here it is none of the engine's.
            assertEquals("protocol_error", error.code(), () -> message + ": " + error.getMessage());
        }
    }

    @Test
    void cutConnectionsAreReported() {
        List<Serving> servings = List.of(
                socket -> { },
                HostileTest::waitForRequest,
                socket -> {
                    waitForRequest(socket);
                    socket.getOutputStream().write(hex("94 01 00 c0 81"));
                    socket.getOutputStream().flush();
                });
        for (Serving serving : servings) {
            LeafsealException error = outcome(serving, 1 << 20);
            assertTrue(Set.of("connection_lost", "connect_failed").contains(error.code()), error::toString);
        }
    }

    @Test
    void anAnswerBeyondTheBoundEndsTheConnectionAndNoMoreIsRead() {
        // A string that is claimed to have 512 MiB, and is sent without an end.
        byte[] head = hex("94 01 00 c0 81 a6 76616c756573 91 db 20000000");
        long[] sent = {0};
        LeafsealException error = outcome(socket -> {
            waitForRequest(socket);
            OutputStream out = socket.getOutputStream();
            out.write(head);
            byte[] filler = new byte[1 << 14];
            Arrays.fill(filler, (byte) 'x');
            while (true) {
                out.write(filler);
                sent[0] += filler.length;
            }
        }, 1 << 16);
        assertEquals("too_large", error.code());
        assertTrue(sent[0] < 64 << 20, "the client reads on: " + sent[0]);
        // Exactly at the bound it is read, one byte beyond it is not.
        byte[] answer = concat(hex("94 01 00 c0 81 a6 76616c756573 91 da 0fa0"), "x".repeat(4000).getBytes(StandardCharsets.US_ASCII));
        assertEquals("too_large", outcome(answering(answer), answer.length - 1).code());
        try (Peer good = new Peer(engine, answering(answer));
                LeafsealClient client = engine.client().addresses(good.address).answerSizeMax(answer.length).build()) {
            assertEquals("x".repeat(4000), client.encrypt("x"));
            client.closeNow();
        }
    }

    @Test
    void aLargeAnswerToOneRequestFailsTheOthersWithARetry() {
        try (Peer bad = new Peer(engine, socket -> {
            byte[] buffer = new byte[1 << 12];
            for (int seen = 0; seen < 200; ) {
                seen += Math.max(0, socket.getInputStream().read(buffer));
            }
            socket.getOutputStream().write(concat(hex("94 01 01 c0 81 a6 76616c756573 91 db 20000000"), new byte[1 << 13]));
            pause(5000);
        }); LeafsealClient client = engine.client().addresses(bad.address).connectionsMax(1).answerSizeMax(1 << 12).retriesMax(0).build()) {
            List<CompletableFuture<String>> futures = IntStream.range(0, 3).mapToObj(index -> client.encryptAsync("x".repeat(100), ENCRYPT)).toList();
            List<String> codes = futures.stream().map(future -> Testing.failure(future).code()).toList();
            assertEquals(List.of("connection_lost", "too_large", "connection_lost"), codes);
            client.closeNow();
        }
    }

    @Test
    void anAnswerByteByByteIsReadOrEndsWithTheCall() {
        byte[] answer = hex("94 01 00 c0 81 a6 76616c756573 91 a3 61c3a4");
        Serving slow = socket -> {
            waitForRequest(socket);
            for (byte octet : answer) {
                socket.getOutputStream().write(octet);
                socket.getOutputStream().flush();
            }
            pause(2000);
        };
        try (Peer peer = new Peer(engine, slow); LeafsealClient client = engine.client().addresses(peer.address).build()) {
            assertEquals("aä", client.encrypt("x"));
            client.closeNow();
        }
        // Without an end: the call has its time, and the connection is given up after it.
        Serving endless = socket -> {
            waitForRequest(socket);
            socket.getOutputStream().write(hex("94 01 00 c0 81 a6 76616c756573 91 db 20000000"));
            while (true) {
                socket.getOutputStream().write('x');
                socket.getOutputStream().flush();
                pause(5);
            }
        };
        try (Peer peer = new Peer(engine, endless);
                LeafsealClient client = engine.client().addresses(peer.address).timeout(Duration.ofMillis(200)).abandonedTimeout(Duration.ofMillis(200)).build()) {
            rejects("deadline_exceeded", () -> client.encrypt("x"));
            until("the connection is given up", () -> peer.sockets.isEmpty());
            client.closeNow();
        }
    }

    @Test
    void unknownNotificationsAndFieldsAreIgnored() {
        String notification = "93 02 a3 6e6577 91 a1 78";
        String answer = "94 01 00 c0 83 a3 6e6577 81 a1 78 91 c0 a6 76616c756573 91 a1 79 a5 6f74686572 c4 01 00";
        try (Peer peer = new Peer(engine, answering(hex(notification + answer))); LeafsealClient client = engine.client().addresses(peer.address).build()) {
            assertEquals("y", client.encrypt("x"));
            client.closeNow();
        }
        // The code and advice of an error that this version does not know.
        String error = "94 01 00 84 a4 636f6465 a3 6e6577 a5 7265747279 a3 6e6577 a7 6d657373616765 a1 6d a6 6f6666736574 07 c0";
        try (Peer peer = new Peer(engine, answering(hex(error))); LeafsealClient client = engine.client().addresses(peer.address).build()) {
            LeafsealException seen = rejects("new", () -> client.encrypt("x"));
            assertEquals(Retry.NEVER, seen.retry());
            assertEquals(7, seen.offset().orElseThrow());
            client.closeNow();
        }
    }

    @Test
    void anEngineThatClosesBeforeItReadARequestGetsItRetriedElsewhere() {
        byte[] closed = concat(concat(hex("93 02 aa"), "going_away".getBytes(StandardCharsets.US_ASCII)), concat(hex("91 a6"), "closed".getBytes(StandardCharsets.US_ASCII)));
        Serving leaving = socket -> {
            waitForRequest(socket);
            socket.getOutputStream().write(closed);
            socket.getOutputStream().flush();
            socket.close();
        };
        try (Peer peer = new Peer(engine, leaving); LeafsealClient client = engine.client().addresses(peer.address, engine.address).build()) {
            List<CompletableFuture<String>> futures = IntStream.range(0, 100).mapToObj(index -> client.encryptAsync("x", ENCRYPT)).toList();
            for (CompletableFuture<String> future : futures) {
                assertNull(future.handle((value, error) -> error).join());
            }
        }
    }

    @Test
    void aSilentServerIsGivenUp() throws IOException {
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"))) {
            String address = "127.0.0.1:" + silent.getLocalPort();
            try (LeafsealClient client = engine.client().addresses(address).connectTimeout(Duration.ofMillis(100)).retriesMax(0).build()) {
                assertTrue(rejects("connect_failed", () -> client.health(CallOptions.defaults())).getMessage().contains("within 100 ms"));
            }
        }
    }

    @Test
    void aPeerThatDoesNotReadBlocksNoCaller() {
        byte[] large = new byte[32 << 20];
        try (Peer peer = new Peer(engine, socket -> pause(60_000));
                LeafsealClient client = engine.client().addresses(peer.address).timeout(Duration.ofMillis(500)).abandonedTimeout(Duration.ofMillis(300)).build()) {
            rejects("deadline_exceeded", () -> client.encryptFile(large, ENCRYPT));
            rejects("deadline_exceeded", () -> client.encrypt("x"));
            until("the connections are given up", () -> client.calls().load().isEmpty());
            client.closeNow();
        }
    }

    private static byte[] concat(byte[] first, byte[] second) {
        byte[] all = Arrays.copyOf(first, first.length + second.length);
        System.arraycopy(second, 0, all, first.length, second.length);
        return all;
    }
}
