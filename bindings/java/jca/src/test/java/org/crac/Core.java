package org.crac;

import java.util.Map;
import java.util.WeakHashMap;

/** As in the library {@code org.crac:crac}, for CheckpointTest: with a context that holds resources weakly, and without checkpoints. */
public final class Core {
    private static final Global GLOBAL = new Global();

    private Core() {
    }

    public static Context<Resource> getGlobalContext() {
        return GLOBAL;
    }

    private static final class Global extends Context<Resource> {
        private final Map<Resource, String> resources = new WeakHashMap<>();

        @Override
        public void register(Resource resource) {
            resources.put(resource, "registered");
        }

        @Override
        public void beforeCheckpoint(Context<? extends Resource> context) throws Exception {
            for (Resource it : resources.keySet()) {
                it.beforeCheckpoint(this);
            }
        }

        @Override
        public void afterRestore(Context<? extends Resource> context) throws Exception {
            for (Resource it : resources.keySet()) {
                it.afterRestore(this);
            }
        }
    }
}
