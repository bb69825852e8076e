package io.leafseal.client;

import io.leafseal.client.Answers.Message;
import io.leafseal.client.Connection.Outgoing;
import io.leafseal.client.FrameReader.Frame;
import java.io.IOException;
import java.io.OutputStream;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import javax.net.ssl.SSLException;

/** The socket of a connection: one thread reads and one writes, so that no caller blocks in the network. */
final class SocketTransport implements Network.Transport {
    /** Plaintext of a TLS record (RFC 8446, section 5.1). */
    private static final int RECORD_SIZE = 1 << 14;
    /** How long a graceful close may take, and how long a failed write waits for the reason to be read. */
    private static final long CLOSE_NANOS = 1_000_000_000;

    private final Tls.Sockets sockets;
    private final Settings settings;
    private final Network network;
    private final ThreadFactory threads;
    private Calls calls;
    private Connection connection;
    private Condition hasOutput;

    SocketTransport(Tls.Sockets sockets, Settings settings, Network network, ThreadFactory threads) {
        this.sockets = sockets;
        this.settings = settings;
        this.network = network;
        this.threads = threads;
    }

    @Override
    public void start(Connection started) {
        connection = started;
        calls = started.calls;
        hasOutput = calls.lock.newCondition();
        // The chain is still valid in its last second.
        Duration left = Duration.between(Instant.now(), sockets.expiry().plusSeconds(1));
        connection.expireIn(TimeUnit.NANOSECONDS.convert(left));
        threads.newThread(this::read).start();
        threads.newThread(this::write).start();
    }

    @Override
    public void wake() {
        hasOutput.signal();
    }

    @Override
    public void close() {
        try {
            // Not that of TLS: its `close` waits for a write that may never end.
            sockets.plain().close();
        } catch (IOException ignored) {
            // It is closed for us in any case.
        }
    }

    /** The writing thread says goodbye and closes the socket; if it cannot, the timer does. */
    @Override
    public void closeGracefully() {
        if (network.after(CLOSE_NANOS, this::close) == null) {
            close();
        }
    }

    private void read() {
        FrameReader reader = null;
        try {
            reader = new FrameReader(sockets.secure().getInputStream(), settings.answerSizeMax());
            for (Frame frame = reader.next(); frame != null; frame = reader.next()) {
                Frame current = frame;
                Message message = Answers.parse(frame);
                calls.locked(() -> connection.take(message, current));
            }
            endLocked(null);
        } catch (IOException failure) {
            endLocked(failure);
        } catch (FrameReader.TooLarge large) {
            String message = "the answer exceeds answerSizeMax (" + settings.answerSizeMax() + " bytes)";
            var own = new LeafsealException(ErrorCode.TOO_LARGE, message);
            var others = new LeafsealException(
                    ErrorCode.CONNECTION_LOST, "the connection was closed: another answer was too large", Retry.ELSEWHERE, null);
            calls.locked(() -> connection.end(large.id < 0 ? own : others, large.id, own));
        } catch (FrameScanner.InvalidFrame invalid) {
            calls.locked(() -> connection.end(LeafsealException.protocol("the peer is no engine: " + invalid.getMessage())));
        } catch (LeafsealException failure) {
            calls.locked(() -> connection.end(failure));
        } catch (OutOfMemoryError memory) {
            calls.locked(() -> connection.end(new LeafsealException(ErrorCode.TOO_LARGE, "no memory for the answer")));
        } finally {
            if (reader != null) {
                reader.wipe();
            }
        }
    }

    private void endLocked(IOException failure) {
        calls.locked(() -> connection.end(lost(failure)));
    }

    private void write() {
        List<Outgoing> batch = new ArrayList<>();
        RecordOutput out = null;
        try {
            out = new RecordOutput(sockets.secure().getOutputStream());
            while (awaitBatch(batch)) {
                for (Outgoing message : batch) {
                    message.writeTo(out);
                }
                out.flush();
                Connection.releaseAll(batch);
                calls.locked(connection::endIfUnused);
            }
            if (connection.isGraceful()) {
                sockets.secure().shutdownOutput();
                close();
            }
        } catch (IOException failure) {
            // The other thread can usually read why: a refused certificate, or a notification.
            calls.after(CLOSE_NANOS, () -> connection.end(lost(failure)));
        } finally {
            Connection.releaseAll(batch);
            if (out != null) {
                Pem.wipe(out.buffer);
            }
        }
    }

    /** Waits for messages. Returns false when the connection has ended. */
    private boolean awaitBatch(List<Outgoing> batch) {
        calls.lock.lock();
        try {
            while (connection.isOpen() && !connection.takeBatch(batch)) {
                hasOutput.awaitUninterruptibly();
            }
            return connection.isOpen();
        } finally {
            calls.lock.unlock();
        }
    }

    /** The error of a connection that ended. With TLS 1.3 a refused client certificate is noticed only here. */
    private LeafsealException lost(IOException failure) {
        if (failure instanceof SSLException && !connection.hasAnswered() && Tls.message(failure).contains("fatal alert")) {
            return Tls.tlsFailed("the engine refused the connection: " + failure.getMessage() + "; check the client's certificate", failure);
        }
        String message = failure == null ? "the engine closed the connection" : "the connection failed: " + Tls.message(failure);
        return new LeafsealException(ErrorCode.CONNECTION_LOST, message, Retry.ELSEWHERE, failure);
    }

    /** Collects what is written into whole records: each is a system call. */
    private static final class RecordOutput extends OutputStream {
        private final OutputStream out;
        private final byte[] buffer = new byte[RECORD_SIZE];
        private int used;

        RecordOutput(OutputStream out) {
            this.out = out;
        }

        @Override
        public void write(int octet) throws IOException {
            write(new byte[] {(byte) octet}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int from, int length) throws IOException {
            int at = from;
            int left = length;
            while (left > 0) {
                int step = Math.min(left, RECORD_SIZE - used);
                System.arraycopy(bytes, at, buffer, used, step);
                used += step;
                at += step;
                left -= step;
                if (used == RECORD_SIZE) {
                    flush();
                }
            }
        }

        @Override
        public void flush() throws IOException {
            if (used > 0) {
                int size = used;
                used = 0;
                out.write(buffer, 0, size);
                Arrays.fill(buffer, 0, size, (byte) 0);
            }
        }
    }
}
