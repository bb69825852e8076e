package io.leafseal.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.json.JsonMapper;
import io.leafseal.client.Testing.Peer;
import io.leafseal.client.testing.Engine;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.RecordComponent;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.Test;

/** Each call without values of users sends what {@code vectors/client/queries.json} says, and returns what it says of the answer. */
class QueriesTest {
    record Sample(@JsonProperty("answer") String answer, @JsonProperty("result") Map<String, Object> result) {}

    record Vector(
            @JsonProperty("method") String method, @JsonProperty("arguments") List<String> arguments, @JsonProperty("request") String request,
            @JsonProperty("params") Map<String, Object> params, @JsonProperty("returns") String returns,
            @JsonProperty("results") List<Sample> results, @JsonProperty("incomplete") List<String> incomplete) {}

    private String sent;

    @Test
    void queriesAreThoseOfTheVectors() throws Exception {
        Vector[] vectors = JsonMapper.builder().build().readValue(Path.of("../../../vectors/client/queries.json").toFile(), Vector[].class);
        assertTrue(vectors.length >= 4);
        try (Engine engine = Engine.start()) {
            for (Vector vector : vectors) {
                for (Sample sample : vector.results) {
                    for (String suffix : List.of("", "Async")) {
                        Object found = plain(play(engine, vector, suffix, sample.answer));
                        assertTrue(sent.endsWith(vector.request), sent);
                        Map<String, Object> named = new TreeMap<>();
                        sample.result.forEach((name, value) -> named.put(plainName(name), plain(value)));
                        assertEquals(vector.returns.equals("field") ? named.values().iterator().next() : named, found);
                    }
                }
                for (String answer : vector.incomplete) {
                    LeafsealException error = assertThrows(LeafsealException.class, () -> play(engine, vector, "", answer), vector.method);
                    assertEquals("protocol_error", error.code());
                }
                if (!vector.arguments.isEmpty()) {
                    Vector nothing = new Vector(
                            vector.method, Arrays.asList(new String[vector.arguments.size()]), "", Map.of(), "", List.of(), List.of());
                    LeafsealException error = assertThrows(LeafsealException.class, () -> play(engine, nothing, "", "80"));
                    assertEquals("invalid_params", error.code());
                }
            }
        }
    }

    /** Makes the call, answered with this result. */
    private Object play(Engine engine, Vector vector, String suffix, String answer) throws Exception {
        byte[] bytes = HexFormat.of().parseHex("940100c0" + answer);
        try (Peer peer = new Peer(engine, socket -> {
                    byte[] request = new byte[1 << 12];
                    int size = socket.getInputStream().read(request);
                    sent = size < 0 ? "" : HexFormat.of().formatHex(request, 0, size);
                    socket.getOutputStream().write(bytes);
                    socket.getOutputStream().flush();
                    while (socket.getInputStream().read() >= 0) {
                        // Until the client closes.
                    }
                });
                LeafsealClient client = engine.client().addresses(peer.address).app("00ff").build()) {
            String name = plainName(vector.method + suffix);
            Method method = Arrays.stream(LeafsealClient.class.getMethods())
                    .filter(each -> plainName(each.getName()).equals(name)).findFirst().orElseThrow();
            List<Object> arguments = new ArrayList<>(vector.arguments);
            arguments.add(CallOptions.defaults());
            try {
                Object result = method.invoke(client, arguments.toArray());
                return result instanceof CompletableFuture<?> future ? future.join() : result;
            } catch (InvocationTargetException | CompletionException error) {
                throw error.getCause() instanceof LeafsealException failure ? failure : error;
            } finally {
                client.closeNow();
            }
        }
    }

    /** The name as in every language: snake_case and camelCase, and with `is` before flags. */
    private static String plainName(String name) {
        String plain = name.replace("_", "").toLowerCase();
        return plain.startsWith("is") ? plain.substring(2) : plain;
    }

    /** A value as JSON has it, without absent fields. */
    private static Object plain(Object value) {
        if (value instanceof byte[] bytes) {
            return HexFormat.of().formatHex(bytes);
        }
        if (value instanceof Instant time) {
            return time.getEpochSecond();
        }
        if (value instanceof Integer number) {
            return number.longValue();
        }
        if (value instanceof OptionalLong number) {
            return number.isPresent() ? number.getAsLong() : null;
        }
        if (value instanceof Optional<?> optional) {
            return optional.map(QueriesTest::plain).orElse(null);
        }
        if (value instanceof Map<?, ?> facts) {
            Map<String, Object> named = new TreeMap<>();
            facts.forEach((name, text) -> named.put(plainName((String) name), text));
            return named;
        }
        if (!(value instanceof Record)) {
            return value;
        }
        Map<String, Object> fields = new TreeMap<>();
        for (RecordComponent component : value.getClass().getRecordComponents()) {
            try {
                Object field = plain(component.getAccessor().invoke(value));
                if (field != null) {
                    fields.put(plainName(component.getName()), field);
                }
            } catch (ReflectiveOperationException error) {
                throw new AssertionError(error);
            }
        }
        return fields;
    }
}
