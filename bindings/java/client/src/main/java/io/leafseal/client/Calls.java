package io.leafseal.client;

import io.leafseal.client.Answers.Response;
import io.leafseal.client.Rules.Action;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * The life of a call: waiting, in flight, retried, ended. Each call ends exactly once.
 *
 * <p>A call is retried as {@link Rules} says, only if no engine executes it. Retries of refused calls are limited over all calls, so that a
 * client adds little to an overload; those that go to another engine are not.
 *
 * <p>One lock guards calls, pool and connections. Nothing blocks and no foreign code runs under it: such work is collected as effects, which
 * the thread runs after it has released the lock.
 */
final class Calls {
    /** A call that is ready to be made. */
    record Prepared<T>(Request request, Duration timeout, Function<Response, T> read) {}

    final ReentrantLock lock = new ReentrantLock();
    final Settings settings;
    final Network network;
    private final Pool pool;
    private final ConcurrentLinkedQueue<Runnable> effects = new ConcurrentLinkedQueue<>();
    private final Executor executor;
    private final ExecutorService ownExecutor;
    private final Condition ended = lock.newCondition();
    private final LinkedHashSet<Call<?>> waiting = new LinkedHashSet<>();
    /** Calls that pause before a retry. */
    private final LinkedHashSet<Call<?>> paused = new LinkedHashSet<>();
    private long bytesWaiting;
    private long bytesInFlight;
    private int active;
    private int credit = Rules.CREDIT_START;
    private boolean isClosed;

    Calls(Settings settings) {
        // A random address first: otherwise all clients would connect to the same engine first.
        this(settings, new Sockets(settings, threads("leafseal-client")), ThreadLocalRandom.current().nextInt(settings.addresses().size()));
    }

    Calls(Settings settings, Network network, int firstAddress) {
        this.settings = settings;
        this.network = network;
        ownExecutor = settings.executor() == null ? completions(threads("leafseal-calls")) : null;
        executor = ownExecutor == null ? settings.executor() : ownExecutor;
        pool = new Pool(this, network, firstAddress);
    }

