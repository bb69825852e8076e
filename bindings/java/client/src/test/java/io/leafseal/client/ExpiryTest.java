package io.leafseal.client;

import static io.leafseal.client.Testing.await;
import static io.leafseal.client.Testing.pause;
import static io.leafseal.client.Testing.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.leafseal.client.Chains.Chain;
import io.leafseal.client.Chains.EngineKeys;
import io.leafseal.client.Chains.Link;
import io.leafseal.client.ClientObserver.ConnectionEvent;
import io.leafseal.client.ClientObserver.ConnectionKind;
import io.leafseal.client.Testing.Answering;
import io.leafseal.client.Testing.Peer;
import io.leafseal.client.Testing.Serving;
import io.leafseal.client.testing.Engine;
import java.security.cert.X509Certificate;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Engines with chains in which a certificate expires while a connection is open. */
class ExpiryTest {
    /** How long the certificate is valid that expires first. */
    private static final Duration SOON = Duration.ofSeconds(4);

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

    private static Instant soon() {
        return Instant.now().plus(SOON);
    }

    private static Instant late() {
        return Instant.now().plus(Duration.ofDays(1));
    }

    /** Counts the connections of a client. */
    private static final class Seen implements ClientObserver {
        final AtomicInteger opened = new AtomicInteger();
        final AtomicInteger closed = new AtomicInteger();
        final AtomicReference<LeafsealException> reason = new AtomicReference<>();

        @Override
        public void connection(ConnectionEvent event) {
            if (event.kind() == ConnectionKind.OPENED) {
                opened.incrementAndGet();
            } else if (event.kind() == ConnectionKind.CLOSED) {
                reason.set(event.error().orElse(null));
                closed.incrementAndGet();
            }
        }
    }

    private static Peer peer(EngineKeys shown, Serving serving) {
        return new Peer(shown.managers(), serving, Tls.ALPN);
    }

    private static LeafsealClientBuilder client(Peer peer, Seen seen, Link... roots) {
        // Sessions resume only while more than this is left.
        Duration attempt = Duration.ofSeconds(1);
        return engine.client().addresses(peer.address).ca(Chains.pem(roots)).observer(seen).connectTimeout(attempt);
    }

    private static Answering answering() {
        return new Answering(() -> false);
    }

    @ParameterizedTest
    @ValueSource(strings = {"root", "between", "leaf"})
    void noRequestBeginsOnAConnectionWhoseChainHasExpired(String part) {
        Chain chain = Chains.chain(
                part.equals("root") ? soon() : late(), part.equals("between") ? soon() : late(), part.equals("leaf") ? soon() : late());
        Seen seen = new Seen();
        try (Peer peer = peer(new EngineKeys(chain, chain.between()), answering());
                LeafsealClient client = client(peer, seen, chain.root()).retriesMax(0).build()) {
            client.encrypt("x");
            assertEquals(1, seen.opened.get());
            AtomicReference<LeafsealException> failure = new AtomicReference<>();
            until("the connection is left", () -> {
                try {
                    client.encrypt("x");
                } catch (LeafsealException error) {
                    // A call that had the connection as the chain expired is for another connection: only retries would bring it there.
                    if (error.code() != ErrorCode.GOING_AWAY) {
                        failure.set(error);
                    }
                }
                return failure.get() != null;
            });
            assertEquals(ErrorCode.TLS_FAILED, failure.get().code(), failure.get()::getMessage);
            assertTrue(failure.get().getMessage().contains("expired"), failure.get()::getMessage);
            assertEquals(1, seen.opened.get());
            assertTrue(seen.reason.get().getMessage().contains("a certificate of the engine's chain has expired"));
        }
    }

    /** The peer would resume the session of the first connection. */
    @Test
    void anIdleConnectionIsClosedAndAnEngineWithARenewedChainIsConnectedToAgain() {
        Chain old = Chains.chain(late(), soon(), late());
        Chain renewed = Chains.chain(late(), late(), late());
        EngineKeys shown = new EngineKeys(old, old.between());
        Seen seen = new Seen();
        try (Peer peer = peer(shown, answering()); LeafsealClient client = client(peer, seen, old.root(), renewed.root()).build()) {
            client.encrypt("x");
            shown.set(renewed, renewed.between());
            until("the idle connection is closed", () -> seen.closed.get() == 1);
            client.encrypt("x");
            assertEquals(2, seen.opened.get());
            assertEquals(1, seen.closed.get());
        }
    }

