package io.leafseal.client;

import io.leafseal.client.ClientObserver.ConnectionEvent;
import io.leafseal.client.ClientObserver.ConnectionKind;
import io.leafseal.client.Settings.Address;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.Socket;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Predicate;

/**
 * The connections to all engines: which one a request uses, when another is opened, and how long a failing address is not used.
 *
 * <p>A request goes to the open connection with the fewest requests in flight. An address without enough connections gets another in the
 * background while all are busy. After a failure an address is ejected for a time that doubles, with jitter. So is an engine that refers to
 * others: its connections are a last resort for this time. A host name with several records is several engines; its records are looked up
 * again from time to time, and after a failure.
 *
 * <p>State is guarded by the lock of {@link Calls}.
 */
final class Pool {
    private static final long RESOLVED_NANOS = 30_000_000_000L;
    /** The JDK caches answers of the name service for this long or longer, so that more frequent look-ups are useless. */
    private static final long RESOLVED_NANOS_MIN = 1_000_000_000L;

    private final Calls calls;
    private final Settings settings;
    private final ThreadFactory threads;
    private final List<Host> hosts = new ArrayList<>();
    private int turn = ThreadLocalRandom.current().nextInt(1 << 16);
    private long attemptsFailed;
    private boolean isClosed;

    /** What can fail: an engine, or the look-up of a host name. */
    private abstract static class Ejectable {
        int failures;
        /** By `System.nanoTime()`. */
        long ejectedUntil = System.nanoTime();
        LeafsealException lastError;

        boolean isEjected(long now) {
            return ejectedUntil - now > 0;
        }
    }

    /** A configured address. */
    private static final class Host extends Ejectable {
        final Address address;
        final List<Engine> engines = new ArrayList<>();
        boolean isResolving;
        boolean isStale = true;
        long resolvedAt;

        Host(Address address) {
            this.address = address;
        }
    }

    /** One engine. */
    private static final class Engine extends Ejectable {
        final Host host;
        final InetSocketAddress address;
        final String name;
        final Set<Connection> connections = new LinkedHashSet<>();
        boolean isDialing;
        /** The host name no longer resolves to it. */
        boolean isGone;
        /** Used only if no other engine is available before this time. */
        long avoidedUntil = System.nanoTime();
        /** It referred to another engine, and has served no later request. */
        boolean hasRefused;
        long refusedAt;

        Engine(Host host, InetAddress ip) {
            this.host = host;
            this.address = new InetSocketAddress(ip, host.address.port());
            String shown = ip.getHostAddress();
            this.name = (shown.contains(":") ? "[" + shown + "]" : shown) + ":" + host.address.port();
        }

        /** Whether its connections are a last resort. */
        boolean isRefusing(long now) {
            return hasRefused && isEjected(now);
        }

        int usable() {
            int count = 0;
            for (Connection connection : connections) {
                if (connection.isOpen() && !connection.isLeaving()) {
                    count++;
                }
            }
            return count;
        }
    }

    Pool(Calls calls, ThreadFactory threads) {
        this.calls = calls;
        this.settings = calls.settings;
        this.threads = threads;
        for (Address address : settings.addresses()) {
            hosts.add(new Host(address));
        }
    }

    private List<Engine> engines() {
        List<Engine> engines = new ArrayList<>();
        hosts.forEach(host -> engines.addAll(host.engines));
        return engines;
    }

    /** The connection for the next request, if one is available now. */
    Connection pick() {
        long now = System.nanoTime();
        Connection best = leastBusy(now, false);
        if (best == null || best.inFlight() > 0) {
            grow();
        }
        return best != null || isHopeful(engine -> !engine.isRefusing(now)) ? best : leastBusy(now, true);
    }

    private Connection leastBusy(long now, boolean isRefusing) {
        Connection best = null;
        for (Host host : hosts) {
            for (Engine engine : host.engines) {
                if (engine.isRefusing(now) != isRefusing) {
                    continue;
                }
                for (Connection connection : engine.connections) {
                    if (connection.takesRequests() && (best == null || connection.inFlight() < best.inFlight())) {
                        best = connection;
                    }
                }
            }
        }
        return best;
    }

    /** Whether a connection is open or being opened. */
    boolean isHopeful() {
        return isHopeful(engine -> true);
    }

    private boolean isHopeful(Predicate<Engine> which) {
        for (Host host : hosts) {
            if (host.isResolving && host.engines.isEmpty()) {
                return true;
            }
            for (Engine engine : host.engines) {
                if ((engine.isDialing || engine.usable() > 0) && which.test(engine)) {
                    return true;
                }
            }
        }
        return false;
    }

    /** Whether an engine may serve what another has just refused. */
    boolean hasOther() {
        long now = System.nanoTime();
        return engines().stream().anyMatch(engine -> !engine.isGone && !engine.isEjected(now));
    }

