package io.leafseal.client;

import io.leafseal.client.testing.Engine;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntSupplier;
import java.util.stream.IntStream;

/**
 * Compares this client with the native one, the example `fields` of the crate, whose path is the argument. Both use the same engine,
 * alternately, with the same requests: 2,000 values of 32 bytes, four calls in flight. Prints tables; asserts nothing. `bench.sh` runs it.
 */
final class Bench {
    private static final int FIELDS = 2000;
    private static final int IN_FLIGHT = 4;
    private static final int ROUNDS = Integer.getInteger("rounds", 5);
    private static final long ROUND_MS = Long.getLong("roundMs", 1500);

    private Bench() {}

    private record Rate(double perSecond, double cpuNanos) {}

    public static void main(String[] arguments) throws Exception {
        try (Engine engine = Engine.start(); LeafsealClient client = engine.client().connect()) {
            List<String> values = IntStream.range(0, FIELDS).mapToObj(index -> String.format("%-32s", "value number " + index + " ").replace(' ', 'x')).toList();
            List<String> sealed = client.encryptAll(values);
            List<double[]> rows = new ArrayList<>();
            for (int round = 0; round < ROUNDS; round++) {
                double[] nativeRates = nativeClient(arguments[0], engine);
                Rate blocking = blocking(() -> client.encryptAll(values).size());
                Rate opening = blocking(() -> client.decryptAll(sealed).size());
                Rate futures = futures(client, values);
                rows.add(new double[] {
                    nativeRates[0], nativeRates[1], blocking.perSecond, opening.perSecond, futures.perSecond, blocking.cpuNanos, opening.cpuNanos
                });
            }
            String[] names = {
                "native encrypt, values/s", "native decrypt, values/s", "Java encrypt, values/s", "Java decrypt, values/s",
                "Java encrypt with futures, values/s", "Java encrypt, CPU ns/value", "Java decrypt, CPU ns/value"
            };
            for (int index = 0; index < names.length; index++) {
                int column = index;
                double[] figures = rows.stream().mapToDouble(row -> row[column]).sorted().toArray();
                System.out.printf("%-38s %,14.0f%n", names[index], figures[figures.length / 2]);
            }
        }
    }

    private static Rate blocking(IntSupplier call) throws InterruptedException {
        AtomicLong fields = new AtomicLong();
        long began = System.nanoTime();
        long cpu = cpuNanos();
        List<Thread> threads = IntStream.range(0, IN_FLIGHT).mapToObj(index -> new Thread(() -> {
            while (System.nanoTime() - began < ROUND_MS * 1_000_000) {
                fields.addAndGet(call.getAsInt());
            }
        })).toList();
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        return rate(fields.get(), began, cpu);
    }

    private static Rate futures(LeafsealClient client, List<String> values) {
        AtomicLong fields = new AtomicLong();
        long began = System.nanoTime();
        long cpu = cpuNanos();
        CompletableFuture<?>[] chains = new CompletableFuture<?>[IN_FLIGHT];
        Arrays.setAll(chains, index -> chain(client, values, began, fields));
        CompletableFuture.allOf(chains).join();
        return rate(fields.get(), began, cpu);
    }

    private static CompletableFuture<?> chain(LeafsealClient client, List<String> values, long began, AtomicLong fields) {
        if (System.nanoTime() - began >= ROUND_MS * 1_000_000) {
            return CompletableFuture.completedFuture(null);
        }
        return client.encryptAllAsync(values, EncryptOptions.defaults()).thenCompose(sealed -> {
            fields.addAndGet(sealed.size());
            return chain(client, values, began, fields);
        });
    }

    private static Rate rate(long fields, long began, long cpu) {
        return new Rate(fields * 1e9 / (System.nanoTime() - began), (double) (cpuNanos() - cpu) / fields);
    }

    private static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }

    private static double[] nativeClient(String program, Engine engine) throws Exception {
        Process process = new ProcessBuilder(
                program, engine.address, engine.file("ca.pem").toString(), engine.file("dev.pem").toString(), engine.file("dev.key").toString(),
                Engine.APP, Integer.toString(FIELDS), Integer.toString(IN_FLIGHT), Long.toString(ROUND_MS)).start();
        String line = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        String[] parts = line.replaceAll("[^0-9,]", "").split(",");
        return new double[] {Double.parseDouble(parts[0]), Double.parseDouble(parts[1])};
    }
}
