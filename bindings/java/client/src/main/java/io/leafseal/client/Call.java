package io.leafseal.client;

import io.leafseal.client.Answers.Response;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;

/** One call. Its state is guarded by the lock of {@link Calls}; its outcome is set once. */
final class Call<T> {
    final Request request;
    private final Network network;
    private final long began;
    final long timeoutMs;
    /** The deadline in the request, in milliseconds from the beginning; the engine gives up when the caller does. */
    long deadlineMs;
    private final long limit;
    private final Function<Response, T> read;
    /** Of an asynchronous call; otherwise `waiter` waits. */
    private final CompletableFuture<T> future;
    private final Thread waiter;
    private volatile Object outcome;

    boolean isWaiting;
    boolean hasEnded;
    /** The future's owner completes it: the outcome is not delivered. */
    boolean isDisowned;
    int retries;
    /** The connection of the last attempt. */
    Connection refusedBy;
    /** Bytes that count as in flight. */
    long charged;
    long answerBytes;
    String address;
    Connection connection;
    Connection.Slot slot;
    ScheduledFuture<?> timer;

    Call(Request request, long timeoutMs, Function<Response, T> read, CompletableFuture<T> future, Network network) {
        this.request = request;
        this.network = network;
        this.began = network.nanoTime();
        this.timeoutMs = timeoutMs;
        this.deadlineMs = timeoutMs;
        this.limit = began + timeoutMs * 1_000_000;
        this.read = read;
        this.future = future;
        this.waiter = future == null ? Thread.currentThread() : null;
    }

    boolean isAsync() {
        return future != null;
    }

    long nanosLeft() {
        return limit - network.nanoTime();
    }

    /** The time within which a retry may begin. */
    long retryNanosLeft() {
        return Math.min(nanosLeft(), began + deadlineMs * 1_000_000 - network.nanoTime());
    }

    /**
     * What is left of the deadline, as the protocol carries it. The engine counts it from when it has read the request, so the first attempt
     * has all of it, however long it waited for a connection.
     */
    long deadlineMsLeft() {
        long left = deadlineMs;
        if (retries > 0) {
            left = (began + deadlineMs * 1_000_000 - network.nanoTime() + 999_999) / 1_000_000;
        }
        return Math.max(1, Math.min(left, 0xffff_ffffL));
    }

    /** Passes the outcome to the caller: a response or an error. Called once, without the lock. */
    void deliver(Object result, Calls calls) {
        outcome = result;
        if (future == null) {
            LockSupport.unpark(waiter);
        } else if (!isDisowned) {
            calls.execute(this::complete);
        }
    }

    private void complete() {
        try {
            future.complete(result());
        } catch (LeafsealException error) {
            future.completeExceptionally(error);
        } catch (RuntimeException | Error error) {
            // Thrown by a receiver of reports.
            future.completeExceptionally(error);
        }
    }

    /** Waits in the calling thread. */
    T await(Calls calls) {
        boolean isStopped = false;
        boolean isInterrupted = false;
        while (outcome == null) {
            if (isStopped) {
                LockSupport.park(this);
                continue;
            }
            long left = nanosLeft();
            if (left > 0) {
                LockSupport.parkNanos(this, left);
            }
            isInterrupted = Thread.interrupted();
            if (isInterrupted) {
                calls.stop(this, new LeafsealException(ErrorCode.CANCELLED, "the calling thread was interrupted"));
                isStopped = true;
            } else if (nanosLeft() <= 0) {
                calls.expire(this);
                isStopped = true;
            }
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
        return result();
    }

    private T result() {
        if (outcome instanceof LeafsealException error) {
            throw future == null ? error.here() : error;
        }
        Response response = (Response) outcome;
        try {
            return read.apply(response);
        } finally {
            response.frame().wipe();
        }
    }

    ClientObserver.CallEnd end(LeafsealException error) {
        var duration = java.time.Duration.ofNanos(network.nanoTime() - began);
        return new ClientObserver.CallEnd(
                request.method, duration, retries, request.size, answerBytes, Optional.ofNullable(address), Optional.ofNullable(error));
    }
}
