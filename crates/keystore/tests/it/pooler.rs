//! The store behind PgBouncer: transactions of several clients on the same connections, and connections that end between and inside them.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

use leafseal_keystore::{OpenMode, PostgresKeystore, PostgresSettings, PostgresUrl, SslMode, StoreError, StoreLimits};
use leafseal_testkit::pgbouncer::{PgBouncer, PoolMode};
use leafseal_testkit::postgres::PostgresServer;

use crate::common::environment;
use crate::postgres::under_load;

#[test]
fn poolers_whose_connections_end_under_load_lose_nothing() {
    let server = PostgresServer::shared();
    // Of transactions: fewer connections than stores. Of sessions: each of the three stores has one, and leaves some to spare.
    for (mode, pool_size) in [(PoolMode::Transaction, 2), (PoolMode::Session, 6)] {
        let pooler = PgBouncer::start(server, mode, pool_size);
        let database = server.database();
        under_load(&pooler.settings(&database), |load| {
            for _ in 0..5 {
                load.proceed();
                server.end_connections(&database);
            }
            load.proceed();
            pooler.stop();
            pooler.start_again();
            load.proceed();
        });
    }
}

/// A server that logs clients in and then answers nothing, as a pooler that is paused: each attempt closes its connection.
#[test]
fn an_attempt_that_is_given_up_closes_its_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port = listener.local_addr().expect("bound").port();
    let (sender, closed) = mpsc::channel();
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let (mut client, sender) = (client.expect("accepted"), sender.clone());
            std::thread::spawn(move || {
                let mut size = [0; 4];
                client.read_exact(&mut size).expect("a startup message");
                let mut rest = vec![0; u32::from_be_bytes(size) as usize - 4];
                client.read_exact(&mut rest).expect("all of it");
                // AuthenticationOk and ReadyForQuery.
                client.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I").expect("written");
                let _ = std::io::copy(&mut client, &mut std::io::sink());
                let _ = sender.send(());
            });
        }
    });
    let url = PostgresUrl::parse(&format!("postgres://user@127.0.0.1:{port}/database")).expect("a URL");
    let connect_timeout = Duration::from_millis(50);
    let settings = PostgresSettings { sslmode: SslMode::Disable, connect_timeout, ..PostgresSettings::new(url) };
    let opened = PostgresKeystore::open(&settings, OpenMode::Existing, environment(), StoreLimits::default());
    assert!(
        matches!(&opened, Err(StoreError::Unreachable { reason, .. }) if reason.contains("does not respond")),
        "{opened:?}"
    );
    closed.recv_timeout(Duration::from_secs(60)).expect("closed");
}
