package io.leafseal.client;

import static io.leafseal.client.Testing.failure;
import static io.leafseal.client.Testing.pause;
import static io.leafseal.client.Testing.rejects;
import static io.leafseal.client.Testing.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.leafseal.client.ClientObserver.ConnectionEvent;
import io.leafseal.client.ClientObserver.ConnectionKind;
import io.leafseal.client.Testing.Answering;
import io.leafseal.client.Testing.Peer;
import io.leafseal.client.testing.Engine;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.SequenceInputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Engines that die, restart or refuse, and callers that stop waiting. Every call ends, with a result or a code. */
class FaultsTest {
    private static final EncryptOptions ENCRYPT = EncryptOptions.defaults();
    private static final CallOptions CALL = CallOptions.defaults();
    private static final Set<String> LOSS = Set.of("connection_lost", "connect_failed", "going_away", "unavailable");

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

    private static LeafsealException outcome(CompletableFuture<?> future) {
        return future.handle((value, error) -> (LeafsealException) error).join();
    }

    @Test
    void anEngineKilledInTheMiddleFailsItsCallsWithACodeAndTheClientReturnsOnceItIsBack() {
        Engine victim = Engine.start();
        try (LeafsealClient client = victim.client().retriesMax(2).connect()) {
            List<String> values = IntStream.range(0, 20_000).mapToObj(index -> "value " + index).toList();
            List<CompletableFuture<List<String>>> futures = new ArrayList<>();
            for (int index = 0; index < 20; index++) {
                futures.add(client.encryptAllAsync(values, ENCRYPT.keying(Keying.FIELD)));
            }
            until("requests are in flight", () -> client.calls().bytesInFlight() > 0);
            victim.kill();
            List<LeafsealException> outcomes = futures.stream().map(FaultsTest::outcome).toList();
            assertTrue(outcomes.stream().allMatch(error -> error == null || LOSS.contains(error.code())), outcomes::toString);
            assertTrue(outcomes.stream().anyMatch(error -> error != null));
            assertTrue(LOSS.contains(assertThrows(LeafsealException.class, () -> client.encrypt("x")).code()));
            try (Engine next = Engine.start(victim.folder, victim.port())) {
                until("the client reconnects", () -> outcome(client.healthAsync(CALL)) == null);
                assertEquals("back", client.decrypt(client.encrypt("back")));
                assertEquals(victim.address, next.address);
            }
        }
    }

    @Test
    void noCallIsLostWhenOneOfTwoEnginesRestarts(@TempDir Path folder) throws Exception {
        try (Engine first = Engine.start("server.drain_delay=1s")) {
            copy(first.folder.resolve("store"), folder.resolve("store"));
            Engine second = Engine.start(folder, 0, "server.drain_delay=1s");
            AtomicBoolean isOver = new AtomicBoolean();
            AtomicInteger done = new AtomicInteger();
            List<Throwable> failures = Collections.synchronizedList(new ArrayList<>());
            ConcurrentLinkedQueue<String> opened = new ConcurrentLinkedQueue<>();
            ClientObserver observer = noting(ConnectionKind.OPENED, opened);
            try (LeafsealClient client = first.client().addresses(first.address, second.address).observer(observer).build()) {
                List<Thread> threads = IntStream.range(0, 8).mapToObj(index -> new Thread(() -> {
                    try {
                        while (!isOver.get()) {
                            assertEquals("value", client.decrypt(client.encrypt("value")));
                            done.incrementAndGet();
                        }
                    } catch (Throwable error) {
                        failures.add(error);
                    }
                })).toList();
                threads.forEach(Thread::start);
                until("both engines are used", () -> opened.contains(first.address) && opened.contains(second.address) && done.get() > 50);
                second.stop();
                int before = done.get();
                until("calls go on", () -> done.get() > before + 50 || !failures.isEmpty());
                opened.clear();
                Engine again = Engine.start(folder, second.port());
                first.stop();
                until("the restarted engine is used again", () -> opened.contains(second.address) || !failures.isEmpty());
                int moved = done.get();
                until("calls go on", () -> done.get() > moved + 50 || !failures.isEmpty());
                isOver.set(true);
                for (Thread thread : threads) {
                    thread.join();
                }
                again.stop();
            }
            assertEquals(List.of(), failures);
        }
    }

