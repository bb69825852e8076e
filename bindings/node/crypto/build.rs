//! Passes the linker the platform's arguments for a Node module, and keeps the module loaded.

fn main() {
    napi_build::setup();
    // The threads of the pool outlive the worker thread that loaded the module: its code must stay mapped when Node closes it.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
