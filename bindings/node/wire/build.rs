//! Passes the linker the platform's arguments for a Node module.

fn main() {
    napi_build::setup();
}
