package io.leafseal.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.leafseal.client.testing.Engine;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.BooleanSupplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.connect.util.clusters.EmbeddedConnectStandalone;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The transforms in a standalone worker with a broker: files through Kafka and back, with an engine. */
class WorkerTest {
    private static final long WAIT_MS = 120_000;
    private static final String SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector";
    private static final String SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector";
    private static final String JSON = "org.apache.kafka.connect.json.JsonConverter";
    private static final String TEXT = "org.apache.kafka.connect.storage.StringConverter";

    @TempDir
    private static Path folder;

    private static Engine engine;
    private static EmbeddedConnectStandalone worker;

    @BeforeAll
    static void start() {
        engine = Engine.start();
        worker = new EmbeddedConnectStandalone.Builder().numBrokers(1).brokerProps(new Properties())
                .workerProps(new HashMap<>(Map.of("offset.flush.interval.ms", "500"))).maskExitProcedures(true).build();
        worker.start();
        for (String topic : List.of("structs", "payments", "bound", "strict", "tolerant", "invalid")) {
            worker.kafka().createTopic(topic);
        }
    }

    @AfterAll
    static void stop() {
        if (worker != null) {
            worker.stop();
        }
        if (engine != null) {
            engine.close();
        }
    }

    private static Map<String, String> connector(String type, Path file, String topic, String converter, String transforms) {
        Map<String, String> settings = new HashMap<>(Map.of(
                "connector.class", type, "tasks.max", "1", "file", file.toString(), type.equals(SOURCE) ? "topic" : "topics", topic,
                "key.converter", TEXT, "value.converter", converter, "transforms", transforms));
        return settings;
    }

    private static void transform(Map<String, String> settings, String name, String type, String... pairs) {
        String prefix = "transforms." + name + ".";
        settings.put(prefix + "type", type);
        for (int index = 0; index < pairs.length; index += 2) {
            settings.put(prefix + pairs[index], pairs[index + 1]);
        }
    }

    private static void leafseal(Map<String, String> settings, String name, String type, String... pairs) {
        transform(settings, name, type, pairs);
        transform(settings, name, type, "engine.addresses", engine.address, "engine.ca", engine.file("ca.pem").toString(),
                "engine.certificate", engine.file("dev.pem").toString(), "engine.key", engine.file("dev.key").toString(), "app", Engine.APP);
    }

    private static void until(String what, BooleanSupplier condition) throws InterruptedException {
        for (long began = System.nanoTime(); System.nanoTime() - began < WAIT_MS * 1_000_000; Thread.sleep(50)) {
            if (condition.getAsBoolean()) {
                return;
            }
        }
        throw new AssertionError("never: " + what);
    }

    private static List<String> lines(Path file) {
        try {
            return Files.exists(file) ? Files.readAllLines(file) : List.of();
        } catch (java.io.IOException error) {
            return List.of();
        }
    }

    private static List<String> topic(String name, int count) throws Exception {
        List<String> values = new ArrayList<>();
        for (ConsumerRecord<byte[], byte[]> record : worker.kafka().consume(count, WAIT_MS, name)) {
            values.add(new String(record.value(), StandardCharsets.UTF_8));
        }
        return values;
    }

    @Test
    void structsPassKafkaSealedAndComeBack() throws Exception {
        List<String> secrets = IntStream.range(0, 200).mapToObj(index -> "secret number " + index).toList();
        Path in = Files.write(folder.resolve("structs.txt"), secrets);
        Path out = folder.resolve("structs-back.txt");
        Map<String, String> source = connector(SOURCE, in, "structs", JSON, "hoist,seal");
        transform(source, "hoist", "org.apache.kafka.connect.transforms.HoistField$Value", "field", "line");
        leafseal(source, "seal", "io.leafseal.kafka.EncryptFields$Value", "fields", "line", "keying", "session");
        worker.configureConnector("structs-source", source);
        List<String> stored = topic("structs", secrets.size());
        assertTrue(stored.stream().allMatch(text -> text.contains("ev:") && text.contains("io.leafseal.type") && !text.contains("secret")));

        Map<String, String> sink = connector(SINK, out, "structs", JSON, "open,extract");
        leafseal(sink, "open", "io.leafseal.kafka.DecryptFields$Value", "fields", "line");
        transform(sink, "extract", "org.apache.kafka.connect.transforms.ExtractField$Value", "field", "line");
        worker.configureConnector("structs-sink", sink);
        until("the lines are back", () -> lines(out).size() >= secrets.size());
        assertEquals(secrets, lines(out));
    }