    private static ClientObserver noting(ConnectionKind kind, ConcurrentLinkedQueue<String> addresses) {
        return new ClientObserver() {
            @Override
            public void connection(ConnectionEvent event) {
                if (event.kind() == kind) {
                    addresses.add(event.address());
                }
            }
        };
    }

    private static void copy(Path from, Path to) throws IOException {
        try (var paths = Files.walk(from)) {
            for (Path path : paths.toList()) {
                Files.copy(path, to.resolve(from.relativize(path)), StandardCopyOption.COPY_ATTRIBUTES);
            }
        }
    }

    @Test
    void callsGoToTheLivingEngineBesideDeadAddresses() {
        ConcurrentLinkedQueue<String> failed = new ConcurrentLinkedQueue<>();
        ClientObserver observer = noting(ConnectionKind.FAILED, failed);
        Duration minute = Duration.ofMinutes(1);
        try (LeafsealClient client = engine.client().addresses("127.0.0.1:1", engine.address, "127.0.0.1:2").backoff(minute, minute).observer(observer).build()) {
            for (int round = 0; round < 5; round++) {
                List<CompletableFuture<String>> futures = IntStream.range(0, 100).mapToObj(index -> client.encryptAsync("x", ENCRYPT)).toList();
                assertTrue(futures.stream().allMatch(future -> outcome(future) == null));
            }
            assertFalse(failed.contains(engine.address));
            // Two connections, and at most two attempts before each.
            assertTrue(failed.size() <= 4, "a dead address is not tried for each call");
        }
    }

    @Test
    void onlyFailedAttemptsUseUpTheRetriesOfCallsThatWait() {
        ConcurrentLinkedQueue<String> failed = new ConcurrentLinkedQueue<>();
        Duration minutes = Duration.ofMinutes(5);
        try (LeafsealClient client = engine.client().addresses("127.0.0.1:1").backoff(minutes, minutes).timeout(Duration.ofHours(1))
                .observer(noting(ConnectionKind.FAILED, failed)).build()) {
            List<CompletableFuture<String>> futures = new ArrayList<>(List.of(client.encryptAsync("x", ENCRYPT)));
            until("the first attempt has failed", () -> failed.size() == 1);
            IntStream.range(0, 20).forEach(index -> futures.add(client.encryptAsync("x", ENCRYPT)));
            assertEquals(21, client.callsInFlight());
            client.closeNow();
            assertTrue(futures.stream().allMatch(future -> failure(future).code().equals("closed")));
        }
        failed.clear();
        Duration ms = Duration.ofMillis(1);
        try (LeafsealClient client = engine.client().addresses("127.0.0.1:1").backoff(ms, ms).retriesMax(3)
                .observer(noting(ConnectionKind.FAILED, failed)).build()) {
            rejects("connect_failed", () -> client.encrypt("x"));
            until("four attempts were made", () -> failed.size() >= 4);
            int before = failed.size();
            rejects("connect_failed", () -> client.encrypt("x"));
            until("attempts were made for the second call, which may begin in a pause", () -> failed.size() >= before + 3);
        }
    }

    private static void callsSucceed(LeafsealClient client, int count) {
        List<CompletableFuture<String>> futures = IntStream.range(0, count).mapToObj(index -> client.encryptAsync("x", ENCRYPT)).toList();
        assertEquals(List.of(), futures.stream().map(FaultsTest::outcome).filter(error -> error != null).toList());
    }

    /** Returns a client that has used both engines, each over one connection. */
    private static LeafsealClient usingBoth(Peer first, Peer second, Answering losing, Answering healthy) {
        LeafsealClient client = engine.client().addresses(first.address, second.address).build();
        until("both are used", () -> {
            callsSucceed(client, 20);
            return losing.served.get() > 0 && healthy.served.get() > 0;
        });
        return client;
    }

    @Test
    void anEngineThatRefersToOthersIsNotUsedWhileThereAreOthers() {
        AtomicBoolean isLost = new AtomicBoolean();
        Answering losing = new Answering(isLost::get);
        Answering healthy = new Answering(() -> false);
        try (Peer first = new Peer(engine, losing);
                Peer second = new Peer(engine, healthy);
                LeafsealClient client = usingBoth(first, second, losing, healthy)) {
            isLost.set(true);
            // More calls than there are retries for overloaded engines.
            callsSucceed(client, 100);
            int refused = losing.refused.get();
            assertTrue(refused > 0);
            for (int round = 0; round < 20; round++) {
                client.encrypt("x");
                callsSucceed(client, 20);
            }
            assertEquals(refused, losing.refused.get());
        }
    }

