package io.leafseal.jca;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.Buffer;
import java.nio.ByteBuffer;
import java.nio.MappedByteBuffer;

/**
 * Decides which direct buffers native code may use where they are: those whose memory stays until the buffer is unreachable. Another thread
 * can unmap that of a closable arena during a call, and truncate the file behind a mapped buffer; native code would then end the virtual
 * machine. The JDK's methods throw an exception instead, so such memory is copied by them.
 *
 * <p>A buffer shows its arena only to {@code java.lang.foreign}, which is final since JDK 22. Without it there are no arenas, unless a
 * preview or incubator module is used, of which nothing is assumed: then all direct buffers are copied.
 */
final class DirectMemory {
    private static final MethodHandle SEGMENT;
    private static final MethodHandle SCOPE;
    private static final MethodHandle IS_MAPPED;
    /** The class of scopes that cannot be closed; null if scopes cannot be told apart. */
    private static final Class<?> PERMANENT;
    private static final boolean HAS_ARENAS;

    static {
        MethodHandle segment = null;
        MethodHandle scope = null;
        MethodHandle isMapped = null;
        Class<?> permanent = null;
        boolean hasArenas = true;
        try {
            Class<?> type = Class.forName("java.lang.foreign.MemorySegment");
            Class<?> scopeType = Class.forName("java.lang.foreign.MemorySegment$Scope");
            MethodHandles.Lookup lookup = MethodHandles.publicLookup();
            segment = lookup.findStatic(type, "ofBuffer", MethodType.methodType(type, Buffer.class))
                    .asType(MethodType.methodType(Object.class, ByteBuffer.class));
            scope = lookup.findVirtual(type, "scope", MethodType.methodType(scopeType))
                    .asType(MethodType.methodType(Object.class, Object.class));
            isMapped = lookup.findVirtual(type, "isMapped", MethodType.methodType(boolean.class))
                    .asType(MethodType.methodType(boolean.class, Object.class));
            permanent = permanentScope(segment, scope);
        } catch (ClassNotFoundException none) {
            hasArenas = ModuleLayer.boot().findModule("jdk.incubator.foreign").isPresent();
        } catch (Throwable unknown) {
            // Another form of the interface, of a preview: all direct buffers are copied.
            permanent = null;
        }
        SEGMENT = segment;
        SCOPE = scope;
        IS_MAPPED = isMapped;
        PERMANENT = permanent;
        HAS_ARENAS = hasArenas;
    }

    private DirectMemory() {
    }

    /** The class of an ordinary buffer's scope, if it is not that of an arena which can be closed. */
    private static Class<?> permanentScope(MethodHandle segment, MethodHandle scope) throws Throwable {
        Class<?> ordinary = ((Object) scope.invokeExact((Object) segment.invokeExact(ByteBuffer.allocateDirect(1)))).getClass();
        Class<?> arenas = Class.forName("java.lang.foreign.Arena");
        for (String kind : new String[] {"ofShared", "ofConfined"}) {
            try (AutoCloseable arena = (AutoCloseable) arenas.getMethod(kind).invoke(null)) {
                if (arenas.getMethod("scope").invoke(arena).getClass() == ordinary) {
                    return null;
                }
            }
        }
        return ordinary;
    }

    /** Whether a direct buffer's memory stays for as long as the buffer is reachable. */
    static boolean isPermanent(ByteBuffer buffer) {
        if (!HAS_ARENAS) {
            return !isMapped(buffer);
        }
        if (PERMANENT == null) {
            return false;
        }
        try {
            Object segment = (Object) SEGMENT.invokeExact(buffer);
            return ((Object) SCOPE.invokeExact(segment)).getClass() == PERMANENT && !(boolean) IS_MAPPED.invokeExact(segment);
        } catch (Throwable unknown) {
            return false;
        }
    }

    /** Every direct buffer has the class of a mapped one. A range that does not exist is an error for one with a file, and nothing else. */
    private static boolean isMapped(ByteBuffer buffer) {
        if (!(buffer instanceof MappedByteBuffer)) {
            return false;
        }
        try {
            ((MappedByteBuffer) buffer).force(-1, 0);
            return false;
        } catch (IndexOutOfBoundsException mapped) {
            return true;
        }
    }
}