    /** Time until an ejected address is tried again; 0 if one may be tried now. */
    long retryInNanos() {
        long now = System.nanoTime();
        long least = Long.MAX_VALUE;
        for (Host host : hosts) {
            if (host.engines.isEmpty()) {
                least = Math.min(least, host.ejectedUntil - now);
            }
            for (Engine engine : host.engines) {
                least = Math.min(least, engine.ejectedUntil - now);
            }
        }
        return Math.max(0, least);
    }

    /** Attempts to connect that have failed so far. */
    long attemptsFailed() {
        return attemptsFailed;
    }

    /** Why no connection is available. A network error is preferred to one of certificates, because it may pass. */
    LeafsealException error() {
        LeafsealException best = null;
        List<Ejectable> all = new ArrayList<>(engines());
        all.addAll(hosts);
        for (Ejectable place : all) {
            LeafsealException error = place.lastError;
            if (error != null && (best == null || best.code().equals(LeafsealException.TLS_FAILED))) {
                best = error;
            }
        }
        return best != null ? best : new LeafsealException(LeafsealException.CONNECT_FAILED, "no engine is available", Retry.ELSEWHERE, null);
    }

    /** Requests in flight on each open connection. */
    List<Integer> load() {
        return engines().stream().flatMap(engine -> engine.connections.stream()).map(Connection::inFlight).toList();
    }

    /** Opens a connection to the engine with the fewest, if one may get another. */
    void grow() {
        if (isClosed) {
            return;
        }
        long now = System.nanoTime();
        hosts.forEach(host -> resolve(host, now));
        List<Engine> engines = engines();
        Engine best = null;
        for (int step = 0; step < engines.size(); step++) {
            Engine engine = engines.get((turn + step) % engines.size());
            boolean may = !engine.isDialing && !engine.isGone && !engine.isEjected(now) && engine.usable() < settings.connectionsMax();
            if (may && (best == null || rank(engine, now) < rank(best, now))) {
                best = engine;
            }
        }
        // An engine that shuts down accepts connections for a while; it is a last resort.
        if (best == null || (isAvoided(best, now) && hasOther(engines, best))) {
            return;
        }
        turn = engines.indexOf(best) + 1;
        best.isDialing = true;
        Engine chosen = best;
        calls.effect(() -> threads.newThread(() -> dial(chosen)).start());
    }

    private int rank(Engine engine, long now) {
        return engine.usable() + (isAvoided(engine, now) ? settings.connectionsMax() : 0);
    }

    private static boolean isAvoided(Engine engine, long now) {
        return engine.avoidedUntil - now > 0;
    }

    private static boolean hasOther(List<Engine> engines, Engine best) {
        return engines.stream().anyMatch(engine -> engine != best && (engine.usable() > 0 || engine.isDialing));
    }

    /** Looks a host name up, if that is due. */
    private void resolve(Host host, long now) {
        long age = now - host.resolvedAt;
        boolean isDue = host.isStale ? host.engines.isEmpty() || age > RESOLVED_NANOS_MIN : age > RESOLVED_NANOS && !host.address.isLiteral();
        if (!isDue || host.isResolving || host.isEjected(now)) {
            return;
        }
        host.isResolving = true;
        Runnable lookUp = () -> {
            try {
                InetAddress[] found = InetAddress.getAllByName(host.address.host());
                calls.locked(() -> resolved(host, found));
            } catch (UnknownHostException error) {
                calls.locked(() -> unresolved(host, error));
            }
        };
        // Only a name can block the thread.
        calls.effect(host.address.isLiteral() ? lookUp : () -> threads.newThread(lookUp).start());
    }

    private void resolved(Host host, InetAddress[] found) {
        host.isResolving = false;
        host.isStale = false;
        host.failures = 0;
        host.lastError = null;
        host.resolvedAt = System.nanoTime();
        List<InetAddress> records = Arrays.asList(found);
        host.engines.removeIf(engine -> engine.connections.isEmpty() && !engine.isDialing && !records.contains(engine.address.getAddress()));
        host.engines.forEach(engine -> engine.isGone = !records.contains(engine.address.getAddress()));
        for (InetAddress record : records) {
            if (host.engines.stream().noneMatch(engine -> engine.address.getAddress().equals(record))) {
                host.engines.add(new Engine(host, record));
            }
        }
        grow();
        calls.pump();
    }

    private void unresolved(Host host, UnknownHostException error) {
        host.isResolving = false;
        String message = host.address.host() + ": the host name cannot be resolved";
        var failure = new LeafsealException(LeafsealException.CONNECT_FAILED, message, Retry.ELSEWHERE, error);
        attemptFailed(host, failure);
        notice(host.address.host() + ":" + host.address.port(), ConnectionKind.FAILED, failure);
        calls.pump();
    }