    @Test
    void aConnectionIsOpenedToAnotherEngineIfTheOnlyOneRefersToOthers() {
        AtomicBoolean isLost = new AtomicBoolean();
        Answering losing = new Answering(isLost::get);
        Answering healthy = new Answering(() -> false);
        try (Peer first = new Peer(engine, losing);
                Peer second = new Peer(engine, healthy);
                LeafsealClient client = usingBoth(first, second, losing, healthy)) {
            second.dropConnections();
            until("one connection is left", () -> client.calls().load().size() == 1);
            int served = healthy.served.get();
            isLost.set(true);
            client.encrypt("x");
            assertEquals(1, losing.refused.get());
            assertEquals(served + 1, healthy.served.get());
        }
    }

    @Test
    void anEngineThatRefersToOthersIsUsedIfThereIsNoneAndAgainAfterAPause() throws IOException {
        Duration ms = Duration.ofMillis(1);
        AtomicInteger count = new AtomicInteger();
        Answering recovering = new Answering(() -> count.incrementAndGet() <= 2);
        try (Peer only = new Peer(engine, recovering);
                LeafsealClient client = engine.client().addresses(only.address).backoff(ms, ms).build()) {
            assertEquals("y", client.encrypt("x"));
            assertEquals(2, recovering.refused.get());
        }
        Answering losing = new Answering(() -> true);
        try (Peer first = new Peer(engine, losing); Peer second = new Peer(engine, losing);
                LeafsealClient client = engine.client().addresses(first.address, second.address).backoff(ms, ms).retriesMax(4).build()) {
            rejects("unavailable", () -> client.encrypt("x"));
            assertEquals(5, losing.refused.get());
        }
    }

    @Test
    void allRecordsOfAHostNameAreTried() {
        // The name resolves to 127.0.0.1 and, on most machines, to ::1, where no engine listens.
        String address = "localhost:" + engine.port();
        try (LeafsealClient client = engine.client().addresses(address).serverName("127.0.0.1").build()) {
            assertEquals("x", client.decrypt(client.encrypt("x")));
        }
        try (LeafsealClient client = engine.client().addresses("name.invalid").retriesMax(1).build()) {
            assertTrue(rejects("connect_failed", () -> client.encrypt("x")).getMessage().contains("name.invalid"));
        }
    }

    @Test
    void certificatesThatDoNotFitAreReportedAtOnce(@TempDir Path folder) {
        try (Engine other = Engine.start()) {
            other.stranger();
            List<LeafsealClientBuilder> builders = List.of(
                    engine.client().ca(other.file("ca.pem")),
                    engine.client().certificate(other.file("dev.pem")).key(other.file("dev.key")),
                    engine.client().certificate(other.file("dev.pem")),
                    engine.client().key(folder.resolve("no such file")),
                    engine.client().key(engine.file("dev.pem")),
                    engine.client().serverName("another.example"),
                    engine.client().ca("-----BEGIN CERTIFICATE-----\nno\n-----END CERTIFICATE-----".getBytes()),
                    engine.client().ca(new byte[0]));
            for (int index = 0; index < builders.size(); index++) {
                LeafsealClientBuilder builder = builders.get(index);
                LeafsealException error = rejects("tls_failed", builder::connect);
                assertEquals(Retry.NEVER, error.retry(), "case " + index);
                assertFalse(error.getMessage().isBlank());
            }
            try (LeafsealClient client = other.client().certificate(other.file("stranger.pem")).key(other.file("stranger.key")).build()) {
                rejects("forbidden", () -> client.encrypt("x"));
            }
            try (Peer web = new Peer(engine, socket -> socket.getInputStream().read(), "http/1.1")) {
                rejects("tls_failed", () -> engine.client().addresses(web.address).connect());
            }
        }
    }

