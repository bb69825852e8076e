package io.leafseal.client;

import io.leafseal.client.Answers.Response;
import io.leafseal.client.Calls.Prepared;
import io.leafseal.client.Request.Encoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.function.Function;
import java.util.function.Supplier;

/**
 * A client of one engine, or of several that serve the same apps. Create one for each process and share it: it is thread-safe, and keeps
 * connections open.
 *
 * <p>Each call exists twice: the first blocks, and throws {@link LeafsealException}; the one that ends in {@code Async} returns a future,
 * which completes with the same exception. Cancelling that future, or interrupting a thread that waits, asks the engine to stop.
 * Continuations of futures run on the client's executor: they may make blocking calls, but must not wait for other futures of the client.
 *
 * <p>Values are strings, booleans, {@code Byte} to {@code Long}, {@code BigInteger} from -2^63 to 2^64 - 1, finite {@code Float} and
 * {@code Double}, and null. Decrypted integers are {@code Long}, or {@code BigInteger} from 2^63; other numbers are {@code Double}.
 */
public final class LeafsealClient extends QueryCalls implements AutoCloseable {
    private final Settings settings;
    private final Calls calls;

    LeafsealClient(Settings settings) {
        this.settings = settings;
        this.calls = new Calls(settings);
    }

    /** Returns a builder with the defaults. */
    public static LeafsealClientBuilder builder() {
        return new LeafsealClientBuilder();
    }

    @Override
    <T> T run(Prepared<T> call) {
        return calls.run(call.request(), call.timeout(), call.read());
    }

    /** Errors in arguments complete the future, too. */
    @Override
    <T> CompletableFuture<T> submit(Supplier<Prepared<T>> preparing) {
        Prepared<T> call;
        try {
            call = preparing.get();
        } catch (LeafsealException error) {
            return CompletableFuture.failedFuture(error);
        }
        return calls.submit(call.request(), call.timeout(), call.read());
    }

    /** Encrypts a value; null stays null. */
    public String encrypt(Object value) {
        return encrypt(value, EncryptOptions.defaults());
    }

    /** Encrypts a value; null stays null. */
    public String encrypt(Object value, EncryptOptions options) {
        return encryptAll(Arrays.asList(value), options).get(0);
    }

    /** As {@link #encrypt(Object, EncryptOptions)}. */
    public CompletableFuture<String> encryptAsync(Object value, EncryptOptions options) {
        return submit(() -> first(encryption(Arrays.asList(value), options)));
    }

    /** Encrypts values in one request: all or none. Returns as many envelopes in the same order; null stays null. */
    public List<String> encryptAll(Collection<?> values) {
        return encryptAll(values, EncryptOptions.defaults());
    }

    /** Encrypts values in one request: all or none. Returns as many envelopes in the same order; null stays null. */
    public List<String> encryptAll(Collection<?> values, EncryptOptions options) {
        return run(encryption(values, options));
    }

    /** As {@link #encryptAll(Collection, EncryptOptions)}. */
    public CompletableFuture<List<String>> encryptAllAsync(Collection<?> values, EncryptOptions options) {
        return submit(() -> encryption(values, options));
    }

    /**
     * Encrypts values, each in a context of its own in place of {@link EncryptOptions#context}: as many contexts of 1 to 1024 bytes as there are
     * values, for null too. Each envelope opens in its own context alone.
     */
    public List<String> encryptAll(Collection<?> values, Collection<String> contexts, EncryptOptions options) {
        return run(encryption(values, snapshot(contexts, "contexts"), options));
    }

    /** As {@link #encryptAll(Collection, Collection, EncryptOptions)}. */
    public CompletableFuture<List<String>> encryptAllAsync(Collection<?> values, Collection<String> contexts, EncryptOptions options) {
        return submit(() -> encryption(values, snapshot(contexts, "contexts"), options));
    }

    /** Decrypts an envelope; any other value is returned unchanged. */
    public Object decrypt(Object value) {
        return decrypt(value, DecryptOptions.defaults());
    }

    /** Decrypts an envelope; any other value is returned unchanged. */
    public Object decrypt(Object value, DecryptOptions options) {
        return decryptAll(Arrays.asList(value), options).get(0);
    }