    private void dial(Engine engine) {
        long timeoutMs = settings.connectTimeout().toMillis();
        AtomicBoolean isLate = new AtomicBoolean();
        Socket plain = new Socket(Proxy.NO_PROXY);
        ScheduledFuture<?> guard = null;
        try {
            // A handshake has no time limit of its own.
            guard = calls.timer.schedule(() -> {
                isLate.set(true);
                close(plain);
            }, timeoutMs, TimeUnit.MILLISECONDS);
            String name = settings.serverName() != null ? settings.serverName() : engine.host.address.host();
            Tls.Sockets sockets = settings.tls().connect(plain, engine.address, name, (int) timeoutMs);
            guard.cancel(false);
            Connection connection = new Connection(engine.name, calls, sockets, new Connection.Listener() {
                @Override
                public void answered(LeafsealException error, long sentAt) {
                    Pool.this.answered(engine, error, sentAt);
                }

                @Override
                public void ended(Connection ended, LeafsealException error) {
                    Pool.this.ended(engine, ended, error);
                }
            });
            calls.locked(() -> opened(engine, connection));
        } catch (RuntimeException error) {
            close(plain);
            if (guard != null) {
                guard.cancel(false);
            }
            calls.locked(() -> failed(engine, isLate.get() ? late(engine, timeoutMs) : named(engine, error)));
        }
    }

    private static LeafsealException late(Engine engine, long timeoutMs) {
        String message = engine.name + ": no connection within " + timeoutMs + " ms";
        return new LeafsealException(LeafsealException.CONNECT_FAILED, message, Retry.ELSEWHERE, null);
    }

    private static LeafsealException named(Engine engine, RuntimeException error) {
        if (error instanceof LeafsealException known) {
            return new LeafsealException(known.code(), engine.name + ": " + known.getMessage(), known.retry(), known);
        }
        return new LeafsealException(LeafsealException.CONNECT_FAILED, engine.name + ": " + Tls.message(error), Retry.ELSEWHERE, error);
    }

    private static void close(Socket socket) {
        try {
            socket.close();
        } catch (IOException ignored) {
            // It is closed for us in any case.
        }
    }

    private void opened(Engine engine, Connection connection) {
        engine.isDialing = false;
        engine.connections.add(connection);
        notice(engine.name, ConnectionKind.OPENED, null);
        connection.start(threads);
        if (isClosed) {
            connection.close();
        }
        calls.pump();
    }

    private void failed(Engine engine, LeafsealException error) {
        engine.isDialing = false;
        attemptFailed(engine, error);
        notice(engine.name, ConnectionKind.FAILED, error);
        calls.pump();
    }

    private void answered(Engine engine, LeafsealException error, long sentAt) {
        long now = System.nanoTime();
        if (error != null && error.retry() == Retry.ELSEWHERE) {
            // One pause for all requests in flight.
            if (!engine.isRefusing(now)) {
                engine.hasRefused = true;
                engine.refusedAt = now;
                eject(engine, error);
            }
        } else if (error == null && engine.hasRefused && sentAt - engine.refusedAt > 0) {
            engine.hasRefused = false;
            engine.failures = 0;
            engine.ejectedUntil = now;
        }
    }

    private void ended(Engine engine, Connection connection, LeafsealException error) {
        if (!engine.connections.remove(connection)) {
            return;
        }
        if (connection.isShutdown()) {
            engine.avoidedUntil = System.nanoTime() + settings.shutdownAvoid().toNanos();
        }
        if (connection.hasAnswered()) {
            if (!engine.hasRefused) {
                engine.failures = 0;
            }
        } else if (!error.code().equals(LeafsealException.CLOSED)) {
            // An engine that ends connections before it answers must not be reconnected to in a busy loop.
            attemptFailed(engine, error);
        }
        notice(engine.name, ConnectionKind.CLOSED, error);
        calls.pump();
    }

    private void attemptFailed(Ejectable place, LeafsealException error) {
        attemptsFailed++;
        eject(place, error);
    }

    private void eject(Ejectable place, LeafsealException error) {
        place.lastError = error;
        long pause = settings.backoffNanos(place.failures);
        place.ejectedUntil = System.nanoTime() + pause;
        place.failures++;
        // Calls may wait for it.
        calls.after(pause, calls::pump);
        if (place instanceof Engine engine) {
            engine.host.isStale = !engine.host.address.isLiteral();
        }
    }

    private void notice(String address, ConnectionKind kind, LeafsealException error) {
        calls.observe(observer -> observer.connection(new ConnectionEvent(address, kind, Optional.ofNullable(error))));
    }

    /** Ends every connection with this error, or closes idle ones gracefully. Opens no more. */
    void close(LeafsealException error) {
        isClosed = true;
        for (Engine engine : engines()) {
            for (Connection connection : new ArrayList<>(engine.connections)) {
                if (error == null) {
                    connection.close();
                } else {
                    connection.end(error);
                }
            }
        }
    }
}
