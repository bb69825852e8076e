package io.leafseal.client;

import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executor;

/** Builds a {@link LeafsealClient}. Addresses, authority, certificate and key are required. */
public final class LeafsealClientBuilder {
    private static final Duration DURATION_MAX = Duration.ofMillis(Integer.MAX_VALUE);
    private static final long LIMIT_MAX = 4_294_967_295L;
    private static final int ANSWER_SIZE_MAX = 1 << 30;

    private List<String> addresses = List.of();
    private Pem ca;
    private Pem certificate;
    private Pem key;
    private String app;
    private String serverName;
    private Duration timeout = Rules.REQUEST_TIMEOUT;
    private Duration connectTimeout = Rules.CONNECT_TIMEOUT;
    private int connectionsMax = Rules.CONNECTIONS_MAX;
    private int requestsInFlightMax = Rules.REQUESTS_IN_FLIGHT_MAX;
    private long bytesInFlightMax = 128L << 20;
    private int requestsWaitingMax = 16_384;
    private long bytesWaitingMax = 256L << 20;
    private long requestSizeMax = 1L << 30;
    private int answerSizeMax = ANSWER_SIZE_MAX;
    private int retriesMax = Rules.RETRIES_MAX;
    private Duration backoffMin = Rules.BACKOFF_MIN;
    private Duration backoffMax = Rules.BACKOFF_MAX;
    private Duration abandonedTimeout = Rules.ABANDONED_TIMEOUT;
    private Executor executor;
    private final List<ClientObserver> observers = new ArrayList<>();

    LeafsealClientBuilder() {}

    /** {@code HOST:PORT} of one or more engines that serve the same apps. The port defaults to 3443. */
    public LeafsealClientBuilder addresses(String... list) {
        addresses = List.of(list);
        return this;
    }

    /** {@code HOST:PORT} of one or more engines that serve the same apps. The port defaults to 3443. */
    public LeafsealClientBuilder addresses(List<String> list) {
        addresses = List.copyOf(list);
        return this;
    }

    /** The authority that signs the engines' certificates: a PEM file, which is read again for each connection. */
    public LeafsealClientBuilder ca(Path file) {
        ca = file == null ? null : Pem.file("ca", file);
        return this;
    }

    /** The authority as the content of a PEM file. */
    public LeafsealClientBuilder ca(byte[] pem) {
        ca = pem == null ? null : Pem.content("ca", pem);
        return this;
    }

    /** The client's certificate, with intermediate certificates if there are any: a PEM file, which is read again for each connection. */
    public LeafsealClientBuilder certificate(Path file) {
        certificate = file == null ? null : Pem.file("certificate", file);
        return this;
    }

    /** The client's certificate as the content of a PEM file. */
    public LeafsealClientBuilder certificate(byte[] pem) {
        certificate = pem == null ? null : Pem.content("certificate", pem);
        return this;
    }

    /** The key of the certificate, unencrypted: a PEM file, which is read again for each connection. */
    public LeafsealClientBuilder key(Path file) {
        key = file == null ? null : Pem.file("key", file);
        return this;
    }

    /** The key of the certificate as the content of a PEM file. The client keeps a copy. */
    public LeafsealClientBuilder key(byte[] pem) {
        key = pem == null ? null : Pem.content("key", pem);
        return this;
    }

    /** The app of calls that name none. */
    public LeafsealClientBuilder app(String name) {
        app = name;
        return this;
    }

    /** The name in the engines' certificates. Default: the host of each address. */
    public LeafsealClientBuilder serverName(String name) {
        serverName = name;
        return this;
    }

    /** Time limit of a call, retries included; also sent to the engine. Default 30 s. */
    public LeafsealClientBuilder timeout(Duration limit) {
        timeout = limit;
        return this;
    }

    /** Time limit of a connection attempt, TLS included. Default 5 s. */
    public LeafsealClientBuilder connectTimeout(Duration limit) {
        connectTimeout = limit;
        return this;
    }

    /** Maximum open connections. Another one is opened while all are busy. Each has two threads. Default 2. */
    public LeafsealClientBuilder connectionsMax(int count) {
        connectionsMax = count;
        return this;
    }

    /** Maximum requests in flight on each connection. Default 128; the engine stops reading at 256. */
    public LeafsealClientBuilder requestsInFlightMax(int count) {
        requestsInFlightMax = count;
        return this;
    }

    /** Bytes of requests in flight at which further calls wait; one request may exceed it. Default 128 MiB. */
    public LeafsealClientBuilder bytesInFlightMax(long bytes) {
        bytesInFlightMax = bytes;
        return this;
    }