    /** As {@link #decrypt(Object, DecryptOptions)}. */
    public CompletableFuture<Object> decryptAsync(Object value, DecryptOptions options) {
        return submit(() -> first(decryption(Arrays.asList(value), options)));
    }

    /** Decrypts envelopes among any values in one request. Returns as many values in the same order. */
    public List<Object> decryptAll(Collection<?> values) {
        return decryptAll(values, DecryptOptions.defaults());
    }

    /** Decrypts envelopes among any values in one request. Returns as many values in the same order. */
    public List<Object> decryptAll(Collection<?> values, DecryptOptions options) {
        return run(decryption(values, options));
    }

    /** As {@link #decryptAll(Collection, DecryptOptions)}. */
    public CompletableFuture<List<Object>> decryptAllAsync(Collection<?> values, DecryptOptions options) {
        return submit(() -> decryption(values, options));
    }

    /** Decrypts envelopes, each in a context of its own, as {@link #encryptAll(Collection, Collection, EncryptOptions)} has them. */
    public List<Object> decryptAll(Collection<?> values, Collection<String> contexts, DecryptOptions options) {
        return run(decryption(values, snapshot(contexts, "contexts"), options));
    }

    /** As {@link #decryptAll(Collection, Collection, DecryptOptions)}. */
    public CompletableFuture<List<Object>> decryptAllAsync(Collection<?> values, Collection<String> contexts, DecryptOptions options) {
        return submit(() -> decryption(values, snapshot(contexts, "contexts"), options));
    }

    /**
     * Encrypts the selected values of a JSON document in UTF-8; every other byte stays unchanged. The array must not change until the call
     * ends.
     */
    public byte[] encryptDocument(byte[] json, EncryptOptions options) {
        return run(documentCall(Method.ENCRYPT_DOCUMENT, json, false, options));
    }

    /** As {@link #encryptDocument(byte[], EncryptOptions)}, for text. */
    public String encryptDocument(String json, EncryptOptions options) {
        return text(run(documentCall(Method.ENCRYPT_DOCUMENT, utf8(json), true, options)));
    }

    /** As {@link #encryptDocument(byte[], EncryptOptions)}. */
    public CompletableFuture<byte[]> encryptDocumentAsync(byte[] json, EncryptOptions options) {
        return submit(() -> documentCall(Method.ENCRYPT_DOCUMENT, json, false, options));
    }

    /** Decrypts the selected envelopes of a JSON document in UTF-8; every other byte stays unchanged. Numbers keep their exact text. */
    public byte[] decryptDocument(byte[] json, DecryptOptions options) {
        return run(documentCall(Method.DECRYPT_DOCUMENT, json, false, options));
    }

    /** As {@link #decryptDocument(byte[], DecryptOptions)}, for text. */
    public String decryptDocument(String json, DecryptOptions options) {
        return text(run(documentCall(Method.DECRYPT_DOCUMENT, utf8(json), true, options)));
    }

    /** As {@link #decryptDocument(byte[], DecryptOptions)}. */
    public CompletableFuture<byte[]> decryptDocumentAsync(byte[] json, DecryptOptions options) {
        return submit(() -> documentCall(Method.DECRYPT_DOCUMENT, json, false, options));
    }

    /** Encrypts a file. The array must not change until the call ends. */
    public byte[] encryptFile(byte[] data, EncryptOptions options) {
        return run(fileCall(Method.ENCRYPT_FILE, data, options));
    }

    /** As {@link #encryptFile}. */
    public CompletableFuture<byte[]> encryptFileAsync(byte[] data, EncryptOptions options) {
        return submit(() -> fileCall(Method.ENCRYPT_FILE, data, options));
    }

    /** Decrypts a file that {@link #encryptFile} or {@code leafseal encrypt} created. */
    public byte[] decryptFile(byte[] data, DecryptOptions options) {
        return run(fileCall(Method.DECRYPT_FILE, data, options));
    }

    /** As {@link #decryptFile}. */
    public CompletableFuture<byte[]> decryptFileAsync(byte[] data, DecryptOptions options) {
        return submit(() -> fileCall(Method.DECRYPT_FILE, data, options));
    }

    /** Encrypts envelopes again under the app's newest key version. The values never leave the engine. */
    public Rewrapped rewrap(Collection<String> envelopes, CallOptions options) {
        return run(rewrapping(envelopes, null, options));
    }

