package org.crac;

/** As in the library {@code org.crac:crac}, for CheckpointTest. */
public abstract class Context<R extends Resource> implements Resource {
    public abstract void register(R resource);
}