    @Test
    void certificateFilesAreReadAgainForEachConnection(@TempDir Path folder) throws Exception {
        Path certificate = Files.writeString(folder.resolve("client.pem"), "nothing yet");
        Path key = Files.writeString(folder.resolve("client.key"), "nothing yet");
        Duration pause = Duration.ofMillis(1);
        try (LeafsealClient client = engine.client().certificate(certificate).key(key).backoff(pause, pause).build()) {
            rejects("tls_failed", () -> client.health(CALL));
            Files.copy(engine.file("dev.pem"), certificate, StandardCopyOption.REPLACE_EXISTING);
            Files.copy(engine.file("dev.key"), key, StandardCopyOption.REPLACE_EXISTING);
            until("the new files are used", () -> outcome(client.healthAsync(CALL)) == null);
        }
        try (LeafsealClient client = engine.client().ca(Testing.read(engine.file("ca.pem"))).certificate(Testing.read(engine.file("dev.pem")))
                .key(Testing.read(engine.file("dev.key"))).build()) {
            assertEquals("ok", client.health(CALL));
        }
    }

    @Test
    void aCancelledFutureSendsCancel() {
        ConcurrentLinkedQueue<byte[]> received = new ConcurrentLinkedQueue<>();
        try (Peer silent = new Peer(engine, socket -> drain(socket, received))) {
            try (LeafsealClient client = engine.client().addresses(silent.address).abandonedTimeout(Duration.ofMillis(100)).build()) {
                CompletableFuture<String> future = client.encryptAsync("x", ENCRYPT);
                until("the request arrives", () -> contains(received, "encrypt"));
                assertTrue(future.cancel(true));
                assertThrows(CancellationException.class, future::join);
                until("cancel arrives", () -> contains(received, "cancel"));
                until("a connection that does not answer is closed", () -> silent.sockets.isEmpty());
                assertEquals(0, client.callsInFlight());
                received.clear();
                // The same, by the time limit of the future.
                CompletableFuture<String> limited = client.encryptAsync("x", ENCRYPT).orTimeout(500, TimeUnit.MILLISECONDS);
                assertThrows(java.util.concurrent.CompletionException.class, limited::join);
                until("cancel arrives", () -> contains(received, "cancel"));
            }
        }
    }

    /** How a caller stops waiting for a request that is being written, and returns only then. */
    private interface Stopping {
        void stop(LeafsealClient client, byte[] data, CountDownLatch isWritten) throws Exception;
    }

    @Test
    void theArrayOfAStoppedCallIsNoLongerRead() throws Exception {
        List<Stopping> ways = List.of(
                (client, data, isWritten) -> {
                    CompletableFuture<byte[]> future = client.encryptFileAsync(data, ENCRYPT);
                    Testing.await(isWritten);
                    assertTrue(future.cancel(true));
                    assertTrue(future.isCancelled());
                },
                (client, data, isWritten) -> {
                    CompletableFuture<byte[]> future = client.encryptFileAsync(data, ENCRYPT);
                    Testing.await(isWritten);
                    future.orTimeout(1, TimeUnit.MILLISECONDS);
                    assertThrows(java.util.concurrent.CompletionException.class, future::join);
                },
                (client, data, isWritten) -> {
                    Thread caller = new Thread(() -> rejects("cancelled", () -> client.encryptFile(data, ENCRYPT)));
                    caller.start();
                    Testing.await(isWritten);
                    caller.interrupt();
                    caller.join();
                },
                (client, data, isWritten) -> {
                    // A call whose time was over before a byte was written is made again.
                    while (isWritten.getCount() > 0) {
                        rejects("deadline_exceeded", () -> client.encryptFile(data, ENCRYPT.timeout(Duration.ofMillis(500))));
                    }
                });
        for (Stopping way : ways) {
            CountDownLatch isWritten = new CountDownLatch(1);
            CountDownLatch isStopped = new CountDownLatch(1);
            CompletableFuture<List<byte[]>> received = new CompletableFuture<>();
            // Reads nothing between the first bytes and the end of the call: most of the request is not yet written.
            Testing.Serving pausing = socket -> {
                byte[] first = {(byte) socket.getInputStream().read()};
                isWritten.countDown();
                Testing.await(isStopped);
                received.complete(messages(new SequenceInputStream(new ByteArrayInputStream(first), socket.getInputStream()), 2));
            };
            byte[] data = new byte[32 << 20];
            Arrays.fill(data, (byte) 'a');
            try (Peer peer = new Peer(engine, pausing);
                    LeafsealClient client = engine.client().addresses(peer.address).connectionsMax(1)
                            .timeout(Duration.ofMinutes(2)).abandonedTimeout(Duration.ofMinutes(2)).build()) {
                way.stop(client, data, isWritten);
                Arrays.fill(data, (byte) 'b');
                isStopped.countDown();
                List<byte[]> messages = received.orTimeout(2, TimeUnit.MINUTES).join();
                String request = new String(messages.get(0), StandardCharsets.ISO_8859_1);
                assertTrue(request.contains("aaaa"));
                assertFalse(request.contains("bbbb"), "the new content of the array was sent");
                assertTrue(new String(messages.get(1), StandardCharsets.ISO_8859_1).contains("cancel"));
                client.closeNow();
            }
        }
    }