    /** Rewraps envelopes, each in a context of its own, as {@link #encryptAll(Collection, Collection, EncryptOptions)} has them. */
    public Rewrapped rewrap(Collection<String> envelopes, Collection<String> contexts, CallOptions options) {
        return run(rewrapping(envelopes, snapshot(contexts, "contexts"), options));
    }

    /** As {@link #rewrap(Collection, Collection, CallOptions)}. */
    public CompletableFuture<Rewrapped> rewrapAsync(Collection<String> envelopes, Collection<String> contexts, CallOptions options) {
        return submit(() -> rewrapping(envelopes, snapshot(contexts, "contexts"), options));
    }

    /** As {@link #rewrap}. */
    public CompletableFuture<Rewrapped> rewrapAsync(Collection<String> envelopes, CallOptions options) {
        return submit(() -> rewrapping(envelopes, null, options));
    }

    /**
     * Returns the metadata of envelopes, never their values. With an app in the options, also the fields inside, which requires the
     * permission to decrypt; the client's app is not used here.
     */
    public List<Inspection> inspect(Collection<String> envelopes, CallOptions options) {
        return run(inspection(envelopes, options));
    }

    /** As {@link #inspect}. */
    public CompletableFuture<List<Inspection>> inspectAsync(Collection<String> envelopes, CallOptions options) {
        return submit(() -> inspection(envelopes, options));
    }

    /** Calls that have not ended. */
    public int callsInFlight() {
        return calls.count();
    }

    Calls calls() {
        return calls;
    }

    /** Accepts no more calls, waits for those under way, and closes the connections. If the thread is interrupted, they fail. */
    @Override
    public void close() {
        calls.close(false);
    }

    /** As {@link #close}, but calls under way fail with {@code closed}. */
    public void closeNow() {
        calls.close(true);
    }

    private Prepared<List<String>> encryption(Collection<?> values, EncryptOptions options) {
        return encryption(values, null, options);
    }

    private Prepared<List<String>> encryption(Collection<?> values, List<String> contexts, EncryptOptions options) {
        List<Object> snapshot = snapshot(values, "values");
        int count = snapshot.size();
        Request request = encoder(Method.ENCRYPT, options, Content.VALUES).texts("contexts", contexts).values(snapshot);
        return new Prepared<>(request, timeout(options), response -> report(options, Answers.values(response, count, in -> in.nil() ? null : in.text())));
    }

    private Prepared<List<Object>> decryption(Collection<?> values, DecryptOptions options) {
        return decryption(values, null, options);
    }

    private Prepared<List<Object>> decryption(Collection<?> values, List<String> contexts, DecryptOptions options) {
        List<Object> snapshot = snapshot(values, "values");
        int count = snapshot.size();
        Request request = encoder(Method.DECRYPT, options, Content.VALUES).texts("contexts", contexts).values(snapshot);
        return new Prepared<>(request, timeout(options), response -> report(options, Answers.values(response, count, In::scalar)));
    }

    private Prepared<byte[]> documentCall(String method, byte[] json, boolean isOwned, ValueOptions<?> options) {
        require(json, "json");
        Request request = encoder(method, options, Content.DOCUMENT).texts("select", options.select).bytes("document", json, isOwned);
        return new Prepared<>(request, timeout(options), response -> report(options, Answers.content(response, "document")));
    }

    private Prepared<byte[]> fileCall(String method, byte[] data, ValueOptions<?> options) {
        require(data, "data");
        if (options.onReport != null) {
            throw LeafsealException.invalidArgument("onReport: not an option of files");
        }
        Request request = encoder(method, options, Content.FILE).bytes("data", data, false);
        return new Prepared<>(request, timeout(options), response -> Answers.content(response, "data").bytes());
    }

    private Prepared<Rewrapped> rewrapping(Collection<String> envelopes, List<String> contexts, CallOptions options) {
        List<String> snapshot = snapshot(envelopes, "envelopes");
        int count = snapshot.size();
        Request request = encoder(Method.REWRAP, options, Content.VALUES).texts("contexts", contexts).texts("values", snapshot).done();
        return new Prepared<>(request, timeout(options), response -> {
            Answers.Values<String> values = Answers.values(response, count, In::text);
            if (options.onReport != null) {
                options.onReport.accept(values.report());
            }
            return new Rewrapped(values.values(), values.report().count());
        });
    }

