package io.leafseal.client;

import java.util.List;
import java.util.function.Consumer;

/** What the options of encryption and decryption share. */
abstract class ValueOptions<S extends ValueOptions<S>> extends Options<S> {
    String role;
    List<String> select;
    boolean strict;
    OtherCase otherCase;
    Consumer<? super Report> onReport;

    ValueOptions() {}

    /** The data role that is written into envelopes, or that every envelope must carry. 1 to 20 characters of {@code a-z0-9-}. */
    public S role(String name) {
        S copy = copy();
        ((ValueOptions<?>) copy).role = name;
        return copy;
    }

    /** Documents: JSONPath selectors (RFC 9535); their union. Default: every value, or every envelope. */
    public S select(String... selectors) {
        return select(List.of(selectors));
    }

    /** Documents: JSONPath selectors (RFC 9535); their union. Default: every value, or every envelope. */
    public S select(List<String> selectors) {
        S copy = copy();
        ((ValueOptions<?>) copy).select = List.copyOf(selectors);
        return copy;
    }

    /** Documents: every selector must match something, or the call fails with {@code unmatched_selector}. */
    public S strict(boolean isStrict) {
        S copy = copy();
        ((ValueOptions<?>) copy).strict = isStrict;
        return copy;
    }

    /** Documents: the action for a name that differs from a selector's only in case. Default: it is another name. */
    public S otherCase(OtherCase action) {
        S copy = copy();
        ((ValueOptions<?>) copy).otherCase = action;
        return copy;
    }

    /** Receives the engine's report before the call returns. */
    public S onReport(Consumer<? super Report> receiver) {
        S copy = copy();
        ((ValueOptions<?>) copy).onReport = receiver;
        return copy;
    }
}
