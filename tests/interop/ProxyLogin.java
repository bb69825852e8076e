import java.net.Authenticator;
import java.net.HttpURLConnection;
import java.net.InetSocketAddress;
import java.net.PasswordAuthentication;
import java.net.Proxy;
import java.net.ProxySelector;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;

/** Calls a URL through a proxy with both clients of the JDK, which send a key once the proxy asks for it; prints the statuses. */
public class ProxyLogin {
    public static void main(String[] arguments) throws Exception {
        URI url = URI.create(arguments[0]);
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[1]));
        Authenticator login = new Authenticator() {
            @Override
            protected PasswordAuthentication getPasswordAuthentication() {
                return new PasswordAuthentication("acme", arguments[2].toCharArray());
            }
        };
        HttpURLConnection connection =
                (HttpURLConnection) url.toURL().openConnection(new Proxy(Proxy.Type.HTTP, address));
        connection.setAuthenticator(login);
        System.out.println(connection.getResponseCode());
        HttpClient client =
                HttpClient.newBuilder().proxy(ProxySelector.of(address)).authenticator(login).build();
        HttpRequest request = HttpRequest.newBuilder(url).build();
        System.out.println(client.send(request, HttpResponse.BodyHandlers.discarding()).statusCode());
    }
}
