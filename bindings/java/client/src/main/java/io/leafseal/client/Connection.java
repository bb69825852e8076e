package io.leafseal.client;

import io.leafseal.client.Answers.ConnectionError;
import io.leafseal.client.Answers.GoingAway;
import io.leafseal.client.Answers.Message;
import io.leafseal.client.Answers.Response;
import io.leafseal.client.FrameReader.Frame;
import java.io.IOException;
import java.io.OutputStream;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import javax.net.ssl.SSLException;

/**
 * One TLS connection: many requests in flight, answers in any order.
 *
 * <p>Every request gets exactly one outcome: its answer, or the error that ended the connection. An id is reused only after its answer. One
 * thread reads and one writes, so that no caller blocks in the network. State is guarded by the lock of {@link Calls}.
 */
final class Connection {
    /** Messages that are written together end here, in bytes; a message may be longer. */
    private static final long BATCH_SIZE = 1 << 16;
    /** Plaintext of a TLS record (RFC 8446, section 5.1). */
    private static final int RECORD_SIZE = 1 << 14;
    /** How long a graceful close may take, and how long a failed write waits for the reason to be read. */
    private static final long CLOSE_NANOS = 1_000_000_000;

    final String name;
    private final Calls calls;
    private final Tls.Sockets sockets;
    private final Listener listener;
    private final Condition hasOutput;
    private final ArrayDeque<Outgoing> output = new ArrayDeque<>();
    private final List<Slot> slots = new ArrayList<>();
    private final ArrayDeque<Slot> free = new ArrayDeque<>();
    private int inFlight;
    private boolean hasAnswered;
    private boolean isLeaving;
    private boolean isShutdown;
    private boolean isGraceful;
    /** Fires when the engine's chain expires. */
    private ScheduledFuture<?> expiry;
    private boolean hasExpired;
    private LeafsealException error;

    /** What a connection reports to its pool, under the lock. */
    interface Listener {
        /** An answer arrived to a request of this time, by `System.nanoTime()`; without an error if the request succeeded. */
        void answered(LeafsealException error, long sentAt);

        void ended(Connection connection, LeafsealException error);
    }

    /** The place of a request in flight. */
    static final class Slot {
        private final int id;
        /** Null while the slot is free, and after the caller stopped waiting. */
        private Call<?> call;
        private Outgoing outgoing;
        private boolean isInUse;
        private long sentAt;
        private ScheduledFuture<?> watch;

        private Slot(int id) {
            this.id = id;
        }
    }

    /** A message to write: a request of a slot, or `cancel` for it. */
    private static final class Outgoing {
        private final Slot slot;
        private final Call<?> call;
        private boolean isStarted;

        private Outgoing(Slot slot, Call<?> call) {
            this.slot = slot;
            this.call = call;
        }

        private void writeTo(OutputStream out) throws IOException {
            if (call == null) {
                int id = slot.id;
                out.write(new byte[] {(byte) 0x93, 2, (byte) 0xa6, 'c', 'a', 'n', 'c', 'e', 'l', (byte) 0x91, (byte) 0xce});
                out.write(new byte[] {(byte) (id >> 24), (byte) (id >> 16), (byte) (id >> 8), (byte) id});
            } else {
                call.request.writeTo(out, slot.id, call.deadlineMs());
            }
        }
    }

    Connection(String name, Calls calls, Tls.Sockets sockets, Listener listener) {
        this.name = name;
        this.calls = calls;
        this.sockets = sockets;
        this.listener = listener;
        this.hasOutput = calls.lock.newCondition();
    }

    void start(ThreadFactory threads) {
        // The chain is still valid in its last second.
        Duration left = Duration.between(Instant.now(), sockets.expiry().plusSeconds(1));
        expiry = calls.after(TimeUnit.NANOSECONDS.convert(left), this::expire);
        threads.newThread(this::read).start();
        threads.newThread(this::write).start();
    }

    boolean isOpen() {
        return error == null;
    }

    /** Whether the engine has announced that it leaves the connection, or its chain has expired. */
    boolean isLeaving() {
        return isLeaving;
    }

    /** Whether the engine announced its shutdown here. */
    boolean isShutdown() {
        return isShutdown;
    }

    boolean hasAnswered() {
        return hasAnswered;
    }

    /** Requests without an answer, cancelled ones included. */
    int inFlight() {
        return inFlight;
    }

    /** Whether requests may begin here. */
    boolean takesRequests() {
        return error == null && !isLeaving && inFlight < calls.settings.requestsInFlightMax();
    }

