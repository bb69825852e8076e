package io.leafseal.client;

import io.leafseal.client.ClientObserver.ConnectionEvent;
import io.leafseal.client.ClientObserver.ConnectionKind;
import io.leafseal.client.Network.Place;
import io.leafseal.client.Network.Transport;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.IntStream;

/**
 * The connections of a client: which one a request uses, when another is opened, and which engines are avoided. The algorithm is that of
 * every client: {@code vectors/client/README.md}.
 *
 * <p>State is guarded by the lock of {@link Calls}.
 */
final class Pool {
    private final Calls calls;
    private final Settings settings;
    private final Network network;
    /** Connections on which calls may begin, oldest first. */
    private final List<Connection> usable = new ArrayList<>();
    /** Connections that have not ended. */
    private final Set<Connection> open = new LinkedHashSet<>();
    private final Map<Place, Avoidance> avoided = new HashMap<>();
    /** Number of DNS records of each address at its last look-up. */
    private final int[] records;
    private boolean isDialing;
    private boolean dialsElsewhere;
    private int nextAddress;
    /** Dials in a row of which every address failed, with the last error. */
    private int dialFailures;
    private final Pause failed = new Pause();
    private LeafsealException failure;
    /** Dials in a row that missed every address that was not avoided. */
    private int stuckFailures;
    private final Pause stuck = new Pause();
    private final Pause renewed = new Pause();
    /** Whether the last connection that became unusable had answered; null if a dial has begun since then. */
    private Boolean lastUnusable;
    private int unusedInRow;
    private boolean isClosed;

    /** A time by {@link Network#nanoTime} until which something is not done. */
    private static final class Pause {
        private boolean isSet;
        private long until;

        void set(long time) {
            isSet = true;
            until = time;
        }

        void clear() {
            isSet = false;
        }

        long left(long now) {
            return isSet ? Math.max(0, until - now) : 0;
        }
    }

    /** A place is used only if there is no other until a time, or until a request that was sent since then has succeeded. */
    private record Avoidance(long since, long until, boolean untilSuccess) {}

    /** The choice for a request: a connection, or an error; with neither it waits. */
    record Choice(Connection connection, LeafsealException error) {
        static final Choice WAITS = new Choice(null, null);
    }

    Pool(Calls calls, Network network, int firstAddress) {
        this.calls = calls;
        this.settings = calls.settings;
        this.network = network;
        records = new int[settings.addresses().size()];
        nextAddress = firstAddress;
    }

    /** Where the next request goes. */
    Choice choose(Call<?> call) {
        Connection best = best(call);
        if (best == null) {
            if (failed.left(network.nanoTime()) > 0) {
                return new Choice(null, failure);
            }
            dial(false);
            return Choice.WAITS;
        }
        if (isAvoided(best.place) && mayDialElsewhere()) {
            dial(true);
            return Choice.WAITS;
        }
        if (best.inFlight() > 0 && usable.size() < settings.connectionsMax()) {
            dial(false);
        }
        return isFull(best) ? Choice.WAITS : new Choice(best, null);
    }

    /** Whether a request would be sent now. */
    boolean hasRoom(Call<?> call) {
        Connection best = best(call);
        return best != null && !isFull(best);
    }

    private boolean isFull(Connection connection) {
        return connection.inFlight() >= settings.requestsInFlightMax();
    }

    /** To a place that is not avoided, other than the one that refused the call, with the fewest requests in flight, the oldest; or null. */
    private Connection best(Call<?> call) {
        Connection best = null;
        for (Connection connection : usable) {
            if (best == null || isBetter(connection, best, call)) {
                best = connection;
            }
        }
        return best;
    }

    private boolean isBetter(Connection one, Connection other, Call<?> call) {
        boolean isAvoided = isAvoided(one.place);
        if (isAvoided != isAvoided(other.place)) {
            return !isAvoided;
        }
        boolean isFull = isFull(one);
        if (isFull != isFull(other)) {
            return !isFull;
        }
        if ((one == call.refusedBy) != (other == call.refusedBy)) {
            return other == call.refusedBy;
        }
        return one.inFlight() < other.inFlight();
    }

