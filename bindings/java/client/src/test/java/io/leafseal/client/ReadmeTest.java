package io.leafseal.client;

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

/** Runs the program of the README's quick start against an engine. */
class ReadmeTest {
    @Test
    void theQuickStartRuns(@TempDir Path folder) throws Exception {
        Matcher program = Pattern.compile("```java QuickStart.java\n(.*?)```", Pattern.DOTALL).matcher(Files.readString(Path.of("README.md")));
        assertTrue(program.find());
        try (Engine engine = Engine.start()) {
            Files.writeString(folder.resolve("QuickStart.java"), program.group(1).replace("127.0.0.1:3443", engine.address));
            Files.createSymbolicLink(folder.resolve(".leafseal"), engine.folder.resolve("store"));
            String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
            Process process = new ProcessBuilder(java, "-cp", System.getProperty("java.class.path"), "QuickStart.java")
                    .directory(folder.toFile()).redirectErrorStream(true).start();
            String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            // The process ends although nothing but daemon threads of the client is left.
            assertEquals(0, process.waitFor(), output);
            assertEquals("4111111111111111\n{\"card\": {\"number\": \"4111111111111111\"}, \"amount\": 12.50}\n4111111111111111\n", output);
        }
    }
}
