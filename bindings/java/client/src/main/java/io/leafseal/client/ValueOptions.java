package io.leafseal.client;

import java.util.List;

/** Options that encryption and decryption share. */
abstract class ValueOptions<S extends ValueOptions<S>> extends ReportOptions<S> {
    List<String> select;

    ValueOptions() {}

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
}
