//! The functions of the native module.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::Once;

use napi_sys as sys;

use crate::algorithms::Algorithm;
use crate::delivery::RESULT_HEAD;
use crate::environment::Environment;
use crate::js::{Call, Result, check, guard, make_text, set};
use crate::layout::{self, Slot};
use crate::pool::POOL;
use crate::priority::Priority;

/// A body of an entry point.
type Body = fn(&Environment, &Call) -> Result<sys::napi_value>;

macro_rules! entry_points {
    ($($name:ident = $body:expr;)*) => {
        $(
            /// An entry point.
            ///
            /// # Safety
            /// Node passes an environment and the info of the current call, whose data is the environment's state.
            unsafe extern "C" fn $name(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
                // SAFETY: the caller's promise.
                let call = unsafe { Call::new(env, info) };
                // SAFETY: the functions are created with the state, which lives as long as the environment.
                let environment = unsafe { &*call.data::<Environment>() };
                let body: Body = $body;
                guard(env, || body(environment, &call))
            }
        )*

        const ENTRY_POINTS: &[(&CStr, sys::napi_callback)] = &[
            $((
                // SAFETY: the text ends with its only zero.
                unsafe { CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes()) },
                Some($name),
            )),*
        ];
    };
}

/// The result of a function that has none.
const NOTHING: sys::napi_value = ptr::null_mut();

entry_points! {
    run = |environment, call| environment.run(call).map(|()| NOTHING);
    run_short = |environment, _| {
        environment.run_short();
        Ok(NOTHING)
    };
    submit = |environment, call| environment.submit(call).map(|()| NOTHING);
    take = |environment, call| environment.take(call).map(|()| NOTHING);
    start = |environment, call| environment.start(call).map(|()| NOTHING);
    open_stream = |environment, call| environment.open_stream(call);
    update_stream = |environment, call| environment.update_stream(call).map(|()| NOTHING);
    submit_stream = |environment, call| environment.submit_stream(call).map(|()| NOTHING);
    finish_stream = |environment, call| environment.finish_stream(call).map(|()| NOTHING);
    run_batch = |environment, call| environment.run_batch(call).map(|()| NOTHING);
    submit_batch = |environment, call| environment.submit_batch(call).map(|()| NOTHING);
    set_parallel_size_min = |environment, call| {
        environment.set_parallel_size_min(call.number(0)? as usize);
        Ok(NOTHING)
    };
    cancel = |environment, call| {
        environment.cancel(call.number(0)?);
        Ok(NOTHING)
    };
    forget = |environment, call| {
        environment.forget(call.number(0)?);
        Ok(NOTHING)
    };
    raise = |_, call| {
        // SAFETY: the handle belongs to the current call.
        check(unsafe { sys::napi_fatal_exception(call.env, call.arguments[0]) }, "cannot raise an exception")?;
        Ok(NOTHING)
    };
    keep_keys = |environment, call| {
        environment.keep_keys(call.number(0)? as usize);
        Ok(NOTHING)
    };
    set_threads = |_, call| {
        POOL.set_threads(call.number(0)? as usize);
        Ok(NOTHING)
    };
    set_priority = |_, call| {
        if let Some(priority) = Priority::ALL.get(call.number(0)? as usize) {
            POOL.set_priority(*priority);
        }
        Ok(NOTHING)
    };
    set_queue_max = |_, call| {
        POOL.set_jobs_max(call.number(0)? as usize);
        Ok(NOTHING)
    };
    threads = |_, call| call.make_number(POOL.threads() as f64);
    priority = |_, call| call.make_number(f64::from(POOL.priority() as u8));
    queue_max = |_, call| call.make_number(POOL.jobs_max() as f64);
}

/// Where everything lies in the shared memory, in the order of `lib/native.js`.
const LAYOUT: [usize; 11] = [
    layout::KEY_AT,
    layout::IV_AT,
    layout::TAG_AT,
    layout::AAD_AT,
    layout::SOURCE_AT,
    layout::TARGET_AT,
    layout::RESULTS_AT,
    layout::TEXT_SIZE_MAX,
    layout::KEY_SIZE_MAX,
    RESULT_HEAD,
    8 * Slot::Short as usize,
];

/// Creates the module's exports. Called by Node for every environment.
///
/// # Safety
/// Node passes an environment and its exports.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn napi_register_module_v1(
    env: sys::napi_env,
    exports: sys::napi_value,
) -> sys::napi_value {
    static SYMBOLS: Once = Once::new();
    SYMBOLS.call_once(|| {
        // SAFETY: Node's functions are looked up once, before any of them is called; the library is the process itself.
        Box::leak(Box::new(unsafe { sys::setup() }));
    });
    guard(env, || {
        register(env, exports)?;
        Ok(exports)
    })
}

fn register(env: sys::napi_env, exports: sys::napi_value) -> Result<()> {
    let (mut shared, mut buffer) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: env belongs to the current call.
    let status = unsafe { sys::napi_create_arraybuffer(env, layout::SIZE, &mut shared, &mut buffer) };
    check(status, "cannot create the shared memory")?;
    set(env, exports, c"shared", buffer)?;
    let state = Box::into_raw(Box::new(Environment::new(shared.cast())));
    // The buffer is referenced until the environment ends, so that its memory is valid as long as the functions are.
    let mut reference = ptr::null_mut();
    // SAFETY: handle and state are valid; the hook runs once, when the environment ends.
    unsafe {
        check(sys::napi_create_reference(env, buffer, 1, &mut reference), "cannot keep the shared memory")?;
        check(sys::napi_add_env_cleanup_hook(env, Some(end), state.cast()), "cannot add a cleanup hook")?;
    }
    for (name, callback) in ENTRY_POINTS {
        let mut function = ptr::null_mut();
        // SAFETY: the name ends with a zero and its length is given; the state lives as long as the environment.
        let status = unsafe {
            sys::napi_create_function(
                env,
                name.as_ptr(),
                name.count_bytes() as isize,
                *callback,
                state.cast(),
                &mut function,
            )
        };
        check(status, "cannot create a function")?;
        set(env, exports, name, function)?;
    }
    set(env, exports, c"algorithms", make_text(env, &Algorithm::table())?)?;
    let layout = LAYOUT.map(|number| number.to_string()).join(" ");
    set(env, exports, c"layout", make_text(env, &layout)?)
}

/// Wipes what an environment holds.
///
/// # Safety
/// `state` comes from `Box::into_raw` and is passed once, when no function of the module is called any more.
unsafe extern "C" fn end(state: *mut c_void) {
    // SAFETY: the caller's promise.
    drop(unsafe { Box::from_raw(state.cast::<Environment>()) });
}
