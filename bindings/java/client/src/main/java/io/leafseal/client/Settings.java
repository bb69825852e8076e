package io.leafseal.client;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.Executor;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Checked settings of a client; {@link LeafsealClient.Builder} describes them. */
record Settings(
        List<Address> addresses, Tls tls, String app, String serverName, Duration timeout, Duration connectTimeout, int connectionsMax,
        int requestsInFlightMax, long bytesInFlightMax, int requestsWaitingMax, long bytesWaitingMax, long requestSizeMax, int answerSizeMax,
        int retriesMax, Duration backoffMin, Duration backoffMax, Duration abandonedTimeout,
        Executor executor, List<ClientObserver> observers) {

    private static final int PORT = 3443;
    private static final Pattern ADDRESS = Pattern.compile("(?:\\[([0-9A-Fa-f:.]+(?:%[\\w.]+)?)\\]|([^:\\[\\]\\s/]+))(?::(\\d{1,5}))?");

    /** Where engines listen: one, or all to which the host name resolves. */
    record Address(String host, int port) {
        /** Parses `HOST`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`. */
        static Address parse(String text) {
            Matcher matcher = ADDRESS.matcher(text == null ? "" : text);
            int port = matcher.matches() ? matcher.group(3) == null ? PORT : Integer.parseInt(matcher.group(3)) : 0;
            if (port < 1 || port > 65_535) {
                throw invalid("addresses: expected HOST:PORT, such as engine.internal:3443");
            }
            return new Address(matcher.group(1) != null ? matcher.group(1) : matcher.group(2), port);
        }
    }

    static LeafsealException invalid(String message) {
        return new LeafsealException(ErrorCode.INVALID_SETTINGS, message);
    }
}
