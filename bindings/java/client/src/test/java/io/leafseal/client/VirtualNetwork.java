package io.leafseal.client;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.List;
import java.util.PriorityQueue;
import java.util.concurrent.Delayed;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/** Plays the engines of a {@link Conversation} in one thread, on a clock of its own, and writes the transcript. */
final class VirtualNetwork implements Network {
    private static final long MS = 1_000_000;

    /** Calls by their requests, numbered from 1. */
    final List<Request> requests = new ArrayList<>();
    Calls calls;
    private final Conversation script;
    private final PriorityQueue<Timer> timers = new PriorityQueue<>();
    private final int[] attempts;
    private final List<Line> lines = new ArrayList<>();
    private long now;
    private long count;

    private record Line(long at, String text) implements Comparable<Line> {
        @Override
        public int compareTo(Line other) {
            return at != other.at ? Long.compare(at, other.at) : text.compareTo(other.text);
        }
    }

    VirtualNetwork(Conversation script) {
        this.script = script;
        attempts = new int[script.addresses().size()];
    }

    /** A task at a time; tasks of the same time run in the order in which they were made. */
    private final class Timer implements ScheduledFuture<Object> {
        private final long at;
        private final long number = count++;
        private final Runnable task;
        private boolean isCancelled;

        Timer(long at, Runnable task) {
            this.at = at;
            this.task = task;
        }

        @Override
        public int compareTo(Delayed other) {
            Timer timer = (Timer) other;
            return at != timer.at ? Long.compare(at, timer.at) : Long.compare(number, timer.number);
        }

        @Override
        public long getDelay(TimeUnit unit) {
            return unit.convert(at - now, TimeUnit.NANOSECONDS);
        }

        @Override
        public boolean cancel(boolean mayInterrupt) {
            isCancelled = true;
            return timers.remove(this);
        }

        @Override
        public boolean isCancelled() {
            return isCancelled;
        }

        @Override
        public boolean isDone() {
            return isCancelled;
        }

        @Override
        public Object get() {
            return null;
        }

        @Override
        public Object get(long timeout, TimeUnit unit) {
            return null;
        }
    }

    @Override
    public long nanoTime() {
        return now;
    }

    @Override
    public double random() {
        return script.random();
    }

    @Override
    public ScheduledFuture<?> after(long nanos, Runnable task) {
        Timer timer = new Timer(now + nanos, task);
        timers.add(timer);
        return timer;
    }

    @Override
    public void close() {
        timers.clear();
    }

    void afterMs(long milliseconds, Runnable task) {
        after(milliseconds * MS, task);
    }

    /** Runs everything that happens before this time. */
    void runUntil(long milliseconds) {
        while (!timers.isEmpty() && timers.peek().at < milliseconds * MS) {
            Timer timer = timers.poll();
            now = timer.at;
            timer.task.run();
        }
    }

    void write(String text) {
        lines.add(new Line(now / MS, text));
    }

    List<String> transcript() {
        return lines.stream().sorted().map(line -> line.at + " " + line.text).toList();
    }

    @Override
    public void connect(int index, Predicate<Place> isAvoided, Receiver receiver) {
        Conversation.Address address = script.addresses().get(index);
        write("connect " + address.name());
        int number = ++attempts[index];
        Conversation.Attempt attempt = address.attempts().get(Math.min(number, address.attempts().size()) - 1);
        Conversation.Timed outcome = Conversation.Timed.parse(attempt.outcome());
        long limit = script.settings().connectTimeoutMs();
        if (outcome == null || outcome.after() >= limit) {
            outcome = new Conversation.Timed(limit, new String[] {"refuse"});
        }
        String word = outcome.words()[0];
        afterMs(outcome.after(), () -> {
            if (word.equals("accept")) {
                Engine engine = new Engine(address.name() + "#" + number, attempt);
                write("opened " + engine.name);
                engine.open();
                receiver.connected(new Place(index, record(index)), engine.name, engine);
            } else {
                boolean isTls = word.equals("tls_failed");
                receiver.failed(address.name(), new LeafsealException(
                        isTls ? ErrorCode.TLS_FAILED : ErrorCode.CONNECT_FAILED, "scripted", Retry.ELSEWHERE, null));
            }
        });
    }

