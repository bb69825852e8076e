//! Keeps the library mapped when the class loader that loaded it is collected.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // BoringSSL frees a thread's state by a function of the library that the C library calls at the end of the thread, and threads outlive
    // class loaders: in application servers, on each redeployment. macOS never unloads a library with thread-local variables.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
