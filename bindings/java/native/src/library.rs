//! Functions through which Java checks the library itself and reports on it.

use std::ffi::{CStr, CString};

use jni_sys::{JNIEnv, jclass, jlong, jstring};

use crate::jvm::enter;
use crate::objects::live;

/// `String version()`: the version of this library, which must be that of the Java classes.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_version")]
extern "system" fn java_version(environment: *mut JNIEnv, _class: jclass) -> jstring {
    const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(version) => version,
        Err(_) => panic!("a version has no zero byte"),
    };
    enter(environment, std::ptr::null_mut(), |jvm| jvm.string(VERSION))
}

/// `String implementations()`: one line for each primitive, with what computes it on this CPU.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_implementations")]
extern "system" fn java_implementations(environment: *mut JNIEnv, _class: jclass) -> jstring {
    enter(environment, std::ptr::null_mut(), |jvm| {
        let lines = leafseal_crypto::implementations().into_iter().map(|(name, what)| format!("{name}: {what}"));
        let text = lines.collect::<Vec<_>>().join("\n");
        jvm.string(&CString::new(text).expect("names without zero bytes"))
    })
}

/// `long liveObjects()`: native objects that were not freed yet, for tests.
#[unsafe(export_name = "Java_io_leafseal_jca_Native_liveObjects")]
extern "system" fn java_live_objects(environment: *mut JNIEnv, _class: jclass) -> jlong {
    enter(environment, 0, |_| Ok(live()))
}
