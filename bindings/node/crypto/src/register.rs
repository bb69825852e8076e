//! The functions of the native module.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::rc::Rc;
use std::sync::Once;

use napi_sys as sys;

use crate::algorithms::Algorithm;
use crate::delivery::RESULT_HEAD;
use crate::instance::Instance;
use crate::js::{Call, Reference, Result, check, guard, make_function, make_object, make_text, set};
use crate::layout::{self, HeaderSlot};
use crate::pool::POOL;
use crate::priority::Priority;

/// A body of an entry point.
type Body = fn(&Instance, &Call) -> Result<sys::napi_value>;

macro_rules! entry_points {
    ($($name:ident = $body:expr;)*) => {
        $(
            /// An entry point.
            ///
            /// # Safety
            /// Node passes an environment and the info of the current call, whose data is the state of a copy of the JavaScript.
            unsafe extern "C" fn $name(env: sys::napi_env, info: sys::napi_callback_info) -> sys::napi_value {
                // SAFETY: the caller's promise.
                let call = unsafe { Call::new(env, info) };
                // SAFETY: the function was created with the state, and shares its ownership.
                let instance = unsafe { &*call.data::<Instance>() };
                let body: Body = $body;
                guard(env, || body(instance, &call))
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
    run = |instance, call| instance.run(call).map(|()| NOTHING);
    run_short = |instance, _| {
        instance.run_short();
        Ok(NOTHING)
    };
    submit = |instance, call| instance.submit(call).map(|()| NOTHING);
    take = |instance, call| instance.take(call).map(|()| NOTHING);
    start = |instance, call| instance.start(call).map(|()| NOTHING);
    open_stream = |instance, call| instance.open_stream(call);
    update_stream = |instance, call| instance.update_stream(call).map(|()| NOTHING);
    submit_stream = |instance, call| instance.submit_stream(call).map(|()| NOTHING);
    finish_stream = |instance, call| instance.finish_stream(call).map(|()| NOTHING);
    run_batch = |instance, call| instance.run_batch(call).map(|()| NOTHING);
    submit_batch = |instance, call| instance.submit_batch(call).map(|()| NOTHING);
    set_parallel_size_min = |instance, call| {
        instance.set_parallel_size_min(call.number(0)? as usize);
        Ok(NOTHING)
    };
    cancel = |instance, call| {
        instance.cancel(call.number(0)?);
        Ok(NOTHING)
    };
    forget = |instance, call| {
        instance.forget(call.number(0)?);
        Ok(NOTHING)
    };
    raise = |_, call| {
        // SAFETY: the handle belongs to the current call.
        check(unsafe { sys::napi_fatal_exception(call.env, call.arguments[0]) }, "cannot raise an exception")?;
        Ok(NOTHING)
    };
    keep_keys = |instance, call| {
        instance.keep_keys(call.number(0)? as usize);
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
    8 * HeaderSlot::Short as usize,
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
    set(env, exports, c"VERSION", make_text(env, env!("CARGO_PKG_VERSION"))?)?;
    set(env, exports, c"algorithms", make_text(env, &Algorithm::table())?)?;
    let layout = LAYOUT.map(|number| number.to_string()).join(" ");
    set(env, exports, c"layout", make_text(env, &layout)?)?;
    set(env, exports, c"open", make_function(env, c"open", Some(open), ptr::null_mut())?)
}

/// Makes a set of the functions for a copy of the JavaScript, with a state that no other copy reaches.
///
/// # Safety
/// Node passes an environment and the info of the current call.
unsafe extern "C" fn open(env: sys::napi_env, _: sys::napi_callback_info) -> sys::napi_value {
    guard(env, || {
        let functions = make_object(env)?;
        let (mut shared, mut buffer) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: env belongs to the current call.
        let status = unsafe { sys::napi_create_arraybuffer(env, layout::SIZE, &mut shared, &mut buffer) };
        check(status, "cannot create the shared memory")?;
        let kept = make_object(env)?;
        set(env, kept, c"shared", buffer)?;
        set(env, functions, c"kept", kept)?;
        let instance = Rc::new(Instance::new(env, shared.cast(), Reference::strong(env, kept)?));
        for (name, callback) in ENTRY_POINTS {
            set(env, functions, name, make_owner(env, name, *callback, Rc::clone(&instance))?)?;
        }
        Ok(functions)
    })
}

/// Makes a function that shares the ownership of a state: the state is dropped when none of its functions is reachable.
fn make_owner(
    env: sys::napi_env,
    name: &CStr,
    callback: sys::napi_callback,
    instance: Rc<Instance>,
) -> Result<sys::napi_value> {
    let function = make_function(env, name, callback, Rc::as_ptr(&instance).cast_mut().cast())?;
    let owned = Rc::into_raw(instance).cast_mut().cast();
    // SAFETY: the function is valid; the finalizer takes over what the pointer owns.
    let status =
        unsafe { sys::napi_add_finalizer(env, function, owned, Some(release), ptr::null_mut(), ptr::null_mut()) };
    check(status, "cannot add a finalizer")?;
    Ok(function)
}

/// Gives up a function's share of a state. Node calls it after the function has been collected, or when the environment ends.
///
/// # Safety
/// `instance` comes from `Rc::into_raw` and is passed once, on the environment's thread.
unsafe extern "C" fn release(_: sys::napi_env, instance: *mut c_void, _: *mut c_void) {
    // SAFETY: the caller's promise.
    drop(unsafe { Rc::from_raw(instance.cast::<Instance>().cast_const()) });
}
