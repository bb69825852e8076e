//! The durability of a change that a server has confirmed. If a rotated key is lost, everything that was encrypted to it is lost.

use tokio_postgres::Client;

use super::explain::connecting;

const QUERY: &str = "
    SELECT pg_is_in_recovery(), current_setting('fsync') = 'on', current_setting('synchronous_standby_names') <> '',
           (SELECT count(*) FROM pg_stat_replication), current_setting('default_transaction_read_only') = 'on'";

/// Refuses a standby, and returns a sentence for everything that could lose a confirmed change.
pub(super) async fn examine(client: &Client) -> Result<Vec<String>, String> {
    let rows = client.query_typed(QUERY, &[]).await.map_err(|error| connecting(&error))?;
    let row = rows.first().ok_or("it does not describe itself")?;
    let flag = |index| row.try_get::<_, bool>(index).map_err(|error| error.to_string());
    if flag(0)? {
        return Err("it is a standby, which shows changes late and accepts none: name the primary".to_owned());
    }
    if flag(4)? {
        return Err("it is set to read only (default_transaction_read_only)".to_owned());
    }
    let replicas = row.try_get::<_, i64>(3).map_err(|error| error.to_string())?;
    Ok(sentences(flag(1)?, flag(2)?, replicas))
}

fn sentences(is_synced: bool, has_synchronous: bool, replicas: i64) -> Vec<String> {
    let mut sentences = Vec::new();
    if !is_synced {
        sentences.push(
            "the keystore's PostgreSQL has fsync off: a power failure can lose a key that is in use, and with it what was encrypted to it"
                .to_owned(),
        );
    }
    if replicas > 0 && !has_synchronous {
        sentences.push(
            "the keystore's PostgreSQL has replicas, and all are asynchronous: a failover can lose a key that is in use, and with it what \
             was encrypted to it; set synchronous_standby_names"
                .to_owned(),
        );
    }
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_to_lose_a_change_is_named() {
        assert_eq!(sentences(true, false, 0), [""; 0]);
        assert_eq!(sentences(true, true, 2), [""; 0]);
        assert!(sentences(true, false, 1)[0].contains("synchronous_standby_names"));
        assert!(sentences(false, true, 1)[0].contains("fsync"));
        assert_eq!(sentences(false, false, 1).len(), 2);
    }
}
