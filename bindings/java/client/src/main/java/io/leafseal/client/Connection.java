package io.leafseal.client;

import io.leafseal.client.Answers.ConnectionError;
import io.leafseal.client.Answers.GoingAway;
import io.leafseal.client.Answers.Message;
import io.leafseal.client.Answers.Response;
import io.leafseal.client.FrameReader.Frame;
import java.io.IOException;
import java.io.OutputStream;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ScheduledFuture;

/**
 * One TLS connection: many requests in flight, answers in any order.
 *
 * <p>Every request gets exactly one outcome: its answer, or the error that ended the connection. An id is reused only after its answer. One
 * thread reads and one writes, so that no caller blocks in the network. State is guarded by the lock of {@link Calls}.
 */
final class Connection {
    /** Messages that are written together end here, in bytes; a message may be longer. */
    private static final long BATCH_SIZE = 1 << 16;

    /** Codes of an engine that cannot serve requests, unlike others perhaps. */
    private static final Set<String> REFUSALS = Set.of(ErrorCode.UNAVAILABLE, ErrorCode.AUDIT_UNAVAILABLE);

    final Network.Place place;
    final String name;
    final Calls calls;
    private final Pool pool;
    private final Network.Transport transport;
    private final ArrayDeque<Outgoing> output = new ArrayDeque<>();
    private final List<Slot> slots = new ArrayList<>();
    private final ArrayDeque<Slot> free = new ArrayDeque<>();
    private int inFlight;
    private boolean hasAnswered;
    private boolean isDraining;
    private boolean isGraceful;
    /** Fires when the engine's chain expires. */
    private ScheduledFuture<?> expiry;
    private boolean hasExpired;
    private LeafsealException error;

    /** A request in flight. */
    static final class Slot {
        final int id;
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
    static final class Outgoing {
        final Slot slot;
        /** Null for `cancel`. */
        final Call<?> call;
        final long deadlineMs;
        private boolean isStarted;

        private Outgoing(Slot slot, Call<?> call) {
            this.slot = slot;
            this.call = call;
            this.deadlineMs = call == null ? 0 : call.deadlineMsLeft();
        }

        void writeTo(OutputStream out) throws IOException {
            if (call == null) {
                int id = slot.id;
                out.write(new byte[] {(byte) 0x93, 2, (byte) 0xa6, 'c', 'a', 'n', 'c', 'e', 'l', (byte) 0x91, (byte) 0xce});
                out.write(new byte[] {(byte) (id >> 24), (byte) (id >> 16), (byte) (id >> 8), (byte) id});
            } else {
                call.request.writeTo(out, slot.id, deadlineMs);
            }
        }
    }

    Connection(Network.Place place, String name, Calls calls, Pool pool, Network.Transport transport) {
        this.place = place;
        this.name = name;
        this.calls = calls;
        this.pool = pool;
        this.transport = transport;
    }

    void start() {
        transport.start(this);
    }

    /** Begins no more requests after this time, when the engine's chain expires. */
    void expireIn(long nanos) {
        expiry = calls.after(nanos, this::expire);
    }

    boolean isOpen() {
        return error == null;
    }

    /** Whether this side has closed it, idle. Final once the connection has ended. */
    boolean isGraceful() {
        return isGraceful;
    }

    boolean hasAnswered() {
        return hasAnswered;
    }

    /** Requests without an answer, cancelled ones included. */
    int inFlight() {
        return inFlight;
    }

    /** Queues a request; the connection is usable and has room. */
    Slot send(Call<?> call) {
        Slot slot = free.isEmpty() ? new Slot(slots.size()) : free.pop();
        if (slot.id == slots.size()) {
            slots.add(slot);
        }
        slot.call = call;
        slot.isInUse = true;
        slot.sentAt = calls.network.nanoTime();
        slot.outgoing = new Outgoing(slot, call);
        inFlight++;
        // The bytes are kept for the writing thread, which may still need them after the call has ended.
        call.request.retain();
        queue(slot.outgoing);
        return slot;
    }

    private void queue(Outgoing message) {
        output.add(message);
        transport.wake();
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
            end(new LeafsealException(ErrorCode.CONNECTION_LOST, message, Retry.ELSEWHERE, null));
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
        endIfUnused();
        calls.pump();
    }

    /** Closes the connection; requests in flight fail with this error. */
    void end(LeafsealException reason) {
        end(reason, -1, null);
    }