    private static ExecutorService completions(ThreadFactory threads) {
        int count = Math.max(2, Runtime.getRuntime().availableProcessors());
        // The queue holds at most one task for each call.
        var pool = new ThreadPoolExecutor(count, count, 10, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), threads);
        pool.allowCoreThreadTimeOut(true);
        return pool;
    }

    /** Daemon threads: an idle client does not keep the process alive. */
    static ThreadFactory threads(String name) {
        AtomicInteger number = new AtomicInteger();
        return task -> {
            Thread thread = new Thread(task, name + "-" + number.incrementAndGet());
            thread.setDaemon(true);
            return thread;
        };
    }

    <T> T run(Request request, Duration timeout, Function<Response, T> read) {
        Call<T> call = new Call<>(request, timeout.toMillis(), read, null, network);
        start(call);
        return call.await(this);
    }

    <T> CompletableFuture<T> submit(Request request, Duration timeout, Function<Response, T> read) {
        CallFuture<T> future = new CallFuture<>();
        Call<T> call = new Call<>(request, timeout.toMillis(), read, future, network);
        future.call = call;
        start(call);
        return future;
    }

    /** Completing or cancelling it ends the call first: after that, arrays of the caller are not read. */
    private final class CallFuture<T> extends CompletableFuture<T> {
        private Call<T> call;

        @Override
        public boolean complete(T value) {
            disown(call);
            return super.complete(value);
        }

        @Override
        public boolean completeExceptionally(Throwable error) {
            disown(call);
            return super.completeExceptionally(error);
        }

        @Override
        public boolean cancel(boolean mayInterrupt) {
            disown(call);
            return super.cancel(mayInterrupt);
        }

        @Override
        public <U> CompletableFuture<U> newIncompleteFuture() {
            return new CompletableFuture<>();
        }
    }

    private void disown(Call<?> call) {
        if (!call.hasEnded) {
            locked(() -> {
                call.isDisowned = !call.hasEnded;
                stopLocked(call, new LeafsealException(ErrorCode.CANCELLED, "the future was completed by its owner"));
            });
        }
    }

    /** Runs a change under the lock, and afterwards the effects that it has collected. */
    void locked(Runnable change) {
        lock.lock();
        try {
            change.run();
        } finally {
            lock.unlock();
        }
        for (Runnable effect = effects.poll(); effect != null; effect = effects.poll()) {
            effect.run();
        }
    }

    /** Collects work for after the lock. */
    void effect(Runnable work) {
        effects.add(work);
    }

    /** Notifies the observers, after the lock. */
    void observe(Consumer<ClientObserver> notice) {
        for (ClientObserver observer : settings.observers()) {
            effect(() -> {
                try {
                    notice.accept(observer);
                } catch (RuntimeException error) {
                    // Metrics and logs are never a reason to fail.
                }
            });
        }
    }

    /** Runs a completion; in the calling thread if the executor refuses it. */
    void execute(Runnable completion) {
        try {
            executor.execute(completion);
        } catch (RejectedExecutionException error) {
            completion.run();
        }
    }

    /** Makes a change later; null if the client is closed and no call is left. */
    ScheduledFuture<?> after(long nanos, Runnable change) {
        return network.after(nanos, () -> locked(change));
    }

    /** Begins a call, which ends by its outcome. */
    void start(Call<?> call) {
        locked(() -> {
            active++;
            LeafsealException refusal = refusal(call);
            if (refusal != null) {
                settle(call, refusal);
                return;
            }
            if (call.isAsync()) {
                call.timer = after(call.nanosLeft(), () -> expireLocked(call));
            }
            begin(call);
        });
    }

    private LeafsealException refusal(Call<?> call) {
        if (isClosed) {
            return new LeafsealException(ErrorCode.CLOSED, "the client is closed");
        }
        int count = waiting.size();
        boolean mayBegin = count == 0 && mayBegin() && pool.hasRoom(call);
        boolean hasRoom = count < settings.requestsWaitingMax()
                && (count == 0 || bytesWaiting + call.request.size <= settings.bytesWaitingMax());
        if (mayBegin || hasRoom) {
            return null;
        }
        String message = count + " calls (" + bytesWaiting + " bytes) wait already; start fewer at a time, or raise requestsWaitingMax ("
                + settings.requestsWaitingMax() + ") or bytesWaitingMax (" + settings.bytesWaitingMax() + ")";
        return new LeafsealException(ErrorCode.BUSY, message, Retry.LATER, null);
    }

    /** Begins a call, or lets it wait. */
    private void begin(Call<?> call) {
        if (mayBegin() && tryBegin(call)) {
            return;
        }
        call.isWaiting = true;
        waiting.add(call);
        bytesWaiting += call.request.size;
    }

    private void noLongerWaits(Call<?> call) {
        if (call.isWaiting) {
            call.isWaiting = false;
            waiting.remove(call);
            bytesWaiting -= call.request.size;
        }
    }

    private boolean mayBegin() {
        return bytesInFlight < settings.bytesInFlightMax();
    }

    /** Begins waiting calls while there is a connection for them. Where the first one waits, all others would. */
    void pump() {
        while (!waiting.isEmpty() && mayBegin() && tryBegin(waiting.iterator().next())) {
            // It no longer waits.
        }
    }

    /** Sends a call or fails it; returns false if it waits. */
    private boolean tryBegin(Call<?> call) {
        Pool.Choice choice = pool.choose(call);
        if (choice.error() == null && choice.connection() == null) {
            return false;
        }
        noLongerWaits(call);
        if (choice.error() != null) {
            String code = choice.error().code();
            failed(call, choice.error(), Decisions.action(code, code, false, false));
        } else {
            send(call, choice.connection());
        }
        return true;
    }

    private void send(Call<?> call, Connection connection) {
        call.connection = connection;
        call.address = connection.name;
        call.charged = call.request.size;
        bytesInFlight += call.charged;
        call.slot = connection.send(call);
    }

    /** The outcome of a request in flight: a response, or the error that ended its connection. */
    void outcome(Call<?> call, Object outcome, boolean isSent, boolean isElsewhere) {
        release(call);
        if (isSent) {
            call.refusedBy = call.connection;
        }
        if (outcome instanceof LeafsealException error) {
            String event = error.source() == LeafsealException.Source.ENGINE ? "connection_error" : error.code();
            failed(call, error, Decisions.action(event, error.code(), isSent, isElsewhere));
            return;
        }
        Response response = (Response) outcome;
        call.answerBytes = response.frame().size();
        LeafsealException error = response.error();
        if (error == null) {
            if (Decisions.earns(call.request.method)) {
                credit = Math.min(credit + Rules.CREDIT_EARNED, Rules.CREDIT_MAX);
            }
            settle(call, response);
        } else {
            failed(call, error, Decisions.action("answer", error.code(), true, isElsewhere));
        }
    }

    /** Retries the call, or ends it. */
    private void failed(Call<?> call, LeafsealException error, Action action) {
        long pause = pause(call, error, action);
        boolean isAffordable = action != Action.RETRY_CHARGED || credit >= Rules.RETRY_COST;
        if (action == Action.FAIL || call.retries >= settings.retriesMax() || pause >= call.retryNanosLeft() || !isAffordable) {
            settle(call, error);
            return;
        }
        if (action == Action.RETRY_CHARGED) {
            credit -= Rules.RETRY_COST;
        }
        call.retries++;
        call.connection = null;
        call.slot = null;
        observe(observer -> observer.retried(call.request.method, error));
        paused.add(call);
        if (pause == 0) {
            effect(() -> locked(() -> resume(call)));
        } else {
            after(pause, () -> resume(call));
        }
    }

    private long pause(Call<?> call, LeafsealException error, Action action) {
        if (action == Action.FAIL || (action == Action.RETRY_ELSEWHERE && call.retries == 0)) {
            return 0;
        }
        // Before the next attempt to connect the call would only get the same error.
        long least = action == Action.RETRY_LATER ? pool.dialPause() : error.retryAfter().map(TimeUnit.NANOSECONDS::convert).orElse(0L);
        return Math.max(backoffNanos(call.retries), least);
    }

    /** The pause after earlier failures, in nanoseconds. Jitter over its upper part, so that clients do not all return at once. */
    long backoffNanos(int failures) {
        double longest = settings.backoffMin().toNanos() * Math.pow(Rules.BACKOFF_FACTOR, Math.min(failures, 30));
        double pause = Math.min(longest, settings.backoffMax().toNanos());
        return (long) (pause * (Rules.JITTER_FROM + (Rules.JITTER_TO - Rules.JITTER_FROM) * network.random()));
    }

    private void resume(Call<?> call) {
        if (paused.remove(call)) {
            begin(call);
        }
    }

    /** The call's time is over. */
    void expire(Call<?> call) {
        locked(() -> expireLocked(call));
    }

    private void expireLocked(Call<?> call) {
        String where = call.connection == null ? "no connection was available" : "the engine did not answer";
        String message = where + " within " + call.timeoutMs + " ms";
        stopLocked(call, new LeafsealException(ErrorCode.DEADLINE_EXCEEDED, message, Retry.LATER, null));
    }

    /** The caller stops waiting. */
    void stop(Call<?> call, LeafsealException error) {
        if (call.hasEnded) {
            return;
        }
        locked(() -> stopLocked(call, error));
    }

    private void stopLocked(Call<?> call, LeafsealException error) {
        if (call.hasEnded) {
            return;
        }
        if (call.slot != null) {
            call.connection.cancel(call.slot);
            release(call);
        }
        settle(call, error);
    }

    /** Ends a request's share of the bytes in flight. Calls that waited for it begin. */
    private void release(Call<?> call) {
        boolean wasFull = !mayBegin();
        bytesInFlight -= call.charged;
        call.charged = 0;
        if (wasFull) {
            pump();
        }
    }

    private void settle(Call<?> call, Object outcome) {
        noLongerWaits(call);
        paused.remove(call);
        call.hasEnded = true;
        call.request.end();
        active--;
        if (call.timer != null) {
            call.timer.cancel(false);
        }
        LeafsealException error = outcome instanceof LeafsealException failure ? failure : null;
        observe(observer -> observer.ended(call.end(error)));
        effect(() -> {
            call.request.release();
            call.deliver(outcome, this);
        });
        if (active == 0) {
            ended.signalAll();
        }
    }

    /** Calls that have not ended. */
    int count() {
        lock.lock();
        try {
            return active;
        } finally {
            lock.unlock();
        }
    }

    /** Bytes of requests in flight. */
    long bytesInFlight() {
        lock.lock();
        try {
            return bytesInFlight;
        } finally {
            lock.unlock();
        }
    }

    /** Requests in flight on each open connection. */
    List<Integer> load() {
        lock.lock();
        try {
            return pool.load();
        } finally {
            lock.unlock();
        }
    }

    /** Accepts no more calls, and returns when those under way have ended. With `isForced` they fail. */
    void close(boolean isForced) {
        LeafsealException error = new LeafsealException(ErrorCode.CLOSED, "the client was closed");
        locked(() -> {
            isClosed = true;
            if (isForced) {
                abandon(error);
            }
        });
        boolean isInterrupted = !awaitCalls();
        locked(() -> {
            if (isInterrupted) {
                abandon(error);
            }
            pool.close(null);
        });
        network.close();
        if (ownExecutor != null) {
            ownExecutor.shutdown();
        }
        if (isInterrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** Fails all calls: those that wait or pause before a retry, and those in flight with their connections. */
    private void abandon(LeafsealException error) {
        new ArrayList<>(waiting).forEach(call -> settle(call, error));
        new ArrayList<>(paused).forEach(call -> settle(call, error));
        pool.close(error);
    }

    /** Returns false if the thread was interrupted. */
    private boolean awaitCalls() {
        lock.lock();
        try {
            while (active > 0) {
                ended.await();
            }
            return true;
        } catch (InterruptedException error) {
            return false;
        } finally {
            lock.unlock();
        }
    }
}
