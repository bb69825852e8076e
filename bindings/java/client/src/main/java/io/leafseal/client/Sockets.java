package io.leafseal.client;

import io.leafseal.client.Settings.Address;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Proxy;
import java.net.Socket;
import java.net.UnknownHostException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/** Sockets with TLS, each connection with a thread that reads and one that writes. */
final class Sockets implements Network {
    private final Settings settings;
    private final ThreadFactory threads;
    private final ScheduledThreadPoolExecutor timer;

    Sockets(Settings settings, ThreadFactory threads) {
        this.settings = settings;
        this.threads = threads;
        timer = new ScheduledThreadPoolExecutor(1, threads);
        timer.setRemoveOnCancelPolicy(true);
        timer.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
    }

    @Override
    public long nanoTime() {
        return System.nanoTime();
    }

    @Override
    public double random() {
        return ThreadLocalRandom.current().nextDouble();
    }

    @Override
    public ScheduledFuture<?> after(long nanos, Runnable task) {
        try {
            return timer.schedule(task, nanos, TimeUnit.NANOSECONDS);
        } catch (RejectedExecutionException closed) {
            return null;
        }
    }

    @Override
    public void close() {
        timer.shutdown();
    }

    @Override
    public void connect(int address, Predicate<Place> isAvoided, Receiver receiver) {
        threads.newThread(new Attempt(address, isAvoided, receiver)).start();
    }

    /** One attempt to connect to an address, which ends in time whatever the name service, the network or the engine does. */
    private final class Attempt implements Runnable {
        private final int index;
        private final Address address;
        private final Predicate<Place> isAvoided;
        private final Receiver receiver;
        private Socket plain;
        private boolean isOver;

        Attempt(int index, Predicate<Place> isAvoided, Receiver receiver) {
            this.index = index;
            this.address = settings.addresses().get(index);
            this.isAvoided = isAvoided;
            this.receiver = receiver;
        }

        @Override
        public void run() {
            ScheduledFuture<?> guard = after(settings.connectTimeout().toNanos(), this::expire);
            try {
                attempt();
            } catch (UnknownHostException error) {
                fail(connectFailed("the host name cannot be resolved", error));
            } catch (LeafsealException error) {
                fail(error);
            } catch (RuntimeException error) {
                fail(connectFailed(Tls.message(error), error));
            } finally {
                if (guard != null) {
                    guard.cancel(false);
                }
            }
        }

        private void attempt() throws UnknownHostException {
            List<InetAddress> found = records();
            long part = Math.max(1, settings.connectTimeout().toMillis() / found.size());
            LeafsealException failure = null;
            for (InetAddress record : found) {
                Socket socket = next();
                if (socket == null) {
                    return;
                }
                try {
                    String name = settings.serverName() != null ? settings.serverName() : address.host();
                    Tls.Sockets sockets = settings.tls().connect(socket, new InetSocketAddress(record, address.port()), name, (int) part);
                    if (!end(true)) {
                        close(socket);
                        return;
                    }
                    receiver.connected(new Place(index, record), shown(record), new SocketTransport(sockets, settings, Sockets.this, threads));
                    return;
                } catch (LeafsealException error) {
                    close(socket);
                    failure = error;
                    if (!error.code().equals(ErrorCode.CONNECT_FAILED)) {
                        break;
                    }
                }
            }
            throw failure;
        }

        /** The records of the address from a random one on; avoided ones come last. */
        private List<InetAddress> records() throws UnknownHostException {
            List<InetAddress> found = new ArrayList<>(new LinkedHashSet<>(Arrays.asList(InetAddress.getAllByName(address.host()))));
            receiver.records(found.size());
            Collections.rotate(found, ThreadLocalRandom.current().nextInt(found.size()));
            found.sort(Comparator.comparing(record -> isAvoided.test(new Place(index, record))));
            return found;
        }

        private String shown(InetAddress record) {
            String text = record.getHostAddress();
            return (text.contains(":") ? "[" + text + "]" : text) + ":" + address.port();
        }

        /** A socket, unless the attempt is over. */
        private synchronized Socket next() {
            plain = isOver ? null : new Socket(Proxy.NO_PROXY);
            return plain;
        }

        /** Ends the attempt, whose socket is kept or closed. Returns false if it was over. */
        private synchronized boolean end(boolean isKept) {
            if (isOver) {
                return false;
            }
            isOver = true;
            if (!isKept && plain != null) {
                close(plain);
            }
            return true;
        }

        private void expire() {
            fail(connectFailed("no connection within " + settings.connectTimeout().toMillis() + " ms", null));
        }

        private void fail(LeafsealException error) {
            if (end(false)) {
                String name = address.host() + ":" + address.port();
                receiver.failed(name, new LeafsealException(error.code(), name + ": " + error.getMessage(), error.retry(), error));
            }
        }

        private static LeafsealException connectFailed(String message, Throwable cause) {
            return new LeafsealException(ErrorCode.CONNECT_FAILED, message, Retry.ELSEWHERE, cause);
        }

        private static void close(Socket socket) {
            try {
                socket.close();
            } catch (IOException ignored) {
                // It is closed for us in any case.
            }
        }
    }
}
