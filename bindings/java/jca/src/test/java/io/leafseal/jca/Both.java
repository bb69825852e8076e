package io.leafseal.jca;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.security.Provider;
import java.security.Security;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/** Runs the same steps with the JDK's provider and with Leafseal, and compares what each step returned or threw. */
final class Both {
    static final LeafsealProvider LEAFSEAL = new LeafsealProvider();
    static final Provider JDK = Security.getProvider("SunJCE");

    /** Steps of one test. */
    interface Script {
        void run(Log log) throws Exception;
    }

    /** One step. */
    interface Step {
        Object run() throws Exception;
    }

    /** The results of a script's steps. */
    static final class Log {
        final Provider provider;
        private final List<String> lines = new ArrayList<>();

        Log(Provider provider) {
            this.provider = provider;
        }

        /** Records the result of a step, or the class of what it threw. */
        void step(String name, Step step) {
            String result;
            try {
                result = text(step.run());
            } catch (Exception error) {
                result = error.getClass().getName();
            }
            lines.add(name + ": " + result);
        }
    }

    private Both() {
    }

    static void same(Script script) {
        same(JDK, script);
    }

    static void same(Provider jdk, Script script) {
        List<String> expected = lines(jdk, script);
        List<String> found = lines(LEAFSEAL, script);
        assertEquals(expected.size(), found.size());
        List<String> differences = new ArrayList<>();
        for (int i = 0; i < expected.size(); i++) {
            if (!expected.get(i).equals(found.get(i))) {
                differences.add("step " + i + ": the JDK has \"" + expected.get(i) + "\", Leafseal \"" + found.get(i) + '"');
            }
        }
        assertEquals(List.of(), differences);
    }

    static List<String> lines(Provider provider, Script script) {
        Log log = new Log(provider);
        try {
            script.run(log);
        } catch (Exception error) {
            throw new AssertionError("a script must not end early", error);
        }
        return log.lines;
    }

    private static String text(Object value) {
        return value instanceof byte[] ? HexFormat.of().formatHex((byte[]) value) : String.valueOf(value);
    }

    /** A cycle of 251 bytes, so that swapped blocks show. */
    static byte[] cycle(int size) {
        byte[] bytes = new byte[size];
        for (int i = 0; i < size; i++) {
            bytes[i] = (byte) (i % 251);
        }
        return bytes;
    }
}
