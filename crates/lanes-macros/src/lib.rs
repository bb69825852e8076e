//! The attribute `compiled_for` of the crate `lanes`. An attribute needs a crate of its own until `macro_rules!` can define one
//! (<https://github.com/rust-lang/rust/issues/143547>).

use proc_macro::{Delimiter, Group, TokenStream, TokenTree};

/// Compiles a function for the CPUs of a token: `#[compiled_for(Avx2)] fn f() {}` is `compiled! { Avx2 fn f() {} }`, a macro of
/// `lanes::cpu`, which has the features of each token. Rust's own attribute, `target_feature`, would repeat them.
#[proc_macro_attribute]
pub fn compiled_for(token: TokenStream, function: TokenStream) -> TokenStream {
    let input = token.into_iter().chain(function).collect();
    let mut call: TokenStream = "crate::cpu::compiled!".parse().expect("a path");
    call.extend([TokenTree::from(Group::new(Delimiter::Brace, input))]);
    call
}