    /** As {@link #end}, with a reason of its own for one request. */
    void end(LeafsealException reason, long id, LeafsealException own) {
        if (error != null) {
            return;
        }
        error = reason;
        if (expiry != null) {
            expiry.cancel(false);
        }
        transport.wake();
        if (!isGraceful) {
            calls.effect(transport::close);
        }
        boolean wasUsable = pool.withdraw(this);
        if (reason.source() == LeafsealException.Source.ENGINE) {
            pool.avoid(place, "connection_error", reason.code());
        }
        boolean isElsewhere = isRefusal(reason) && pool.mayDialElsewhere();
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
                calls.outcome(call, slot.id == id ? own : reason, slot.outgoing.isStarted, isElsewhere);
            }
        }
        slots.clear();
        inFlight = 0;
        pool.ended(this, reason);
        if (wasUsable) {
            calls.pump();
        }
    }

    /** Closes an idle connection. */
    void close() {
        if (error == null) {
            isGraceful = true;
            end(new LeafsealException(ErrorCode.CLOSED, "the client closed the connection"));
            calls.effect(transport::closeGracefully);
        }
    }

    /** Begins no more requests; the connection closes when those in flight are answered. */
    void drain() {
        isDraining = true;
        endIfUnused();
    }

    /** Handles a message of the engine. */
    void take(Message message, Frame frame) {
        if (error != null) {
            frame.wipe();
        } else if (message instanceof Response response) {
            deliver(response);
        } else if (message instanceof GoingAway away) {
            drain(away.reason());
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
        Call<?> call = slot.call;
        if (call == null) {
            response.frame().wipe();
        } else {
            boolean isElsewhere = judge(call, response.error(), slot.sentAt);
            slot.call = null;
            calls.outcome(call, response, true, isElsewhere);
        }
        vacate(slot);
    }

    /** Notes what an answer says about the engine, and returns whether another one may serve the request. */
    private boolean judge(Call<?> call, LeafsealException failure, long sentAt) {
        if (failure == null) {
            if (Decisions.earns(call.request.method)) {
                pool.served(place, sentAt);
            }
            return false;
        }
        pool.avoid(place, "answer", failure.code());
        return isDraining || (isRefusal(failure) && pool.mayDialElsewhere());
    }

    /** Whether an engine cannot serve requests, unlike others perhaps. */
    private static boolean isRefusal(LeafsealException error) {
        return error != null && error.source() == LeafsealException.Source.ENGINE && REFUSALS.contains(error.code());
    }

    /**
     * Begins no more requests: the engine has announced {@code going_away}, or its chain has expired. Requests of which nothing is
     * written go elsewhere; those in flight are finished.
     */
    private void drain(String reason) {
        if (error != null) {
            return;
        }
        isDraining = true;
        if (reason.equals("closed")) {
            end(drainError());
            return;
        }
        pool.avoid(place, "going_away", reason);
        pool.withdraw(this);
        for (Slot slot : new ArrayList<>(slots)) {
            Call<?> call = slot.call;
            if (call != null && !slot.outgoing.isStarted) {
                output.remove(slot.outgoing);
                calls.effect(call.request::release);
                slot.call = null;
                calls.outcome(call, drainError(), false, true);
                vacate(slot);
            }
        }
        endIfUnused();
        calls.pump();
    }

    /** Ends a draining connection once no call waits for an answer on it. */
    void endIfUnused() {
        boolean isWaited = slots.stream().anyMatch(slot -> slot.call != null);
        if (isDraining && error == null && output.isEmpty() && !isWaited) {
            end(drainError());
        }
    }

    /** The error of requests that were not started on a draining connection. */
    private LeafsealException drainError() {
        String message = hasExpired
                ? "a certificate of the engine's chain has expired"
                : "the engine closed the connection before it started the request";
        return new LeafsealException(ErrorCode.GOING_AWAY, message, Retry.ELSEWHERE, null);
    }

    /** A certificate of the engine's chain has expired. */
    private void expire() {
        if (error == null) {
            hasExpired = true;
            drain("age");
        }
    }

    /** Takes the next messages to write. Returns false if there are none. */
    boolean takeBatch(List<Outgoing> batch) {
        long size = 0;
        while (error == null && !output.isEmpty() && size < BATCH_SIZE) {
            Outgoing message = output.remove();
            message.isStarted = true;
            size += message.call == null ? 1 : message.call.request.size;
            batch.add(message);
        }
        return !batch.isEmpty();
    }

    static void releaseAll(List<Outgoing> batch) {
        for (Outgoing message : batch) {
            if (message.call != null) {
                message.call.request.release();
            }
        }
        batch.clear();
    }
}
