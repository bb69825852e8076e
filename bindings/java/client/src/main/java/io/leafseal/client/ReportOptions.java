package io.leafseal.client;

import java.util.function.Consumer;

/** Options of calls that have a report. */
abstract class ReportOptions<S extends ReportOptions<S>> extends Options<S> {
    Consumer<? super Report> onReport;

    ReportOptions() {}

    /** Values, documents and {@link LeafsealClient#rewrap}: receives the engine's report before the call returns. */
    public S onReport(Consumer<? super Report> receiver) {
        S copy = copy();
        ((ReportOptions<?>) copy).onReport = receiver;
        return copy;
    }
}
