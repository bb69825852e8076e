package io.leafseal.client;

import io.leafseal.client.Answers.Response;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import java.util.function.Function;

/**
 * The life of a call: waiting for its turn, in flight, retried, ended. Each call ends exactly once.
 *
 * <p>A call is retried only if no engine executes it: no connection could be opened, the connection ended before the engine read the request,
 * or it answered `unavailable` or `overloaded`. Retries of refused calls are limited over all calls, so that a client adds little to an
 * overload; those that go to another engine are not.
 *
 * <p>One lock guards calls, pool and connections. Nothing blocks and no foreign code runs under it: such work is collected as effects, which
 * the thread runs after it has released the lock.
 */
final class Calls {
    /** Cost of retrying a refused call, if an answer earns 1: at most a tenth more calls reach an overloaded engine. */
    private static final int RETRY_COST = 10;
    private static final int CREDIT_MAX = 100 * RETRY_COST;

    final ReentrantLock lock = new ReentrantLock();
    final Settings settings;
    final ScheduledThreadPoolExecutor timer;
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
    private int credit = 10 * RETRY_COST;
    private boolean isClosed;

    Calls(Settings settings) {
        this.settings = settings;
        ThreadFactory threads = threads("leafseal-client");
        timer = new ScheduledThreadPoolExecutor(1, threads);
        timer.setRemoveOnCancelPolicy(true);
        timer.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
        ownExecutor = settings.executor() == null ? completions(threads) : null;
        executor = ownExecutor == null ? settings.executor() : ownExecutor;
        pool = new Pool(this, threads);
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
        Call<T> call = new Call<>(request, timeout.toMillis(), read, null);
        start(call);
        return call.await(this);
    }

    <T> CompletableFuture<T> submit(Request request, Duration timeout, Function<Response, T> read) {
        CallFuture<T> future = new CallFuture<>();
        Call<T> call = new Call<>(request, timeout.toMillis(), read, future);
        future.call = call;
        start(call);
        return future;
    }

    /** Whoever completes or cancels it no longer waits for the engine. The call ends first: later, arrays of the caller are not read. */
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
                stopLocked(call, new LeafsealException(LeafsealException.ABORTED, "the future was completed by its owner"));
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

