package io.leafseal.client;

import com.fasterxml.jackson.annotation.JsonProperty;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;

/** A script of {@code vectors/client}, whose README describes the format. */
record Conversation(
        String name, Changed settings, double random, List<Address> addresses, List<ScriptedCall> calls, long until, List<String> expect) {
    private static final ObjectMapper JSON = JsonMapper.builder().build();

    /** Settings that differ from the rules; each is null if it does not. */
    record Changed(
            @JsonProperty("connections_max") Integer connectionsMax,
            @JsonProperty("requests_in_flight_max") Integer requestsInFlightMax,
            @JsonProperty("retries_max") Integer retriesMax,
            @JsonProperty("backoff_min_ms") Long backoffMinMs,
            @JsonProperty("backoff_max_ms") Long backoffMaxMs,
            @JsonProperty("connect_timeout_ms") Long connectTimeout,
            @JsonProperty("request_timeout_ms") Long requestTimeoutMs,
            @JsonProperty("abandoned_timeout_ms") Long abandonedTimeoutMs) {
        static final Changed NOTHING = new Changed(null, null, null, null, null, null, null, null);

        long connectTimeoutMs() {
            return connectTimeout == null ? Rules.CONNECT_TIMEOUT.toMillis() : connectTimeout;
        }
    }

    record Address(String name, List<Attempt> attempts) {}

    record Attempt(String outcome, List<String> answers, List<String> events) {
        Attempt {
            answers = answers == null ? List.of() : answers;
            events = events == null ? List.of() : events;
        }
    }

    record ScriptedCall(
            long at, String method, @JsonProperty("deadline_ms") Long deadlineMs, @JsonProperty("cancel_at") Long cancelAt) {}

    /** `MS WORD…`. */
    record Timed(long after, String[] words) {
        /** Null for `never`. */
        static Timed parse(String text) {
            if (text.equals("never")) {
                return null;
            }
            String[] words = text.split(" ");
            return new Timed(Long.parseLong(words[0]), Arrays.copyOfRange(words, 1, words.length));
        }
    }

    Conversation {
        settings = settings == null ? Changed.NOTHING : settings;
    }

    static Conversation parse(String json) {
        try {
            return JSON.readValue(json, Conversation.class);
        } catch (com.fasterxml.jackson.core.JsonProcessingException error) {
            throw new UncheckedIOException(error);
        }
    }

    private static Duration time(Long milliseconds, Duration otherwise) {
        return milliseconds == null ? otherwise : Duration.ofMillis(milliseconds);
    }

    private static int count(Integer number, int otherwise) {
        return number == null ? otherwise : number;
    }

    private Settings clientSettings() {
        return new Settings(
                addresses.stream().map(address -> Settings.Address.parse(address.name)).toList(), null, null, null,
                time(settings.requestTimeoutMs, Rules.REQUEST_TIMEOUT), Duration.ofMillis(settings.connectTimeoutMs()),
                count(settings.connectionsMax, Rules.CONNECTIONS_MAX), count(settings.requestsInFlightMax, Rules.REQUESTS_IN_FLIGHT_MAX),
                Long.MAX_VALUE, 1 << 20, Long.MAX_VALUE, 1 << 20, 1 << 20, count(settings.retriesMax, Rules.RETRIES_MAX),
                time(settings.backoffMinMs, Rules.BACKOFF_MIN), time(settings.backoffMaxMs, Rules.BACKOFF_MAX),
                time(settings.abandonedTimeoutMs, Rules.ABANDONED_TIMEOUT), Runnable::run, List.of());
    }

    /** The client's side. */
    List<String> play() {
        VirtualNetwork network = new VirtualNetwork(this);
        Settings of = clientSettings();
        network.calls = new Calls(of, network, 0);
        for (int index = 0; index < calls.size(); index++) {
            ScriptedCall scripted = calls.get(index);
            boolean isHealth = "health".equals(scripted.method);
            var encoder = new Request.Encoder(isHealth ? "health" : "encrypt", 1 << 20, true);
            Request request = isHealth ? encoder.done() : encoder.values(List.of("x"));
            network.requests.add(request);
            int number = index + 1;
            network.afterMs(scripted.at, () -> begin(network, of, scripted, request, number));
        }
        network.runUntil(until);
        return network.transcript();
    }

    private static void begin(VirtualNetwork network, Settings of, ScriptedCall scripted, Request request, int number) {
        var future = new java.util.concurrent.CompletableFuture<String>();
        future.whenComplete((result, error) -> network.write("result " + number + " " + (error == null ? "ok" : result(error))));
        Call<String> call = new Call<>(request, of.timeout().toMillis(), response -> "ok", future, network);
        if (scripted.deadlineMs != null) {
            call.deadlineMs = scripted.deadlineMs;
        }
        network.calls.start(call);
        if (scripted.cancelAt != null) {
            network.afterMs(scripted.cancelAt - scripted.at,
                    () -> network.calls.stop(call, new LeafsealException(ErrorCode.CANCELLED, "cancelled")));
        }
    }

    private static String result(Throwable error) {
        LeafsealException failure = (LeafsealException) error;
        boolean isOwn = failure.source() == LeafsealException.Source.CLIENT;
        if (isOwn && failure.code().equals(ErrorCode.CANCELLED)) {
            return "cancelled";
        }
        return isOwn && failure.code().equals(ErrorCode.DEADLINE_EXCEEDED) ? "timeout" : failure.code();
    }
}
