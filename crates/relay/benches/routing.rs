//! The time to find the route of a request, for 1 to 10,000 routes that hide fields, and for paths that are as costly as clients can make
//! them: the longest that HTTP/1.1 carries, and one that a short HTTP/2 header block repeats from the table of its connection.
//!
//! `cargo bench --profile checked -p leafseal-relay --bench routing`. Prints medians in nanoseconds for a request.

use std::hint::black_box;
use std::time::Instant;

use leafseal_relay::Configuration;
use leafseal_relay::fuzzing::find_route;

const COUNTS: [usize; 5] = [1, 10, 100, 1000, 10_000];
const ROUNDS: usize = 31;
const CALLS: usize = 50;

fn configuration(pattern: &str, count: usize) -> Configuration {
    let head = "[engine]\naddresses = [\"a:1\"]\nauthorities = \"a\"\ncertificate = \"a\"\nprivate_key = \"a\"\n\
        [[inbound]]\naddress = \"127.0.0.1:0\"\nupstream = \"http://a\"\nunmatched = \"refuse\"\n";
    let route = |number: usize| {
        let path = pattern.replace("{}", &number.to_string());
        format!(
            "[[inbound.route]]\npath = \"{path}\"\napp = \"a\"\nrequest = [{{ action = \"encrypt\", form = [\"a\"] }}]\n"
        )
    };
    let text = head.to_owned() + &(0..count).map(route).collect::<String>();
    Configuration::parse(&text).expect("a configuration")
}

/// The median time of a call in nanoseconds.
fn median(configuration: &Configuration, path: &str) -> u128 {
    let mut times: Vec<u128> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..CALLS {
                black_box(find_route(configuration, black_box(path)));
            }
            start.elapsed().as_nanos() / CALLS as u128
        })
        .collect();
    times.sort_unstable();
    times[ROUNDS / 2]
}

fn main() {
    let oddities = "/x/..;a/%2e%2e/%252F%5c%3bb".repeat(2);
    let paths = [
        ("matches", "/v1/0/cards/7".to_owned()),
        ("matches none", "/v2/other/7".to_owned()),
        ("4 KB, not ASCII", format!("/{}", "é".repeat(2000))),
        ("29 KB, not ASCII", format!("/{}", "é".repeat(14_500))),
        ("4 KB, segments", "/ab".repeat(255) + &"a".repeat(3300)),
        ("4 KB, odd", oddities.clone() + &"é".repeat(2000)),
        ("60 bytes, odd", oddities),
    ];
    println!("pattern\tpath\t{}", COUNTS.map(|count| format!("{count} routes")).join("\t"));
    for pattern in ["/v1/{}/cards/*", "/*/{}/cards/*", "/**/{}/cards/*", "/v1/{}*/cards/*", "/v1/*{}/cards/*"] {
        let configurations = COUNTS.map(|count| configuration(pattern, count));
        for (name, path) in &paths {
            let times = configurations.each_ref().map(|configuration| median(configuration, path).to_string());
            println!("{pattern}\t{name}\t{}", times.join("\t"));
        }
    }
}