    private static List<byte[]> messages(InputStream in, int count) throws IOException {
        FrameReader reader = new FrameReader(in, 1 << 30);
        List<byte[]> messages = new ArrayList<>();
        try {
            while (messages.size() < count) {
                FrameReader.Frame frame = reader.next();
                messages.add(Arrays.copyOfRange(frame.bytes(), frame.from(), frame.to()));
            }
            return messages;
        } catch (FrameScanner.InvalidFrame | FrameReader.TooLarge error) {
            throw new IOException(error);
        }
    }

    @Test
    void anInterruptedThreadStopsTheRequest() throws Exception {
        ConcurrentLinkedQueue<byte[]> received = new ConcurrentLinkedQueue<>();
        try (Peer silent = new Peer(engine, socket -> drain(socket, received));
                LeafsealClient client = engine.client().addresses(silent.address).build()) {
            CompletableFuture<String> seen = new CompletableFuture<>();
            Thread caller = new Thread(() -> {
                try {
                    client.encrypt("x");
                } catch (LeafsealException error) {
                    seen.complete(error.code() + " " + Thread.currentThread().isInterrupted());
                }
            });
            caller.start();
            until("the request arrives", () -> contains(received, "encrypt"));
            caller.interrupt();
            assertEquals("cancelled true", seen.get());
            until("cancel arrives", () -> contains(received, "cancel"));
            client.closeNow();
        }
    }

    private static void drain(java.net.Socket socket, ConcurrentLinkedQueue<byte[]> received) throws IOException {
        byte[] buffer = new byte[1 << 16];
        for (int count = socket.getInputStream().read(buffer); count >= 0; count = socket.getInputStream().read(buffer)) {
            received.add(Arrays.copyOf(buffer, count));
        }
    }

    private static boolean contains(ConcurrentLinkedQueue<byte[]> received, String word) {
        StringBuilder all = new StringBuilder();
        received.forEach(bytes -> all.append(new String(bytes, StandardCharsets.ISO_8859_1)));
        return all.indexOf(word) >= 0;
    }

    @Test
    void callsCancelledWhileTheyWaitNeverBegin() {
        try (LeafsealClient client = engine.client().connectionsMax(1).requestsInFlightMax(1).build()) {
            CompletableFuture<String> first = client.encryptAsync("first", ENCRYPT);
            List<CompletableFuture<String>> others = IntStream.range(0, 5000).mapToObj(index -> client.encryptAsync("x", ENCRYPT)).toList();
            others.forEach(future -> future.cancel(false));
            first.join();
            until("no call is left", () -> client.callsInFlight() == 0);
            assertEquals(0, client.calls().bytesInFlight());
            assertEquals("next", client.decrypt(client.encrypt("next")));
        }
    }

    @Test
    void cancellationsAtRandomMomentsLeaveEveryOtherCallCorrect() {
        Random random = new Random(17);
        try (LeafsealClient client = engine.client().requestsInFlightMax(8).build()) {
            List<CompletableFuture<?>> all = new ArrayList<>();
            for (int index = 0; index < 2000; index++) {
                String prefix = index + " ";
                List<String> values = IntStream.range(0, index % 200).mapToObj(at -> prefix + at).toList();
                CompletableFuture<List<String>> sealing = client.encryptAllAsync(values, ENCRYPT);
                if (index % 2 == 1) {
                    int delay = random.nextInt(50);
                    CompletableFuture.delayedExecutor(delay, TimeUnit.MILLISECONDS).execute(() -> sealing.cancel(true));
                }
                all.add(sealing.thenCompose(sealed -> client.decryptAllAsync(sealed, DecryptOptions.defaults()))
                        .thenAccept(opened -> assertEquals(values, opened)));
            }
            for (int index = 0; index < all.size(); index++) {
                boolean isCancelled = index % 2 == 1;
                Throwable error = all.get(index).handle((value, failure) -> failure).join();
                assertTrue(error == null || (isCancelled && error.getCause() instanceof CancellationException), () -> "" + error);
            }
            until("no call is left", () -> client.callsInFlight() == 0);
            assertEquals(0, client.calls().bytesInFlight());
        }
    }

