package io.leafseal.jca;

import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;

/** {@code java.lang.foreign}, which is final since JDK 22, by name: the tests are compiled for JDK 17. */
final class Arenas {
    private Arenas() {
    }

    private static Class<?> type(String name) {
        try {
            return Class.forName("java.lang.foreign." + name);
        } catch (ClassNotFoundException none) {
            return null;
        }
    }

    static boolean exist() {
        return Runtime.version().feature() >= 22;
    }

    /** An arena of the kind {@code ofShared}, {@code ofConfined}, {@code ofAuto} or {@code global}. */
    static Object of(String kind) {
        return call(type("Arena"), null, kind, new Class<?>[0]);
    }

    static ByteBuffer buffer(Object arena, int size) {
        Object segment = call(type("Arena"), arena, "allocate", new Class<?>[] {long.class}, (long) size);
        return (ByteBuffer) call(type("MemorySegment"), segment, "asByteBuffer", new Class<?>[0]);
    }

    static ByteBuffer mapped(Object arena, FileChannel file, int size) {
        Class<?>[] types = {FileChannel.MapMode.class, long.class, long.class, type("Arena")};
        Object segment = call(FileChannel.class, file, "map", types, FileChannel.MapMode.READ_WRITE, 0L, (long) size, arena);
        return (ByteBuffer) call(type("MemorySegment"), segment, "asByteBuffer", new Class<?>[0]);
    }

    static void close(Object arena) {
        call(type("Arena"), arena, "close", new Class<?>[0]);
    }

    private static Object call(Class<?> type, Object object, String name, Class<?>[] types, Object... arguments) {
        try {
            return type.getMethod(name, types).invoke(object, arguments);
        } catch (java.lang.reflect.InvocationTargetException error) {
            if (error.getCause() instanceof RuntimeException) {
                throw (RuntimeException) error.getCause();
            }
            throw new AssertionError(error.getCause());
        } catch (ReflectiveOperationException error) {
            throw new AssertionError(error);
        }
    }
}
