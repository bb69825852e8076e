package io.leafseal.client;

/** Options of calls that have no others: rewrap, inspect, public keys, API keys, health. */
public final class CallOptions extends Options<CallOptions> {
    private static final CallOptions DEFAULTS = new CallOptions();

    Curve curve;

    private CallOptions() {}

    /** The defaults: the client's app and time limit. */
    public static CallOptions defaults() {
        return DEFAULTS;
    }

    /** {@link LeafsealClient#rewrap}: the curve of the new envelopes. Default: each keeps its own. */
    public CallOptions curve(Curve which) {
        CallOptions copy = copy();
        copy.curve = which;
        return copy;
    }
}
