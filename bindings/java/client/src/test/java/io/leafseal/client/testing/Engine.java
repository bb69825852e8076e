package io.leafseal.client.testing;

import io.leafseal.client.LeafsealClient;
import io.leafseal.client.LeafsealClientBuilder;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A running engine with an app and certificates of its own, started as `leafseal dev` starts one. */
public final class Engine implements AutoCloseable {
    public static final String APP = "app_dev";

    public final Path folder;
    public final String address;
    public final String operator;
    public final String api;
    private final Process process;

    private Engine(Path folder, Process process, String line) {
        this.folder = folder;
        this.process = process;
        this.address = member(line, "address");
        this.operator = member(line, "operator");
        this.api = member(line, "api");
    }

    /** The program under test. */
    public static String program() {
        String path = System.getenv("LEAFSEAL");
        if (path == null || path.isEmpty() || !Files.isExecutable(Path.of(path))) {
            throw new IllegalStateException("set LEAFSEAL to the absolute path of the program (cargo build --profile checked --package leafseal-cli)");
        }
        return path;
    }

    /** Starts an engine; settings as on the command line: `engine.curve=k1`. */
    public static Engine start(String... settings) {
        try {
            return start(Files.createTempDirectory("leafseal-java-"), 0, settings);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Starts an engine with the store in `folder`, if there is one, on this port or any. */
    public static Engine start(Path folder, int port, String... settings) {
        List<String> command = new ArrayList<>(List.of(
                program(), "--dir", folder.resolve("store").toString(), "dev", "--app", APP, "--port", Integer.toString(port), "--no-relay", "--json",
                "--set", "operator.address=127.0.0.1:0", "--set", "api.address=127.0.0.1:0"));
        for (String setting : settings) {
            command.addAll(List.of("--set", setting));
        }
        try {
            Path log = folder.resolve("engine.log");
            ProcessBuilder builder = new ProcessBuilder(command).redirectError(log.toFile());
            builder.environment().keySet().removeIf(name -> name.startsWith("LEAFSEAL"));
            Process process = builder.start();
            BufferedReader reader = new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
            String line = reader.readLine();
            if (line == null) {
                throw new IllegalStateException("the engine did not start: " + Files.readString(log));
            }
            return new Engine(folder, process, line);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static String member(String json, String name) {
        Matcher matcher = Pattern.compile("\"" + name + "\":\"([^\"]*)\"").matcher(json);
        if (!matcher.find()) {
            throw new IllegalStateException("no " + name + " in " + json);
        }
        return matcher.group(1);
    }

    public int port() {
        return Integer.parseInt(address.substring(address.lastIndexOf(':') + 1));
    }

    /** A file in the folder of the certificates. */
    public Path file(String name) {
        return folder.resolve("store").resolve("certs").resolve(name);
    }

    /** A builder for clients of this engine. */
    public LeafsealClientBuilder client() {
        return LeafsealClient.builder().addresses(address).ca(file("ca.pem")).certificate(file("dev.pem")).key(file("dev.key")).app(APP);
    }

    /** Runs the program on this engine's store, and returns its output. */
    public String command(String... arguments) {
        List<String> command = new ArrayList<>(List.of(program(), "--dir", folder.resolve("store").toString()));
        command.addAll(List.of(arguments));
        try {
            Path errors = folder.resolve("command.log");
            Process run = new ProcessBuilder(command).redirectError(errors.toFile()).start();
            String output = new String(run.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            if (run.waitFor() != 0) {
                throw new IllegalStateException(Files.readString(errors));
            }
            return output.strip();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /** Creates a certificate of a client that may only encrypt for another app. */
    public void stranger() {
        command("keys", "create", "other");
        command("certs", "issue", "stranger", "--app", "other", "--allow", "encrypt");
    }

    public void kill() {
        process.destroyForcibly();
        await();
    }

    /** Shuts down gracefully, and keeps the folder. */
    public void stop() {
        process.destroy();
        await();
    }

    private void await() {
        try {
            if (!process.waitFor(60, TimeUnit.SECONDS)) {
                process.destroyForcibly().waitFor();
            }
        } catch (InterruptedException error) {
            process.destroyForcibly();
            throw new IllegalStateException(error);
        }
    }

    @Override
    public void close() {
        stop();
        try (var paths = Files.walk(folder)) {
            for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(path);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
