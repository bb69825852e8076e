import io.leafseal.client.DecryptOptions;
import io.leafseal.client.EncryptOptions;
import io.leafseal.client.LeafsealClient;
import io.leafseal.client.LeafsealException;
import io.leafseal.client.Scheme;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** The Java client's part of test_contexts.py. */
class Contexts {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        try (LeafsealClient client = LeafsealClient.builder()
                .addresses(arguments[0])
                .ca(Path.of(arguments[1]))
                .certificate(Path.of(arguments[2]))
                .key(Path.of(arguments[3]))
                .app(arguments[4])
                .connect()) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                out.print(answer(client, line.split("\t", -1)) + "\n");
                out.flush();
            }
        }
    }

    private static String answer(LeafsealClient client, String[] parts) {
        List<String> contexts = new ArrayList<>();
        List<String> values = new ArrayList<>();
        for (int at = 1; at < parts.length; at += 2) {
            contexts.add(parts[at]);
            values.add(parts[at + 1]);
        }
        try {
            List<?> results = parts[0].equals("encrypt")
                    ? client.encryptAll(values, contexts, EncryptOptions.defaults().scheme(Scheme.SYMMETRIC))
                    : client.decryptAll(values, contexts, DecryptOptions.defaults());
            StringBuilder answer = new StringBuilder("ok");
            results.forEach(result -> answer.append('\t').append(result));
            return answer.toString();
        } catch (LeafsealException error) {
            return "error\t" + error.code() + "\t" + error.index().orElse(-1);
        }
    }
}
