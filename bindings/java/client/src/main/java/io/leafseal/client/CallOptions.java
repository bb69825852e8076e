package io.leafseal.client;

import java.util.function.Consumer;

/** Options of calls that have no others: rewrap, inspect, public keys, API keys, health. */
public final class CallOptions extends Options<CallOptions> {
    private static final CallOptions DEFAULTS = new CallOptions();

    Curve curve;
    OnFailure onFailure;
    Consumer<? super Report> onReport;

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

    /**
     * {@link LeafsealClient#rewrap}: the action for an envelope that does not open, {@link OnFailure#FAIL} or {@link OnFailure#LEAVE}. The
     * engine refuses {@link OnFailure#NULL}, which would destroy a stored value. Default: the call fails.
     */
    public CallOptions onFailure(OnFailure action) {
        CallOptions copy = copy();
        copy.onFailure = action;
        return copy;
    }

    /** {@link LeafsealClient#rewrap}: receives the engine's report before the call returns. */
    public CallOptions onReport(Consumer<? super Report> receiver) {
        CallOptions copy = copy();
        copy.onReport = receiver;
        return copy;
    }
}
