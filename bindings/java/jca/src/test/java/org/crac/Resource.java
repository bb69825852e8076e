package org.crac;

/** As in the library {@code org.crac:crac}, for CheckpointTest. */
public interface Resource {
    void beforeCheckpoint(Context<? extends Resource> context) throws Exception;

    void afterRestore(Context<? extends Resource> context) throws Exception;
}