    /** Uses a place only if there is no other, if the rules say so of an event there. */
    void avoid(Place place, String event, String code) {
        Rules.Avoid rule = Decisions.avoid(event, code);
        if (rule != null) {
            boolean lasts = isAvoided(place) && !avoided.get(place).untilSuccess;
            long now = network.nanoTime();
            avoided.put(place, new Avoidance(now, now + Rules.AVOIDED.toNanos(), rule.untilSuccess() && !lasts));
        }
    }

    /** A request has succeeded, which ends the avoidance of a place that refused others before it was sent. */
    void served(Place place, long sentAt) {
        Avoidance avoidance = avoided.get(place);
        if (avoidance != null && avoidance.untilSuccess && avoidance.since - sentAt <= 0) {
            avoided.remove(place);
        }
    }

    private boolean isAvoided(Place place) {
        if (avoided.isEmpty()) {
            return false;
        }
        Avoidance avoidance = avoided.get(place);
        if (avoidance != null && avoidance.until - network.nanoTime() <= 0) {
            avoided.remove(place);
            return false;
        }
        return avoidance != null;
    }

    private boolean isAvoidedLocked(Place place) {
        calls.lock.lock();
        try {
            return isAvoided(place);
        } finally {
            calls.lock.unlock();
        }
    }

    /** Whether all known places of an address are avoided. */
    private boolean isAddressAvoided(int address) {
        List<Place> places = avoided.keySet().stream().filter(place -> place.address() == address).toList();
        return places.stream().filter(this::isAvoided).count() >= Math.max(1, records[address]);
    }

    /** Whether a new connection may reach an engine that is not avoided: at another address, or behind a balancer. */
    boolean mayDialElsewhere() {
        if (isDialing && dialsElsewhere) {
            return true;
        }
        long now = network.nanoTime();
        return stuck.left(now) == 0 && failed.left(now) == 0 && (renewed.left(now) == 0 || !fresh(order()).isEmpty());
    }

    private List<Integer> fresh(List<Integer> addresses) {
        return addresses.stream().filter(address -> !isAddressAvoided(address)).toList();
    }

    /** The time until a connection is tried again, in nanoseconds. */
    long dialPause() {
        return failed.left(network.nanoTime());
    }

    /** Requests in flight on each open connection. */
    List<Integer> load() {
        return open.stream().map(Connection::inFlight).toList();
    }

    /** The addresses from the next one on; those that are avoided come last, before them those with more usable connections. */
    private List<Integer> order() {
        int count = settings.addresses().size();
        return IntStream.range(0, count).map(step -> (nextAddress + step) % count).boxed()
                .sorted(Comparator.comparing(this::isAddressAvoided).thenComparing(this::usableAt)).toList();
    }

    private long usableAt(int address) {
        return usable.stream().filter(connection -> connection.place.address() == address).count();
    }

    /** A dial that runs: the addresses that it tries, and those of them that were not avoided when it began. */
    private record Dial(List<Integer> order, List<Integer> fresh, Iterator<Integer> next) {}

    /** Opens a connection, unless that is under way or has failed recently; if possible not to an avoided place, with `isElsewhere`. */
    private void dial(boolean isElsewhere) {
        if (isDialing || isClosed || failed.left(network.nanoTime()) > 0) {
            return;
        }
        isDialing = true;
        dialsElsewhere = isElsewhere;
        if (lastUnusable != null) {
            // Load that is uneven evens out as connections age; the next address in order would only hand it on.
            int count = settings.addresses().size();
            nextAddress = (int) (network.random() * count) % count;
        }
        long pause = pauseBeforeDial();
        if (pause > 0) {
            calls.after(pause, () -> dialInTurn(isElsewhere));
        } else {
            dialInTurn(isElsewhere);
        }
    }

    /**
     * Longer each time while engines end connections before they answer anything: otherwise a client would reconnect to such an engine in a
     * busy loop.
     */
    private long pauseBeforeDial() {
        Boolean hadAnswered = lastUnusable;
        lastUnusable = null;
        if (hadAnswered == null) {
            return 0;
        }
        unusedInRow = hadAnswered ? 0 : unusedInRow + 1;
        // Engines end idle connections, too.
        return unusedInRow < 2 ? 0 : calls.backoffNanos(unusedInRow - 2);
    }