    ScheduledFuture<?> after(long nanos, Runnable change) {
        try {
            return timer.schedule(() -> locked(change), nanos, TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException error) {
            // The client is closed, and no call is left.
            return null;
        }
    }

    private void start(Call<?> call) {
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
            enqueue(call);
        });
    }

    private LeafsealException refusal(Call<?> call) {
        if (isClosed) {
            return new LeafsealException(LeafsealException.CLOSED, "the client is closed");
        }
        boolean mayBegin = waiting.isEmpty() && mayBegin() && pool.pick() != null;
        boolean hasRoom = waiting.size() < settings.requestsWaitingMax()
                && (waiting.isEmpty() || bytesWaiting + call.request.size <= settings.bytesWaitingMax());
        if (mayBegin || hasRoom) {
            return null;
        }
        String message = waiting.size() + " calls (" + bytesWaiting + " bytes) wait already; start fewer at a time, or raise requestsWaitingMax ("
                + settings.requestsWaitingMax() + ") or bytesWaitingMax (" + settings.bytesWaitingMax() + ")";
        return new LeafsealException(LeafsealException.BUSY, message, Retry.LATER, null);
    }

    private void enqueue(Call<?> call) {
        wait(call);
        pump();
    }

    private void wait(Call<?> call) {
        call.isWaiting = true;
        call.attemptsSeen = pool.attemptsFailed();
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

    private Call<?> next() {
        Iterator<Call<?>> calls = waiting.iterator();
        Call<?> call = calls.next();
        noLongerWaits(call);
        return call;
    }

    private boolean mayBegin() {
        return bytesInFlight < settings.bytesInFlightMax();
    }

    /** Begins waiting calls while there is a connection for them. */
    void pump() {
        while (!waiting.isEmpty() && mayBegin()) {
            Connection connection = pool.pick();
            if (connection == null) {
                if (!pool.isHopeful()) {
                    disappoint();
                }
                return;
            }
            Call<?> call = next();
            call.connection = connection;
            call.address = connection.name;
            call.charged = call.request.size;
            bytesInFlight += call.charged;
            call.slot = connection.send(call);
        }
    }

    /** The outcome of a request in flight: a response, or the error that ended its connection. */
    void outcome(Call<?> call, Object outcome, boolean isStarted) {
        release(call);
        if (outcome instanceof LeafsealException error) {
            boolean isUntouched = error.code().equals(LeafsealException.GOING_AWAY) || !isStarted;
            failed(call, error, isUntouched && error.retry() == Retry.ELSEWHERE ? Mode.ELSEWHERE : Mode.NO);
            return;
        }
        Response response = (Response) outcome;
        call.answerBytes = response.frame().size();
        LeafsealException error = response.error();
        if (error == null) {
            credit = Math.min(credit + 1, CREDIT_MAX);
            settle(call, response);
            return;
        }
        boolean isUnavailable = error.code().equals("unavailable");
        if (isUnavailable && (call.connection.isLeaving() || pool.hasOther())) {
            failed(call, error, Mode.ELSEWHERE);
        } else {
            failed(call, error, isUnavailable || error.code().equals("overloaded") ? Mode.CHARGED : Mode.NO);
        }
    }

    private enum Mode { NO, ELSEWHERE, CHARGED }

    /** Retries the call, or ends it. */
    private void failed(Call<?> call, LeafsealException error, Mode mode) {
        boolean isFirst = mode == Mode.ELSEWHERE && call.retries == 0;
        long advice = error.retryAfter().map(Duration::toNanos).orElse(0L);
        long pause = isFirst ? 0 : Math.max(settings.backoffNanos(call.retries), advice);
        boolean isAffordable = mode != Mode.CHARGED || credit >= RETRY_COST;
        if (mode == Mode.NO || call.retries >= settings.retriesMax() || pause >= call.nanosLeft() || !isAffordable) {
            settle(call, error);
            return;
        }
        if (mode == Mode.CHARGED) {
            credit -= RETRY_COST;
        }
        call.retries++;
        call.connection = null;
        call.slot = null;
        observe(observer -> observer.retried(call.request.method, error));
        paused.add(call);
        if (isFirst) {
            effect(() -> locked(() -> resume(call)));
        } else {
            after(pause, () -> resume(call));
        }
    }

    private void resume(Call<?> call) {
        if (paused.remove(call)) {
            enqueue(call);
        }
    }

    /** No engine is connected or being connected to: calls wait for the next attempt if that may help, others fail. */
    private void disappoint() {
        long pause = pool.retryInNanos();
        if (pause <= 0) {
            pool.grow();
            return;
        }
        LeafsealException error = pool.error();
        boolean isFinal = error.code().equals(LeafsealException.TLS_FAILED) || error.code().equals("forbidden");
        for (Call<?> call : new ArrayList<>(waiting)) {
            boolean isFailed = call.attemptsSeen != pool.attemptsFailed();
            if (isFinal || (isFailed && call.retries >= settings.retriesMax()) || pause >= call.nanosLeft()) {
                settle(call, error);
            } else if (isFailed) {
                call.retries++;
                call.attemptsSeen = pool.attemptsFailed();
            }
        }
    }

    /** The call's time is over. */
    void expire(Call<?> call) {
        locked(() -> expireLocked(call));
    }

    private void expireLocked(Call<?> call) {
        String where = call.connection == null ? "no connection was available" : "the engine did not answer";
        String message = where + " within " + call.timeoutMs + " ms";
        stopLocked(call, new LeafsealException(LeafsealException.DEADLINE_EXCEEDED, message, Retry.LATER, null));
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
        pump();
    }

    private void release(Call<?> call) {
        bytesInFlight -= call.charged;
        call.charged = 0;
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
        LeafsealException error = new LeafsealException(LeafsealException.CLOSED, "the client was closed");
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
        timer.shutdown();
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
