package io.leafseal.jca;

import java.lang.reflect.Method;
import java.lang.reflect.Proxy;

/**
 * Counts the checkpoints of the program (CRaC). A checkpoint that is restored twice continues twice: a cipher that was initialised for
 * encryption before would encrypt different messages under the same nonce. So it must be initialised again.
 *
 * <p>The interface of checkpoints is that of the virtual machine, {@code jdk.crac}, or of the library {@code org.crac} on the class path. It
 * is looked up by name, because most programs have neither.
 */
final class Checkpoints {
    private static final String[] PACKAGES = {"jdk.crac", "org.crac"};

    private static volatile int count;
    /** Kept here: the context of checkpoints holds its resources weakly. */
    private static final Object RESOURCE = register();

    private Checkpoints() {
    }

    /** Changes with each checkpoint and with each restoration. */
    static int count() {
        return count;
    }

    /** Whether the program can be checkpointed. */
    static boolean areCounted() {
        return RESOURCE != null;
    }

    /**
     * Checks that no checkpoint was made since the cipher was initialised.
     *
     * @param initialized the {@link #count} at that time
     */
    static void check(int initialized) {
        if (initialized != count) {
            throw new IllegalStateException("A checkpoint was made since init, and copies of this program may use the same nonce: call init");
        }
    }

    private static Object register() {
        for (String name : PACKAGES) {
            try {
                ClassLoader loader = Checkpoints.class.getClassLoader();
                Class<?> type = Class.forName(name + ".Resource", true, loader);
                Object context = Class.forName(name + ".Core", true, loader).getMethod("getGlobalContext").invoke(null);
                Object resource = Proxy.newProxyInstance(loader, new Class<?>[] {type}, Checkpoints::call);
                Class.forName(name + ".Context", true, loader).getMethod("register", type).invoke(context, resource);
                return resource;
            } catch (ReflectiveOperationException | RuntimeException | LinkageError none) {
                // The next one.
            }
        }
        return null;
    }

    /** A call of the resource. The order of resources is not known, so that both events count. */
    private static synchronized Object call(Object resource, Method method, Object[] arguments) {
        switch (method.getName()) {
            case "beforeCheckpoint":
            case "afterRestore":
                count++;
                return null;
            case "hashCode":
                return System.identityHashCode(resource);
            case "equals":
                return resource == arguments[0];
            default:
                return "the provider Leafseal";
        }
    }
}