    private static InetAddress record(int index) {
        try {
            return InetAddress.getByAddress(new byte[] {127, 0, 0, (byte) (index + 1)});
        } catch (UnknownHostException error) {
            throw new AssertionError(error);
        }
    }

    /** The engine's side of a connection, which writing reaches at once. */
    private final class Engine implements Transport {
        final String name;
        private final Conversation.Attempt script;
        private Connection connection;
        private int requestsSeen;
        private boolean isOver;
        private boolean isWoken;

        Engine(String name, Conversation.Attempt script) {
            this.name = name;
            this.script = script;
        }

        void open() {
            for (String event : script.events()) {
                Conversation.Timed timed = Conversation.Timed.parse(event);
                afterMs(timed.after(), () -> happens(timed.words()));
            }
        }

        @Override
        public void start(Connection started) {
            connection = started;
        }

        @Override
        public void wake() {
            if (!isWoken) {
                isWoken = true;
                calls.effect(this::read);
            }
        }

        @Override
        public void close() {
            if (!isOver) {
                isOver = true;
                write("close " + name);
            }
        }

        @Override
        public void closeGracefully() {
            close();
        }

        private void read() {
            isWoken = false;
            List<Connection.Outgoing> batch = new ArrayList<>();
            calls.locked(() -> connection.takeBatch(batch));
            for (Connection.Outgoing message : batch) {
                if (message.call == null) {
                    write("cancel " + subject(cancelled[message.slot.id]) + " on " + name);
                } else {
                    request(message.slot.id, message.call.request, message.deadlineMs);
                }
            }
            Connection.releaseAll(batch);
            calls.locked(connection::endIfUnused);
        }

        /** The last request with each id. */
        private final Request[] cancelled = new Request[1 << 10];

        private String subject(Request request) {
            return request.method.equals("health") ? "health" : String.valueOf(requests.indexOf(request) + 1);
        }

        private void request(int id, Request request, long deadlineMs) {
            cancelled[id] = request;
            boolean hasDeadline = VirtualNetwork.this.script.calls().get(requests.indexOf(request)).deadlineMs() != null;
            write("request " + subject(request) + (hasDeadline ? " within " + deadlineMs : "") + " on " + name);
            int number = ++requestsSeen;
            List<String> answers = script.answers();
            Conversation.Timed answer =
                    answers.isEmpty() ? null : Conversation.Timed.parse(answers.get(Math.min(number, answers.size()) - 1));
            if (answer != null) {
                LeafsealException error = answer.words()[0].equals("ok") ? null : error(answer.words());
                afterMs(answer.after(), () -> receive(new Answers.Response(id, error, new FrameReader.Frame(new byte[1], 0, 1), 0)));
            }
        }

        private static LeafsealException error(String[] words) {
            long retryAfter = words.length == 3 ? Long.parseLong(words[2]) : -1;
            return LeafsealException.ofEngine(words[0], "scripted", Retry.LATER, retryAfter, -1, -1);
        }

        private void receive(Answers.Message message) {
            if (!isOver) {
                calls.locked(() -> connection.take(message, null));
            }
        }

        private void happens(String[] words) {
            if (isOver) {
                return;
            }
            isOver = words[0].equals("close") || words[0].equals("connection_error") || words[1].equals("closed");
            calls.locked(() -> {
                switch (words[0]) {
                    case "going_away" -> connection.take(new Answers.GoingAway(words[1]), null);
                    case "connection_error" -> connection.take(new Answers.ConnectionError(error(new String[] {words[1]})), null);
                    default -> connection.end(new LeafsealException(ErrorCode.CONNECTION_LOST, "scripted", Retry.ELSEWHERE, null));
                }
            });
        }
    }
}
