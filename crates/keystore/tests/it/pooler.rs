//! The store behind PgBouncer: transactions of several clients on the same connections, and connections that end between and inside them.

use fieldseal_testkit::pgbouncer::{PgBouncer, PoolMode};
use fieldseal_testkit::postgres::PostgresServer;

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
