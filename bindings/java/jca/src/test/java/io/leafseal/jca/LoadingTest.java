package io.leafseal.jca;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** How the native library is found, in virtual machines of their own, and what happens where it is not. */
class LoadingTest {
    private static final String CLASSES = System.getProperty("leafseal.classes");
    private static final String NATIVES = Path.of(System.getProperty("leafseal.natives"), NativeLibrary.platform()).toString();

    @TempDir
    Path folder;

    private static List<String> java(String classPath, String... options) {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        command.addAll(List.of(options));
        command.addAll(List.of("-cp", classPath, LoadingProbe.class.getName()));
        return command;
    }

    /** The class path of the provider and the probe, with or without the native library. */
    private String path(boolean hasNative) {
        String tests = Path.of(CLASSES).resolveSibling("test-classes").toString();
        return CLASSES + File.pathSeparator + (hasNative ? NATIVES + File.pathSeparator + tests : withoutNatives(tests));
    }

    /** The tests' folder holds the native library as well: their classes alone. */
    private String withoutNatives(String tests) {
        try {
            Path copy = Files.createTempDirectory(folder, "classes");
            Path target = copy.resolve("io/leafseal/jca");
            Files.createDirectories(target);
            try (Stream<Path> classes = Files.list(Path.of(tests, "io/leafseal/jca"))) {
                for (Path it : (Iterable<Path>) classes.filter(file -> file.toString().endsWith(".class"))::iterator) {
                    Files.copy(it, target.resolve(it.getFileName()));
                }
            }
            return copy.toString();
        } catch (java.io.IOException error) {
            throw new java.io.UncheckedIOException(error);
        }
    }