    private Prepared<List<Inspection>> inspection(Collection<String> envelopes, CallOptions options) {
        List<String> snapshot = snapshot(envelopes, "envelopes");
        int count = snapshot.size();
        Map<String, String> opening = ofInspection(options);
        return plain(Method.INSPECT, options, response -> Answers.values(response, count, QueryCalls::readInspection).values(),
                encoder -> encoder.text("app", options.app).text("context", opening.get("context")).text("accept", opening.get("accept"))
                        .texts("values", snapshot));
    }

    /** The context and the accepted kinds, of a call that has no other option. */
    private static Map<String, String> ofInspection(CallOptions options) {
        Map<String, String> given = new HashMap<>();
        for (Options.Sent option : options.sent()) {
            if (option.field().equals("context") || option.field().equals("accept")) {
                given.put(option.field(), (String) option.value());
            } else if (option.isSet()) {
                throw LeafsealException.invalidArgument(option.name() + ": not an option of inspect");
            }
        }
        return given;
    }

    @Override
    <T> Prepared<T> plain(String method, CallOptions options, Function<Response, T> read, Function<Encoder, Encoder> fields) {
        return new Prepared<>(fields.apply(encoder(method, false)).done(), timeout(options), read);
    }

    private static <T> Prepared<T> first(Prepared<List<T>> call) {
        return new Prepared<>(call.request(), call.timeout(), response -> call.read().apply(response).get(0));
    }

    private Encoder encoder(String method, boolean hasDeadline) {
        return new Encoder(method, settings.requestSizeMax(), hasDeadline);
    }

    /** The input of a method, which decides the options that it has. */
    private enum Content { VALUES, DOCUMENT, FILE }

    /** Writes the options. One that the method does not have is refused if it is set. */
    private Encoder encoder(String method, Options<?> options, Content content) {
        Encoder encoder = encoder(method, true).text("app", app(options));
        if (content != Content.DOCUMENT && options instanceof ValueOptions<?> of && of.select != null) {
            throw LeafsealException.invalidArgument("select: an option of documents");
        }
        for (Options.Sent option : options.sent()) {
            if (!option.isSet()) {
                continue;
            }
            if (option.isOfDocuments() && content != Content.DOCUMENT) {
                throw LeafsealException.invalidArgument(option.name() + ": an option of documents");
            }
            if (!option.isOfFiles() && content == Content.FILE) {
                throw LeafsealException.invalidArgument(option.name() + ": not an option of files");
            }
            if (option.value() instanceof Boolean flag) {
                encoder.flag(option.field(), flag);
            } else {
                encoder.text(option.field(), (String) option.value());
            }
        }
        return encoder;
    }

    @Override
    String app(Options<?> options) {
        String app = options.app != null ? options.app : settings.app();
        if (app == null) {
            throw LeafsealException.invalidArgument("app: set it in the options of the call or of the client");
        }
        return app;
    }

    private Duration timeout(Options<?> options) {
        return options.timeout == null ? settings.timeout() : LeafsealClientBuilder.checked("timeout", options.timeout, ErrorCode.INVALID_PARAMS);
    }

    private static <T> List<T> report(ValueOptions<?> options, Answers.Values<T> values) {
        if (options.onReport != null) {
            options.onReport.accept(values.report());
        }
        return values.values();
    }

    private static byte[] report(ValueOptions<?> options, Answers.Content content) {
        if (options.onReport != null) {
            options.onReport.accept(content.report());
        }
        return content.bytes();
    }

    private static void require(Object argument, String name) {
        if (argument == null) {
            throw LeafsealException.invalidArgument(name + ": null");
        }
    }

    /** A copy whose size cannot change. */
    private static <T> List<T> snapshot(Collection<? extends T> values, String name) {
        require(values, name);
        return new ArrayList<>(values);
    }

    private static byte[] utf8(String json) {
        require(json, "json");
        return Encoder.utf8(json, "json");
    }

    private static String text(byte[] utf8) {
        String text = new String(utf8, StandardCharsets.UTF_8);
        Pem.wipe(utf8);
        return text;
    }
}