    /** A block of the README, with this engine in place of its own. */
    private static Map<String, String> readme(String name) throws Exception {
        Pattern block = Pattern.compile("```properties " + Pattern.quote(name) + "\n(.*?)```", Pattern.DOTALL);
        Matcher found = block.matcher(Files.readString(Path.of("README.md")));
        assertTrue(found.find());
        Properties written = new Properties();
        written.load(new java.io.StringReader(found.group(1)));
        Map<String, String> settings = new HashMap<>();
        written.forEach((key, value) -> settings.put((String) key, ((String) value).replace("engine.internal:3443", engine.address)
                .replace("/etc/leafseal/ca.pem", engine.file("ca.pem").toString()).replace("/etc/leafseal/connect.pem", engine.file("dev.pem").toString())
                .replace("/etc/leafseal/connect.key", engine.file("dev.key").toString()).replace("acme", Engine.APP)));
        return settings;
    }

    @Test
    void theReadmesSettingsSealJsonText() throws Exception {
        String payment = "{\"card\": {\"number\": \"4111111111111111\"}, \"amount\": 12.50}";
        Path in = Files.writeString(folder.resolve("json.txt"), payment + "\n");
        Map<String, String> settings = connector(SOURCE, in, "payments", TEXT, "");
        settings.putAll(readme("source.properties"));
        worker.configureConnector("payments", settings);
        String stored = topic("payments", 1).get(0);
        assertTrue(stored.matches("\\{\"card\": \\{\"number\": \"ev:[^\"]*:\\$\"}, \"amount\": 12.50}"), stored);

        settings.put("topic", "bound");
        settings.putAll(readme("symmetric.properties"));
        worker.configureConnector("bound", settings);
        String bound = topic("bound", 1).get(0);
        assertTrue(bound.startsWith("{\"card\": {\"number\": \"ev:WEFF:"), bound);
        Path out = folder.resolve("json-back.txt");
        Map<String, String> sink = connector(SINK, out, "bound", TEXT, "open");
        leafseal(sink, "open", "io.leafseal.kafka.DecryptFields$Value", "select", "$.card.number", "context", "topic");
        worker.configureConnector("bound-sink", sink);
        until("the line is back", () -> !lines(out).isEmpty());
        assertEquals(List.of(payment), lines(out));
    }

    @Test
    void aRecordThatCannotBeSealedNeverReachesTheTopic() throws Exception {
        Path in = Files.write(folder.resolve("bad.txt"), List.of("{\"card\": \"4111\"}", "no json, secret", "{\"Card\": \"secret\"}", "{\"card\": \"5500\"}"));
        Map<String, String> strict = connector(SOURCE, in, "strict", TEXT, "seal");
        leafseal(strict, "seal", "io.leafseal.kafka.EncryptFields$Value", "select", "$.card");
        worker.configureConnector("strict", strict);
        until("the task has failed", () -> state("strict").equals("FAILED"));
        assertFalse(worker.connectorStatus("strict").tasks().get(0).trace().contains("secret"));

        // Tolerated errors skip records; they do not let them through.
        Map<String, String> tolerant = connector(SOURCE, in, "tolerant", TEXT, "seal");
        leafseal(tolerant, "seal", "io.leafseal.kafka.EncryptFields$Value", "select", "$.card");
        tolerant.put("errors.tolerance", "all");
        worker.configureConnector("tolerant", tolerant);
        List<String> stored = topic("tolerant", 2);
        assertTrue(stored.stream().allMatch(text -> text.startsWith("{\"card\": \"ev:")), stored::toString);

    }

    @Test
    void wrongSettingsAreRefusedOrFailTheTaskThoughItWaitsForEngines() throws Exception {
        Path in = Files.writeString(folder.resolve("invalid.txt"), "{\"card\": \"4111\"}\n");
        assertEquals(0, errors(in, "select", "$.card"));
        assertEquals(1, errors(in, "select", "$.card", "curve", "p256"));
        assertEquals(1, errors(in, "select", "$.card["));
        // Errors that only the engine detects.
        Map<String, String> waiting = connector(SOURCE, in, "invalid", TEXT, "seal");
        leafseal(waiting, "seal", "io.leafseal.kafka.EncryptFields$Value", "select", "$.card[x]");
        waiting.put("errors.retry.timeout", "-1");
        worker.configureConnector("waiting", waiting);
        until("the task has failed", () -> state("waiting").equals("FAILED"));
        assertTrue(worker.connectorStatus("waiting").tasks().get(0).trace().contains("invalid_selector"));
    }

    private static int errors(Path in, String... pairs) {
        Map<String, String> settings = connector(SOURCE, in, "invalid", TEXT, "seal");
        settings.put("name", "checked");
        leafseal(settings, "seal", "io.leafseal.kafka.EncryptFields$Value", pairs);
        return worker.validateConnectorConfig(SOURCE.substring(SOURCE.lastIndexOf('.') + 1), settings).errorCount();
    }

    private static String state(String connector) {
        try {
            var tasks = worker.connectorStatus(connector).tasks();
            return tasks.isEmpty() ? "" : tasks.get(0).state();
        } catch (RuntimeException error) {
            return "";
        }
    }
}