    private static String run(List<String> command) throws Exception {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), output);
        for (String name : new String[] {"AES/GCM/NoPadding", "AES_256/GCM/NoPadding", "AES/CTR/NoPadding"}) {
            assertTrue(output.contains(name + ": Leafseal true"), output);
        }
        return output;
    }

    private static int count(String text, String part) {
        return text.split(part, -1).length - 1;
    }

    @Test
    void fromAJarOnTheClassPath() throws Exception {
        String output = run(java(path(true), "-Djava.io.tmpdir=" + folder));
        assertTrue(output.contains("native: true\nreason: loaded by way of " + folder + "\n"), output);
        assertTrue(output.contains("hash: Leafseal"), output);
        try (Stream<Path> left = Files.list(folder)) {
            assertEquals(List.of(), left.filter(it -> it.getFileName().toString().startsWith("leafseal")).toList());
        }
    }

    /** As a module, which a modular program requires; the native library in a jar on the class path, or in the module itself. */
    @Test
    void onTheModulePath() throws Exception {
        Path program = program();
        String separate = module(Path.of(CLASSES) + File.pathSeparator + program, "-cp", NATIVES);
        assertTrue(separate.startsWith("module io.leafseal.jca, native: true"), separate);
        Path uber = folder.resolve("uber");
        copy(Path.of(CLASSES), uber);
        copy(Path.of(NATIVES), uber);
        String together = module(uber + File.pathSeparator + program);
        assertTrue(together.startsWith("module io.leafseal.jca, native: true"), together);
    }

    private static String module(String path, String... options) throws Exception {
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        command.addAll(List.of(options));
        command.addAll(List.of("--module-path", path, "-m", "program/program.Main"));
        Process process = new ProcessBuilder(command).start();
        String output = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertEquals(0, process.waitFor(), output);
        return output;
    }

    /** Compiles a module that requires the provider's and finds it as a service. */
    private Path program() throws Exception {
        Path sources = Files.createDirectories(folder.resolve("sources/program"));
        Path description = sources.resolveSibling("module-info.java");
        Files.writeString(description, "module program { requires io.leafseal.jca; uses java.security.Provider; }");
        Files.writeString(sources.resolve("Main.java"), String.join("\n", "package program;", "public class Main {",
                "    public static void main(String[] arguments) {",
                "        for (var it : java.util.ServiceLoader.load(java.security.Provider.class)) {",
                "            if (it instanceof io.leafseal.jca.LeafsealProvider) {",
                "                var status = io.leafseal.jca.LeafsealProvider.status();",
                "                System.out.println(it.getClass().getModule() + \", native: \" + status.isNative() + \" \" + status.reason());",
                "            }", "        }", "    }", "}"));
        Path classes = folder.resolve("program");
        int result = javax.tools.ToolProvider.getSystemJavaCompiler().run(null, null, null, "--module-path", CLASSES, "-d",
                classes.toString(), description.toString(), sources.resolve("Main.java").toString());
        assertEquals(0, result);
        return classes;
    }

    private static void copy(Path from, Path to) throws java.io.IOException {
        try (Stream<Path> all = Files.walk(from)) {
            for (Path it : (Iterable<Path>) all::iterator) {
                Path target = to.resolve(from.relativize(it).toString());
                if (Files.isDirectory(it)) {
                    Files.createDirectories(target);
                } else {
                    Files.copy(it, target);
                }
            }
        }
    }

    @Test
    void fromAFile() throws Exception {
        String file = NATIVES + "/io/leafseal/jca/native/" + NativeLibrary.platform() + "/" + System.mapLibraryName("leafseal_java");
        assertTrue(run(java(path(false), "-Dleafseal.native.file=" + file)).contains("native: true\nreason: loaded from " + file));
        String output = run(java(path(true), "-Dleafseal.native.file=" + folder.resolve("missing.so")));
        assertTrue(output.contains("native: false\nreason: cannot load the native library: java.lang.UnsatisfiedLinkError"), output);
    }

    @Test
    void foldersThatAreMissingAreSkipped() throws Exception {
        String missing = folder.resolve("missing").toString();
        String output = run(java(path(true), "-Dleafseal.native.dir=" + missing, "-Djava.io.tmpdir=" + folder));
        assertTrue(output.contains("native: true\nreason: loaded by way of " + folder + "\n"), output);
    }

    /** In a mount namespace of its own, which needs the rights of root. */
    @Test
    void aFolderWithoutExecutionIsSkipped() throws Exception {
        List<String> command = new ArrayList<>(List.of("unshare", "--mount", "sh", "-c",
                "mount -t tmpfs -o noexec none \"$0\" && exec \"$@\"", folder.toString()));
        assumeTrue(canMount(command));
        command.addAll(java(path(true), "-Djava.io.tmpdir=" + folder, "-Dleafseal.native.dir=" + folder));
        String output = run(command);
        assertTrue(output.contains("native: true"), output);
        assertFalse(output.contains("loaded by way of " + folder + "\n"), output);
    }

    private static boolean canMount(List<String> command) throws Exception {
        try {
            List<String> probe = new ArrayList<>(command);
            probe.add("true");
            return new ProcessBuilder(probe).redirectErrorStream(true).start().waitFor() == 0;
        } catch (java.io.IOException missing) {
            return false;
        }
    }

    @Test
    void withoutALibraryTheJdkServes() throws Exception {
        String output = run(java(path(false)));
        assertTrue(output.contains("native: false\nreason: no jar on the class path has io/leafseal/jca/native/"), output);
        assertTrue(output.contains("hash: SUN"), output);
        assertEquals(1, count(output, "Leafseal uses the ciphers of the JDK in pieces of 16 KiB"), output);
        String off = run(java(path(true), "-Dleafseal.native=false"));
        assertTrue(off.contains("native: false\nreason: the system property leafseal.native is false"), off);
    }

    @Test
    void theVersionIsThatOfThePackage() {
        assertEquals(System.getProperty("leafseal.version"), Version.VERSION);
        assertEquals(Version.VERSION, Native.version());
        assertTrue(LeafsealProvider.status().implementations().contains("aes-256-gcm: "));
    }
}
