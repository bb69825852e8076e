package io.leafseal.jackson;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.leafseal.client.testing.Engine;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Runs the programs of the README against an engine. */
class ReadmeTest {
    @Test
    void theExampleRuns(@TempDir Path folder) throws Exception {
        runs("Payments.java", "\\{\"number\":\"ev:[^\"]*:\\$\",\"amount\":12.5}\n4111111111111111\n", folder);
    }

    @Test
    void theExampleOfBoundValuesRuns(@TempDir Path folder) throws Exception {
        runs("Accounts.java", "DE02120300000000202051\n", folder);
    }

    private static void runs(String name, String expected, Path folder) throws Exception {
        Matcher program = Pattern.compile("```java " + name + "\n(.*?)```",
                Pattern.DOTALL).matcher(Files.readString(Path.of("README.md")));
        assertTrue(program.find());
        try (Engine engine = Engine.start()) {
            Files.writeString(folder.resolve(name), program.group(1).replace("127.0.0.1:3443", engine.address));
            Files.createSymbolicLink(folder.resolve(".leafseal"), engine.folder.resolve("store"));
            String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
            Process process = new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"), name)
                    .directory(folder.toFile()).redirectErrorStream(true).start();
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertEquals(0, process.waitFor(), output);
            assertTrue(output.matches(expected), output);
        }
    }
}