    @Test
    void aResumedSessionEndsWithItsChain() {
        Chain old = Chains.chain(late(), soon(), late());
        Seen seen = new Seen();
        try (Peer peer = peer(new EngineKeys(old, old.between()), answering()); LeafsealClient client = client(peer, seen, old.root()).build()) {
            client.encrypt("x");
            peer.dropConnections();
            until("the connection is lost", () -> seen.closed.get() == 1);
            client.encrypt("x");
            assertEquals(2, seen.opened.get());
            until("the resumed connection is left", () -> seen.closed.get() == 2);
            assertTrue(seen.reason.get().getMessage().contains("a certificate of the engine's chain has expired"));
        }
    }

    /** Requests that are written in part are finished where they are; those of which nothing is written go elsewhere. */
    @Test
    void requestsInFlightAreFinishedAfterTheChainHasExpired() {
        Chain old = Chains.chain(late(), soon(), late());
        Chain renewed = Chains.chain(late(), late(), late());
        EngineKeys shown = new EngineKeys(old, old.between());
        Seen seen = new Seen();
        CountDownLatch goesOn = new CountDownLatch(1);
        AtomicInteger accepted = new AtomicInteger();
        Answering answering = answering();
        Serving serving = socket -> {
            if (accepted.incrementAndGet() == 1) {
                socket.startHandshake();
                await(goesOn);
            }
            answering.serve(socket);
        };
        try (Peer peer = peer(shown, serving);
                LeafsealClient client = client(peer, seen, old.root(), renewed.root()).connectionsMax(1).build()) {
            // More than the buffers of the sockets take, and than a batch.
            CompletableFuture<?> large = client.encryptAsync("x".repeat(32 << 20), EncryptOptions.defaults());
            until("it is in flight", () -> seen.opened.get() == 1 && client.calls().bytesInFlight() > 0);
            pause(200);
            shown.set(renewed, renewed.between());
            assertEquals("y", client.encrypt("x"));
            assertEquals(2, seen.opened.get());
            assertFalse(large.isDone());
            assertEquals(0, seen.closed.get());
            goesOn.countDown();
            assertEquals("y", large.join());
            until("the connection is closed", () -> seen.closed.get() == 1);
        }
    }

    @Test
    void theLongestLivedOfSeveralChainsCountsAndOtherCertificatesDoNot() {
        Instant end = soon();
        Chain chain = Chains.chain(late(), end, late());
        Link again = Chains.link("between", chain.root(), late(), true, chain.between().keys());
        Link other = Chains.chain(late(), late(), late()).root();
        Link unrelated = Chains.link("between", other, Instant.now().minusSeconds(60), true, Chains.newKeys());
        Seen seen = new Seen();
        try (Peer peer = peer(new EngineKeys(chain, chain.between(), again, unrelated), answering());
                LeafsealClient client = client(peer, seen, chain.root()).build()) {
            client.encrypt("x");
            pause(Duration.between(Instant.now(), end).toMillis() + 2000);
            client.encrypt("x");
            assertEquals(1, seen.opened.get());
        }
    }

    /** In whichever order the JDK finds the chains: of the same authority, and of two. */
    @Test
    void aChainIsProlongedByOthers() throws Exception {
        Chain chain = Chains.chain(late(), soon(), late());
        Link other = Chains.chain(late(), late(), late()).root();
        Link first = chain.between();
        for (Link root : List.of(chain.root(), other)) {
            Link again = Chains.link("between", root, late().minusSeconds(60), true, first.keys());
            for (List<Link> sent : List.of(List.of(chain.leaf(), first, again), List.of(chain.leaf(), again, first))) {
                ChainExpiry chains = new ChainExpiry(certificates(List.of(chain.root(), other)));
                assertEquals(again.certificate().getNotAfter().toInstant(), chains.of(certificates(sent)));
            }
        }
    }

    private static X509Certificate[] certificates(List<Link> links) {
        return links.stream().map(Link::certificate).toArray(X509Certificate[]::new);
    }
}