    /** Maximum calls that wait for a connection or a free slot on one; further ones fail with {@code busy}. Default 16,384. */
    public LeafsealClientBuilder requestsWaitingMax(int count) {
        requestsWaitingMax = count;
        return this;
    }

    /** Maximum bytes of requests that wait; further calls fail with {@code busy}, unless none waits. Default 256 MiB. */
    public LeafsealClientBuilder bytesWaitingMax(long bytes) {
        bytesWaitingMax = bytes;
        return this;
    }

    /** Maximum bytes of a request. Default 1 GiB, the engine's limit. */
    public LeafsealClientBuilder requestSizeMax(long bytes) {
        requestSizeMax = bytes;
        return this;
    }

    /** Maximum bytes of an answer. Default and maximum 1 GiB. */
    public LeafsealClientBuilder answerSizeMax(int bytes) {
        answerSizeMax = bytes;
        return this;
    }

    /** Maximum retries of a call that no engine executes. Default 4; 0 disables retries. */
    public LeafsealClientBuilder retriesMax(int count) {
        retriesMax = count;
        return this;
    }

    /** First and longest pause after a failed connection and before a retry; it doubles each time. Default 50 ms and 5 s. */
    public LeafsealClientBuilder backoff(Duration first, Duration longest) {
        backoffMin = first;
        backoffMax = longest;
        return this;
    }

    /** How long a cancelled request may stay unanswered before its connection counts as dead. Default 30 s. */
    public LeafsealClientBuilder abandonedTimeout(Duration limit) {
        abandonedTimeout = limit;
        return this;
    }

    /** Where futures are completed. Default: daemon threads of the client, one for each processor. */
    public LeafsealClientBuilder executor(Executor completions) {
        executor = completions;
        return this;
    }

    /** Adds a receiver of calls and connections. */
    public LeafsealClientBuilder observer(ClientObserver observer) {
        observers.add(observer);
        return this;
    }

    /** Checks the settings and returns a client, which connects on its first call. */
    public LeafsealClient build() {
        if (addresses.isEmpty()) {
            throw Settings.invalid("addresses: expected at least one HOST:PORT");
        }
        List<Settings.Address> parsed = addresses.stream().map(Settings.Address::parse).toList();
        for (String name : List.of("ca", "certificate", "key")) {
            if ((name.equals("ca") ? ca : name.equals("key") ? key : certificate) == null) {
                throw Settings.invalid(name + ": expected a PEM file or its content");
            }
        }
        limit("connectionsMax", connectionsMax, 1, 1024);
        limit("requestsInFlightMax", requestsInFlightMax, 1, 65_536);
        limit("bytesInFlightMax", bytesInFlightMax, 1, Long.MAX_VALUE >> 1);
        limit("requestsWaitingMax", requestsWaitingMax, 0, Integer.MAX_VALUE);
        limit("bytesWaitingMax", bytesWaitingMax, 0, Long.MAX_VALUE >> 1);
        limit("requestSizeMax", requestSizeMax, 1, LIMIT_MAX);
        limit("answerSizeMax", answerSizeMax, 1, ANSWER_SIZE_MAX);
        limit("retriesMax", retriesMax, 0, 1000);
        String code = ErrorCode.INVALID_SETTINGS;
        checked("timeout", timeout, code);
        checked("connectTimeout", connectTimeout, code);
        checked("backoff", backoffMin, code);
        checked("backoff", backoffMax, code);
        checked("abandonedTimeout", abandonedTimeout, code);
        if (backoffMax.compareTo(backoffMin) < 0) {
            throw Settings.invalid("backoff: the longest pause must be at least the first");
        }
        return new LeafsealClient(new Settings(
                parsed, new Tls(ca, certificate, key), app, serverName, timeout, connectTimeout, connectionsMax, requestsInFlightMax,
                bytesInFlightMax, requestsWaitingMax, bytesWaitingMax, requestSizeMax, answerSizeMax, retriesMax, backoffMin, backoffMax,
                abandonedTimeout, executor, List.copyOf(observers)));
    }

    /** As {@link #build}, and connects: a wrong address or certificate is reported here. */
    public LeafsealClient connect() {
        LeafsealClient client = build();
        try {
            client.health(CallOptions.defaults());
            return client;
        } catch (LeafsealException error) {
            client.closeNow();
            throw error;
        }
    }

    private static void limit(String name, long value, long least, long most) {
        if (value < least || value > most) {
            throw Settings.invalid(name + " must be from " + least + " to " + most);
        }
    }

    static Duration checked(String name, Duration value, String code) {
        if (value == null || value.compareTo(Duration.ofMillis(1)) < 0 || value.compareTo(DURATION_MAX) > 0) {
            throw new LeafsealException(code, name + " must be from 1 to " + DURATION_MAX.toMillis() + " ms");
        }
        return value;
    }
}
