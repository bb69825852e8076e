package io.leafseal.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** The client does in each conversation of {@code vectors/client} what every client must. */
class ConversationsTest {
    private static final int SHOWN = 5;

    private static void check(String json, List<String> differences) {
        Conversation script = Conversation.parse(json);
        List<String> expected = script.expect();
        List<String> found = script.play();
        int line = 0;
        while (line < Math.min(expected.size(), found.size()) && expected.get(line).equals(found.get(line))) {
            line++;
        }
        if (line < expected.size() || line < found.size()) {
            differences.add(script.name() + ": line " + (line + 1) + " differs after" + part(expected, line - SHOWN, line)
                    + "\nexpected" + part(expected, line, line + SHOWN) + "\nfound" + part(found, line, line + SHOWN));
        }
    }

    private static String part(List<String> lines, int from, int to) {
        int begin = Math.max(0, Math.min(from, lines.size()));
        return "\n\t" + String.join("\n\t", lines.subList(begin, Math.min(to, lines.size())));
    }

    @Test
    void everyConversation() throws IOException {
        List<Path> files;
        try (Stream<Path> all = Files.list(Path.of("../../../vectors/client/conversations"))) {
            files = all.filter(path -> path.toString().endsWith(".json")).sorted().toList();
        }
        assertFalse(files.isEmpty());
        List<String> differences = new ArrayList<>();
        for (Path file : files) {
            check(Files.readString(file), differences);
        }
        assertEquals(List.of(), differences);
    }

    /** Those of `cargo xtask conversations`; tests/java/run.sh names the file. */
    @Test
    @EnabledIfEnvironmentVariable(named = "LEAFSEAL_CONVERSATIONS", matches = ".+")
    void everyGeneratedConversation() throws IOException {
        List<String> differences = new ArrayList<>();
        try (Stream<String> lines = Files.lines(Path.of(System.getenv("LEAFSEAL_CONVERSATIONS")))) {
            lines.forEach(line -> check(line, differences));
        }
        assertEquals("", String.join("\n", differences.subList(0, Math.min(SHOWN, differences.size()))), differences.size() + " differ");
    }
}