    private void dialInTurn(boolean isElsewhere) {
        List<Integer> order = order();
        List<Integer> fresh = fresh(order);
        if (fresh.isEmpty()) {
            renewed.set(network.nanoTime() + Rules.AVOIDED.toNanos());
        } else if (isElsewhere) {
            order = fresh;
        }
        connectNext(new Dial(order, fresh, order.iterator()), null);
    }

    /** Connects to the next address, or ends the dial with this error. */
    private void connectNext(Dial dial, LeafsealException error) {
        if (isClosed) {
            return;
        }
        if (!dial.next.hasNext()) {
            missed(dial, -1);
            if (dial.order.size() == settings.addresses().size()) {
                failure = error;
                failed.set(network.nanoTime() + calls.backoffNanos(dialFailures++));
            }
            isDialing = false;
            calls.pump();
            return;
        }
        int address = dial.next.next();
        nextAddress = address + 1;
        calls.effect(() -> network.connect(address, this::isAvoidedLocked, new Network.Receiver() {
            @Override
            public void records(int count) {
                calls.locked(() -> records[address] = count);
            }

            @Override
            public void connected(Place place, String name, Transport transport) {
                calls.locked(() -> {
                    missed(dial, address);
                    opened(new Connection(place, name, calls, Pool.this, transport));
                });
            }

            @Override
            public void failed(String name, LeafsealException reason) {
                calls.locked(() -> {
                    notice(name, ConnectionKind.FAILED, reason);
                    // An error of the network may pass, one of certificates does not.
                    boolean isKept = error != null && isConnectFailed(error) && !isConnectFailed(reason);
                    connectNext(dial, isKept ? error : reason);
                });
            }
        }));
    }

    /** Records whether a dial has reached one of the addresses that were not avoided. */
    private void missed(Dial dial, int reached) {
        if (dial.fresh.contains(reached)) {
            stuckFailures = 0;
            stuck.clear();
        } else if (!dial.fresh.isEmpty()) {
            stuck.set(network.nanoTime() + calls.backoffNanos(stuckFailures++));
        }
    }

    private static boolean isConnectFailed(LeafsealException error) {
        return error.code().equals(ErrorCode.CONNECT_FAILED);
    }

    private void opened(Connection connection) {
        isDialing = false;
        dialFailures = 0;
        failed.clear();
        failure = null;
        open.add(connection);
        notice(connection.name, ConnectionKind.OPENED, null);
        connection.start();
        if (isClosed) {
            connection.close();
            return;
        }
        usable.add(connection);
        replaceAvoided(connection);
        calls.pump();
    }

    /**
     * Replaces connections to avoided places by a new one: all to the same place, and one more if there are too many. They close when the
     * calls in flight have ended.
     */
    private void replaceAvoided(Connection opened) {
        List<Connection> replaced = new ArrayList<>();
        if (isAvoided(opened.place)) {
            usable.stream().filter(other -> other != opened && other.place.equals(opened.place)).forEach(replaced::add);
            avoided.remove(opened.place);
        }
        usable.removeAll(replaced);
        if (usable.size() > settings.connectionsMax()) {
            var least = usable.stream().filter(other -> isAvoided(other.place)).min(Comparator.comparingInt(Connection::inFlight));
            least.ifPresent(replaced::add);
        }
        usable.removeAll(replaced);
        replaced.forEach(Connection::drain);
    }

    /** No more calls begin on a connection. Returns false if it was removed before. */
    boolean withdraw(Connection connection) {
        boolean isUsable = usable.remove(connection);
        if (isUsable) {
            lastUnusable = connection.hasAnswered();
        }
        return isUsable;
    }

    void ended(Connection connection, LeafsealException error) {
        open.remove(connection);
        notice(connection.name, ConnectionKind.CLOSED, error);
    }

    private void notice(String address, ConnectionKind kind, LeafsealException error) {
        calls.observe(observer -> observer.connection(new ConnectionEvent(address, kind, Optional.ofNullable(error))));
    }

    /** Ends every connection with this error, or closes idle ones gracefully. Opens no more. */
    void close(LeafsealException error) {
        isClosed = true;
        for (Connection connection : new ArrayList<>(open)) {
            if (error == null) {
                connection.close();
            } else {
                connection.end(error);
            }
        }
    }
}