    @Test
    void aDeadlineEndsACallAtTheEngineToo() {
        try (Peer silent = new Peer(engine, socket -> drain(socket, new ConcurrentLinkedQueue<>()));
                LeafsealClient client = engine.client().addresses(silent.address).timeout(Duration.ofMillis(200)).build()) {
            assertEquals(Retry.LATER, rejects("deadline_exceeded", () -> client.encrypt("x")).retry());
            rejects("deadline_exceeded", () -> client.encrypt("x", ENCRYPT.timeout(Duration.ofMillis(20))));
            assertEquals("deadline_exceeded", failure(client.encryptAsync("x", ENCRYPT)).code());
            client.closeNow();
        }
        try (LeafsealClient client = engine.client().connect()) {
            List<String> values = Collections.nCopies(300_000, "x".repeat(32));
            rejects("deadline_exceeded", () -> client.encryptAll(values, ENCRYPT.keying(Keying.FIELD).timeout(Duration.ofMillis(60))));
            assertEquals("next", client.decrypt(client.encrypt("next")));
        }
    }

    @Test
    void anOverloadedEngineIsRetriedWithinBounds() {
        AtomicInteger retried = new AtomicInteger();
        ClientObserver observer = new ClientObserver() {
            @Override
            public void retried(String method, LeafsealException error) {
                assertEquals("overloaded", error.code());
                retried.incrementAndGet();
            }
        };
        try (Engine small = Engine.start("server.app_jobs_max=1", "server.admission_wait=0s");
                LeafsealClient client = small.client().connectionsMax(8).observer(observer).build()) {
            List<String> values = Collections.nCopies(5000, "x");
            List<CompletableFuture<List<String>>> futures = IntStream.range(0, 300)
                    .mapToObj(index -> client.encryptAllAsync(values, ENCRYPT.keying(Keying.FIELD))).toList();
            List<LeafsealException> outcomes = futures.stream().map(FaultsTest::outcome).toList();
            assertTrue(outcomes.stream().allMatch(error -> error == null || (error.code().equals("overloaded") && error.retry() == Retry.LATER)), outcomes::toString);
            assertTrue(outcomes.contains(null));
            assertTrue(retried.get() > 0 && retried.get() <= 10 + 300 / 10, retried + " retries");
        }
    }

    @Test
    void closeFinishesCallsOrFailsThem() {
        LeafsealClient client = engine.client().build();
        List<CompletableFuture<String>> futures = IntStream.range(0, 500).mapToObj(index -> client.encryptAsync("x", ENCRYPT)).toList();
        client.close();
        assertTrue(futures.stream().allMatch(future -> outcome(future) == null));
        rejects("closed", () -> client.encrypt("x"));
        client.close();
        LeafsealClient forced = engine.client().build();
        List<CompletableFuture<String>> others = IntStream.range(0, 500).mapToObj(index -> forced.encryptAsync("x", ENCRYPT)).toList();
        forced.closeNow();
        for (CompletableFuture<String> future : others) {
            LeafsealException error = outcome(future);
            assertTrue(error == null || error.code().equals("closed"), () -> "" + error);
        }
        // Nothing listens there: the call pauses before a retry, and a forced close does not wait for that.
        LeafsealClient lost = engine.client().addresses("127.0.0.1:1").backoff(Duration.ofMinutes(5), Duration.ofMinutes(5)).timeout(Duration.ofHours(1)).build();
        CompletableFuture<String> waiting = lost.encryptAsync("x", ENCRYPT);
        pause(200);
        lost.closeNow();
        assertEquals("closed", failure(waiting).code());
    }

    @Test
    void threadsEndWithTheClient() {
        long before = threads();
        for (int round = 0; round < 3; round++) {
            try (LeafsealClient client = engine.client().connect()) {
                client.encryptAsync("x", ENCRYPT).join();
            }
        }
        until("the threads have ended", () -> threads() <= before);
    }

    private static long threads() {
        return Thread.getAllStackTraces().keySet().stream().filter(thread -> thread.getName().startsWith("leafseal-client")).count();
    }
}
