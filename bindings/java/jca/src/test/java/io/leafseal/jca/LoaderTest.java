package io.leafseal.jca;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Several class loaders with the package in one virtual machine, as the applications of a server have them. */
class LoaderTest {
    private static final String CLASSES = System.getProperty("leafseal.classes");
    private static final String NATIVES = Path.of(System.getProperty("leafseal.natives"), NativeLibrary.platform()).toString();

    @TempDir
    Path folder;

    private List<String> run(String... options) throws Exception {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        command.addAll(List.of("-Djava.io.tmpdir=" + folder, "-Xmx512m"));
        command.addAll(List.of(options));
        String tests = Path.of(CLASSES).resolveSibling("test-classes").toString();
        command.addAll(List.of("-cp", tests, LoaderProbe.class.getName(), CLASSES + "/", NATIVES + "/"));
        Process process = new ProcessBuilder(command).directory(folder.toFile()).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), output);
        assertTrue(output.endsWith("collected: 3\nended: true\n"), output);
        return output.lines().filter(line -> line.contains("loaded")).toList();
    }

    @Test
    void eachLoadsTheLibraryFromTheJar() throws Exception {
        List<String> lines = run();
        assertEquals(3, lines.size());
        assertTrue(lines.stream().allMatch(line -> line.contains("loaded by way of " + folder)), lines.toString());
    }

    @Test
    void aFileIsLoadedByTheFirstAndCopiedForTheOthers() throws Exception {
        String file = NATIVES + "/io/leafseal/jca/native/" + NativeLibrary.platform() + "/" + System.mapLibraryName("leafseal_java");
        List<String> lines = run("-Dleafseal.native.file=" + file);
        assertEquals(3, lines.size());
        assertTrue(lines.get(0).contains("loaded from " + file), lines.toString());
        assertTrue(lines.subList(1, 3).stream().allMatch(line -> line.contains("loaded by way of " + folder)), lines.toString());
    }
}
