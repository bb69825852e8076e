//! BoringSSL's hooks for session tickets (ssl.h, `SSL_CTX_set_ticket_aead_method`): sealing and opening go to a [`TicketSealer`], which the
//! context owns. The expiry of a resumed session and that of its client's chain stay with its connection, for the tickets that renew it.

use std::ffi::c_int;
use std::sync::OnceLock;

use boring::error::ErrorStack;
use boring::ex_data::Index;
use boring::ssl::{Ssl, SslContext, SslContextBuilder, SslRef, SslSession};
use boring_sys as bssl;
use foreign_types::{ForeignType, ForeignTypeRef};

use crate::chain::{chain_expiry, record_chain_expiry};
use crate::types::ticket::{OVERHEAD, OpenedTicket, TicketSealer};

static METHOD: bssl::SSL_TICKET_AEAD_METHOD =
    bssl::SSL_TICKET_AEAD_METHOD { max_overhead: Some(max_overhead), seal: Some(seal), open: Some(open) };

fn sealer_index() -> Result<Index<SslContext, Box<dyn TicketSealer>>, ErrorStack> {
    static INDEX: OnceLock<Index<SslContext, Box<dyn TicketSealer>>> = OnceLock::new();
    match INDEX.get() {
        Some(index) => Ok(*index),
        None => SslContext::new_ex_index().map(|index| *INDEX.get_or_init(|| index)),
    }
}

fn expiry_index() -> Result<Index<Ssl, u64>, ErrorStack> {
    static INDEX: OnceLock<Index<Ssl, u64>> = OnceLock::new();
    match INDEX.get() {
        Some(index) => Ok(*index),
        None => Ssl::new_ex_index().map(|index| *INDEX.get_or_init(|| index)),
    }
}

/// Gives the context its sealer. Its tickets state `lifetime`, in seconds.
pub(crate) fn set_sealer(
    context: &mut SslContextBuilder,
    sealer: Box<dyn TicketSealer>,
    lifetime: u32,
) -> Result<(), ErrorStack> {
    expiry_index()?;
    context.set_ex_data(sealer_index()?, sealer);
    // SAFETY: the context is valid while its builder lives, and the method is static.
    unsafe {
        bssl::SSL_CTX_set_timeout(context.as_ptr(), lifetime);
        bssl::SSL_CTX_set_session_psk_dhe_timeout(context.as_ptr(), lifetime);
        bssl::SSL_CTX_set_ticket_aead_method(context.as_ptr(), &raw const METHOD);
    }
    Ok(())
}

pub(crate) fn offer_session(ssl: &mut SslRef, session: &SslSession) -> Result<(), ErrorStack> {
    // SAFETY: both are valid. A session of BoringSSL is immutable, counts its references across threads and belongs to no context; one of
    // another server is not accepted by this one.
    match unsafe { bssl::SSL_set_session(ssl.as_ptr(), session.as_ptr()) } {
        1 => Ok(()),
        _ => Err(ErrorStack::get()),
    }
}

unsafe extern "C" fn max_overhead(_ssl: *mut bssl::SSL) -> usize {
    OVERHEAD
}

unsafe extern "C" fn seal(
    ssl: *mut bssl::SSL,
    out: *mut u8,
    out_size: *mut usize,
    out_size_max: usize,
    session: *const u8,
    session_size: usize,
) -> c_int {
    // SAFETY: the library passes a connection of a context that has a sealer, and buffers of these sizes that only this call uses. They may
    // be the same buffer, so the input is copied.
    let (ssl, session, out, out_size) = unsafe {
        let session = std::slice::from_raw_parts(session, session_size).to_vec();
        (SslRef::from_ptr(ssl), session, std::slice::from_raw_parts_mut(out, out_size_max), &mut *out_size)
    };
    let session = zeroize::Zeroizing::new(session);
    let sealer = sealer_index().ok().and_then(|index| ssl.ssl_context().ex_data(index));
    // A ticket that was opened may still have been refused, as one of another identity is.
    let expiry = expiry_index().ok().and_then(|index| ssl.ex_data(index)).filter(|_| ssl.session_reused()).copied();
    // A size of zero sends no ticket.
    *out_size = sealer.and_then(|sealer| sealer.seal(expiry, chain_expiry(ssl), &session, out)).unwrap_or(0);
    1
}

unsafe extern "C" fn open(
    ssl: *mut bssl::SSL,
    out: *mut u8,
    out_size: *mut usize,
    out_size_max: usize,
    ticket: *const u8,
    ticket_size: usize,
) -> bssl::ssl_ticket_aead_result_t {
    // SAFETY: as for `seal`.
    let (ssl, ticket, out, out_size) = unsafe {
        let ticket = std::slice::from_raw_parts(ticket, ticket_size).to_vec();
        (SslRef::from_ptr_mut(ssl), ticket, std::slice::from_raw_parts_mut(out, out_size_max), &mut *out_size)
    };
    let sealer = sealer_index().ok().and_then(|index| ssl.ssl_context().ex_data(index));
    match (sealer.and_then(|sealer| sealer.open(&ticket, out)), expiry_index()) {
        (Some(OpenedTicket { size, expiry, chain }), Ok(index)) => {
            ssl.set_ex_data(index, expiry);
            // A full handshake, if the session is refused after all, replaces it.
            if let Some(last_second) = chain {
                record_chain_expiry(ssl, last_second);
            }
            *out_size = size;
            bssl::ssl_ticket_aead_result_t::ssl_ticket_aead_success
        }
        _ => bssl::ssl_ticket_aead_result_t::ssl_ticket_aead_ignore_ticket,
    }
}
