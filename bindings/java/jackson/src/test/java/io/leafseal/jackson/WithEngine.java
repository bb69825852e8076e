package io.leafseal.jackson;

import com.fasterxml.jackson.databind.JsonNode;
import io.leafseal.client.ClientObserver;
import io.leafseal.client.LeafsealClient;
import io.leafseal.client.testing.Engine;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;

/** A running engine with a client, for the tests of a class. */
abstract class WithEngine {
    private static final ConcurrentLinkedQueue<String> CALLS = new ConcurrentLinkedQueue<>();

    static Engine engine;
    static LeafsealClient client;

    @BeforeAll
    static void startEngine() {
        engine = Engine.start();
        client = engine.client().observer(new ClientObserver() {
            @Override
            public void ended(CallEnd end) {
                CALLS.add(end.method());
            }
        }).connect();
    }

    @AfterAll
    static void stopEngine() {
        if (client != null) {
            client.close();
        }
        if (engine != null) {
            engine.close();
        }
    }

    @BeforeEach
    void begin() {
        forgetCalls();
    }

    static void forgetCalls() {
        CALLS.clear();
    }

    /** The methods of the calls since the test began, or since they were forgotten. */
    static String calls() {
        return String.join(" ", CALLS);
    }

    static boolean isEnvelope(JsonNode node) {
        return node.isTextual() && node.textValue().startsWith("ev:") && node.textValue().endsWith(":$");
    }
}
