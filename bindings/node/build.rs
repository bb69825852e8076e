//! Gives the linker what a module for Node needs, which differs by platform.

fn main() {
    napi_build::setup();
}
