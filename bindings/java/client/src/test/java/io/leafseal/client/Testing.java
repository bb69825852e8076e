package io.leafseal.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.leafseal.client.testing.Engine;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.file.Files;
import java.util.HexFormat;
import java.util.Set;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;
import javax.net.ssl.KeyManager;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLServerSocket;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManager;
import javax.net.ssl.X509TrustManager;
import org.junit.jupiter.api.function.Executable;

/** Shared by the tests: expected errors, conditions, and peers that misbehave. */
final class Testing {
    private Testing() {}

    /** Checks the code of an error, and returns the error. */
    static LeafsealException rejects(String code, Executable call) {
        LeafsealException error = assertThrows(LeafsealException.class, call);
        assertEquals(code, error.code(), error::getMessage);
        return error;
    }

    /** Waits for a future that fails, and returns its error. */
    static LeafsealException failure(CompletableFuture<?> future) {
        CompletionException error = assertThrows(CompletionException.class, future::join);
        return (LeafsealException) error.getCause();
    }

    /** Waits for a condition. */
    static void until(String what, BooleanSupplier condition) {
        for (int tries = 0; tries < 6000; tries++) {
            if (condition.getAsBoolean()) {
                return;
            }
            pause(10);
        }
        throw new AssertionError("never: " + what);
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    static void await(CountDownLatch latch) {
        try {
            assertTrue(latch.await(1, TimeUnit.MINUTES));
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Handles one connection to a {@link Peer}. */
    interface Serving {
        void serve(SSLSocket socket) throws IOException;
    }

    /** Answers every request: with `values` of one string, or with the error `unavailable` while that holds. Counts each kind. */
    static final class Answering implements Serving {
        private static final String VALUES = "c0 81 a6 76616c756573 91 a1 79";
        private static final String UNAVAILABLE =
                "83 a4 636f6465 ab 756e617661696c61626c65 a7 6d657373616765 a1 6d a5 7265747279 a9 656c73657768657265 c0";

        final AtomicInteger served = new AtomicInteger();
        final AtomicInteger refused = new AtomicInteger();
        private final BooleanSupplier refuses;

        Answering(BooleanSupplier refuses) {
            this.refuses = refuses;
        }

        @Override
        public void serve(SSLSocket socket) throws IOException {
            FrameReader reader = new FrameReader(socket.getInputStream(), 1 << 26);
            try {
                for (FrameReader.Frame frame = reader.next(); frame != null; frame = reader.next()) {
                    boolean isRefused = refuses.getAsBoolean();
                    (isRefused ? refused : served).incrementAndGet();
                    // The client writes every id in four bytes.
                    String id = HexFormat.of().formatHex(frame.bytes(), frame.from() + 2, frame.from() + 7);
                    String answer = "94 01 " + id + (isRefused ? UNAVAILABLE : VALUES);
                    socket.getOutputStream().write(HexFormat.of().parseHex(answer.replace(" ", "")));
                    socket.getOutputStream().flush();
                }
            } catch (FrameScanner.InvalidFrame | FrameReader.TooLarge error) {
                throw new IOException(error);
            }
        }
    }

    /** A TLS server with the engine's certificate that handles connections as it likes. */
    static final class Peer implements AutoCloseable {
        final String address;
        final Set<Socket> sockets = ConcurrentHashMap.newKeySet();
        private final SSLServerSocket server;

        Peer(Engine engine, Serving serving) {
            this(engine, serving, Tls.ALPN);
        }

        Peer(Engine engine, Serving serving, String alpn) {
            this(managers(engine), serving, alpn);
        }

        /** A peer that shows the certificates of these managers. */
        Peer(KeyManager[] shown, Serving serving, String alpn) {
            try {
                server = (SSLServerSocket) context(shown).getServerSocketFactory().createServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
                SSLParameters parameters = server.getSSLParameters();
                parameters.setApplicationProtocols(new String[] {alpn});
                parameters.setNeedClientAuth(true);
                server.setSSLParameters(parameters);
                address = "127.0.0.1:" + server.getLocalPort();
                start(() -> accept(serving));
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        private void accept(Serving serving) {
            try {
                while (true) {
                    SSLSocket socket = (SSLSocket) server.accept();
                    sockets.add(socket);
                    start(() -> {
                        try (socket) {
                            serving.serve(socket);
                        } catch (IOException error) {
                            // The client has gone, as most tests intend.
                        } finally {
                            sockets.remove(socket);
                        }
                    });
                }
            } catch (IOException error) {
                // The server was closed.
            }
        }

        private static void start(Runnable task) {
            Thread thread = new Thread(task);
            thread.setDaemon(true);
            thread.start();
        }

        private static KeyManager[] managers(Engine engine) {
            try {
                Pem certificate = Pem.file("server", engine.file("server.pem"));
                Pem key = Pem.file("server key", engine.file("server.key"));
                var store = java.security.KeyStore.getInstance("PKCS12");
                store.load(null, null);
                char[] password = "x".toCharArray();
                store.setKeyEntry("server", key.privateKey(key.read()), password, certificate.certificates(certificate.read()));
                var managers = javax.net.ssl.KeyManagerFactory.getInstance("PKIX");
                managers.init(store, password);
                return managers.getKeyManagers();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }

        private static SSLContext context(KeyManager[] shown) throws Exception {
            SSLContext context = SSLContext.getInstance("TLSv1.3");
            context.init(shown, new TrustManager[] {new AnyClient()}, null);
            return context;
        }

        void dropConnections() {
            try {
                for (Socket socket : sockets) {
                    socket.close();
                }
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }

        @Override
        public void close() {
            try {
                server.close();
                dropConnections();
            } catch (IOException error) {
                throw new UncheckedIOException(error);
            }
        }
    }

    /** Lets every client in: what the engine checks is not the subject of a peer that misbehaves. */
    private static final class AnyClient implements X509TrustManager {
        @Override
        public void checkClientTrusted(java.security.cert.X509Certificate[] chain, String type) {}

        @Override
        public void checkServerTrusted(java.security.cert.X509Certificate[] chain, String type) {}

        @Override
        public java.security.cert.X509Certificate[] getAcceptedIssuers() {
            return new java.security.cert.X509Certificate[0];
        }
    }

    static byte[] read(java.nio.file.Path file) {
        try {
            return Files.readAllBytes(file);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