    /** Queues a request; {@link #takesRequests} holds. */
    Slot send(Call<?> call) {
        Slot slot = free.isEmpty() ? new Slot(slots.size()) : free.pop();
        if (slot.id == slots.size()) {
            slots.add(slot);
        }
        slot.call = call;
        slot.isInUse = true;
        slot.sentAt = System.nanoTime();
        slot.outgoing = new Outgoing(slot, call);
        inFlight++;
        // The bytes are kept for the writing thread, which may still need them after the call has ended.
        call.request.retain();
        queue(slot.outgoing);
        return slot;
    }

    private void queue(Outgoing message) {
        output.add(message);
        hasOutput.signal();
    }

    /** The caller of a request in flight stops waiting: the engine is asked to stop it. It is still answered, and must be in time. */
    void cancel(Slot slot) {
        if (error != null || slot.call == null) {
            return;
        }
        slot.call = null;
        if (!slot.outgoing.isStarted) {
            // No byte was written, so there is nothing to cancel.
            output.remove(slot.outgoing);
            Request request = slot.outgoing.call.request;
            calls.effect(request::release);
            vacate(slot);
            return;
        }
        queue(new Outgoing(slot, null));
        String message = "the engine does not answer on this connection";
        slot.watch = calls.after(calls.settings.abandonedTimeout().toNanos(), () -> {
            end(new LeafsealException(LeafsealException.CONNECTION_LOST, message, Retry.ELSEWHERE, null));
        });
    }

    private void vacate(Slot slot) {
        if (slot.watch != null) {
            slot.watch.cancel(false);
        }
        slot.call = null;
        slot.outgoing = null;
        slot.watch = null;
        slot.isInUse = false;
        free.push(slot);
        inFlight--;
        if (isLeaving && inFlight == 0) {
            leave("closed");
        }
        calls.pump();
    }

    /** Closes the connection; requests in flight fail with this error. */
    void end(LeafsealException reason) {
        end(reason, -1, null);
    }

    /** As {@link #end}, with a reason of its own for one request. */
    private void end(LeafsealException reason, long id, LeafsealException own) {
        if (error != null) {
            return;
        }
        error = reason;
        if (expiry != null) {
            expiry.cancel(false);
        }
        hasOutput.signal();
        if (!isGraceful) {
            calls.effect(this::closeSocket);
        }
        List<Request> unwritten = output.stream().filter(message -> message.call != null).map(message -> message.call.request).toList();
        output.clear();
        calls.effect(() -> unwritten.forEach(Request::release));
        for (Slot slot : slots) {
            if (slot.watch != null) {
                slot.watch.cancel(false);
            }
            Call<?> call = slot.call;
            slot.call = null;
            if (call != null) {
                calls.outcome(call, slot.id == id ? own : reason, slot.outgoing.isStarted);
            }
        }
        slots.clear();
        inFlight = 0;
        listener.ended(this, reason);
    }

    /** Closes an idle connection. */
    void close() {
        if (error == null) {
            isGraceful = true;
            end(new LeafsealException(LeafsealException.CLOSED, "the client closed the connection"));
            calls.effect(this::closeLater);
        }
    }

    /** The writing thread says goodbye and closes the socket; if it cannot, this does. */
    private void closeLater() {
        try {
            calls.timer.schedule(this::closeSocket, CLOSE_NANOS, TimeUnit.NANOSECONDS);
        } catch (java.util.concurrent.RejectedExecutionException rejected) {
            closeSocket();
        }
    }

    private void closeSocket() {
        try {
            // Not that of TLS: its `close` waits for a write that may never end.
            sockets.plain().close();
        } catch (IOException ignored) {
            // It is closed for us in any case.
        }
    }

    private void read() {
        FrameReader reader = null;
        try {
            reader = new FrameReader(sockets.secure().getInputStream(), calls.settings.answerSizeMax());
            for (Frame frame = reader.next(); frame != null; frame = reader.next()) {
                Frame current = frame;
                Message message = Answers.parse(frame);
                calls.locked(() -> take(message, current));
            }
            endLocked(null);
        } catch (IOException failure) {
            endLocked(failure);
        } catch (FrameReader.TooLarge large) {
            String message = "the answer exceeds answerSizeMax (" + calls.settings.answerSizeMax() + " bytes)";
            var own = new LeafsealException(LeafsealException.TOO_LARGE, message);
            var others = new LeafsealException(
                    LeafsealException.CONNECTION_LOST, "the connection was closed: another answer was too large", Retry.ELSEWHERE, null);
            calls.locked(() -> end(large.id < 0 ? own : others, large.id, own));
        } catch (FrameScanner.InvalidFrame invalid) {
            calls.locked(() -> end(LeafsealException.protocol("the peer is no engine: " + invalid.getMessage())));
        } catch (LeafsealException failure) {
            calls.locked(() -> end(failure));
        } catch (OutOfMemoryError memory) {
            calls.locked(() -> end(new LeafsealException(LeafsealException.TOO_LARGE, "no memory for the answer")));
        } finally {
            if (reader != null) {
                reader.wipe();
            }
        }
    }

