package io.leafseal.client;

import java.net.InetAddress;
import java.util.concurrent.ScheduledFuture;
import java.util.function.Predicate;

/** The client's interface to the outside: time, chance, and connections to engines. Tests replace it. */
interface Network {
    /** Where a connection leads to: the index of an address of the settings, and the DNS record that was connected to. */
    record Place(int address, InetAddress record) {}

    /** A time in nanoseconds, as {@link System#nanoTime}. */
    long nanoTime();

    /** A random number from 0 to 1. */
    double random();

    /** Runs a task later; null if nothing runs any more. */
    ScheduledFuture<?> after(long nanos, Runnable task);

    /** Connects to an engine in the background; avoided places are tried last. The receiver is called once, without the lock. */
    void connect(int address, Predicate<Place> isAvoided, Receiver receiver);

    /** Runs nothing more. */
    void close();

    /** Receives the result of {@link #connect}. */
    interface Receiver {
        /** The number of DNS records that the address has. */
        void records(int count);

        void connected(Place place, String name, Transport transport);

        void failed(String name, LeafsealException error);
    }

    /** Carries the messages of a connection. None of its methods blocks. */
    interface Transport {
        /** Begins to pass messages on: from {@link Connection#takeBatch}, and to {@link Connection#take}. Called under the lock. */
        void start(Connection connection);

        /** {@link Connection#takeBatch} has something to write, or the connection has ended. Called under the lock. */
        void wake();

        /** Closes the socket. Called without the lock. */
        void close();

        /** Closes the socket when what is being written is written, and soon in any case. Called without the lock. */
        void closeGracefully();
    }
}
