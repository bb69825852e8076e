//! Names of selected members of JSON that a client spells with escapes: the relay forwards them in one spelling.

use hyper::Version;

use crate::names::{JSON, LINES, outcome, post, test_relay};

#[tokio::test(flavor = "multi_thread")]
async fn names_of_selected_members_are_forwarded_in_one_spelling() {
    let rules = "{ action = \"redact\", json = [\"$.card.number\"] }, { action = \"redact\", json = [\"$.p[?@.kind == 'x'].pin\"] }";
    let only = "{ action = \"redact\", json = [\"$.card.number\"] }";
    for (rules, content_type, body, expected) in [
        (only, JSON, r#"{"c\u0061rd":{"n\u0075mber":1,"\u0061":2}}"#, r#"{"card":{"number":"[redacted]","\u0061":2}}"#),
        (only, JSON, r#"{"a":{"n\u0075mber":"\u0031"} }"#, r#"{"a":{"n\u0075mber":"\u0031"} }"#),
        (only, JSON, r#"{"c\u0061rd":null}"#, r#"{"card":null}"#),
        (
            only,
            LINES,
            "{\"a\":1}\n\n{\"c\\u0061rd\":{\"number\":1}}\n",
            "{\"a\":1}\n\n{\"card\":{\"number\":\"[redacted]\"}}\n",
        ),
        (rules, JSON, r#"{"p":[{"k\u0069nd":"x","p\u0069n":1}]}"#, r#"{"p":[{"kind":"x","pin":"[redacted]"}]}"#),
    ] {
        let (_upstream, test_relay) = test_relay(rules, "");
        let mut client = test_relay.client(Version::HTTP_11).await;
        let answer = outcome(&post(&mut client, "/cards", Some(content_type), body).await);
        assert_eq!(answer, format!("/cards {expected}"), "{body}");
    }
    let operations = format!("{only}]\npatches = \"operations\"\nresponse = [");
    let (_upstream, test_relay) = test_relay(&operations, "");
    let mut client = test_relay.client(Version::HTTP_11).await;
    let patch = r#"[{"\u006fp":"add","path":"/card","v\u0061lue":{"n\u0075mber":"4242"}}]"#;
    let answer = outcome(&post(&mut client, "/cards", Some(JSON), patch).await);
    assert_eq!(answer, r#"/cards [{"op":"add","path":"/card","value":{"number":"[redacted]"}}]"#);
}