    private void endLocked(IOException failure) {
        calls.locked(() -> end(lost(failure)));
    }

    private void take(Message message, Frame frame) {
        if (error != null) {
            frame.wipe();
        } else if (message instanceof Response response) {
            deliver(response);
        } else if (message instanceof GoingAway away) {
            leave(away.reason());
        } else if (message instanceof ConnectionError ending) {
            end(ending.error());
        }
    }

    private void deliver(Response response) {
        Slot slot = response.id() < slots.size() ? slots.get((int) response.id()) : null;
        if (slot == null || !slot.isInUse || !slot.outgoing.isStarted) {
            response.frame().wipe();
            end(LeafsealException.protocol("the engine sent an answer without a request"));
            return;
        }
        hasAnswered = true;
        listener.answered(response.error(), slot.sentAt);
        Call<?> call = slot.call;
        if (call == null) {
            response.frame().wipe();
        } else {
            calls.outcome(call, response, true);
        }
        vacate(slot);
    }

    private void leave(String reason) {
        if (error != null) {
            return;
        }
        isShutdown |= reason.equals("shutdown");
        boolean isNew = !isLeaving;
        isLeaving = true;
        if (reason.equals("closed") || inFlight == 0) {
            end(left());
        } else if (isNew) {
            calls.pump();
        }
    }

    /** The error of requests that were not started on a connection that was left. */
    private LeafsealException left() {
        String message = hasExpired
                ? "a certificate of the engine's chain has expired"
                : "the engine left the connection before it started the request";
        return new LeafsealException(LeafsealException.GOING_AWAY, message, Retry.ELSEWHERE, null);
    }

    /**
     * Leaves the connection because a certificate of the engine's chain has expired. Requests of which nothing is written go elsewhere;
     * those in flight are finished.
     */
    private void expire() {
        if (error != null) {
            return;
        }
        hasExpired = true;
        leave("age");
        for (Slot slot : new ArrayList<>(slots)) {
            Call<?> call = slot.call;
            if (call != null && !slot.outgoing.isStarted) {
                output.remove(slot.outgoing);
                calls.effect(call.request::release);
                calls.outcome(call, left(), false);
                vacate(slot);
            }
        }
    }

    private void write() {
        List<Outgoing> batch = new ArrayList<>();
        RecordOutput out = null;
        try {
            out = new RecordOutput(sockets.secure().getOutputStream());
            while (takeBatch(batch)) {
                for (Outgoing message : batch) {
                    message.writeTo(out);
                }
                out.flush();
                releaseAll(batch);
            }
            if (isGraceful) {
                sockets.secure().shutdownOutput();
                closeSocket();
            }
        } catch (IOException failure) {
            // The other thread can usually read why: a refused certificate, or a notification.
            calls.after(CLOSE_NANOS, () -> end(lost(failure)));
        } finally {
            releaseAll(batch);
            if (out != null) {
                Pem.wipe(out.buffer);
            }
        }
    }

    /** Waits for messages. Returns false when the connection has ended. */
    private boolean takeBatch(List<Outgoing> batch) {
        calls.lock.lock();
        try {
            while (output.isEmpty() && error == null) {
                hasOutput.awaitUninterruptibly();
            }
            long size = 0;
            while (error == null && !output.isEmpty() && size < BATCH_SIZE) {
                Outgoing message = output.remove();
                message.isStarted = true;
                size += message.call == null ? 1 : message.call.request.size;
                batch.add(message);
            }
            return error == null;
        } finally {
            calls.lock.unlock();
        }
    }

    private static void releaseAll(List<Outgoing> batch) {
        for (Outgoing message : batch) {
            if (message.call != null) {
                message.call.request.release();
            }
        }
        batch.clear();
    }

    /** The error of a connection that ended. With TLS 1.3 a refused client certificate is noticed only here. */
    private LeafsealException lost(IOException failure) {
        if (failure instanceof SSLException && !hasAnswered && Tls.message(failure).contains("fatal alert")) {
            return Tls.tlsFailed("the engine refused the connection: " + failure.getMessage() + "; check the client's certificate", failure);
        }
        String message = failure == null ? "the engine closed the connection" : "the connection failed: " + Tls.message(failure);
        return new LeafsealException(LeafsealException.CONNECTION_LOST, message, Retry.ELSEWHERE, failure);
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
