package io.leafseal.client;

import io.leafseal.client.FrameReader.Frame;
import java.io.IOException;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Function;

/** The messages of an engine, and the results of each method. */
final class Answers {
    private Answers() {}

    /** A message. */
    sealed interface Message {}

    /** An answer: an error, or a result that begins at `at`. */
    record Response(long id, LeafsealException error, Frame frame, int at) implements Message {}

    /** The engine drains the connection. */
    record GoingAway(String reason) implements Message {}

    /** The engine ends the connection. */
    record ConnectionError(LeafsealException error) implements Message {}

    /** A notification of a newer engine. */
    record Unknown() implements Message {}

    /** Reads the head of a message; the result of a response is read later, by the caller. */
    static Message parse(Frame frame) {
        return In.read(frame, frame.from(), in -> {
            int count = in.arrayHeader();
            long type = in.integer();
            if (type == 1 && count == 4) {
                return response(frame, in);
            }
            if (type == 2 && count == 3) {
                return notification(in);
            }
            throw LeafsealException.protocol("the peer sent a message that is no answer");
        });
    }

    private static Message response(Frame frame, In in) throws IOException {
        long id = in.integer();
        LeafsealException error = in.nil() ? null : in.error("");
        return new Response(id, error, frame, in.at());
    }

    private static Message notification(In in) throws IOException {
        String method = in.text();
        if (method.equals("connection_error")) {
            return new ConnectionError(in.arrayHeader() < 1 ? LeafsealException.protocol("no error") : in.error("the engine ended the connection: "));
        }
        return method.equals("going_away") ? new GoingAway(reason(in)) : new Unknown();
    }

    /** Any other reason, or none, counts as `age`. */
    private static String reason(In in) throws IOException {
        return in.arrayHeader() > 0 && in.scalar() instanceof String text ? text : "age";
    }

    /** The id of an answer that has not arrived completely, or -1. */
    static long idOf(Frame frame) {
        try {
            return In.read(frame, frame.from(), in -> in.arrayHeader() == 4 && in.integer() == 1 ? in.integer() : -1);
        } catch (LeafsealException error) {
            return -1;
        }
    }

    /** The result of a list: as many values as were sent. */
    record Values<T>(List<T> values, Report report) {}

    /** The result of a document or file. */
    record Content(byte[] bytes, Report report) {}

    static <T> Values<T> values(Response response, int expected, In.Reading<T> element) {
        Object[] found = new Object[1];
        Report report = fields(response, (name, in) -> {
            boolean isValues = name.equals("values");
            if (isValues) {
                found[0] = in.list(expected, element);
            }
            return isValues;
        });
        @SuppressWarnings("unchecked")
        List<T> values = (List<T>) required(found[0]);
        return new Values<>(values, report);
    }

    static Content content(Response response, String field) {
        byte[][] found = new byte[1][];
        Report report = fields(response, (name, in) -> {
            boolean isContent = name.equals(field);
            if (isContent) {
                found[0] = in.bytes();
            }
            return isContent;
        });
        return new Content(required(found[0]), report);
    }

    private interface Taking {
        boolean take(String name, In in) throws IOException;
    }

    /** Reads a result: `taking` its own fields, and those of the report. */
    private static Report fields(Response response, Taking taking) {
        long[] counts = new long[6];
        List<List<?>> lists = new java.util.ArrayList<>(List.of(List.of(), List.of()));
        In.read(response.frame(), response.at(), start -> {
            start.map((name, in) -> {
                if (taking.take(name, in)) {
                    return;
                }
                switch (name) {
                    case "count" -> counts[0] = in.integer();
                    case "resealed" -> counts[1] = in.integer();
                    case "skipped" -> counts[2] = in.integer();
                    case "symmetric" -> counts[4] = in.integer();
                    case "rewrapped" -> counts[5] = in.integer();
                    case "failed" -> counts[3] = in.integer();
                    case "matched" -> lists.set(0, in.list(In::integer));
                    case "failures" -> lists.set(1, in.list(In::scalar));
                    default -> in.skip();
                }
            });
            return null;
        });
        List<Long> indexes = lists.get(1).stream().filter(Long.class::isInstance).map(Long.class::cast).toList();
        List<String> paths = lists.get(1).stream().filter(String.class::isInstance).map(String.class::cast).toList();
        List<Long> matched = lists.get(0).stream().map(Long.class::cast).toList();
        return new Report(counts[0], matched, counts[1], counts[2], counts[5], counts[4], counts[3], indexes, paths);
    }

    /** Texts by name; members of other kinds are of a newer engine. */
    static Map<String, String> facts(Response response) {
        Map<String, String> facts = new HashMap<>();
        In.read(response.frame(), response.at(), in -> members(in, Set.of())).forEach((name, value) -> {
            if (value instanceof String text) {
                facts.put(name, text);
            }
        });
        return Map.copyOf(facts);
    }

    /** Reads a response whose result is one record. */
    static <T> Function<Response, T> record(In.Reading<T> reading) {
        return response -> In.read(response.frame(), response.at(), reading);
    }

    /** The members whose kinds this client knows, of these lists among them; all others are of a newer engine. */
    static Map<String, Object> members(In start, Set<String> lists) throws IOException {
        Map<String, Object> found = new HashMap<>();
        start.map((name, in) -> {
            if (lists.contains(name)) {
                found.put(name, in.nil() ? null : in.list(In::scalar));
                return;
            }
            switch (in.type()) {
                case BINARY -> found.put(name, in.bytes());
                case ARRAY, MAP, EXTENSION -> in.skip();
                default -> found.put(name, in.scalar());
            }
        });
        return found;
    }

    static OptionalLong number(Map<String, Object> found, String name) {
        return optional(found, name, Long.class).map(OptionalLong::of).orElseGet(OptionalLong::empty);
    }

    static Optional<List<String>> texts(Map<String, Object> found, String name) {
        return optional(found, name, List.class).map(list -> {
            List<?> elements = list;
            return elements.stream().map(element -> {
                if (element instanceof String text) {
                    return text;
                }
                throw In.unreadable();
            }).toList();
        });
    }

    static <T> Optional<T> optional(Map<String, Object> found, String name, Class<T> type) {
        Object value = found.get(name);
        if (value != null && !type.isInstance(value)) {
            throw In.unreadable();
        }
        return Optional.ofNullable(type.cast(value));
    }

    private static <T> T required(T value) {
        if (value == null) {
            throw In.unreadable();
        }
        return value;
    }
}
