package io.leafseal.jca;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.LinkedHashSet;
import java.util.Locale;
import java.util.Set;

/**
 * Finds and loads the native library, once for each class loader.
 *
 * <p>The library is copied out of its jar to a new folder that only this user may enter, loaded, and removed. A folder whose file system
 * forbids execution makes loading fail; then the next candidate is tried. Uses no lambdas, random numbers or other parts of the JDK that
 * are slow to start or need a security provider: this runs while a provider is being loaded.
 */
final class NativeLibrary {
    /** {@code false} turns the native library off. */
    static final String ENABLED = "leafseal.native";
    /** A library to load from where it is; nothing else is tried. A second class loader loads a copy of it. */
    static final String FILE = "leafseal.native.file";
    /** A folder to copy the library to; tried first. */
    static final String FOLDER = "leafseal.native.dir";

    private static final int NAMES_TRIED_MAX = 100;

    /** The result of loading. */
    static final Status STATUS = load();

    private NativeLibrary() {
    }

    private static Status load() {
        String platform = platform();
        if ("false".equalsIgnoreCase(System.getProperty(ENABLED))) {
            return fallback(platform, "the system property " + ENABLED + " is false");
        }
        try {
            String file = System.getProperty(FILE);
            return file == null ? loadCopy(platform, null) : loadFromFile(platform, file);
        } catch (IOException | LinkageError | RuntimeException error) {
            return fallback(platform, "cannot load the native library: " + error);
        }
    }

    private static Status loaded(String platform, String reason) {
        String version = Native.version();
        if (!version.equals(Version.VERSION)) {
            return fallback(platform, "the native library has version " + version + ", the classes have " + Version.VERSION
                    + ": use jars of one version");
        }
        return new Status(true, Version.VERSION, platform, reason, Native.implementations());
    }

    private static Status fallback(String platform, String reason) {
        return new Status(false, Version.VERSION, platform, reason, "");
    }

    private static Status loadFromFile(String platform, String file) throws IOException {
        try {
            System.load(new File(file).getAbsolutePath());
        } catch (UnsatisfiedLinkError error) {
            // A virtual machine loads a file for one class loader. Each application of a server may have its own.
            if (!String.valueOf(error.getMessage()).toLowerCase(Locale.ROOT).contains("another classloader")) {
                throw error;
            }
            return loadCopy(platform, file);
        }
        return loaded(platform, "loaded from " + file);
    }

    /** Loads a copy of a file, or of the library in the jar if it is null. */
    private static Status loadCopy(String platform, String file) throws IOException {
        String resource = "io/leafseal/jca/native/" + platform + "/" + fileName();
        StringBuilder failures = new StringBuilder();
        for (String folder : candidates()) {
            try (InputStream library = file == null ? open(resource) : new FileInputStream(file)) {
                if (library == null) {
                    return fallback(platform, "no jar on the class path has " + resource
                            + ": add the jar of leafseal-jca for this platform");
                }
                load(library, Path.of(folder));
                return loaded(platform, "loaded by way of " + folder);
            } catch (IOException | UnsatisfiedLinkError | SecurityException error) {
                failures.append(failures.length() == 0 ? "" : "; ").append(folder).append(": ").append(error);
            }
        }
        return fallback(platform, "cannot load the native library from any folder (set " + FOLDER
                + " to one that allows execution): " + failures);
    }

    private static InputStream open(String resource) {
        ClassLoader loader = NativeLibrary.class.getClassLoader();
        return loader == null ? ClassLoader.getSystemResourceAsStream(resource) : loader.getResourceAsStream(resource);
    }

    /** Folders to copy to, in this order. Several, because each may be missing, full, read-only or without permission to execute. */
    private static Set<String> candidates() {
        Set<String> folders = new LinkedHashSet<>();
        String[] all = {
            System.getProperty(FOLDER),
            System.getProperty("java.io.tmpdir"),
            System.getenv("XDG_RUNTIME_DIR"),
            System.getenv("XDG_CACHE_HOME"),
            System.getProperty("user.home") == null ? null : System.getProperty("user.home") + File.separator + ".cache",
            isWindows() ? null : "/dev/shm",
            isWindows() ? null : "/var/tmp",
            System.getProperty("user.dir"),
        };
        for (String folder : all) {
            if (folder != null && !folder.isEmpty()) {
                folders.add(folder);
            }
        }
        return folders;
    }

    private static void load(InputStream library, Path parent) throws IOException {
        Path folder = newFolder(parent);
        Path file = folder.resolve(fileName());
        try {
            // Exclusive: neither a link nor a file of someone else is written to.
            Files.write(file, library.readAllBytes(), StandardOpenOption.CREATE_NEW, StandardOpenOption.WRITE);
            System.load(file.toAbsolutePath().toString());
        } finally {
            remove(file);
            remove(folder);
        }
    }

    /** A new folder, entered by this user only. The name needs not be secret: creation fails if it exists, whoever made it. */
    private static Path newFolder(Path parent) throws IOException {
        FileAttribute<?>[] attributes = isWindows()
                ? new FileAttribute<?>[0]
                : new FileAttribute<?>[] {PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"))};
        long start = System.nanoTime();
        for (int i = 0; i < NAMES_TRIED_MAX; i++) {
            try {
                return Files.createDirectory(parent.resolve("leafseal-" + Long.toString(Math.abs(start + i), 36)), attributes);
            } catch (FileAlreadyExistsException taken) {
                // The next name.
            }
        }
        throw new IOException("no unused name for a folder");
    }

    /** A loaded library stays usable without its file, except on Windows, where it is removed when the process ends. */
    private static void remove(Path path) {
        try {
            Files.deleteIfExists(path);
        } catch (IOException | SecurityException error) {
            path.toFile().deleteOnExit();
        }
    }

    /** Operating system and processor, as in the names of the jars. */
    static String platform() {
        return system() + "-" + processor();
    }

    private static String system() {
        String name = System.getProperty("os.name", "").toLowerCase(Locale.ROOT);
        if (name.startsWith("linux")) {
            return "linux";
        }
        if (name.startsWith("mac")) {
            return "macos";
        }
        return name.startsWith("windows") ? "windows" : "unknown";
    }

    private static String processor() {
        switch (System.getProperty("os.arch", "").toLowerCase(Locale.ROOT)) {
            case "amd64":
            case "x86_64":
                return "x86_64";
            case "aarch64":
            case "arm64":
                return "aarch64";
            default:
                return "unknown";
        }
    }

    private static boolean isWindows() {
        return File.separatorChar == '\\';
    }

    private static String fileName() {
        switch (system()) {
            case "macos":
                return "libleafseal_java.dylib";
            case "windows":
                return "leafseal_java.dll";
            default:
                return "libleafseal_java.so";
        }
    }
}
